/** The option `fetch` takes the clients that people have instead of Node's own. */

import { beforeEach, describe, expect, it } from 'vitest';
import { TokenEndpoint, type TokenEndpointOptions } from '../../src/index.ts';
import { flood, head, json, LoopbackService, raw, silence, status, token } from '../helpers/loopback-service.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';
import { errorOf } from '../helpers/registries.ts';
import { load } from './libraries.ts';

const CLIENTS = ['node-fetch2', 'node-fetch', 'cross-fetch', 'make-fetch-happen'];

describe.each(CLIENTS)('%s', (name) => {
  let client: typeof fetch;

  beforeEach(async () => {
    client = (await load(name)).default;
  });

  const requestTo = (service: LoopbackService, options: Partial<TokenEndpointOptions> = {}) =>
    new TokenEndpoint({
      baseUrl: service.url,
      clientId: 'app',
      clientSecret: 'secret',
      fetch: client,
      ...options,
    }).requestToken('owner');

  it('brings tokens', async () => {
    await using service = await LoopbackService.start();
    expect(await requestTo(service)).toMatchObject({ token: 'token-1-of-owner', response: { expires_in: 3_600 } });
  });

  it('tells refusals apart', async () => {
    await using service = await LoopbackService.start();
    service.next(json(401, { error: 'invalid_client' }), status(429, '', { 'retry-after': '7' }));
    expect(await errorOf(requestTo(service))).toMatchObject({ code: 'client_refused', oauthError: 'invalid_client' });
    expect(await errorOf(requestTo(service))).toMatchObject({ code: 'rate_limited', retryAfterMs: 7_000 });
  });

  it('follows no redirect', async () => {
    await using service = await LoopbackService.start();
    service.next(status(307, 'gone', { location: '/elsewhere' }));
    expect(await errorOf(requestTo(service))).toMatchObject({ code: 'redirect_refused', status: 307 });
    expect(service.calls).toHaveLength(1);
  });

  it('has a body with a limit', async () => {
    await using service = await LoopbackService.start();
    service.next(
      flood(head(200, { 'transfer-encoding': 'chunked' }), Buffer.from(`4000\r\n${' '.repeat(16_384)}\r\n`)),
    );
    expect(await errorOf(requestTo(service))).toMatchObject({ code: 'invalid_response' });
    await service.calls[0]?.gone;
  });

  it.each([
    ['head', silence()],
    ['body', raw(head(200, { 'content-length': '60' }), '{')],
  ])('is ended by the deadline, with its connection, while it waits for the %s', async (_part, answer) => {
    await using service = await LoopbackService.start();
    service.next(answer).always(token());
    const clock = new ManualClock();
    const failed = errorOf(requestTo(service, { clock }));
    const { gone } = await service.arrived(1);
    await settle();
    clock.advance(10_000);
    expect(await failed).toMatchObject({ code: 'endpoint_unavailable', cause: { code: 'ETIMEDOUT' } });
    await gone;
  });
});
