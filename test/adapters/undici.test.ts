import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PassThrough, Readable } from 'node:stream';
import { Agent, FormData, fetch, interceptors, MockAgent, Pool, request, stream, upgrade } from 'undici';
import { describe, expect, it } from 'vitest';
import { ownerTokenInterceptor } from '../../src/adapters/undici.ts';
import { callRules, type OwnerFetch, ownerFetchFor, rulesOfSource } from '../../src/calling/owner-fetch.ts';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import { adapterSuite, type Client } from '../helpers/adapter-suite.ts';
import { settle } from '../helpers/manual-clock.ts';
import { NumberedTokens } from '../helpers/numbered-tokens.ts';
import type { RawOptions } from '../helpers/print-suite.ts';
import { ResourceService } from '../helpers/resource-service.ts';

const dispatcherFor = (call: OwnerFetch, connect: { ca?: string } = {}) =>
  new Agent({ connect }).compose(ownerTokenInterceptor(call), interceptors.redirect({ maxRedirections: 5 }));

/** The same `getToken`, which fails after so many calls. */
const failingAfter = (count: number, getToken: NumberedTokens['getToken']): NumberedTokens['getToken'] => {
  let calls = 0;
  return async (...args) => {
    if (calls++ >= count) throw new OwnerTokenError('endpoint_unavailable', 'no');
    return getToken(...args);
  };
};

const makeClient =
  (call: OwnerFetch, options?: { ca?: string }): Client =>
  async (url, init = {}) => {
    const { statusCode, body } = await request(url, { ...init, dispatcher: dispatcherFor(call, options) });
    return { status: statusCode, body: await body.text() };
  };

