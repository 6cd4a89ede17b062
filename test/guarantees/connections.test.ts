/** Answers that speak of the connection, over real sockets. */

import http from 'node:http';
import { ProxyAgent, fetch as undiciFetch } from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OwnerTokenRegistry, TokenEndpoint, type TokenEndpointOptions } from '../../src/index.ts';
import { ConnectProxy } from '../helpers/connect-proxy.ts';
import { type Answer, end, json, LoopbackService, status, thenEnd, token } from '../helpers/loopback-service.ts';
import { settle } from '../helpers/manual-clock.ts';
import { errorOf } from '../helpers/registries.ts';

let service: LoopbackService;
let endpoint: TokenEndpoint;

beforeEach(async () => {
  service = await LoopbackService.start();
  endpoint = endpointWith({});
});

afterEach(async () => {
  await endpoint.close();
  await service.close();
});

function endpointWith(options: Partial<TokenEndpointOptions>): TokenEndpoint {
  return new TokenEndpoint({ baseUrl: service.url, clientId: 'the-app', clientSecret: 'the-secret', ...options });
}

/** Answers so on a connection that has served before, and with a token on a new one. */
function onceUsed(answer: Answer): Answer {
  const used = new Set<number>();
  return (call) => {
    if (used.has(call.connection)) answer(call);
    else token()(call);
    used.add(call.connection);
  };
}

/** Opens this many connections that then wait for more. */
async function warm(count: number): Promise<void> {
  await Promise.all(Array.from({ length: count }, (_, at) => endpoint.requestToken(`warm-${at}`)));
  await settle();
}

const OVER: [string, Answer][] = [
  ['408', thenEnd(status(408, '', { connection: 'close' }))],
  ['408 with a page, kept open', status(408, '<html>Request Timeout')],
  ['421', thenEnd(status(421, '', { connection: 'close' }))],
  ['421 as JSON, kept open', json(421, { error: 'misdirected' })],
  ['nothing but its end', end()],
];

describe.each(OVER)('a used connection that answers %s', (_what, answer) => {
  it('fails no call', async () => {
    service.always(onceUsed(answer));
    await using registry = new OwnerTokenRegistry({ source: endpoint });
    for (let owner = 0; owner < 10; owner++) {
      await registry.getToken(`owner-${owner}`);
      await settle();
    }
    expect(registry.stats().failures).toBe(0);
  });

  it("fails no call with an agent of the user's either", async () => {
    const agent = new http.Agent({ keepAlive: true });
    endpoint = endpointWith({ agent });
    service.always(onceUsed(answer));
    for (let owner = 0; owner < 5; owner++) {
      expect(await endpoint.requestToken(`owner-${owner}`)).toHaveProperty('token');
      await settle();
    }
    agent.destroy();
  });
});

it.each([408, 421])('a %i on a new connection, or after the second try, is the failure of its owner', async (code) => {
  service.always(status(code));
  expect(await errorOf(endpoint.requestToken('key'))).toMatchObject({ code: 'endpoint_unavailable', status: code });
  expect(service.calls).toHaveLength(1);
  service.next(token()).always(status(code));
  await endpoint.close();
  await warm(1);
  expect(await errorOf(endpoint.requestToken('key'))).toMatchObject({ status: code });
  expect(service.calls).toHaveLength(4);
});

it.each([400, 404, 409, 429, 500, 503])('a %i over a used connection is sent once', async (code) => {
  await warm(1);
  service.always(status(code));
  await errorOf(endpoint.requestToken('key'));
  expect(service.calls).toHaveLength(2);
});

describe('a request for a new connection', () => {
  const fresh = (key: string) => endpoint.requestToken(key, { freshConnection: true });

  it('uses no idle one, and closes the older ones if it brings a token', async () => {
    await warm(3);
    const before = service.calls.map(({ gone }) => gone);
    await fresh('key');
    expect([service.connections, service.calls.at(-1)?.connection]).toEqual([4, 4]);
    await Promise.all(before);
    expect(service.openConnections).toBe(1);
    await endpoint.requestToken('next');
    expect(service.connections).toBe(4);
  });

  it.each([400, 401, 408, 429, 503])('that is answered by %i closes nothing', async (code) => {
    await warm(2);
    service.next(status(code));
    await errorOf(fresh('key'));
    await settle();
    expect([service.connections, service.openConnections]).toEqual([3, 3]);
    await endpoint.requestToken('next');
    expect(service.connections).toBe(3);
  });

  it('reaches the host to which the name resolves by now', async () => {
    await using moved = await LoopbackService.start();
    await warm(2);
    service.always(status(503));
    const failing = await errorOf(endpoint.requestToken('key'));
    expect(failing.status).toBe(503);
    // The name, and with it every new connection, leads elsewhere.
    const agent = new http.Agent({ keepAlive: true });
    const connect = agent.createConnection.bind(agent);
    endpoint = endpointWith({ agent });
    await errorOf(endpoint.requestToken('key'));
    agent.createConnection = (options) => connect({ ...options, port: moved.port });
    await errorOf(endpoint.requestToken('key'));
    expect(await fresh('key')).toMatchObject({ token: 'token-1-of-key' });
    agent.destroy();
  });

  it('through a fetch is an ordinary one', async () => {
    endpoint = endpointWith({ fetch });
    expect(await fresh('key')).toHaveProperty('token');
  });
});

describe('a proxy that answers 407', () => {
  it.each(['http', 'https'] as const)('is named, over undici’s ProxyAgent to an %s service', async (scheme) => {
    await using proxy = await ConnectProxy.start('http', 'user:password');
    const dispatcher = new ProxyAgent({ uri: proxy.url, proxyTunnel: true });
    const through = ((url: string, init: object) =>
      undiciFetch(url, { ...init, dispatcher })) as unknown as typeof fetch;
    endpoint = endpointWith({
      baseUrl: scheme === 'https' ? 'https://api.example.com' : service.url,
      fetch: through,
    });
    await using registry = new OwnerTokenRegistry({ source: endpoint });
    const expected = {
      status: 407,
      code: 'endpoint_unavailable',
      message: 'a proxy on the way to the token endpoint responded with 407: check its credentials',
    };
    expect(await errorOf(registry.getToken('key'))).toMatchObject(expected);
    const source = {
      requestToken: async () => ({ token: String((await through('https://api.example.com')).status) }),
    };
    await using own = new OwnerTokenRegistry({ source });
    expect(await errorOf(own.getToken('key'))).toMatchObject({
      status: 407,
      message: expect.stringMatching(/^a proxy on the way/),
    });
    await dispatcher.close();
  });
});
