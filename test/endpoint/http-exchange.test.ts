import { randomBytes } from 'node:crypto';
import dns from 'node:dns';
import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import { syncBuiltinESMExports } from 'node:module';
import net, { type Socket } from 'node:net';
import timers from 'node:timers';
import zlib from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { Deadline } from '../../src/cancellation.ts';
import {
  type ExchangeResult,
  keepAliveAgent,
  postOverHttp,
  ResultBatch,
  targetBelow,
} from '../../src/endpoint/http-exchange.ts';
import {
  type Answer,
  head,
  json,
  LoopbackService,
  raw,
  silence,
  status,
  thenEnd,
  token,
} from '../helpers/loopback-service.ts';
import { ManualClock } from '../helpers/manual-clock.ts';

let service: LoopbackService;
let agent: http.Agent;
let batch: ResultBatch;

beforeEach(async () => {
  service = await LoopbackService.start();
  agent = keepAliveAgent(new URL(service.url));
  batch = new ResultBatch();
});

afterEach(async () => {
  agent.destroy();
  await service.close();
});

interface Post {
  url?: string;
  through?: http.Agent;
  maxResponseBytes?: number;
  signal?: AbortSignal;
}

function post({ url = service.url, through = agent, maxResponseBytes = 1_000, signal }: Post = {}) {
  const target = targetBelow(new URL(url), '/auth/v1/token');
  const deadline = new Deadline(new ManualClock(), 10_000, signal);
  const exchange = { target, headers: { 'X-Test': 'yes' }, body: '{"a":"ä"}', maxResponseBytes, deadline };
  return postOverHttp(exchange, through, batch);
}

async function postAndGet(answer: Answer, changes?: Post): Promise<ExchangeResult> {
  service.next(answer);
  return await post(changes);
}

/** A connection of the agent's that has served once and waits for more. */
async function warm(): Promise<void> {
  await post();
  while (Object.keys(agent.freeSockets).length === 0) await new Promise(setImmediate);
}

function idle(): (Socket | undefined)[] {
  return Object.values(agent.freeSockets).flat();
}

/** An agent that reports when a connection receives something, before the exchange reads it. */
function listening(onData: () => void): http.Agent {
  const reporting = new http.Agent({ keepAlive: true });
  const connect = reporting.createConnection.bind(reporting);
  reporting.createConnection = (...args) => {
    const socket = connect(...args);
    socket?.on('data', onData);
    return socket;
  };
  return reporting;
}

it('results are delivered together, once all responses that have arrived are read', async () => {
  const events: string[] = [];
  const through = listening(() => events.push('read'));
  service.always(silence());
  const posts = [1, 2, 3].map(async () => {
    await post({ through });
    events.push('delivered');
  });
  await service.arrived(3);
  for (const call of service.calls) call.answer(token());
  await Promise.all(posts);
  expect(events).toEqual(['read', 'read', 'read', 'delivered', 'delivered', 'delivered']);
  through.destroy();
});

it('results stay complete responses even if the exchange is aborted before they are delivered', async () => {
  const controller = new AbortController();
  const through = listening(() => setImmediate(() => controller.abort()));
  expect(await post({ through, signal: controller.signal })).toMatchObject({ status: 200, body: expect.anything() });
  expect(controller.signal.aborted).toBe(true);
  through.destroy();
});

it('results do not wait for faked timers, whether the global ones are faked or those of the module', async () => {
  const { setImmediate: real } = timers;
  vi.useFakeTimers();
  timers.setImmediate = globalThis.setImmediate;
  syncBuiltinESMExports();
  try {
    expect(await post()).toMatchObject({ status: 200 });
  } finally {
    vi.useRealTimers();
    timers.setImmediate = real;
    syncBuiltinESMExports();
  }
});

describe('an answer', () => {
  it('may come in chunks, after informational ones, and end with the connection', async () => {
    const chunked = head(200, { 'transfer-encoding': 'chunked' });
    const first = await postAndGet(raw(head(103), head(100), chunked, '3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n'));
    expect(first.body?.toString()).toBe('abcde');
    const second = await postAndGet(thenEnd(raw(head(200), 'to the end')));
    expect(second.body?.toString()).toBe('to the end');
  });

  it('that is the second to one request counts neither for that nor for the next', async () => {
    const one = (body: string) => head(200, { 'content-length': '3' }) + body;
    expect((await postAndGet(raw(one('own'), one('odd')))).body?.toString()).toBe('own');
    expect((await postAndGet(raw(one('new')))).body?.toString()).toBe('new');
  });

  it('that arrives unasked on an idle connection is ignored', async () => {
    const one = (body: string) => head(200, { 'content-length': '3' }) + body;
    await postAndGet(raw(one('own')));
    const idle = service.calls[0]?.socket;
    await new Promise((resolve) => idle?.write(one('odd'), resolve));
    for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
    expect((await postAndGet(raw(one('new')))).body?.toString()).toBe('new');
  });
});

const CODINGS: [string, (body: Buffer) => Buffer][] = [
  ['', (body) => body],
  ['identity', (body) => body],
  ['gzip', (body) => zlib.gzipSync(body)],
  ['X-GZIP', (body) => zlib.gzipSync(body)],
  ['deflate', (body) => zlib.deflateSync(body)],
  ['br', (body) => zlib.brotliCompressSync(body)],
  ['deflate ', (body) => zlib.deflateRawSync(body)],
  ['gzip, identity', (body) => zlib.gzipSync(body)],
  ['gzip, br', (body) => zlib.brotliCompressSync(zlib.gzipSync(body))],
  ['gzip, gzip, gzip, gzip, gzip', (body) => [1, 2, 3, 4, 5].reduce((encoded) => zlib.gzipSync(encoded), body)],
  // No coding of a body: a charset, which some services put there.
  ['utf-8', (body) => body],
];

