/** C. Refreshing ahead. */

import { describe, expect, it } from 'vitest';
import { expiresIn, firstKnown, untilRejected } from '../../src/index.ts';
import { jwt } from '../helpers/jwt.ts';
import { json, LoopbackService, reset, silence, status, token } from '../helpers/loopback-service.ts';
import { settle } from '../helpers/manual-clock.ts';
import { errorOf, keys, overHttp, scripted, until } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';
import { seeded } from '../helpers/seeded.mjs';

describe('C1', () => {
  const html = status(200, '<html>the portal</html>', { 'content-type': 'text/html' });
  it.each([
    ['hung', (service: LoopbackService) => service.always(silence())],
    ['refused', (service: LoopbackService) => service.close()],
    ['reset', (service: LoopbackService) => service.always(reset())],
    ['429', (service: LoopbackService) => service.always(json(429, {}, { 'retry-after': '30' }))],
    ['500', (service: LoopbackService) => service.always(status(500))],
    ['401', (service: LoopbackService) => service.always(json(401, { error: 'invalid_client' }))],
    ['HTML', (service: LoopbackService) => service.always(html)],
  ])('in the refresh window with the service %s: every call is served, until the very end', async (_, breakDown) => {
    await using service = await LoopbackService.start();
    service.always(token({ expires_in: 100 }));
    const { registry, clock } = overHttp(service);
    const owners = keys(5);
    const held = await Promise.all(owners.map((key) => registry.getToken(key)));
    clock.advance(70_000);
    await breakDown(service);
    // 70 s to 94.999 s, with everything that fails in between.
    for (let step = 0; step < 50; step++) {
      expect(await Promise.all(owners.map((key) => registry.getToken(key)))).toEqual(held);
      for (let turn = 0; turn < 5; turn++) await settle();
      clock.advance(step < 49 ? 500 : 499);
    }
    expect(await Promise.all(owners.map((key) => registry.getToken(key)))).toEqual(held);
    expect(registry.peek('key-1')).toBe(held[0]);
    clock.advance(1);
    expect(registry.peek('key-1')).toBeUndefined();
    // The attempts were spaced: five owners, 25 s.
    expect(service.calls.length - 5).toBeLessThan(40);
    await registry.close();
  });
});

describe('C2', () => {
  it('a background refresh fails until expiry with nobody waiting: later tries are spaced', async () => {
    const source = ScriptedSource.answering(3_600);
    const { registry, clock } = scripted({ random: seeded(7) }, source);
    const held = await registry.getToken('key-1');
    const endMs = held.expiresAtMs;
    const triedAtMs: number[] = [];
    source.script((call) => {
      triedAtMs.push(clock.now());
      call.fail(new Error('no'));
    });
    clock.advance(held.refreshAtMs - clock.now());
    while (clock.now() < endMs) {
      expect(await registry.getToken('key-1')).toBe(held);
      await settle();
      clock.advance(250);
    }
    const gapsMs = triedAtMs.slice(1).map((at, index) => at - (triedAtMs[index] ?? 0));
    expect(triedAtMs.length).toBeGreaterThan(8);
    // Pauses of 1, 2, 4 … 300 s of which jitter takes up to half, but ten seconds at least, or a third of what is left of
    // the token; and at most a call's distance more.
    for (const [index, gapMs] of gapsMs.entries()) {
      const pauseMs = Math.min(300_000, 1_000 * 2 ** index);
      const leastMs = Math.min(10_000, (endMs - (triedAtMs[index] ?? 0)) / 3);
      expect(gapMs).toBeGreaterThanOrEqual(Math.max(leastMs, pauseMs / 2));
      expect(gapMs).toBeLessThanOrEqual(Math.max(leastMs, pauseMs) + 250);
    }
    await errorOf(registry.getToken('key-1'));
  });

  it('one refresh of a token of 15 s fails: every call is served', async () => {
    const source = ScriptedSource.answering(15);
    const { registry, clock } = scripted({ random: seeded(7) }, source);
    const first = await registry.getToken('key-1');
    source.script((call) => {
      source.script((next) => next.succeed({ response: { expires_in: 15 } }));
      call.fail(new Error('no'));
    });
    for (let step = 0; step < 400; step++) {
      await registry.getToken('key-1');
      await settle();
      clock.advance(100);
    }
    expect(await registry.getToken('key-1')).not.toBe(first);
    expect(source.calls.length).toBeGreaterThan(2);
  });

  it('while nobody calls, no request is sent and no timer runs', async () => {
    const { registry, clock, source } = scripted({}, ScriptedSource.answering(100));
    for (const key of keys(100)) await registry.getToken(key);
    expect(clock.pendingTimers).toBe(0);
    clock.advance(80_000);
    await settle();
    clock.advance(1_000_000);
    await settle();
    expect(source.calls).toHaveLength(100);
  });
});

it('C3 3,000 tokens of 600 s issued together, each owner called every second: the refreshes are spread out', async () => {
  const owners = keys(3_000);
  const refreshedInSecond: number[] = [];
  const source = ScriptedSource.answering(600);
  const { registry, clock } = scripted({ random: seeded(3) }, source);
  await Promise.all(owners.map((key) => registry.getToken(key)));
  let second = 0;
  source.script((call) => {
    refreshedInSecond[second] = (refreshedInSecond[second] ?? 0) + 1;
    call.succeed({ response: { expires_in: 600 } });
  });
  // Calls before the window would all be hits, and only take time.
  clock.advance(355_000);
  for (second = 355; second <= 485; second++) {
    for (const key of owners) void registry.getToken(key);
    await settle();
    clock.advance(1_000);
  }
  const perSecond = Array.from({ length: 486 }, (_, index) => refreshedInSecond[index] ?? 0);
  expect(perSecond.reduce((sum, count) => sum + count)).toBe(3_000);
  const first = perSecond.findIndex((count) => count > 0);
  const last = perSecond.findLastIndex((count) => count > 0);
  const inTenSeconds = perSecond.map((_, at) => perSecond.slice(at, at + 10).reduce((sum, count) => sum + count, 0));
  const mean = (3_000 / (last - first + 1)) * 10;
  expect(Math.max(...inTenSeconds)).toBeLessThanOrEqual(1.5 * mean);
  expect([first, last]).toEqual([expect.closeTo(360, -1), expect.closeTo(480, -1)]);
});

