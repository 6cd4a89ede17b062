/** nock and MSW intercept token requests over every transport, and nothing reaches the service that they stand in for. */

import http from 'node:http';
import https from 'node:https';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { TokenEndpoint, type TokenEndpointOptions } from '../../src/index.ts';
import { LoopbackService } from '../helpers/loopback-service.ts';
import { errorOf } from '../helpers/registries.ts';
import { HAS_NEWEST, load, majorOf } from './libraries.ts';

const ANSWER = { access_token: 'mocked', expires_in: 3_600 };

interface Interceptor {
  /** Answers token requests to this address; without one, refuses all requests. */
  start(baseUrl?: string): void;
  stop(): void;
}

async function nock(): Promise<Interceptor> {
  const { default: nock } = await load('nock');
  nock.restore();
  return {
    start(baseUrl) {
      nock.activate();
      nock.disableNetConnect();
      if (baseUrl) nock(baseUrl).post('/auth/v1/token').reply(200, ANSWER);
    },
    stop() {
      nock.cleanAll();
      nock.enableNetConnect();
      nock.restore();
    },
  };
}

async function msw(): Promise<Interceptor> {
  const { http, HttpResponse } = await load('msw');
  const { setupServer } = await load('msw/node');
  const server = setupServer();
  return {
    start(baseUrl) {
      vi.spyOn(console, 'error').mockReturnValue();
      server.listen({ [majorOf('msw') > 2 ? 'onUnhandledFrame' : 'onUnhandledRequest']: 'error' });
      if (baseUrl) server.use(http.post(`${baseUrl}/auth/v1/token`, () => HttpResponse.json(ANSWER)));
    },
    stop() {
      server.resetHandlers();
      server.close();
    },
  };
}

const TRANSPORTS: [string, (Agent: typeof http.Agent) => Partial<TokenEndpointOptions>][] = [
  ['the default agent', () => ({})],
  ['an agent of one’s own', (Agent) => ({ agent: new Agent({ keepAlive: true }) })],
  ['fetch', () => ({ fetch: (...args) => fetch(...args) })],
];

it('the versions are those that are promised for this line of Node', () => {
  expect([majorOf('nock'), majorOf('msw')]).toEqual(HAS_NEWEST ? [15, 3] : [14, 2]);
});

describe.each([
  [`nock ${majorOf('nock')}`, await nock()],
  [`MSW ${majorOf('msw')}`, await msw()],
])('%s', (_name, interceptor) => {
  afterEach(() => interceptor.stop());

  describe.each(TRANSPORTS)('over %s', (_transport, optionsFor) => {
    it.each(['http', 'https'])('intercepts %s, and refuses what is not mocked', async (scheme) => {
      await using service = await LoopbackService.start({ tls: scheme === 'https' });
      const baseUrl = `${scheme}://localhost:${service.port}`;
      const options = optionsFor(scheme === 'https' ? https.Agent : http.Agent);
      const endpoint = new TokenEndpoint({ baseUrl, clientId: 'app', clientSecret: 'secret', ...options });
      interceptor.start(baseUrl);
      expect(await endpoint.requestToken('owner')).toMatchObject({ token: 'mocked' });
      interceptor.stop();
      interceptor.start();
      await errorOf(endpoint.requestToken('owner'));
      expect(service.connections).toBe(0);
    });
  });
});
