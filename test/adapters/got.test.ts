import { once } from 'node:events';
import { inspect } from 'node:util';
import got, { type ExtendOptions, type RequestError } from 'got';
import { describe, expect, it } from 'vitest';
import { ownerTokenHooks } from '../../src/adapters/got.ts';
import { callRules, type OwnerFetch, ownerFetchFor, rulesOfSource } from '../../src/calling/owner-fetch.ts';
import { adapterSuite, type Client } from '../helpers/adapter-suite.ts';
import { NumberedTokens } from '../helpers/numbered-tokens.ts';
import type { RawOptions } from '../helpers/print-suite.ts';
import { ResourceService } from '../helpers/resource-service.ts';

const makeClient =
  (call: OwnerFetch, { ca }: { ca?: string } = {}): Client =>
  async (url, init = {}) => {
    const https = ca === undefined ? {} : { certificateAuthority: ca };
    // Without retries: got waits a second or more before it connects again to an address that nobody listens at.
    const client = got.extend(ownerTokenHooks(call), { throwHttpErrors: false, retry: { limit: 0 }, https });
    const { statusCode, body } = await client(url, init);
    return { status: statusCode, body };
  };

describe('got', () => {
  const rawClient = (call: OwnerFetch, { ca, timeoutMs }: RawOptions, options: ExtendOptions = {}) => {
    const limits = { retry: { limit: 0 }, timeout: timeoutMs === undefined ? {} : { request: timeoutMs } };
    return got.extend(ownerTokenHooks(call), limits, { https: { certificateAuthority: ca }, ...options });
  };

  adapterSuite({
    makeClient,
    causeOf: (thrown) => (thrown as RequestError).cause ?? thrown,
    raw: {
      'a call': async (call, url, options) => rawClient(call, options)(url, { signal: options.signal }),
      'a call that throws no HTTPError': async (call, url, options) =>
        rawClient(call, options, { throwHttpErrors: false })(url, { signal: options.signal }),
      'a stream': async (call, url, options) => {
        const streamed = rawClient(call, options).stream(url, { signal: options.signal });
        await once(streamed, 'response');
        return streamed;
      },
    },
  });

  const clientFor = (tokens: NumberedTokens, origin: string) =>
    got.extend(ownerTokenHooks(ownerFetchFor(tokens, 'key', callRules(undefined, rulesOfSource(origin)))));

  it('sends JSON and forms again, and parses the final answer', async () => {
    await using service = await ResourceService.start(({ token, body }, response) => {
      response.writeHead(token === 't2' ? 200 : 401).end(JSON.stringify({ body }));
    });
    const json = await clientFor(new NumberedTokens(), service.origin)
      .post(service.origin, { json: { a: 1 } })
      .json();
    expect(json).toEqual({ body: '{"a":1}' });
    const form = await clientFor(new NumberedTokens(), service.origin)
      .put(service.origin, { form: { a: 1 } })
      .json();
    expect(form).toEqual({ body: 'a=1' });
    expect(service.received.map(({ body }) => body)).toEqual(['{"a":1}', '{"a":1}', 'a=1', 'a=1']);
  });

  it('throws the second 401, as it throws other error statuses', async () => {
    await using service = await ResourceService.start((_, response) => response.writeHead(401).end());
    const tokens = new NumberedTokens();
    await expect(clientFor(tokens, service.origin)(service.origin)).rejects.toMatchObject({
      code: 'ERR_NON_2XX_3XX_RESPONSE',
    });
    expect(tokens.rejected).toEqual(['t1', 't2']);
  });

  it('passes its signal on, so that an aborted call stops waiting for a token', async () => {
    const aborting = new AbortController();
    const signals: unknown[] = [];
    const authorize = async (_url: unknown, _headers: unknown, { signal }: { signal?: AbortSignal } = {}) => {
      signals.push(signal);
      aborting.abort(new Error('leaving'));
      throw new Error('no token');
    };
    const client = got.extend(ownerTokenHooks({ authorize } as unknown as OwnerFetch));
    await expect(client('http://127.0.0.1:1', { signal: aborting.signal, retry: { limit: 0 } })).rejects.toThrow();
    expect(signals).toEqual([aborting.signal]);
  });

  it('shows no token in its errors', async () => {
    await using service = await ResourceService.start((_, response) => response.writeHead(403).end());
    for (const url of [service.origin, 'http://127.0.0.1:1']) {
      const client = clientFor(new NumberedTokens(), new URL(url).origin).extend({ retry: { limit: 0 } });
      const error: RequestError = await client(url, { headers: { authorization: 'mine' } }).catch((thrown) => thrown);
      expect(error.options.headers).toMatchObject({ authorization: 'mine' });
      expect(inspect(error, { depth: 9 })).not.toContain('Bearer t');
      expect(JSON.stringify(error)).not.toContain('Bearer t');
    }
  });

  it('keeps no token in the options of an error after a redirect, or of any answer', async () => {
    await using service = await ResourceService.start(({ path }, response) => {
      if (path === '/from') response.writeHead(302, { location: '/to' }).end();
      else if (path === '/elsewhere') response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end();
      else response.writeHead(path === '/to' ? 500 : 200).end();
    });
    const client = clientFor(new NumberedTokens(), service.origin).extend({ retry: { limit: 0 } });
    for (const path of ['/from', '/elsewhere']) {
      for (const own of [{}, { authorization: 'mine' }]) {
        const error: RequestError = await client(`${service.origin}${path}`, { headers: own }).catch(
          (thrown) => thrown,
        );
        expect(error.options.headers.authorization, path).toBe(path === '/from' ? own.authorization : undefined);
        expect(error.request?.options.headers.authorization).toBe(error.options.headers.authorization);
      }
    }
    const { request } = await client(service.origin);
    expect(request.options.headers.authorization).toBeUndefined();
  });

  it('reports the answer to a stream, and does not repeat the call', async () => {
    await using service = await ResourceService.start(({ path }, response) => {
      response.writeHead(path === '/' ? 200 : 401).end('body');
    });
    for (const throwHttpErrors of [true, false]) {
      const tokens = new NumberedTokens();
      const client = clientFor(tokens, service.origin).extend({ throwHttpErrors });
      const statusOf = async (path: string) => {
        const streamed = client.stream(`${service.origin}${path}`);
        await streamed.toArray().catch(() => {});
        return streamed.response?.statusCode;
      };
      expect([await statusOf('/'), await statusOf('/refused')]).toEqual([200, 401]);
      expect(tokens).toMatchObject({ accepted: ['t1'], rejected: ['t1'] });
    }
    expect(service.received).toHaveLength(4);
  });

  it('does not send a generator again', async () => {
    await using service = await ResourceService.start((_, response) => response.writeHead(401).end());
    const body = (function* () {
      yield 'part';
    })();
    const client = clientFor(new NumberedTokens(), service.origin).extend({ throwHttpErrors: false });
    expect((await client.post(service.origin, { body })).statusCode).toBe(401);
    expect(service.received.map((received) => received.body)).toEqual(['part']);
  });

  it("still runs the caller's hooks and its own retries", async () => {
    const statuses = [503, 401, 200];
    await using service = await ResourceService.start((_, response, index) =>
      response.writeHead(statuses[index] ?? 500).end(),
    );
    const seen: number[] = [];
    const note = <T extends { statusCode: number }>(response: T): T => {
      seen.push(response.statusCode);
      return response;
    };
    const client = clientFor(new NumberedTokens(), service.origin).extend({
      retry: { calculateDelay: ({ computedValue }) => Math.min(computedValue, 1) },
      hooks: { afterResponse: [note] },
    });
    expect((await client(service.origin)).statusCode).toBe(200);
    expect(seen).toEqual([503, 200]);
  });

  it('presents the token on streams as well', async () => {
    await using service = await ResourceService.start();
    let body = '';
    for await (const chunk of clientFor(new NumberedTokens(), service.origin).stream(service.origin)) body += chunk;
    expect([body, service.tokens]).toEqual(['ok', ['t1']]);
    await expect(
      clientFor(new NumberedTokens(), 'https://api.example.com').stream(service.origin).toArray(),
    ).rejects.toMatchObject({ cause: { code: 'origin_refused' } });
  });

  it('keeps the calls of one instance apart', async () => {
    await using service = await ResourceService.start(({ token }, response) => {
      response.writeHead(token === 't2' ? 200 : 401).end();
    });
    const client = clientFor(new NumberedTokens(), service.origin);
    await Promise.all([client(service.origin), client(service.origin)]);
    expect((await client(service.origin)).statusCode).toBe(200);
    expect(client.defaults.options.context).toEqual({});
  });
});
