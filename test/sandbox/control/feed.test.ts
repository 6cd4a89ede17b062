import type { ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Feed } from '../../../src/sandbox/control/feed.ts';
import type { UpdateFrame } from '../../../src/sandbox/control/shapes.ts';
import { Directory } from '../../../src/sandbox/state/directory.ts';
import { Faults } from '../../../src/sandbox/state/faults.ts';
import { History } from '../../../src/sandbox/state/history.ts';
import { Ledger } from '../../../src/sandbox/state/ledger.ts';
import { DEFAULT_PROFILE } from '../../../src/sandbox/state/profile.ts';
import { Secrets } from '../../../src/sandbox/state/secrets.ts';
import { Tokens } from '../../../src/sandbox/state/tokens.ts';
import { VirtualClock } from '../../../src/sandbox/state/virtual-clock.ts';
import type { World } from '../../../src/sandbox/state/world.ts';

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

/** A reader that only collects. */
function read(): void {
  const write = (text: string) => {
    const data = /^data: (.*)$/m.exec(text)?.[1];
    if (data) frames.push(JSON.parse(data));
  };
  const reader = { writeHead() {}, write, on() {}, destroy() {}, writableLength: 0 };
  feed.stream.attach(reader as unknown as ServerResponse, undefined);
}

describe('Feed', () => {
  it('tells at once what comes after a pause, and then gathers for a tenth of a second', () => {
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

  it('leaves out requests and tokens beyond 250, says how many requests, and then waits half a second', () => {
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
    expect(frames[0]?.tokens).toHaveLength(250);
    expect(frames[0]?.figures?.total).toBe(620);
    expect(frames[0]?.seconds?.[0]?.at(-1)).toBe(620);
    world.ledger.open({ kind: 'token', method: 'POST' });
    vi.advanceTimersByTime(498);
    expect(frames).toHaveLength(1);
    vi.advanceTimersByTime(2);
    expect(frames[1]?.requests?.map(({ id }) => id)).toEqual([621]);
    expect(frames[1]?.requestsLeftOut).toBeUndefined();
  });

  it('makes nothing while nobody reads, and whoever comes then is told to start anew', () => {
    world.ledger.open({ kind: 'echo', method: 'GET' });
    feed.note('faults');
    vi.advanceTimersByTime(1000);
    read();
    feed.note('faults');
    vi.advanceTimersByTime(1);
    expect(frames).toEqual([{ clock: expect.anything(), figures: expect.anything(), bands: [], faults: [] }]);
  });

  it('is silent when closed', () => {
    read();
    feed.close();
    feed.note('faults');
    vi.advanceTimersByTime(1000);
    expect(frames).toEqual([]);
  });
});
