/** B. Sharing. */

import diagnostics from 'node:diagnostics_channel';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type ExpiryPolicy,
  expiresIn,
  fixedLifetime,
  type OwnerTokenRegistry,
  type OwnerTokenRegistryOptions,
} from '../../src/index.ts';
import { CHANNELS } from '../helpers/canaries.ts';
import { LoopbackService, status } from '../helpers/loopback-service.ts';
import { settle } from '../helpers/manual-clock.ts';
import { callAtOnce, errorOf, isSettled, overHttp, scripted, tally, until } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';

describe('B1', () => {
  it.each<[string, (at: ReturnType<typeof overHttp> & { service: LoopbackService }) => Promise<void> | void]>([
    ['a cold owner', () => {}],
    [
      'an expired owner',
      async ({ registry, clock }) => {
        await registry.getToken('key-1');
        clock.advance(3_600_000);
      },
    ],
    [
      'an owner after a failure',
      async ({ registry, clock, service }) => {
        service.next(status(500));
        await errorOf(registry.getToken('key-1'));
        clock.advance(1_000);
      },
    ],
    [
      'an owner after a reject',
      async ({ registry }) => void registry.reject('key-1', await registry.getToken('key-1')),
    ],
    [
      'an owner that was forgotten',
      async ({ registry }) => {
        await registry.getToken('key-1');
        registry.forget('key-1');
      },
    ],
    [
      'an evicted owner',
      async ({ registry }) => {
        for (const key of ['key-1', 'key-2', 'key-3']) await registry.getToken(key);
      },
    ],
  ])('1,000 concurrent calls for %s: one POST', async (_, prepare) => {
    await using service = await LoopbackService.start();
    const at = overHttp(service, { maxOwners: 2 });
    await prepare({ ...at, service });
    const before = service.countFor('key-1');
    const { tokens, codes } = tally(await callAtOnce(1_000, at.registry, 'key-1'));
    expect(codes).toEqual({});
    expect(tokens).toHaveLength(1);
    expect(service.countFor('key-1')).toBe(before + 1);
    await at.registry.close();
  });
});

it('B2 1,000 callers join a failing request: all reject from that one failure, and it is one POST', async () => {
  await using service = await LoopbackService.start();
  service.always(status(503));
  const { registry, clock } = overHttp(service);
  const outcomes = await callAtOnce(1_000, registry, 'key-1');
  expect(tally(outcomes).codes).toEqual({ endpoint_unavailable: 1_000 });
  const failures = outcomes.map((outcome) => outcome.status === 'rejected' && outcome.reason);
  expect(new Set(failures.map(({ failedAtMs, retryAtMs }) => `${failedAtMs} ${retryAtMs}`)).size).toBe(1);
  expect(service.calls).toHaveLength(1);
  // Those who come after are told of the same failure, and cost nothing either.
  const refused = await callAtOnce(1_000, registry, 'key-1');
  expect(tally(refused).codes).toEqual({ endpoint_unavailable: 1_000 });
  expect(service.calls).toHaveLength(1);
  // Not one by one: when the pause is over there is one more attempt for all, not a queue of a thousand.
  clock.advance(1_000);
  await callAtOnce(1_000, registry, 'key-1');
  expect(service.calls).toHaveLength(2);
  await registry.close();
});

