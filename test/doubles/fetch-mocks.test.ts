/** Doubles of `fetch` do not intercept `node:http`: the request reaches the service, unless the option `fetch` calls the global one. */

import { getGlobalDispatcher, MockAgent, setGlobalDispatcher } from 'undici';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { TokenEndpoint, type TokenEndpointOptions } from '../../src/index.ts';
import { LoopbackService } from '../helpers/loopback-service.ts';
import { HAS_NEWEST, load } from './libraries.ts';

const ANSWER = { access_token: 'mocked', expires_in: 3_600 };

const dispatcher = getGlobalDispatcher();
let service: LoopbackService;

beforeEach(async () => {
  service = await LoopbackService.start();
});

afterEach(async () => {
  vi.unstubAllGlobals();
  setGlobalDispatcher(dispatcher);
  await service.close();
});

const requestToken = (options: Partial<TokenEndpointOptions> = {}) =>
  new TokenEndpoint({ baseUrl: service.url, clientId: 'app', clientSecret: 'secret', ...options }).requestToken(
    'owner',
  );

/** Mocks the global `fetch` in ways that are usual. */
const MOCKS: [string, () => unknown][] = [
  ['vi.stubGlobal with a Response', () => vi.stubGlobal('fetch', async () => Response.json(ANSWER))],
  [
    'vi.fn with ok, status and json()',
    () => vi.stubGlobal('fetch', vi.fn().mockResolvedValue({ ok: true, status: 200, json: async () => ANSWER })),
  ],
  [
    'vi.spyOn with status and text()',
    () =>
      vi
        .spyOn(globalThis, 'fetch')
        .mockResolvedValue({ status: 200, text: async () => JSON.stringify(ANSWER) } as Response),
  ],
  ['MockAgent as global dispatcher', setMockAgent],
];

function setMockAgent() {
  const agent = new MockAgent();
  agent.disableNetConnect();
  agent.get(service.url).intercept({ method: 'POST', path: '/auth/v1/token' }).reply(200, ANSWER);
  setGlobalDispatcher(agent);
}

/** It expects the globals of Jest, and replaces the global `fetch` itself. */
async function jestFetchMock() {
  vi.stubGlobal('jest', vi);
  const { default: fetchMock } = await load('jest-fetch-mock');
  vi.stubGlobal('fetch', fetchMock);
  fetchMock.mockResponse(JSON.stringify(ANSWER));
}

describe.each([...MOCKS, ...(HAS_NEWEST ? [['jest-fetch-mock', jestFetchMock] as const] : [])])('%s', (_name, mock) => {
  it('alone does not intercept a token request', async () => {
    await mock();
    expect((await requestToken()).token).not.toBe('mocked');
    expect(service.calls).toHaveLength(1);
  });

  it('intercepts it with the option fetch', async () => {
    await mock();
    expect((await requestToken({ fetch: (...args) => fetch(...args) })).token).toBe('mocked');
    expect(service.connections).toBe(0);
  });
});