describe('undici', () => {
  /** undici's own limit is on the time to the headers. */
  const dispatcherTo = (call: OwnerFetch, { ca, timeoutMs = 300_000 }: RawOptions) =>
    new Agent({ connect: { ca }, headersTimeout: timeoutMs }).compose(
      ownerTokenInterceptor(call),
      interceptors.redirect({ maxRedirections: 5 }),
    );

  adapterSuite({
    makeClient,
    raw: {
      request: (call, url, options) =>
        request(url, { dispatcher: dispatcherTo(call, options), signal: options.signal }),
      fetch: (call, url, options) => fetch(url, { dispatcher: dispatcherTo(call, options), signal: options.signal }),
      stream: (call, url, options) =>
        stream(url, { method: 'GET', dispatcher: dispatcherTo(call, options), signal: options.signal }, () =>
          new PassThrough().resume(),
        ),
    },
  });

  const callFor = (tokens: NumberedTokens, origin: string) =>
    ownerFetchFor(tokens, 'key', callRules(undefined, rulesOfSource(origin)));

  it('accepts headers in every form and any case', async () => {
    await using service = await ResourceService.start();
    const dispatcher = dispatcherFor(callFor(new NumberedTokens(), service.origin));
    for (const headers of [
      ['Authorization', 'stale', 'X-A', '1', 'X-A', '2'],
      { Authorization: 'stale', 'X-A': ['1', '2'] },
      new Map<string, string>([
        ['Authorization', 'stale'],
        ['X-A', '1, 2'],
      ]),
      new Headers({ Authorization: 'stale', 'X-A': '1, 2' }),
      null,
    ]) {
      await (await request(service.origin, { headers: headers as string[], dispatcher })).body.dump();
    }
    expect(service.tokens).toEqual(Array(5).fill('t1'));
    expect(service.received.map(({ headers }) => headers['x-a'])).toEqual([...Array(4).fill('1, 2'), undefined]);
  });

  it('sends bytes, blobs and forms again', async () => {
    const form = new FormData();
    form.append('name', 'value');
    for (const body of [Buffer.from('value'), new Blob(['value']), form]) {
      await using service = await ResourceService.start(({ token }, response) => {
        response.writeHead(token === 't2' ? 200 : 401).end();
      });
      const dispatcher = dispatcherFor(callFor(new NumberedTokens(), service.origin));
      const answer = await request(service.origin, { method: 'POST', body: body as Buffer, dispatcher });
      expect(answer.statusCode).toBe(200);
      expect(service.received.map((received) => received.body)).toEqual([
        expect.stringContaining('value'),
        expect.stringContaining('value'),
      ]);
    }
  });

  it('cancels a 401 response that is long or stalls, and reuses the connection of a short one', async () => {
    for (const first of ['short', 'long', 'stalled'] as const) {
      let bytes = 0;
      const fill = Buffer.alloc(16_384);
      const counted = function* () {
        for (; ; bytes += fill.length) yield fill;
      };
      await using service = await ResourceService.start(({ token }, response) => {
        response.writeHead(token === 't2' ? 200 : 401);
        if (token === 't2' || first === 'short') response.end();
        else if (first === 'long') Readable.from(counted()).pipe(response);
        else response.write('and so on');
      });
      const tokens = new NumberedTokens();
      // A new token takes a round trip as a rule; by then a short answer has been read.
      const getToken = tokens.getToken.bind(tokens);
      tokens.getToken = async (...args) => {
        await settle();
        return getToken(...args);
      };
      const dispatcher = dispatcherFor(callFor(tokens, service.origin));
      expect((await request(service.origin, { dispatcher })).statusCode).toBe(200);
      expect(service.tokens).toEqual(['t1', 't2']);
      if (first === 'short') expect(service.connections).toBe(1);
      // The bound, and what sockets buffer. Without a bound a second's worth arrives.
      expect(bytes).toBeLessThan(20_000_000);
    }
  });

  it('reads at most 64 KiB of a 401 response that it discards', async () => {
    const aborted: Error[] = [];
    const controller = { abort: (reason: Error) => aborted.push(reason), pause() {}, resume() {} };
    type Handler = Required<Parameters<ReturnType<ReturnType<typeof ownerTokenInterceptor>>>[1]> & {
      onResponseStart(...args: unknown[]): void;
      onResponseData(...args: unknown[]): void;
    };
    const handlers: Handler[] = [];
    const send = ownerTokenInterceptor(callFor(new NumberedTokens(), 'https://api.example'))((_, handler) => {
      handlers.push(handler as Handler);
      return true;
    });
    send({ origin: 'https://api.example', path: '/' }, {});
    await settle();
    const [first] = handlers;
    first?.onResponseStart(controller, 401, {});
    await settle();
    first?.onResponseData(controller, Buffer.alloc(65_536));
    expect(aborted).toEqual([]);
    first?.onResponseData(controller, Buffer.alloc(1));
    expect(aborted).toHaveLength(1);
  });

  it('sends no credentials to a foreign origin, whatever their case and whatever the redirect interceptor keeps', async () => {
    const sent: unknown[] = [];
    const send = ownerTokenInterceptor(callFor(new NumberedTokens(), 'https://api.example'))(({ headers }) => {
      sent.push(headers);
      return true;
    });
    const handler = {};
    const headers = { Cookie: 'a=b', 'PROXY-Authorization': 'Basic x', Authorization: 'Basic mine', 'X-Own': 'yes' };
    for (const origin of ['https://api.example', 'https://files.example']) {
      send({ origin, path: '/', headers }, handler);
      await settle();
    }
    expect(sent[1]).toEqual({ 'X-Own': 'yes' });
    expect(sent).toHaveLength(2);
  });

  it('passes on at once that the caller has aborted while another token is awaited after a 401', async () => {
    const tokens = new NumberedTokens();
    const handlers: object[] = [];
    const send = ownerTokenInterceptor(callFor(tokens, 'https://api.example'))((_, handler) => {
      handlers.push(handler);
      return true;
    });
    const events: unknown[] = [];
    const inner = {
      onResponseStart: (_: unknown, status: number) => events.push(status),
      onResponseError: (_: unknown, error: Error) => events.push(error),
    };
    send({ origin: 'https://api.example', path: '/' }, inner);
    await settle();
    tokens.gate = new Promise(() => {});
    const [handler] = handlers as [
      { onResponseStart(...args: unknown[]): void; onResponseError(...args: unknown[]): void },
    ];
    handler.onResponseStart({ aborted: false, pause() {}, resume() {} }, 401, {});
    const enough = new Error('enough');
    handler.onResponseError({ aborted: true }, enough);
    expect(events).toEqual([enough]);
  });

  it('presents the token when the protocol is upgraded', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    let presented: string | undefined;
    server.on('upgrade', ({ headers }, socket) => {
      presented = headers.authorization;
      socket.end('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n');
    });
    const dispatcher = dispatcherFor(callFor(new NumberedTokens(), origin));
    const { socket } = await upgrade(origin, { protocol: 'other', dispatcher });
    expect(presented).toBe('Bearer t1');
    socket.destroy();
    server.close();
  });

  it('sends the token to the origin option, whatever the path or the URL object says', async () => {
    await using evil = await ResourceService.start();
    await using service = await ResourceService.start();
    const tokens = new NumberedTokens();
    const dispatcher = dispatcherFor(callFor(tokens, service.origin));
    const host = new URL(service.origin).host;
    for (const path of [`//${host}/x`, `${service.origin}/x`]) {
      await expect(request({ origin: evil.origin, path, method: 'GET', dispatcher } as never)).rejects.toThrow();
      await expect(dispatcher.request({ origin: evil.origin, path, method: 'GET' })).rejects.toThrow();
    }
    const origin = new URL(service.origin);
    let open = () => {};
    tokens.gate = new Promise((resolve) => {
      open = resolve;
    });
    const options = { origin, path: '/x', method: 'GET' } as const;
    const answer = dispatcher.request(options);
    origin.href = evil.origin;
    open();
    expect((await answer).statusCode).toBe(200);
    expect([service.tokens, evil.connections]).toEqual([['t1'], 0]);
  });

  it('sends no token if the path is a complete URL, which a proxy would follow', async () => {
    await using service = await ResourceService.start();
    const dispatcher = dispatcherFor(callFor(new NumberedTokens(), service.origin));
    const options = { origin: service.origin, path: 'http://elsewhere.example/', method: 'GET' } as const;
    await expect(dispatcher.request(options)).rejects.toThrow('begin with a slash');
    expect(service.connections).toBe(0);
  });

  it('follows no redirect unchecked, even if the redirect interceptor comes before this one', async () => {
    await using evil = await ResourceService.start();
    await using service = await ResourceService.start((_, response) => {
      response.writeHead(302, { location: evil.origin }).end();
    });
    const rules = callRules(
      { present: (token, headers) => headers.set('x-token', token.value) },
      rulesOfSource(service.origin),
    );
    const dispatcher = new Agent().compose(
      interceptors.redirect({ maxRedirections: 5 }),
      ownerTokenInterceptor(ownerFetchFor(new NumberedTokens(), 'key', rules)),
    );
    expect((await request(service.origin, { dispatcher })).statusCode).toBe(302);
    expect([service.received.length, evil.connections]).toEqual([1, 0]);
  });

  it('passes on a 401 of a dispatcher that cannot pause, with its body', async () => {
    const agent = new MockAgent();
    agent.disableNetConnect();
    const tokens = new NumberedTokens();
    const dispatcher = agent.compose(ownerTokenInterceptor(callFor(tokens, 'http://api.example')));
    const pool = agent.get('http://api.example');
    const options = { origin: 'http://api.example', path: '/', method: 'GET' } as const;
    for (const last of [401, 200]) {
      pool.intercept({ path: '/' }).reply(401, 'refused');
      pool.intercept({ path: '/' }).reply(last, 'last');
      const { statusCode, body } = await dispatcher.request(options);
      expect([statusCode, await body.text()]).toEqual([last, 'last']);
    }
    pool.intercept({ path: '/' }).reply(401, 'refused');
    tokens.getToken = failingAfter(1, tokens.getToken.bind(tokens));
    const { statusCode, body } = await dispatcher.request(options);
    expect([statusCode, await body.text()]).toEqual([401, 'refused']);
  });

  it('needs an origin in the options of each call', async () => {
    await using service = await ResourceService.start();
    const pool = new Pool(service.origin).compose(ownerTokenInterceptor(callFor(new NumberedTokens(), service.origin)));
    await expect(pool.request({ path: '/', method: 'GET' })).rejects.toThrow('known origins only');
    expect((await pool.request({ origin: service.origin, path: '/', method: 'GET' })).statusCode).toBe(200);
  });
});
