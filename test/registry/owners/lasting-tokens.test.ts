/** `getToken(key, { minValidityMs })`. A token of 3,600 s is usable for 3,590 s, and is due for a refresh after 2,520 s. */

import { expect, it } from 'vitest';
import { OwnerTokenError as Failure, type OwnerTokenError } from '../../../src/index.ts';
import { settle } from '../../helpers/manual-clock.ts';
import { errorOf, isSettled, scripted } from '../../helpers/registries.ts';
import { ScriptedSource } from '../../helpers/scripted-source.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const HOURLY = { response: { expires_in: 3600 } };

/** A registry that holds a token of an hour, and its source without a script. */
async function holding(ageMs = 0) {
  const scene = scripted({}, ScriptedSource.answering());
  const held = await scene.registry.getToken('a');
  scene.source.script(undefined);
  scene.clock.advance(ageMs);
  const lasting = (minValidityMs: number, signal?: AbortSignal) =>
    scene.registry.getToken('a', { minValidityMs, signal });
  return { ...scene, held, lasting };
}

it('a token with enough life left is served without a request, to the millisecond', async () => {
  const { lasting, held, source } = await holding(590_000);
  expect(await lasting(3_000_000)).toBe(held);
  expect(source.calls).toHaveLength(1);
  void lasting(3_000_001).catch(() => {});
  await settle();
  expect(source.calls).toHaveLength(2);
});

it('a token with less life left is replaced early for that call, while other calls get the held one', async () => {
  const { registry, lasting, held, source } = await holding(40 * MINUTE_MS);
  const waiting = [lasting(30 * MINUTE_MS), lasting(30 * MINUTE_MS)];
  expect(await registry.getToken('a')).toBe(held);
  expect(source.call(1).request).toMatchObject({ reason: 'refresh', held });
  source.call(1).succeed(HOURLY);
  const [first, second] = await Promise.all(waiting);
  expect(first).toBe(second);
  expect(first?.value).toBe('token-2-of-a');
  expect(await lasting(59 * MINUTE_MS)).toBe(first);
  expect(source.calls).toHaveLength(2);
});

it('a call with a minimum joins a refresh in flight', async () => {
  const { registry, lasting, source } = await holding(50 * MINUTE_MS);
  await registry.getToken('a');
  const waiting = lasting(30 * MINUTE_MS);
  source.call(1).succeed(HOURLY);
  expect((await waiting).value).toBe('token-2-of-a');
  expect(source.calls).toHaveLength(2);
});

it('a failed replacement fails that call; the others get the held token, with no request until the pause ends', async () => {
  const { registry, lasting, held, source, clock } = await holding(40 * MINUTE_MS);
  const waiting = lasting(30 * MINUTE_MS);
  await settle();
  source.call(1).fail(new Failure('rate_limited', 'slow down'));
  expect(await errorOf(waiting)).toMatchObject({ code: 'rate_limited', retryAtMs: expect.any(Number) });
  expect(await registry.getToken('a')).toBe(held);
  const refused = await errorOf(lasting(30 * MINUTE_MS));
  expect(refused).toMatchObject({ code: 'rate_limited', message: expect.stringContaining('paused') });
  expect(source.calls).toHaveLength(2);
  clock.advance((refused.retryAtMs ?? 0) - clock.now());
  void lasting(30 * MINUTE_MS).catch(() => {});
  await settle();
  expect(source.calls).toHaveLength(3);
});

it('a minimum longer than tokens live costs no request until the held token is due for a refresh, then one', async () => {
  const { registry, lasting, held, source, clock } = await holding(MINUTE_MS);
  clock.jumpWall(-HOUR_MS);
  source.script((call) => call.succeed(HOURLY));
  for (const error of await Promise.all(Array.from({ length: 100 }, () => errorOf(lasting(HOUR_MS))))) {
    expect(error).toMatchObject({ code: 'invalid_response', failureScope: 'owner', owner: registry.fingerprint('a') });
    expect(error.message).toBe('a new token is valid for 3530 s, less than minValidityMs (3600 s)');
    expect(error.retryAtMs).toBe(clock.now() + 2_460_000);
  }
  expect(registry.stats().failedCalls.request).toBe(100);
  expect(await registry.getToken('a')).toBe(held);
  clock.advance(2_459_999);
  expect((await errorOf(lasting(2 * HOUR_MS))).retryAtMs).toBe(clock.now() + 100);
  expect(source.calls).toHaveLength(1);
  clock.advance(1);
  for (let n = 0; n < 2; n++) await errorOf(lasting(HOUR_MS));
  expect(source.calls).toHaveLength(2);
});

it('a first token that is too short is kept for calls that it suits', async () => {
  const { registry, source } = scripted({}, ScriptedSource.answering(600));
  expect(await errorOf(registry.getToken('a', { minValidityMs: HOUR_MS }))).toMatchObject({ code: 'invalid_response' });
  expect((await registry.getToken('a', { minValidityMs: 500_000 })).value).toBe('token-1-of-a');
  expect(source.calls).toHaveLength(1);
});

it('a lower minimum that the held token no longer reaches still brings a new one', async () => {
  const { registry, source, clock } = scripted({}, ScriptedSource.answering());
  await errorOf(registry.getToken('a', { minValidityMs: HOUR_MS }));
  clock.advance(30 * MINUTE_MS);
  expect((await registry.getToken('a', { minValidityMs: 3_590_000 })).value).toBe('token-2-of-a');
  expect(source.calls).toHaveLength(2);
});

