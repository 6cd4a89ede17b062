/** Rows J1 to J5, on the endpoint: what HTTP can do to a token request, through `node:http` and through a `fetch`. */

import http from 'node:http';
import https from 'node:https';
import zlib from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { EndpointFailure } from '../../src/endpoint/classify-failure.ts';
import type { TokenEndpointOptions } from '../../src/endpoint/options.ts';
import { TokenEndpoint } from '../../src/endpoint/token-endpoint.ts';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import { LOOPBACK_CERTIFICATE } from '../helpers/loopback-certificate.ts';
import {
  type Answer,
  end,
  head,
  json,
  LoopbackService,
  raw,
  reset,
  silence,
  status,
  thenEnd,
  thenReset,
  token,
} from '../helpers/loopback-service.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';
import { nodeStreamFetch } from '../helpers/node-stream-fetch.ts';
import { errorOf } from '../helpers/registries.ts';

let service: LoopbackService;
const made: TokenEndpoint[] = [];

beforeEach(async () => {
  service = await LoopbackService.start();
});

afterEach(async () => {
  for (const endpoint of made.splice(0)) await endpoint.close();
  await service.close();
});

function endpoint(options: Partial<TokenEndpointOptions> = {}): TokenEndpoint {
  const endpoint = new TokenEndpoint({ baseUrl: service.url, clientId: 'id', clientSecret: 'secret', ...options });
  made.push(endpoint);
  return endpoint;
}

const TRANSPORTS: [string, Partial<TokenEndpointOptions>][] = [
  ['node:http', {}],
  ['fetch', { fetch }],
  ['a fetch with streams of Node', { fetch: nodeStreamFetch }],
];

