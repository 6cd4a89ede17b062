import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EventStream } from '../../../src/sandbox/control/sse.ts';
import { type Sandbox, startSandbox } from '../../../src/sandbox/index.ts';
import { call, tokenFor } from '../client.ts';
import { EventsReader } from '../events-reader.ts';

let sandbox: Sandbox;

beforeEach(async () => {
  sandbox = await startSandbox({ owners: 2 });
});

afterEach(() => sandbox.close());

const state = async () => (await call(`${sandbox.portalUrl}/api/state`)).json;
const hasRequest = (id: number) => (event: { frame: { requests?: { id: number }[] } }) =>
  event.frame.requests?.some((request) => request.id === id) ?? false;

describe('the event stream', () => {
  it('tells requests, tokens and what was changed, and how soon to come back', async () => {
    const reader = await EventsReader.open(sandbox.portalUrl);
    expect(reader.response.headers['content-type']).toBe('text/event-stream');
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
    sandbox.reset();
    await reader.until((event) => event.frame.stale === true);
    reader.close();
  });

  it('replays what was missed to the one who missed it, and to nobody else', async () => {
    const constant = await EventsReader.open(sandbox.portalUrl);
    const leaver = await EventsReader.open(sandbox.portalUrl);
    await tokenFor(sandbox);
    const last = await leaver.until(hasRequest(1));
    leaver.close();
    await tokenFor(sandbox);
    await constant.until(hasRequest(2));
    const seen = constant.events.length;
    const back = await EventsReader.open(sandbox.portalUrl, { 'last-event-id': last.id });
    await back.until(hasRequest(2));
    expect(back.events.some(hasRequest(1))).toBe(false);
    expect(constant.events).toHaveLength(seen);
    constant.close();
    back.close();
  });

  it('goes on where the state ended', async () => {
    const { lastEventId } = await state();
    await tokenFor(sandbox);
    await new Promise((resolve) => setTimeout(resolve, 150));
    const reader = await EventsReader.open(sandbox.portalUrl, {}, `?lastEventId=${lastEventId}`);
    await reader.until(hasRequest(1));
    reader.close();
  });

  it.each(['ffffffff-0', 'ffffffff-3', 'nonsense', '', 'x-x', '-1'])(
    'tells who comes with the id %j to start anew',
    async (id) => {
      const reader = await EventsReader.open(sandbox.portalUrl, { 'last-event-id': id });
      await reader.until((event) => event.frame.stale === true);
      reader.close();
    },
  );

  it('sends at most ten frames a second, however much happens', async () => {
    const reader = await EventsReader.open(sandbox.portalUrl);
    const startMs = performance.now();
    for (let n = 1; n <= 400; n++) await tokenFor(sandbox, sandbox.accessKeys[n % 2]);
    await reader.until(hasRequest(400));
    expect(reader.events.length).toBeLessThanOrEqual((performance.now() - startMs) / 100 + 2);
    const told = new Set(reader.events.flatMap((event) => event.frame.requests?.map((request) => request.id) ?? []));
    const leftOut = reader.events.reduce((sum, event) => sum + (event.frame.requestsLeftOut ?? 0), 0);
    expect(told.size + leftOut).toBe(400);
    reader.close();
  });

  it('ends at once when the sandbox is closed', async () => {
    const reader = await EventsReader.open(sandbox.portalUrl);
    const ended = new Promise((resolve) => reader.response.on('close', resolve));
    await sandbox.close();
    await ended;
  });
});

/** What a reader is sent that has read up to `from`. */
function writtenFrom(stream: EventStream, from: string): string[] {
  const written: string[] = [];
  const response = {
    writeHead() {},
    write: (text: string) => written.push(text),
    on() {},
    writableLength: 0,
    destroy() {},
  };
  stream.attach(response as unknown as http.ServerResponse, from);
  return written;
}

describe('EventStream', () => {
  it('cuts off a reader that does not read, and keeps the others', async () => {
    const stream = new EventStream(() => '{}');
    const server = http.createServer((_req, res) => stream.attach(res, undefined));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const idle = net.connect(port, '127.0.0.1').on('error', () => {});
    idle.write('GET /api/events HTTP/1.1\r\nhost: x\r\n\r\n');
    await new Promise((resolve) => idle.once('data', resolve));
    idle.pause();
    const reader = await EventsReader.open(`http://127.0.0.1:${port}`);
    const cut = new Promise((resolve) => idle.on('close', resolve));
    const data = JSON.stringify({ padding: 'x'.repeat(200_000) });
    let sent = 0;
    for (; sent < 60; sent++) {
      stream.publish(data);
      await reader.until(() => reader.events.length === sent + 1);
    }
    idle.resume();
    await cut;
    expect(reader.events).toHaveLength(sent);
    stream.close();
    server.close();
  });

  it('keeps no more than its bounds, and tells who needs more to start anew', () => {
    const stream = new EventStream(() => '{"stale":true}');
    const first = stream.begin();
    for (let n = 0; n < 1000; n++) stream.publish('{}');
    const written = writtenFrom(stream, first);
    expect(written.join('')).toContain('"stale":true');
    expect(written.length).toBeLessThan(5);
    stream.close();
  });

  it('knows that something was missed while nobody wanted it', () => {
    const stream = new EventStream(() => '{"stale":true}');
    const first = stream.begin();
    stream.skip();
    stream.skip();
    const written = writtenFrom(stream, first);
    expect(written.join('')).toContain('"stale":true');
    stream.close();
  });
});