it('a token that was requested long ago, by another replica, is replaced within the call; a second one is not', async () => {
  const { lasting, source, clock } = await holding(40 * MINUTE_MS);
  const old = () => ({ ...HOURLY, requestedAtMs: clock.now() - 30 * MINUTE_MS });
  source.script((call, index) => call.succeed(index === 1 ? old() : HOURLY));
  expect((await lasting(3_590_000)).value).toBe('token-3-of-a');
  clock.advance(20 * MINUTE_MS);
  source.script((call) => call.succeed(old()));
  expect(await errorOf(lasting(50 * MINUTE_MS))).toMatchObject({ code: 'invalid_response' });
  expect(source.calls).toHaveLength(5);
});

it('a service that repeats its token to the end gets one request, then none until the token is due', async () => {
  const { registry, clock, source } = scripted({}, new ScriptedSource());
  source.script((call, index) => call.succeed({ token: 'same', response: { expires_in: 3600 - index * 2400 } }));
  await registry.getToken('a');
  clock.advance(40 * MINUTE_MS);
  const error = await errorOf(registry.getToken('a', { minValidityMs: 30 * MINUTE_MS }));
  expect(error.message).toContain('a new token is valid for 1190 s');
  await errorOf(registry.getToken('a', { minValidityMs: 30 * MINUTE_MS }));
  expect(source.calls).toHaveLength(2);
});

it('a rejected token is served when the API is in doubt, but not with less life than asked for', async () => {
  const { registry, lasting, held, source } = await holding(40 * MINUTE_MS);
  registry.reject('a', held);
  const enough = lasting(1_190_000);
  const tooShort = lasting(30 * MINUTE_MS);
  await settle();
  expect(source.calls).toHaveLength(2);
  source.call(1).fail(new Failure('endpoint_unavailable', 'gone', { failureScope: 'owner' }));
  expect(await enough).toBe(held);
  expect(await errorOf(tooShort)).toMatchObject({ code: 'endpoint_unavailable' });
});

it('a demanding call stays queued, while others get the rejected token after a second', async () => {
  const { registry, source, clock } = scripted({ requestsPerSecond: 0.1 }, ScriptedSource.answering());
  const held = await registry.getToken('a');
  clock.advance(40 * MINUTE_MS);
  await registry.getToken('b');
  registry.reject('a', held);
  const demanding = registry.getToken('a', { minValidityMs: 30 * MINUTE_MS });
  const other = registry.getToken('a');
  await settle();
  clock.advance(1_000);
  expect(await other).toBe(held);
  expect(await isSettled(demanding)).toBe(false);
  clock.advance(9_000);
  expect((await demanding).value).toBe('token-3-of-a');
  expect(source.countFor('a')).toBe(2);
});

it('a first failure that may be transient is retried for a demanding call, as for one without a token', async () => {
  const { registry, source, clock } = scripted({}, ScriptedSource.answering());
  for (let n = 0; n < 10; n++) await registry.getToken(`other-${n}`);
  await registry.getToken('a');
  clock.advance(40 * MINUTE_MS);
  const before = source.calls.length;
  source.script((call, index) =>
    index === before ? call.fail(new Failure('endpoint_unavailable', '503')) : call.succeed(HOURLY),
  );
  const waiting = registry.getToken('a', { minValidityMs: 30 * MINUTE_MS });
  await settle();
  clock.advance(150);
  expect((await waiting).value).toMatch(/-of-a$/);
  expect(source.calls).toHaveLength(before + 2);
});

it('a signal ends the wait of its own call', async () => {
  const { lasting, held, registry, source } = await holding(40 * MINUTE_MS);
  const leaving = new AbortController();
  const left = lasting(30 * MINUTE_MS, leaving.signal);
  const stays = lasting(30 * MINUTE_MS, new AbortController().signal);
  await settle();
  leaving.abort(new Error('enough'));
  await expect(left).rejects.toThrow('enough');
  source.call(1).succeed(HOURLY);
  expect((await stays).value).toBe('token-2-of-a');
  expect(held.value).toBe('token-1-of-a');
  await expect(registry.getToken('a', { minValidityMs: 1, signal: leaving.signal })).rejects.toThrow('enough');
});

it('a token that never expires lasts for any minimum', async () => {
  const source = ScriptedSource.answering();
  const expiry = { lifetimeMs: () => Number.POSITIVE_INFINITY };
  const { registry } = scripted({ expiry }, source);
  for (let n = 0; n < 2; n++) await registry.getToken('a', { minValidityMs: 315_360_000_000 });
  expect(source.calls).toHaveLength(1);
});

it.each([-1, Number.NaN, Number.POSITIVE_INFINITY, '600', null, 315_360_000_001])(
  'a minimum of %j is refused before any request',
  async (minValidityMs) => {
    const { registry, source } = scripted({}, ScriptedSource.answering());
    const error: OwnerTokenError = await errorOf(registry.getToken('a', { minValidityMs: minValidityMs as number }));
    expect(error).toMatchObject({ code: 'invalid_options', message: expect.stringContaining('minValidityMs') });
    expect(source.calls).toHaveLength(0);
  },
);

it('a minimum of 0 or undefined demands nothing', async () => {
  const { registry, source } = scripted({}, ScriptedSource.answering());
  for (const minValidityMs of [0, undefined]) await registry.getToken('a', { minValidityMs });
  expect(source.calls).toHaveLength(1);
});

it('an owner that is forgotten meanwhile still gives its caller the token that lasts', async () => {
  const { registry, lasting, source } = await holding(50 * MINUTE_MS);
  const waiting = lasting(30 * MINUTE_MS);
  await settle();
  registry.forget('a');
  source.call(1).succeed(HOURLY);
  expect((await waiting).value).toBe('token-2-of-a');
});
