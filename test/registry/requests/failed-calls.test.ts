/** `stats().failedCalls` and `stats().abandonedCalls`: each call that fails counts once, where it failed. */

import { expect, it } from 'vitest';
import { OwnerTokenError, type OwnerTokenRegistry } from '../../../src/index.ts';
import { settle } from '../../helpers/manual-clock.ts';
import { answering, callAtOnce, errorOf, keys, scripted, tally } from '../../helpers/registries.ts';

const NONE = { request: 0, refused: 0, queue: 0 };
const REVOKED = new OwnerTokenError('owner_refused', 'no', { oauthError: 'invalid_grant' });
const DOWN = new OwnerTokenError('endpoint_unavailable', 'down', { failureScope: 'endpoint', retryAfterMs: 5_000 });

const failed = (registry: OwnerTokenRegistry) => registry.stats().failedCalls;

it('a failed request counts once for each call that shared it, and a call refused by the pause after it as refused', async () => {
  const { registry, source } = scripted();
  source.script((call) => call.fail(REVOKED));
  await callAtOnce(3, registry, 'a');
  expect(failed(registry)).toEqual({ ...NONE, request: 3 });
  await errorOf(registry.getToken('a'));
  expect(registry.stats()).toMatchObject({
    failedCalls: { ...NONE, request: 3, refused: 1 },
    joined: 2,
    refused: { owner: 1, client: 0, endpoint: 0 },
  });
});

it('calls that a pause refuses while they are queued have failed as refused, but were not refused at once', async () => {
  const { registry, source } = scripted({ concurrency: 1 });
  const first = registry.getToken('first').catch(() => {});
  const queued = callAtOnce(2, registry, 'queued');
  await settle();
  source.call(0).fail(DOWN);
  await first;
  expect(tally((await queued) as never).codes).toEqual({ endpoint_unavailable: 2 });
  expect(registry.stats()).toMatchObject({
    failedCalls: { request: 1, refused: 2, queue: 0 },
    joined: 1,
    refused: { owner: 0, client: 0, endpoint: 0 },
  });
});

it('calls that find the queue full, or wait too long in it, have failed in the queue', async () => {
  const { registry, clock } = scripted({ concurrency: 1, maxQueued: 1, maxQueueMs: 5_000 });
  const sent = registry.getToken('sent').catch(() => {});
  const overdue = callAtOnce(2, registry, 'overdue');
  expect((await errorOf(registry.getToken('full'))).code).toBe('queue_full');
  clock.advance(5_000);
  expect(tally((await overdue) as never).codes).toEqual({ queue_timeout: 2 });
  expect(failed(registry)).toEqual({ ...NONE, queue: 3 });
  await registry.close({ timeoutMs: 0 });
  await sent;
  expect(failed(registry)).toEqual({ ...NONE, queue: 3 });
});

it('a call that gets the rejected token has not failed, one that needs a newer one has', async () => {
  const { registry, clock, source } = answering();
  const held = await registry.getToken('a');
  clock.advance(75_000);
  registry.reject('a', held);
  source.script(undefined);
  const served = registry.getToken('a');
  const demanding = registry.getToken('a', { minValidityMs: 50_000 });
  await settle();
  source.call(1).fail(REVOKED);
  expect(await served).toBe(held);
  await errorOf(demanding);
  expect(failed(registry)).toEqual({ ...NONE, request: 1 });
});

it('a call whose new token does not live long enough has failed, and so has the next one, which makes no request', async () => {
  const { registry } = answering();
  for (let calls = 1; calls <= 2; calls++) {
    expect((await errorOf(registry.getToken('a', { minValidityMs: 200_000 }))).code).toBe('invalid_response');
    expect(failed(registry)).toEqual({ ...NONE, request: calls });
  }
  expect(registry.stats().requests).toBe(1);
});

it('the calls of a warm-up count', async () => {
  const { registry, source } = scripted();
  source.script((call) => call.fail(REVOKED));
  expect(await registry.warmUp(keys(2))).toMatchObject({ failedCount: 2 });
  expect(failed(registry)).toEqual({ ...NONE, request: 2 });
});

it('calls with invalid arguments, and those of a closed registry, do not count', async () => {
  const { registry } = answering();
  await errorOf(registry.getToken(''));
  await errorOf(registry.getToken('a', { signal: {} as AbortSignal }));
  await errorOf(registry.getToken('a', { minValidityMs: -1 }));
  await registry.close();
  expect((await errorOf(registry.getToken('a'))).code).toBe('closed');
  expect(failed(registry)).toEqual(NONE);
});

it('a call is abandoned if its signal ends it after more than a second', async () => {
  const { registry, clock } = scripted();
  const leave = [new AbortController(), new AbortController()];
  const calls = leave.map(({ signal }) => registry.getToken('a', { signal }).catch(() => 'gone'));
  const staying = registry.getToken('a').catch(() => {});
  clock.advance(1_000);
  leave[0]?.abort();
  expect(registry.stats().abandonedCalls).toBe(0);
  clock.advance(1);
  leave[1]?.abort();
  expect(await Promise.all(calls)).toEqual(['gone', 'gone']);
  expect(registry.stats()).toMatchObject({ abandonedCalls: 1, failedCalls: NONE, waiting: 1 });
  await errorOf(registry.getToken('a', { signal: AbortSignal.abort(new OwnerTokenError('closed', 'over')) }));
  expect(registry.stats().abandonedCalls).toBe(1);
  await registry.close({ timeoutMs: 0 });
  await staying;
});

it('the calls of a warm-up that is ended are not abandoned', async () => {
  const { registry, clock } = scripted();
  const ending = new AbortController();
  const warmUp = registry.warmUp(keys(2), { signal: ending.signal }).catch(() => 'ended');
  await settle();
  clock.advance(5_000);
  ending.abort();
  expect(await warmUp).toBe('ended');
  expect(registry.stats()).toMatchObject({ abandonedCalls: 0, failedCalls: NONE, waiting: 0 });
});
