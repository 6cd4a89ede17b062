/** Row K1, on the endpoint: what it holds, and when nothing of that keeps the process alive. */

import { afterEach, beforeEach, expect, it } from 'vitest';
import { TokenEndpoint } from '../../src/endpoint/token-endpoint.ts';
import { LoopbackService, silence, token } from '../helpers/loopback-service.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';

let service: LoopbackService;
let endpoint: TokenEndpoint;
let clock: ManualClock;

beforeEach(async () => {
  service = await LoopbackService.start();
  clock = new ManualClock();
  endpoint = new TokenEndpoint({ baseUrl: service.url, clientId: 'id', clientSecret: 'secret', clock });
});

afterEach(async () => {
  await endpoint.close();
  await service.close();
});

/**
 * The connections and timers that keep the process alive now, without the service's own. The endpoint's timers are those
 * of the manual clock: the test runner has timers too, which come and go.
 */
async function keepingAlive(): Promise<string[]> {
  await settle();
  for (const { socket } of service.calls) socket.unref();
  const resources = process.getActiveResourcesInfo().filter((name) => name !== 'Timeout');
  return [...resources, ...Array.from({ length: clock.pendingTimers }, () => 'Timeout')].sort();
}

it('K1 the process is kept alive by a request in flight, and not by what is left of it', async () => {
  const before = await keepingAlive();
  service.next(silence());
  const pending = endpoint.requestToken('key');
  const call = await service.arrived(1);
  const during = await keepingAlive();
  expect(during.length - before.length).toBe(2);
  call.answer(token());
  await pending;
  expect(await keepingAlive()).toEqual(before);
  expect(service.openConnections).toBe(1);
});

it('K1 the process is not kept alive by a request that failed or was given up', async () => {
  const before = await keepingAlive();
  const controller = new AbortController();
  service.always(silence());
  const pending = endpoint.requestToken('key', { signal: controller.signal });
  const call = await service.arrived(1);
  controller.abort();
  await expect(pending).rejects.toMatchObject({ code: 'closed' });
  await call.gone;
  expect(await keepingAlive()).toEqual(before);
});

it('K1 close() leaves no idle connection, may be called twice and at any time, and the endpoint works on', async () => {
  await endpoint.close();
  service.next(silence(), silence(), silence());
  const calls = ['a', 'b', 'c'].map((key) => endpoint.requestToken(key));
  await service.arrived(3);
  await endpoint.close();
  for (const call of service.calls) call.answer(token());
  await Promise.all(calls);
  await settle();
  expect(service.openConnections).toBe(3);
  await Promise.all([endpoint.close(), endpoint.close()]);
  await Promise.all(service.calls.map((call) => call.gone));
  expect(await endpoint.requestToken('again')).toMatchObject({ token: 'token-4-of-again' });
});
