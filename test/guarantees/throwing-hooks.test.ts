/** Row B3, on the endpoint: a function of the user's throws at once, and nothing is left held. */

import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { TokenEndpointOptions } from '../../src/endpoint/options.ts';
import { TokenEndpoint } from '../../src/endpoint/token-endpoint.ts';
import { json, LoopbackService, token } from '../helpers/loopback-service.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';

let service: LoopbackService;
let clock: ManualClock;
let broken: boolean;

beforeEach(async () => {
  service = await LoopbackService.start();
  clock = new ManualClock();
  broken = true;
});

afterEach(() => service.close());

/** Throws for as long as the test says so. */
function throwing<A extends unknown[], R>(otherwise: (...given: A) => R): (...given: A) => R {
  return (...given) => {
    if (broken) throw new RangeError('boom');
    return otherwise(...given);
  };
}

describe('B3 a hook that throws', () => {
  it.each<[string, () => Partial<TokenEndpointOptions>]>([
    ['clientSecret', () => ({ clientSecret: throwing(() => 'secret') })],
    ['parseResponse', () => ({ parseResponse: throwing(() => ({ token: 't' })) })],
    ['classifyFailure', () => ({ classifyFailure: throwing(() => undefined) })],
    ['fetch', () => ({ fetch: throwing(fetch) })],
    ['clock.now', () => ({ clock: Object.assign(clock, { now: throwing(() => 0) }) })],
  ])('%s: the call rejects, nothing is leaked, and the next call works', async (name, make) => {
    const { signal } = new AbortController();
    const options = { baseUrl: service.url, clientId: 'id', clientSecret: 'secret', clock };
    const endpoint = new TokenEndpoint({ ...options, ...make() });
    for (let time = 0; time < 3; time++) {
      service.always(name === 'classifyFailure' ? json(500, {}) : token());
      await expect(endpoint.requestToken('key', { signal })).rejects.toThrow();
      expect(clock.pendingTimers).toBe(0);
      expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    }
    broken = false;
    service.always(token());
    expect(await endpoint.requestToken('key', { signal })).toHaveProperty('token');
    await endpoint.close();
    await settle();
    expect(clock.pendingTimers).toBe(0);
  });
});