describe('C4', () => {
  const sameToken = (expires_in?: number) =>
    new ScriptedSource((call) => call.succeed({ token: 'the-same', response: { expires_in } }));

  it.each([
    ['with its whole lifetime stated anew', () => sameToken(100)],
    ['with no lifetime stated', () => sameToken()],
  ])('a refresh that brings the same token again, %s, does not loop and does not prolong it', async (_, make) => {
    const source = make();
    const { registry, clock } = scripted({}, source);
    const first = await registry.getToken('key-1');
    const requests: number[] = [];
    while (registry.peek('key-1')) {
      const before = source.calls.length;
      expect((await registry.getToken('key-1')).expiresAtMs).toBe(first.expiresAtMs);
      await settle();
      if (source.calls.length > before) requests.push(clock.now());
      clock.advance(100);
    }
    expect(clock.now()).toBeLessThanOrEqual(first.expiresAtMs);
    expect(requests.length).toBeGreaterThan(0);
    expect(requests.length).toBeLessThan(4);
    // Its end has come, and the service says that it is a new one: it is.
    expect((await registry.getToken('key-1')).expiresAtMs).toBeGreaterThan(first.expiresAtMs);
  });

  it('the same token with what is left of its life, as honest services state it, does not loop either', async () => {
    const clockless = { endMs: 0 };
    const source = new ScriptedSource();
    const { registry, clock } = scripted({}, source);
    clockless.endMs = clock.now() + 1_000_000;
    source.script((call) =>
      call.succeed({ token: 'the-same', response: { expires_in: (clockless.endMs - clock.now()) / 1000 } }),
    );
    const { expiresAtMs } = await registry.getToken('key-1');
    while (clock.now() < expiresAtMs) {
      await registry.getToken('key-1');
      await settle();
      clock.advance(1_000);
    }
    expect(source.calls.length).toBeLessThan(12);
  });

  it('the same token, now stated without an end, keeps its end and is not requested for every call', async () => {
    const source = new ScriptedSource((call) =>
      call.succeed({ token: 'the-same', response: source.calls.length === 1 ? { expires_in: 100 } : {} }),
    );
    const { registry, clock } = scripted({ expiry: firstKnown(expiresIn(), untilRejected()) }, source);
    const { expiresAtMs } = await registry.getToken('key-1');
    while (registry.peek('key-1')) {
      expect((await registry.getToken('key-1')).expiresAtMs).toBe(expiresAtMs);
      await settle();
      clock.advance(1_000);
    }
    expect(source.calls).toHaveLength(2);
  });

  it('a token cached until rejected is never requested again', async () => {
    const source = sameToken();
    const { registry, clock } = scripted({ expiry: untilRejected() }, source);
    for (let year = 0; year < 20; year++) {
      await registry.getToken('key-1');
      clock.advance(365 * 86_400_000);
    }
    expect(source.calls).toHaveLength(1);
  });

  it('a refresh that brings a token already past its exp is a failure, and the cached one is still served', async () => {
    const source = ScriptedSource.answering(100);
    const { registry, clock } = scripted({}, source);
    const held = await registry.getToken('key-1');
    const token = jwt({ exp: clock.now() / 1000 - 1 });
    const pastEnds = [
      { token, response: { expires_in: 3600 } },
      { token, response: {} },
      { token: 'opaque', requestedAtMs: clock.now() - 3_600_000, response: { expires_in: 3600 } },
    ];
    clock.advance(70_000);
    for (const grant of pastEnds) {
      source.script((call) => call.succeed(grant));
      const before = source.calls.length;
      expect(await registry.getToken('key-1')).toBe(held);
      await settle();
      expect(source.calls.length).toBe(before + 2);
      expect(registry.peek('key-1')).toBe(held);
      expect(registry.describe('key-1')).toMatchObject({ phase: 'refresh-due', code: 'invalid_response' });
      clock.advance(10_000);
    }
    // With nothing held, its callers get the failure.
    expect((await errorOf(registry.getToken('key-2'))).code).toBe('invalid_response');
  });
});

it('C5 a recorded failure never hides a usable token', async () => {
  const source = ScriptedSource.answering(100);
  const { registry, clock } = scripted({}, source);
  const held = await registry.getToken('key-1');
  clock.advance(80_000);
  source.script((call) => call.fail(new Error('no')));
  await registry.getToken('key-1');
  await settle();
  for (const since of [0, 500, 1_000, 5_000]) {
    clock.advance(since);
    expect(await registry.getToken('key-1')).toBe(held);
    expect(registry.peek('key-1')).toBe(held);
    expect(registry.describe('key-1')).toMatchObject({ phase: 'refresh-due', expiresAtMs: held.expiresAtMs });
    await settle();
  }
  await until(() => registry.stats().inFlight === 0);
  expect(registry.stats()).toMatchObject({ usable: 1 });
});