describe('B3', () => {
  const boom = () => {
    throw new Error('a hook of the user threw');
  };
  const badPolicy: ExpiryPolicy = { lifetimeMs: boom };
  const throwingLater = async () => boom();

  function expectNothingHeld(registry: OwnerTokenRegistry) {
    expect(registry.stats()).toMatchObject({ inFlight: 0, queued: 0, waiting: 0 });
  }

  it.each<[string, () => unknown, ExpiryPolicy?]>([
    ['throws at once', () => boom()],
    ['rejects', throwingLater],
    ['throws nothing at all', () => Promise.reject(undefined)],
    ['gives nothing', async () => undefined],
    ['gives a promise of nonsense', async () => ({ token: 7 })],
    ['gives a token at which the policy throws', async () => ({ token: 'a-token' }), badPolicy],
  ])('a source that %s fails its calls alone', async (_, requestToken, policy = fixedLifetime(60_000)) => {
    let good = false;
    const source = {
      requestToken: () => (good ? Promise.resolve({ token: 'a-token' }) : (requestToken() as Promise<never>)),
    };
    const expiry: ExpiryPolicy = { lifetimeMs: (grant) => (good ? 60_000 : policy.lifetimeMs(grant)) };
    const { registry, clock } = scripted({ concurrency: 1, source, expiry });
    const { codes } = tally(await callAtOnce(10, registry, 'key-1'));
    expect(Object.entries(codes)).toEqual([[expect.stringMatching(/^(source_failed|invalid_response)$/), 10]]);
    expectNothingHeld(registry);
    good = true;
    expect((await registry.getToken('key-2')).value).toBe('a-token');
    clock.advance(1_000);
    expect((await registry.getToken('key-1')).value).toBe('a-token');
  });

  it('a refresh whose policy throws leaves the token as it is', async () => {
    let expiry: ExpiryPolicy = expiresIn();
    const policy: ExpiryPolicy = { lifetimeMs: (grant) => expiry.lifetimeMs(grant) };
    const { registry, clock } = scripted({ expiry: policy }, ScriptedSource.answering(100));
    const held = await registry.getToken('key-1');
    expiry = badPolicy;
    clock.advance(80_000);
    expect(await registry.getToken('key-1')).toBe(held);
    await settle();
    expect(await registry.getToken('key-1')).toBe(held);
    expectNothingHeld(registry);
  });

  it.each<[string, Partial<OwnerTokenRegistryOptions>]>([
    ['a logger', { logger: { debug: boom, info: boom, warn: boom } }],
    ['ownerLabel', { ownerLabel: boom }],
    ['random', { random: boom }],
    ['a policy with evidence hooks', { expiry: { lifetimeMs: () => 60_000, accepted: boom, rejected: boom } }],
  ])('%s that throws fails no call and leaks nothing', async (_, options) => {
    const source = ScriptedSource.answering(100);
    const { registry, clock } = scripted({ concurrency: 1, maxOwners: 2, ...options }, source);
    for (const key of ['key-1', 'key-2', 'key-3']) await registry.getToken(key);
    const held = await registry.getToken('key-3');
    registry.accept('key-3', held);
    expect(registry.reject('key-3', held)).toBe(true);
    registry.forget('key-3');
    source.script((call) => call.fail(new Error('no')));
    expect(await errorOf(registry.getToken('key-3'))).toMatchObject({ code: 'source_failed' });
    expect((await errorOf(registry.getToken('key-3'))).retryAtMs).toBeGreaterThan(clock.now());
    source.script((call) => call.succeed({ response: { expires_in: 100 } }));
    clock.advance(1_000);
    await registry.getToken('key-3');
    clock.advance(80_000);
    await registry.getToken('key-3');
    await settle();
    expectNothingHeld(registry);
    for (let rejection = 0; rejection < 4; rejection++) {
      const next = await registry.getToken('key-3').catch(() => undefined);
      if (next) registry.reject('key-3', next);
    }
    registry.resume();
    registry.forgetAll();
    await registry.close();
  });

  describe('a diagnostics listener', () => {
    const raised: unknown[] = [];
    let others: NodeJS.UncaughtExceptionListener[];
    const collect = (error: unknown) => raised.push(error);
    beforeEach(() => {
      raised.length = 0;
      others = process.listeners('uncaughtException');
      process.removeAllListeners('uncaughtException');
      process.on('uncaughtException', collect);
      for (const name of CHANNELS) diagnostics.subscribe(name, boom);
    });
    afterEach(async () => {
      for (const name of CHANNELS) diagnostics.unsubscribe(name, boom);
      await settle();
      process.off('uncaughtException', collect);
      for (const listener of others) process.on('uncaughtException', listener);
    });

    it('that throws fails no call: Node reports it to the process', async () => {
      const source = ScriptedSource.answering(100);
      const { registry, clock } = scripted({ concurrency: 1 }, source);
      const held = await registry.getToken('key-1');
      expect(await registry.getToken('key-1')).toBe(held);
      expect(registry.reject('key-1', held)).toBe(true);
      registry.forget('key-1');
      source.script((call) => call.fail(new Error('no')));
      expect((await errorOf(registry.getToken('key-1'))).code).toBe('source_failed');
      expect((await errorOf(registry.getToken('key-1'))).code).toBe('source_failed');
      source.script((call) => call.succeed());
      clock.advance(1_000);
      await registry.getToken('key-1');
      expectNothingHeld(registry);
      await settle();
      expect(raised.length).toBeGreaterThan(5);
      await registry.close();
    });
  });
});

describe('B4', () => {
  it('after a forget, callers join the newer request, whatever the old one answers late', async () => {
    const { registry, source, clock } = scripted({}, new ScriptedSource());
    const first = registry.getToken('key-1');
    await settle();
    source.call(0).succeed({ response: { expires_in: 100 } });
    await first;
    clock.advance(80_000);
    await registry.getToken('key-1'); // Starts a refresh: the old request.
    await settle();
    registry.forget('key-1');
    const waiter = new AbortController();
    const second = registry.getToken('key-1', { signal: waiter.signal });
    await settle();
    expect(source.calls).toHaveLength(3);
    source.call(1).succeed();
    await settle();
    expect(await isSettled(second)).toBe(false);
    const third = registry.getToken('key-1');
    await settle();
    expect(source.calls).toHaveLength(3);
    source.call(2).succeed();
    expect((await third).value).toBe('token-3-of-key-1');
    expect(await second).toBe(await third);
    expect(registry.peek('key-1')).toBe(await third);
  });

  it('the last waiter of an old request leaves: the newer one, queued, stays', async () => {
    const { registry, source } = scripted({ concurrency: 1 }, new ScriptedSource());
    const caller = new AbortController();
    const old = registry.getToken('key-1', { signal: caller.signal });
    await settle();
    registry.forget('key-1');
    const newer = registry.getToken('key-1');
    await settle();
    expect(source.calls).toHaveLength(1);
    caller.abort(new Error('left'));
    await expect(old).rejects.toThrow('left');
    source.call(0).succeed();
    await until(() => source.calls.length === 2);
    source.call(1).succeed();
    expect((await newer).value).toBe('token-2-of-key-1');
    expect(registry.peek('key-1')).toBe(await newer);
  });
});
