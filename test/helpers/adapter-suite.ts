import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import {
  callRules,
  type OwnerFetch,
  type OwnerFetchOptions,
  ownerFetchFor,
  rulesOfSource,
} from '../../src/calling/owner-fetch.ts';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import { NumberedTokens } from './numbered-tokens.ts';
import { oddAddresses, WatchedServer } from './odd-addresses.ts';
import { printSuite, type RawCall } from './print-suite.ts';
import { redirectChains } from './redirect-chains.ts';
import { ResourceService } from './resource-service.ts';

export interface ClientCall {
  method?: 'GET' | 'POST' | 'PUT';
  body?: string | Readable;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** One HTTP client that calls for one owner: returns the final answer, or throws what the client throws. */
export type Client = (url: string | URL, call?: ClientCall) => Promise<{ status: number; body: string }>;

export interface Traits {
  /** @param options the certificate of the servers, if they have one. */
  readonly makeClient: (call: OwnerFetch, options?: { readonly ca?: string }) => Client;
  /** The library's own error in what this client throws. */
  readonly causeOf?: (thrown: unknown) => unknown;
  /** Ways to call it that differ in what they return or throw, by name. */
  readonly raw: Readonly<Record<string, RawCall>>;
}

/** The tests that `ownerFetch` and every adapter must pass: each HTTP client obeys the same rules. */
export function adapterSuite(traits: Traits): void {
  const { makeClient, causeOf = (thrown) => thrown, raw } = traits;
  printSuite(raw);
  describe('a chain of redirects', () => redirectChains(traits));

  const clientFor = (tokens: NumberedTokens, origin: string, options?: OwnerFetchOptions) =>
    makeClient(ownerFetchFor(tokens, 'key', callRules(options, rulesOfSource(origin))));
  const accepting = (...good: string[]) =>
    ResourceService.start(({ token = '' }, response) => {
      if (!good.includes(token)) response.statusCode = 401;
      response.end(good.includes(token) ? 'ok' : 'refused');
    });
  const causeOfFailure = async (call: Promise<unknown>) => {
    const thrown: unknown = await call.then(
      () => undefined,
      (error) => error,
    );
    return causeOf(thrown);
  };

  it("presents the token in place of the caller's Authorization header, and keeps other headers", async () => {
    await using service = await ResourceService.start();
    const tokens = new NumberedTokens();
    const headers = { Authorization: 'Bearer stale', 'X-Own': 'yes' };
    expect(await clientFor(tokens, service.origin)(`${service.origin}/a?b=c`, { headers })).toEqual({
      status: 200,
      body: 'ok',
    });
    expect(service.received).toMatchObject([
      { method: 'GET', path: '/a?b=c', token: 't1', headers: { 'x-own': 'yes' } },
    ]);
    expect(headers).toEqual({ Authorization: 'Bearer stale', 'X-Own': 'yes' });
    expect(tokens.accepted).toEqual(['t1']);
  });

  it('presents the token as the option present does', async () => {
    await using service = await ResourceService.start();
    const client = clientFor(new NumberedTokens(), service.origin, {
      present: (token, headers) => headers.set('x-token', token.value),
    });
    await client(service.origin, { headers: { authorization: 'Basic mine' } });
    expect(service.received[0]?.headers).toMatchObject({ 'x-token': 't1', authorization: 'Basic mine' });
  });

  it('makes a call once more after a 401, with another token and the same body', async () => {
    await using service = await accepting('t2');
    const tokens = new NumberedTokens();
    const answer = await clientFor(tokens, service.origin)(service.origin, { method: 'POST', body: 'text' });
    expect(answer).toEqual({ status: 200, body: 'ok' });
    expect(service.received.map(({ method, token, body }) => [method, token, body])).toEqual([
      ['POST', 't1', 'text'],
      ['POST', 't2', 'text'],
    ]);
    expect(tokens).toMatchObject({ rejected: ['t1'], accepted: ['t2'] });
  });

  it('returns the second 401, and rejects its token too', async () => {
    await using service = await accepting();
    const tokens = new NumberedTokens();
    expect(await clientFor(tokens, service.origin)(service.origin)).toEqual({ status: 401, body: 'refused' });
    expect(service.tokens).toEqual(['t1', 't2']);
    expect(tokens).toMatchObject({ rejected: ['t1', 't2'], accepted: [] });
  });

  it('makes a call once more with the same token if there is no other, and never a third time', async () => {
    await using service = await accepting();
    const tokens = new NumberedTokens();
    tokens.reject = (_, { value }) => tokens.rejected.push(value) > 0;
    const answer = await clientFor(tokens, service.origin)(service.origin, { method: 'POST', body: 'text' });
    expect(answer).toEqual({ status: 401, body: 'refused' });
    expect(service.tokens).toEqual(['t1', 't1']);
    expect(tokens.rejected).toEqual(['t1', 't1']);
  });

  it('returns the 401 if no other token can be obtained, not the error of the token service', async () => {
    await using service = await accepting();
    const tokens = new NumberedTokens();
    tokens.reject = (_, { value }) => {
      tokens.failure = new OwnerTokenError('endpoint_unavailable', 'no');
      return tokens.rejected.push(value) > 0;
    };
    expect(await clientFor(tokens, service.origin)(service.origin)).toEqual({ status: 401, body: 'refused' });
    expect([service.tokens, tokens.rejected, tokens.asked]).toEqual([['t1'], ['t1'], 2]);
  });

  it('ends with the signal while it waits for another token after a 401', async () => {
    await using service = await accepting();
    const tokens = new NumberedTokens();
    const aborting = new AbortController();
    tokens.reject = () => {
      tokens.gate = new Promise(() => {});
      setImmediate(() => aborting.abort());
      return true;
    };
    await expect(clientFor(tokens, service.origin)(service.origin, { signal: aborting.signal })).rejects.toThrow();
    expect(service.tokens).toEqual(['t1']);
  });

  it('does not send a stream again, but returns the 401 and rejects its token', async () => {
    await using service = await accepting('t2');
    const tokens = new NumberedTokens();
    const body = Readable.from([Buffer.from('str'), Buffer.from('eam')]);
    const answer = await clientFor(tokens, service.origin)(service.origin, { method: 'POST', body });
    expect(answer).toEqual({ status: 401, body: 'refused' });
    expect(service.received.map((received) => received.body)).toEqual(['stream']);
    expect(tokens.rejected).toEqual(['t1']);
  });

  it('returns every other status unchanged, and counts only a success as acceptance of the token', async () => {
    for (const status of [204, 304, 400, 403, 404, 409, 418, 501]) {
      await using service = await ResourceService.start((_, response) => response.writeHead(status).end());
      const tokens = new NumberedTokens();
      expect(await clientFor(tokens, service.origin)(service.origin)).toEqual({ status, body: '' });
      expect(service.received).toHaveLength(1);
      expect([tokens.accepted.length, tokens.rejected.length]).toEqual([status < 400 ? 1 : 0, 0]);
    }
  });

  it('requests no token for an origin that is not allowed, and sends nothing there', async () => {
    await using service = await ResourceService.start();
    const tokens = new NumberedTokens();
    const failure = await causeOfFailure(clientFor(tokens, 'https://api.example.com')(service.origin));
    expect(failure).toMatchObject({ name: 'OwnerTokenError', code: 'origin_refused' });
    expect([service.connections, tokens.asked]).toEqual([0, 0]);
  });

  it('throws the error of getToken if it cannot get a token', async () => {
    const tokens = new NumberedTokens();
    tokens.failure = new OwnerTokenError('owner_refused', 'no');
    expect(await causeOfFailure(clientFor(tokens, 'http://127.0.0.1:1')('http://127.0.0.1:1'))).toBe(tokens.failure);
  });

  it('rejects when the signal aborts, also while it waits for a token', async () => {
    await using service = await ResourceService.start();
    const tokens = new NumberedTokens();
    const client = clientFor(tokens, service.origin);
    for (const gate of [new Promise<void>(() => {}), undefined]) {
      tokens.gate = gate;
      const aborting = new AbortController();
      const calling = client(service.origin, { signal: aborting.signal });
      setImmediate(() => aborting.abort());
      await expect(calling).rejects.toThrow();
      if (gate) expect(service.connections).toBe(0);
    }
  });

  it('calls the address that was checked, even if the URL changes while the token is awaited', async () => {
    await using elsewhere = await ResourceService.start();
    await using service = await ResourceService.start();
    const tokens = new NumberedTokens();
    const url = new URL('/here', service.origin);
    const getToken = tokens.getToken.bind(tokens);
    tokens.getToken = (...args) => {
      url.href = elsewhere.origin;
      return getToken(...args);
    };
    expect((await clientFor(tokens, service.origin)(url)).status).toBe(200);
    expect(url.href).toBe(`${elsewhere.origin}/`);
    expect([service.received.map(({ path }) => path), elsewhere.connections]).toEqual([['/here'], 0]);
  });

  describe('along redirects', () => {
    it('carries the token to allowed origins', async () => {
      await using target = await ResourceService.start();
      await using service = await ResourceService.start((_, response) => {
        response.writeHead(302, { location: `${target.origin}/end` }).end();
      });
      for (const present of [
        undefined,
        (token: { value: string }, headers: Headers) => headers.set('x-token', token.value),
      ]) {
        const allowedOrigins = [service.origin, target.origin];
        const options = { allowedOrigins, ...(present && { present }) };
        expect(await clientFor(new NumberedTokens(), '', options)(service.origin)).toEqual({ status: 200, body: 'ok' });
      }
      expect(target.received).toMatchObject([{ path: '/end', token: 't1' }, { headers: { 'x-token': 't1' } }]);
    });

    it('makes one hop of a call once more, however many refuse the token', async () => {
      const statuses = [401, 302, 401];
      await using service = await ResourceService.start((_, response, index) => {
        response.writeHead(statuses[index] ?? 200, { location: '/end' }).end();
      });
      const tokens = new NumberedTokens();
      expect((await clientFor(tokens, service.origin)(service.origin)).status).toBe(401);
      expect([service.tokens, tokens.rejected]).toEqual([
        ['t1', 't2', 't2'],
        ['t1', 't2'],
      ]);
    });

    /** Sets a header of its own besides the usual one. */
    const presentTwice = (token: { value: string }, headers: Headers) => {
      headers.set('authorization', token.value);
      headers.set('x-token', token.value);
    };

    for (const status of [301, 302, 303, 307, 308]) {
      it(`follows a ${status} redirect to any other origin without credentials, and takes its answer as it is`, async () => {
        await using target = await ResourceService.start((_, response) => response.writeHead(401).end('no token'));
        await using service = await ResourceService.start((_, response) => {
          response.writeHead(status, { location: `${target.origin}/signed?x=1` }).end();
        });
        const tokens = new NumberedTokens();
        const headers = { cookie: 'a=b', 'proxy-authorization': 'Basic x', 'x-token': 'old', 'x-own': 'yes' };
        const client = clientFor(tokens, service.origin, { present: presentTwice });
        expect(await client(service.origin, { headers })).toEqual({ status: 401, body: 'no token' });
        expect(target.received).toHaveLength(1);
        expect(target.received[0]).toMatchObject({ path: '/signed?x=1', headers: { 'x-own': 'yes' } });
        for (const gone of ['authorization', 'cookie', 'proxy-authorization', 'x-token']) {
          expect(target.received[0]?.headers).not.toHaveProperty(gone);
        }
        expect([tokens.accepted, tokens.rejected, tokens.asked]).toEqual([[], [], 1]);
      });
    }
  });

  describe('with odd addresses', () => {
    /** In two headers, because a client may drop `Authorization` by itself. */
    const present = (token: { value: string }, headers: Headers) => {
      headers.set('authorization', `Bearer ${token.value}`);
      headers.set('x-token', token.value);
    };

    for (const way of ['as the address of a call', 'as the target of a redirect'] as const) {
      it(`sends no token to servers that are not allowed: several hundred ${way}`, async () => {
        await using evil = await WatchedServer.start();
        const addresses: string[] = [];
        await using good = await WatchedServer.start((path) => {
          if (path.includes('again')) return 'next';
          const [, index] = /^\/from\/(\d+)$/.exec(path) ?? [];
          return index === undefined ? undefined : Buffer.from(addresses[Number(index)] ?? '').toString('latin1');
        });
        addresses.push(...oddAddresses({ good: good.host, evil: evil.host }));
        expect(addresses.length).toBeGreaterThan(400);
        const client = clientFor(new NumberedTokens(7_654_321), `http://${good.host}`, { present });
        const urls = way.includes('redirect') ? addresses.map((_, at) => `http://${good.host}/from/${at}`) : addresses;
        const reached = new Set<string>();
        for (const [at, url] of urls.entries()) {
          const before = good.received.length;
          await client(url, { signal: AbortSignal.timeout(10_000) }).catch(() => {});
          if (evil.received.splice(0).some((text) => text.includes('7654321'))) reached.add(addresses[at] ?? '');
          if (way.includes('redirect')) expect(good.received.length, url).toBeGreaterThan(before);
        }
        expect([...reached]).toEqual([]);
        // Some of them do lead to the server that may have the token.
        expect(good.received.filter((text) => /^x-token: t7654321/im.test(text)).length).toBeGreaterThan(100);
      });
    }
  });
}
