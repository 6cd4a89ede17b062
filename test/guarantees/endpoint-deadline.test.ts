/** Row D1, on the endpoint: a service that hangs, drips or floods. The deadline is a manual clock's: no test waits. */

import zlib from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { TokenEndpointOptions } from '../../src/endpoint/options.ts';
import { TokenEndpoint } from '../../src/endpoint/token-endpoint.ts';
import type { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import { type Answer, drip, flood, head, LoopbackService, raw, silence, status } from '../helpers/loopback-service.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';
import { nodeStreamFetch } from '../helpers/node-stream-fetch.ts';

let service: LoopbackService;
let clock: ManualClock;
let endpoint: TokenEndpoint;

beforeEach(async () => {
  service = await LoopbackService.start();
  clock = new ManualClock();
});

afterEach(async () => {
  await endpoint.close();
  await service.close();
});

const begun = head(200, { 'content-length': '60' });
const chunked = head(200, { 'transfer-encoding': 'chunked' });

/** Never over by themselves, and never too large: only the deadline ends them. */
const HANGS: [string, Answer][] = [
  ['a black hole', silence()],
  ['half a status line', raw('HTTP/1.1 2')],
  ['half the headers', raw('HTTP/1.1 200 OK\r\nContent-')],
  ['informational answers without end', drip([head(103)])],
  ['a stall after the headers', raw(begun)],
  ['a stall in the body', raw(begun, '{"access_token":')],
  ['a stall after a whole grant but the last byte', raw(begun, '{"access_token":"t"}'.padEnd(59))],
  ['a stall between chunks', raw(chunked, '2\r\n{}\r\n')],
  ['a stall before the last chunk', raw(chunked, '14\r\n{"access_token":"t"}\r\n')],
  ['a body byte by byte', drip(`${head(200, { 'content-length': '60000' })}x`)],
  ['headers byte by byte', drip('HTTP/1.1 200 OK\r\nX-Long: xx')],
];

const TRANSPORTS: [string, Partial<TokenEndpointOptions>][] = [
  ['node:http', {}],
  ['fetch', { fetch }],
  ['a fetch with streams of Node', { fetch: nodeStreamFetch }],
];

describe.each(TRANSPORTS)('D1 through %s', (_name, transport) => {
  beforeEach(() => {
    endpoint = new TokenEndpoint({ baseUrl: service.url, clientId: 'id', clientSecret: 's', clock, ...transport });
  });

  /** What the call came to, once it has come to something. */
  function watch(call: Promise<unknown>): { outcome?: OwnerTokenError; over: Promise<void> } {
    const watched: { outcome?: OwnerTokenError; over: Promise<void> } = {
      over: call.then(
        () => expect.fail('the call succeeded'),
        (error: OwnerTokenError) => {
          watched.outcome = error;
        },
      ),
    };
    return watched;
  }

  it.each(HANGS)('%s is over by the deadline, with its connection; the next call works', async (_what, answer) => {
    service.next(answer);
    const call = watch(endpoint.requestToken('key'));
    const { gone } = await service.arrived(1);
    await settle();
    clock.advance(9_999);
    await settle();
    expect(call.outcome).toBeUndefined();
    clock.advance(1);
    await call.over;
    expect(call.outcome).toMatchObject({ code: 'endpoint_unavailable', failureScope: 'owner' });
    expect(call.outcome?.message).toMatch(/in time/);
    await gone;
    expect(clock.pendingTimers).toBe(0);
    expect(await endpoint.requestToken('key')).toMatchObject({ token: 'token-2-of-key' });
  });

  /** Over by their size, long before the deadline. */
  const FLOODS: [string, Answer][] = [
    ['a body of 50 MB', flood(head(200, { 'content-length': '50000000' }))],
    ['chunks without end', flood(chunked, Buffer.from(`4000\r\n${' '.repeat(16_384)}\r\n`))],
    ['chunks of one byte without end', flood(chunked, Buffer.from('1\r\n \r\n'.repeat(4_000)))],
    ['a body without a length and without end', flood(head(200))],
    ['50 MB in 50 KB of gzip', status(200, zlib.gzipSync(Buffer.alloc(5e7)), { 'content-encoding': 'gzip' })],
    ['headers without end', flood('HTTP/1.1 200 OK\r\n', Buffer.from('X-Long: xxxxxxxx\r\n'.repeat(500)))],
  ];

  it.each(FLOODS)('%s is over at the cap; the next call works', async (_what, answer) => {
    service.next(answer);
    const call = watch(endpoint.requestToken('key'));
    await call.over;
    expect(call.outcome).toMatchObject({ code: 'invalid_response', failureScope: 'owner' });
    // What went out beyond the cap fills the buffers of two sockets, and not our memory.
    expect(service.calls[0]?.socket.bytesWritten).toBeLessThan(20_000_000);
    expect(await endpoint.requestToken('key')).toMatchObject({ token: 'token-2-of-key' });
  });

  it.each([0, 1_000, 3_600_000])(
    'an answer that has arrived counts, although the time was up %i ms ago before it was read',
    async (lateMs) => {
      const gzip = status(200, zlib.gzipSync('{"access_token":"t"}'), { 'content-encoding': 'gzip' });
      // A `fetch` decompresses in another thread, which may take longer than the event loop reads.
      for (const answer of [status(200, '{"access_token":"t"}'), ...('fetch' in transport ? [] : [gzip])]) {
        service.next(silence());
        const call = endpoint.requestToken('key');
        (await service.arrived(service.calls.length + 1)).answer(answer);
        clock.standStill(9_999 + lateMs);
        clock.advance(1);
        expect(await call).toMatchObject({ token: 't' });
      }
    },
  );

  it('a known status is reported even if the body hangs', async () => {
    service.next(raw(head(429, { 'retry-after': '30', 'content-length': '10' })));
    const call = watch(endpoint.requestToken('key'));
    await service.arrived(1);
    await settle();
    clock.advance(10_000);
    await call.over;
    expect(call.outcome).toMatchObject({ code: 'rate_limited', failureScope: 'owner', retryAfterMs: 30_000 });
  });
});
