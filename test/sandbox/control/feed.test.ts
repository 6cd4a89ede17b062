import type { ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Feed } from '../../../src/sandbox/control/feed.ts';
import type { StateView, UpdateFrame } from '../../../src/sandbox/control/shapes.ts';
import { startSandbox } from '../../../src/sandbox/index.ts';
import { Directory } from '../../../src/sandbox/state/directory.ts';
import { Faults } from '../../../src/sandbox/state/faults.ts';
import { History } from '../../../src/sandbox/state/history.ts';
import { Ledger } from '../../../src/sandbox/state/ledger.ts';
import { DEFAULT_PROFILE } from '../../../src/sandbox/state/profile.ts';
import { Secrets } from '../../../src/sandbox/state/secrets.ts';
import { Tokens } from '../../../src/sandbox/state/tokens.ts';
import { VirtualClock } from '../../../src/sandbox/state/virtual-clock.ts';
import type { World } from '../../../src/sandbox/state/world.ts';
import { tokenFor } from '../client.ts';
import { EventsReader, type StreamEvent } from '../events-reader.ts';

function makeWorld(): World {
  const clock = new VirtualClock();
  const secrets = new Secrets(1);
  const directory = new Directory(secrets);
  directory.seed(1);
  const profile = { ...DEFAULT_PROFILE };
  const [tokens, ledger, faults] = [new Tokens(secrets), new Ledger(clock, 10), new Faults(clock, directory)];
  const start = { owners: 1, profile };
  return {
    clock,
    secrets,
    directory,
    tokens,
    ledger,
    faults,
    profile,
    answers: 0,
    scenario: undefined,
    history: new History(),
    verdicts: new Map(),
    start,
    changed() {},
  };
}

let world: World;
let feed: Feed;
let frames: UpdateFrame[];

/** A reader that only collects the changes. */
function read(writableLength = 0) {
  const write = (text: string) => {
    const frame: UpdateFrame = JSON.parse(/^data: (.*)$/m.exec(text)?.[1] ?? '{"state":{}}');
    if (!frame.state) frames.push(frame);
  };
  const reader = { writeHead() {}, write, on() {}, destroy: vi.fn(), writableLength };
  feed.attach(reader as unknown as ServerResponse, () => ({}) as StateView);
  return reader;
}