describe.each(TRANSPORTS)('through %s', (_name, transport) => {
  describe('J1 a redirect', () => {
    let elsewhere: LoopbackService;

    beforeEach(async () => {
      elsewhere = await LoopbackService.start();
    });

    afterEach(() => elsewhere.close());

    it.each([300, 301, 302, 303, 304, 307, 308])('with %i is refused, and no second request leaves', async (code) => {
      const targets = [`${elsewhere.url}/x`, elsewhere.url.replace('http:', 'https:'), '/auth/v1/token', '//x', ''];
      for (const location of targets) {
        service.next(raw(head(code, { location, 'content-length': code === 304 ? '0' : '9999' })));
        const error = await errorOf(endpoint(transport).requestToken('key'));
        expect(error).toMatchObject({ code: 'redirect_refused', failureScope: 'owner', status: code });
      }
      expect(service.calls).toHaveLength(targets.length);
      expect(elsewhere.connections).toBe(0);
    });
  });

  describe('J3 a 200 without a usable token', () => {
    it.each<[string, string | Buffer]>([
      ['{}', '{}'],
      ['null', 'null'],
      ['[]', '[]'],
      ['nothing', ''],
      ['HTML', '<html>maintenance</html>'],
      ['a token that is no UTF-8', Buffer.from('{"access_token":"t\xff"}', 'latin1')],
      ['cut JSON', '{"access_token":"t'],
      ['two JSON texts', '{"access_token":"t"}{"access_token":"u"}'],
      ['JSON that nests without end', '['.repeat(60_000)],
      ['an object with an error of no standard', '{"error":"no_such_error"}'],
      ['an empty token', '{"access_token":""}'],
      ['a token that is no string', '{"access_token":{"a":1}}'],
      ['a token of 1 MB', JSON.stringify({ access_token: 'x'.repeat(1_000_000) })],
      ['a token of 66 KB', JSON.stringify({ access_token: 'x'.repeat(65_537) })],
      ['a line break in the token', '{"access_token":"a\\r\\nX-Evil: 1"}'],
    ])('is invalid_response: %s', async (_what, body) => {
      service.next(status(200, body, { 'content-type': 'application/json' }));
      const error = await errorOf(endpoint(transport).requestToken('key'));
      expect(error).toMatchObject({ code: 'invalid_response', failureScope: 'owner', status: 200 });
      expect(OwnerTokenError.escalationOf(error)).toEqual({ scope: 'endpoint', isGiven: false });
      expect(error.message).not.toMatch(/maintenance|Evil|xxx/);
    });
  });

  it.each<[string, string]>([
    ['of 64 KB', 'x'.repeat(65_536)],
    ['with white space around it', '\t token\r\n'],
  ])('a token %s is issued', async (_what, token) => {
    service.next(status(200, JSON.stringify({ access_token: token })));
    expect(await endpoint(transport).requestToken('key')).toMatchObject({ token: token.trim() });
  });

  describe('J5 a broken answer', () => {
    const gzip = { 'content-encoding': 'gzip' };
    const grant = '{"access_token":"t"}';
    const begun = `${head(200, { 'content-length': '999' })}{"access_token":`;
    const chunked = head(200, { 'transfer-encoding': 'chunked' });

    it.each<[string, EndpointFailure['kind'], Answer]>([
      ['closed before a byte', 'network', end()],
      ['reset before a byte', 'network', reset()],
      ['closed in the status line', 'network', thenEnd(raw('HTTP/1.1 20'))],
      ['closed in the headers', 'network', thenEnd(raw('HTTP/1.1 200 OK\r\nContent-Le'))],
      ['closed after an informational answer', 'network', thenEnd(raw(head(103)))],
      ['closed in the body', 'network', thenEnd(raw(begun))],
      ['reset in the body', 'network', thenReset(raw(begun))],
      ['closed in a chunk', 'network', thenEnd(raw(chunked, 'ff\r\n{"a'))],
      ['closed between chunks', 'network', thenEnd(raw(chunked, '2\r\n{}\r\n'))],
      ['garbage instead of HTTP', 'body', raw('\0\x01 what is this?\r\n\r\n')],
      ['garbage, and closed', 'body', thenEnd(raw('\x16\x03\x01\x02\0\x01\0'))],
      ['another protocol’s answer', 'body', thenEnd(raw('220 mail.example ESMTP\r\n'))],
      ['garbage in the headers', 'body', raw('HTTP/1.1 200 OK\r\n\x01\x02\x03: x\r\n\r\n')],
      ['a length that is none', 'body', raw('HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n')],
      ['a chunk that is none', 'body', raw(chunked, 'zz\r\n{}\r\n0\r\n\r\n')],
      ['20 KB of headers', 'body', raw(head(200, { 'x-long': 'x'.repeat(20_000) }))],
      ['wrong gzip', 'body', status(200, grant, gzip)],
      ['cut gzip', 'body', status(200, zlib.gzipSync(grant).subarray(0, 22), gzip)],
      ['wrong deflate', 'body', status(200, grant, { 'content-encoding': 'deflate' })],
      ['wrong brotli', 'body', status(200, grant, { 'content-encoding': 'br' })],
      ['more than the cap', 'body', status(200, ' '.repeat(131_073))],
      ['more than the cap, packed', 'body', status(200, zlib.gzipSync(Buffer.alloc(5e7, ' ')), gzip)],
    ])('is the same failure on every Node: %s', async (_what, kind, answer) => {
      const seen: EndpointFailure[] = [];
      const classifyFailure = (failed: EndpointFailure) => void seen.push(failed);
      service.next(answer);
      const error = await errorOf(endpoint({ ...transport, classifyFailure }).requestToken('key'));
      expect(seen.map((failed) => failed.kind)).toEqual([kind]);
      const code = kind === 'body' ? 'invalid_response' : 'endpoint_unavailable';
      expect(error).toMatchObject({ code, failureScope: 'owner' });
      expect(OwnerTokenError.escalationOf(error)).toEqual({ scope: 'endpoint', isGiven: false });
      expect(service.calls).toHaveLength(1);
      expect(await endpoint(transport).requestToken('key')).toHaveProperty('token');
    });
  });

  it('J2 an untrusted certificate is the endpoint’s failure, and the request is not sent again', async () => {
    await using secure = await LoopbackService.start({ tls: true });
    const seen: string[] = [];
    const classifyFailure = ({ kind }: EndpointFailure) => void seen.push(kind);
    const error = await errorOf(endpoint({ ...transport, baseUrl: secure.url, classifyFailure }).requestToken('key'));
    expect(error).toMatchObject({ code: 'endpoint_unavailable', failureScope: 'owner' });
    expect(seen).toEqual(['tls']);
    await settle();
    expect([secure.connections, secure.calls.length]).toEqual([1, 0]);
  });

  it('J2 a service that speaks no TLS, or breaks off its handshake, is the endpoint’s failure', async () => {
    const baseUrl = service.url.replace('http:', 'https:');
    service.onConnection((socket) => socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'));
    expect(await errorOf(endpoint({ ...transport, baseUrl }).requestToken('key'))).toMatchObject({
      code: 'endpoint_unavailable',
      failureScope: 'owner',
    });
  });
});

it('J2 http without TLS is refused for any host but this machine, unless asked for', () => {
  const baseUrl = 'http://service.example';
  expect(() => endpoint({ baseUrl })).toThrow(expect.objectContaining({ code: 'insecure_url' }));
  expect(endpoint({ baseUrl, allowInsecureHttp: true }).origin).toBe(baseUrl);
});

describe('J4 a request whose connection closes as it is sent', () => {
  /** So many requests at once, each over a connection of its own that is then kept. */
  async function warm(target: TokenEndpoint, count = 1): Promise<void> {
    service.always(silence());
    const calls = Array.from({ length: count }, () => target.requestToken('warm'));
    await service.arrived(count);
    service.always(token());
    for (const call of service.calls) call.answer(token());
    await Promise.all(calls);
    await settle();
  }

  it('over a kept one is sent once more, over a new one, and the call succeeds', async () => {
    const target = endpoint();
    await warm(target);
    service.next(end());
    expect(await target.requestToken('key')).toMatchObject({ token: 'token-3-of-key' });
    expect(service.calls.map((call) => call.connection)).toEqual([1, 1, 2]);
    expect(service.calls[2]?.body).toBe(service.calls[1]?.body);
  });

  it('is not sent over the others that were kept as long', async () => {
    const target = endpoint();
    await warm(target, 3);
    service.next(end());
    await target.requestToken('key');
    expect(service.calls.at(-1)?.connection).toBe(4);
    expect(service.openConnections).toBe(1);
  });

  it('is sent once more and not twice', async () => {
    const target = endpoint();
    await warm(target);
    service.always(end());
    expect(await errorOf(target.requestToken('key'))).toMatchObject({ code: 'endpoint_unavailable' });
    expect(service.countFor('key')).toBe(2);
  });

  it('gets no second try when anything of an answer had come', async () => {
    const target = endpoint();
    const starts = ['H', head(100), head(103), head(200, { 'content-length': '9' })];
    for (const start of starts) {
      await warm(target);
      service.next(thenEnd(raw(start)));
      expect(await errorOf(target.requestToken('key'))).toMatchObject({ code: 'endpoint_unavailable' });
    }
    expect(service.countFor('key')).toBe(starts.length);
  });

  it('over a new one gets no second try', async () => {
    service.next(end(), reset());
    expect(await errorOf(endpoint().requestToken('key'))).toMatchObject({ failureScope: 'owner' });
    expect(await errorOf(endpoint().requestToken('key'))).toMatchObject({ failureScope: 'owner' });
    expect(service.countFor('key')).toBe(2);
  });

  it('gets no second try when the service answers with an error', async () => {
    const target = endpoint();
    await warm(target);
    for (const code of [400, 401, 403, 500, 503]) {
      service.next(json(code, {}));
      await errorOf(target.requestToken('key'));
    }
    expect(service.countFor('key')).toBe(5);
  });

  it('has both tries within one deadline', async () => {
    const clock = new ManualClock();
    const target = endpoint({ clock });
    await warm(target);
    const count = service.calls.length;
    service.next(silence(), silence());
    const failed = errorOf(target.requestToken('key'));
    const first = await service.arrived(count + 1);
    clock.advance(9_999);
    first.answer(end());
    await service.arrived(count + 2);
    clock.advance(1);
    expect(await failed).toMatchObject({ code: 'endpoint_unavailable' });
    expect(clock.pendingTimers).toBe(0);
  });

  it('gets no second try once the deadline or the signal has ended the call', async () => {
    const controller = new AbortController();
    const target = endpoint();
    await warm(target);
    service.next(silence());
    const failed = errorOf(target.requestToken('key', { signal: controller.signal }));
    const call = await service.arrived(2);
    controller.abort();
    call.answer(end());
    expect(await failed).toMatchObject({ code: 'closed' });
    await settle();
    expect(service.calls).toHaveLength(2);
  });

  it('over a kept one of the user’s agent fails no call, and the agent’s other connections are left alone', async () => {
    const agent = new http.Agent({ keepAlive: true });
    const target = endpoint({ agent });
    await warm(target, 2);
    service.next(end());
    await target.requestToken('key');
    expect(service.connections).toBe(3);
    await expect.poll(() => service.openConnections).toBe(2);
    await target.close();
    await settle();
    expect(service.openConnections).toBe(2);
    agent.destroy();
  });

  it('over a kept one with TLS fails no call either', async () => {
    await using secure = await LoopbackService.start({ tls: true });
    const agent = new https.Agent({ keepAlive: true, ca: LOOPBACK_CERTIFICATE });
    const target = endpoint({ baseUrl: secure.url, agent });
    await target.requestToken('warm');
    await settle();
    secure.next(reset());
    expect(await target.requestToken('key')).toMatchObject({ token: 'token-3-of-key' });
    expect(secure.connections).toBe(2);
    agent.destroy();
  });

  it('through a given fetch is left to that, which knows its connections', async () => {
    let asked = 0;
    const counted: typeof fetch = (...given) => {
      asked++;
      return fetch(...given);
    };
    const target = endpoint({ fetch: counted });
    await target.requestToken('warm');
    service.always(end());
    await errorOf(target.requestToken('key'));
    expect(asked).toBe(2);
  });
});

describe('a header that Node’s parser refuses', () => {
  const REFUSED: [string, string, string][] = [
    ['folded over two lines', 'X-Policy: a\r\n b', 'Unexpected whitespace after header value'],
    ['that begins on its second line', 'X-Policy:\r\n b', 'Invalid header value char'],
    ['with a blank before its colon', 'X-Policy : a', 'Invalid header token'],
  ];
  const answered = (header: string) =>
    service.next(raw(`HTTP/1.1 200 OK\r\n${header}\r\nContent-Length: 20\r\n\r\n{"access_token":"t"}`));

  it.each(REFUSED)('%s is named with the reason and what reads it', async (_what, header, reason) => {
    answered(header);
    expect(await errorOf(endpoint().requestToken('key'))).toMatchObject({
      code: 'invalid_response',
      message: `unusable response from the token endpoint: Node's HTTP parser refuses it (${reason}); with the option fetch, the fetch of Node 20 or 22 may read this header`,
    });
  });

  const isLenient = /^v2[02]\./.test(process.version);
  it.runIf(isLenient).each(REFUSED)('%s is read by the fetch of Node 20 and 22', async (_what, header) => {
    answered(header);
    expect(await endpoint({ fetch }).requestToken('key')).toMatchObject({ token: 't' });
  });

  it('in any other way is named with the reason alone', async () => {
    service.next(raw('HTTP/1.1 200 OK\r\n X-Policy: a\r\n\r\n'));
    const { message } = await errorOf(endpoint().requestToken('key'));
    expect(message).toMatch(/parser refuses it \(Unexpected space after start line\)$/);
  });
});

describe('the connections', () => {
  it('of an endpoint go to the host of the base URL, even below a path that looks like one', async () => {
    await endpoint({ baseUrl: `${service.url}//elsewhere.example` }).requestToken('key');
    expect(service.calls[0]?.path).toBe('//elsewhere.example/auth/v1/token');
  });
});