describe.each(CODINGS)('a body with Content-Encoding "%s"', (coding, encode) => {
  const encoded = (body: Buffer) => status(200, encode(body), { 'content-encoding': coding });

  it('is decoded', async () => {
    expect((await postAndGet(encoded(Buffer.from('plain text')))).body?.toString()).toBe('plain text');
  });

  it('is accepted up to the cap, however badly it compresses', async () => {
    const body = randomBytes(1_000);
    expect((await postAndGet(encoded(body))).body).toEqual(body);
  });

  it('is refused from one byte over the cap', async () => {
    const received = await postAndGet(encoded(Buffer.alloc(1_001)));
    expect(received).toMatchObject({ status: 200, error: expect.any(Error) });
    expect(received).not.toHaveProperty('body');
  });
});

it.each<[string, Answer, string]>([
  [
    'no gzip in its brotli',
    status(200, zlib.brotliCompressSync('no gzip'), { 'content-encoding': 'gzip, br' }),
    'Z_DATA_ERROR',
  ],
  [
    'six content codings',
    status(
      200,
      [1, 2, 3, 4, 5, 6].reduce((body) => zlib.gzipSync(body), Buffer.from('text')),
      {
        'content-encoding': 'gzip, gzip, gzip, gzip, gzip, gzip',
      },
    ),
    'ERR_UNUSABLE_BODY',
  ],
  ['another protocol', raw(head(101, { connection: 'upgrade', upgrade: 'websocket' })), 'ERR_UNUSABLE_BODY'],
])('a response with %s cannot be used', async (_what, answer, code) => {
  expect((await postAndGet(answer)).error).toMatchObject({ code });
});

it('a compressed body may end without its checksum, as in fetch', async () => {
  for (const [coding, encode] of [['gzip', zlib.gzipSync] as const, ['deflate', zlib.deflateSync] as const]) {
    const body = encode('plain text').subarray(0, -4);
    expect((await postAndGet(status(200, body, { 'content-encoding': coding }))).body?.toString()).toBe('plain text');
  }
});

it('an agent that throws fails the request', async () => {
  expect(await post({ through: new https.Agent() })).toEqual({ error: expect.any(TypeError) });
});

it('the agent of an endpoint reads the proxy from the environment only if the global agent of Node does', () => {
  const url = new URL('https://api.example.com');
  expect(keepAliveAgent(url)).not.toHaveProperty('options.proxyEnv');
  const globalOptions = https.globalAgent.options as { proxyEnv?: object };
  onTestFinished(() => void delete globalOptions.proxyEnv);
  globalOptions.proxyEnv = { HTTPS_PROXY: 'http://proxy.example:3128' };
  // Without the timeout, a tunnel to a proxy that never answers would stay open for good.
  expect(keepAliveAgent(url)).toMatchObject({ options: { proxyEnv: globalOptions.proxyEnv, timeout: 30_000 } });
});

describe.each([false, true])('a name with several addresses, with TLS %s', (tls) => {
  it('is connected to by Node, which gives each address 2.5 s, and the connection is kept', async () => {
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0');
    vi.spyOn(process, 'emitWarning').mockReturnValue();
    await using dual = await LoopbackService.start({ tls });
    vi.spyOn(dns, 'lookup').mockImplementation(((_host: string, _options: object, done: (...args: unknown[]) => void) =>
      process.nextTick(done, null, [
        { address: '::1', family: 6 }, // where nobody listens
        { address: '127.0.0.1', family: 4 },
      ])) as typeof dns.lookup);
    const connect = vi.spyOn(net.Socket.prototype, 'connect');
    const url = `${tls ? 'https' : 'http'}://localhost:${dual.port}`;
    const through = keepAliveAgent(new URL(url));
    for (const _ of [1, 2]) expect(await post({ url, through })).toMatchObject({ status: 200 });
    expect(dual.connections).toBe(1);
    const to = { host: 'localhost', autoSelectFamilyAttemptTimeout: 2_500 };
    expect(connect.mock.calls.flat(2)).toContainEqual(expect.objectContaining(to));
    through.destroy();
  });
});

it('a name that does not resolve is a failure of the network', async () => {
  const unknown = Object.assign(new Error(), { code: 'ENOTFOUND' });
  vi.spyOn(dns, 'lookup').mockImplementation(((_host: string, _options: object, done: (...args: unknown[]) => void) =>
    process.nextTick(done, unknown)) as typeof dns.lookup);
  expect(await post({ url: 'http://nowhere.example' })).toEqual({ error: unknown, stale: false });
});

it('an idle connection is kept for 30 s', async () => {
  await warm();
  expect(idle()).toMatchObject([{ timeout: 30_000 }]);
});

it('an idle connection is kept for a second less than the service says', async () => {
  service.next(json(200, {}, { 'keep-alive': 'timeout=5' }));
  await warm();
  expect(idle()).toMatchObject([{ timeout: 4_000 }]);
});

describe('an abort', () => {
  const aborted = { error: { code: 'closed' } };

  it('before the start sends nothing', async () => {
    expect(await post({ signal: AbortSignal.abort() })).toMatchObject(aborted);
    expect(service.connections).toBe(0);
  });

  it('ends a connection that is still being made', async () => {
    const controller = new AbortController();
    const never = new http.Agent();
    const connecting = once(never, 'asked');
    never.createConnection = () => {
      never.emit('asked');
      return undefined;
    };
    const pending = post({ through: never, signal: controller.signal });
    await connecting;
    controller.abort();
    expect(await pending).toMatchObject(aborted);
  });
});