describe('the feed', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] });
    world = makeWorld();
    feed = new Feed(world);
    frames = [];
    world.ledger.onChange = (entry) => feed.noteRequest(entry);
    world.tokens.onChange = (token) => feed.noteToken(token);
  });

  afterEach(() => {
    feed.close();
    vi.useRealTimers();
  });

  it('reports at once what comes after a pause, and then gathers for a tenth of a second', () => {
    read();
    world.ledger.open({ kind: 'echo', method: 'GET' });
    vi.advanceTimersByTime(1);
    expect(frames).toHaveLength(1);
    for (let n = 0; n < 9; n++) world.ledger.open({ kind: 'echo', method: 'GET' });
    vi.advanceTimersByTime(98);
    expect(frames).toHaveLength(1);
    vi.advanceTimersByTime(2);
    expect(frames).toHaveLength(2);
    expect(frames[1]?.requests).toHaveLength(9);
    vi.advanceTimersByTime(1000);
    expect(frames).toHaveLength(2);
  });

  it('leaves out requests and tokens beyond 250, says how many, and then waits half a second', () => {
    read();
    const [key] = world.directory.accessKeys.values();
    if (!key) throw new Error('there is one');
    const options = { format: 'opaque', lifetimeMs: 1000, revokePrevious: false, replicationLagMs: 0 } as const;
    for (let n = 0; n < 620; n++) {
      world.ledger.open({ kind: 'token', method: 'POST' });
      world.tokens.issue(key, 0, options);
    }
    vi.advanceTimersByTime(1);
    expect(frames[0]?.requests?.map(({ id }) => id)).toEqual(Array.from({ length: 250 }, (_, n) => n + 1));
    expect(frames[0]?.requestsLeftOut).toBe(370);
    expect([frames[0]?.tokens?.length, frames[0]?.tokensLeftOut]).toEqual([250, 370]);
    expect(frames[0]?.figures?.total).toBe(620);
    expect(frames[0]?.seconds?.[0]?.at(-1)).toBe(620);
    world.ledger.open({ kind: 'token', method: 'POST' });
    vi.advanceTimersByTime(498);
    expect(frames).toHaveLength(1);
    vi.advanceTimersByTime(2);
    expect(frames[1]?.requests?.map(({ id }) => id)).toEqual([621]);
    expect(frames[1]?.requestsLeftOut ?? frames[1]?.tokensLeftOut).toBeUndefined();
  });

  it('builds no frame while nobody reads', () => {
    world.ledger.open({ kind: 'echo', method: 'GET' });
    feed.note('faults');
    vi.advanceTimersByTime(1000);
    read();
    feed.note('faults');
    vi.advanceTimersByTime(1);
    expect(frames).toEqual([{ clock: expect.anything(), figures: expect.anything(), bands: [], faults: [] }]);
  });

  it('disconnects a reader that does not read', () => {
    const [idle, reader] = [read(10_000_001), read()];
    feed.note('faults');
    vi.advanceTimersByTime(1);
    expect([idle, reader].map(({ destroy }) => destroy.mock.calls.length > 0)).toEqual([true, false]);
    expect(frames).toHaveLength(1);
  });

  it('cuts off its readers when it is closed, and sends them nothing more', () => {
    const { destroy } = read();
    feed.close();
    feed.note('faults');
    vi.advanceTimersByTime(1000);
    expect([destroy.mock.calls.length, frames]).toEqual([1, []]);
  });
});

describe('the event stream', () => {
  const hasRequest = (id: number) => (event: StreamEvent) =>
    event.frame.requests?.some((one) => one.id === id) ?? false;

  it('begins with the state, and then reports requests, tokens and changes', async () => {
    await using sandbox = await startSandbox({ owners: 2 });
    const reader = await EventsReader.open(sandbox.portalUrl);
    expect(reader.response.headers['content-type']).toBe('text/event-stream');
    await reader.until((event) => event.frame.state?.url === sandbox.url);
    await tokenFor(sandbox);
    const { frame } = await reader.until(hasRequest(1));
    expect(reader.others).toEqual(['retry: 500']);
    expect(frame).toMatchObject({
      clock: { frozen: false },
      figures: { total: 1 },
      requests: [{ id: 1, kind: 'token', owner: 'owner-001', outcome: 'issued' }],
      tokens: [{ owner: 'owner-001', app: 'app-1' }],
    });
    const id = sandbox.faults.add({ kind: 'latency', ms: 1 });
    await reader.until((event) => event.frame.faults?.[0]?.id === id);
    sandbox.setProfile({ shape: 'odd' });
    await reader.until((event) => event.frame.profile?.shape === 'odd');
    sandbox.addOwner({ id: 'third' });
    await reader.until((event) => event.frame.ownersChanged === true);
    sandbox.rotateClientSecret({ overlapMs: 1000 });
    await reader.until((event) => event.frame.apps?.[0]?.secrets.length === 2);
    sandbox.clock.freeze();
    await reader.until((event) => event.frame.clock.frozen);
    sandbox.runScenario('black-hole');
    await reader.until((event) => event.frame.scenario?.name === 'black-hole');
    sandbox.stopScenario();
    await reader.until((event) => event.frame.scenario === null);
    const seen = reader.events.length;
    sandbox.reset();
    await reader.until((event) => reader.events.indexOf(event) >= seen && event.frame.state !== undefined);
  });

  it('ends at once when the sandbox is closed', async () => {
    await using sandbox = await startSandbox();
    const reader = await EventsReader.open(sandbox.portalUrl);
    const ended = new Promise((resolve) => reader.response.on('close', resolve));
    await sandbox.close();
    await ended;
  });
});
