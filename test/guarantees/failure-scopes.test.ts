/** I. Failure scopes. */

import { describe, expect, it } from 'vitest';
import { type AccessToken, type Logger, OwnerTokenError, type OwnerTokenRegistry } from '../../src/index.ts';
import { json, LoopbackService, token } from '../helpers/loopback-service.ts';
import { asTimePasses, settle } from '../helpers/manual-clock.ts';
import { callAtOnce, errorOf, keys, overHttp, scripted, shut, tally, until } from '../helpers/registries.ts';
import { type ScriptedCall, ScriptedSource } from '../helpers/scripted-source.ts';
import { seeded } from '../helpers/seeded.mjs';
import { answerOf, TYPICAL_VERDICTS } from '../helpers/verdicts.ts';

const failWith = (make: () => unknown) => new ScriptedSource((call) => call.fail(make()));

/** Three owners with tokens: the canaries of every check. */
async function withCanaries(registry: OwnerTokenRegistry): Promise<AccessToken[]> {
  const held: AccessToken[] = [];
  for (const key of ['held-1', 'held-2', 'held-3']) held.push(await registry.getToken(key));
  return held;
}

describe('I1', () => {
  it('invalid_client: all owners stop within six requests, then ever rarer trials; a replaced secret ends it', async () => {
    await using service = await LoopbackService.start();
    let secret = 'the-secret';
    const { registry, clock } = overHttp(service, {}, { clientSecret: () => secret });
    const held = await withCanaries(registry);
    service.always((call) =>
      (call.fields.client_secret === 'the-secret' ? json(401, { error: 'invalid_client' }) : token())(call),
    );
    const before = service.calls.length;
    for (const key of keys(3)) {
      expect(await errorOf(registry.getToken(key))).toMatchObject({ code: 'client_refused', failureScope: 'owner' });
    }
    await until(() => registry.stats().pauses.client !== undefined);
    expect(service.calls.slice(before).map(({ accessKey }) => accessKey)).toEqual([...keys(3), 'held-3', 'held-2']);

    const trialsAtMs: number[] = [];
    const outcomes: Promise<OwnerTokenError>[] = [];
    for (let tick = 0; tick < 3_000; tick++) {
      const posts = service.calls.length;
      outcomes.push(errorOf(registry.getToken(`cold-${tick}`)));
      expect(await registry.getToken('held-1')).toBe(held[0]);
      await settle();
      await until(() => registry.stats().inFlight === 0);
      if (service.calls.length > posts) trialsAtMs.push(clock.monotonic());
      clock.advance(100);
    }
    // 0.75 of 0.5 s, 1 s, 2 s, … up to 30 s, each for a canary and a caller, to the next tenth of a second.
    const gaps = trialsAtMs.map((atMs, index) => atMs - (trialsAtMs[index - 1] ?? 0));
    const pairs = [400, 800, 1_500, 3_000, 6_000, 12_000, 22_500];
    expect(gaps.slice(0, 14)).toEqual(pairs.flatMap((gapMs) => [gapMs, gapMs]));
    expect(service.calls.length - before).toBe(5 + trialsAtMs.length);

    secret = 'the-new-secret';
    clock.advance(60_000);
    await until(() => registry.stats().pauses.client === undefined);
    await registry.getToken('key-1');
    const refused = (await Promise.all(outcomes)).filter(({ failureScope }) => failureScope === 'client');
    expect(refused.length).toBe(outcomes.length);
    expect(tally(await Promise.allSettled(keys(100).map((key) => registry.getToken(key)))).codes).toEqual({});
    await registry.close();
  });

  it.each(TYPICAL_VERDICTS.filter(({ scope }) => scope === 'client'))(
    'a $status with $body for everybody opens the client’s circuit, with its code, for everybody',
    async (verdict) => {
      await using service = await LoopbackService.start();
      const { registry } = overHttp(service, { pauses: { client: { baseMs: 10_000, capMs: 60_000 } } });
      await withCanaries(registry);
      service.always(answerOf(verdict));
      const own = { code: verdict.code, failureScope: 'owner' };
      for (const key of keys(3)) expect(await errorOf(registry.getToken(key))).toMatchObject(own);
      await until(() => registry.stats().pauses.client !== undefined);
      const refused = { code: 'client_refused', failureScope: 'client', retryable: false };
      expect(await errorOf(registry.getToken('key-4'))).toMatchObject(refused);
      expect(registry.describe('key-4')).toMatchObject({ code: 'client_refused' });
      expect(registry.stats()).toMatchObject({ canaries: 2, refused: { owner: 0, client: 1, endpoint: 0 } });
      expect(service.calls).toHaveLength(3 + 5);
      registry.resume();
      service.always(token());
      await registry.getToken('key-4');
      await registry.close();
    },
  );

  it('at a start, before anyone has succeeded: ten failures stop everybody, but for one trial in each pause of a second', async () => {
    const { registry, clock, source } = scripted(
      {},
      failWith(() => new OwnerTokenError('client_refused', 'no')),
    );
    const errors = await Promise.all(keys(10).map((key) => errorOf(registry.getToken(key))));
    expect(errors.map(({ failureScope }) => failureScope)).toEqual([...Array(9).fill('owner'), 'client']);
    expect(registry.stats().pauses.client).toMatchObject({ code: 'client_refused' });
    const [seconds, startMs] = [60, clock.monotonic()];
    for (let caller = 0; clock.monotonic() < startMs + seconds * 1_000; caller++) {
      registry.getToken(`late-${caller}`).catch(() => {});
      await settle();
      clock.advance(50);
    }
    // 0.75 of a second, after two pauses of half of that.
    expect(source.calls.length - 10).toBeGreaterThanOrEqual(seconds);
    expect(source.calls.length - 10).toBeLessThanOrEqual(seconds / 0.75 + 2);
    await shut(registry, clock);
  });

  it.each([
    ['one owner', (n: number) => n % 300 === 150],
    ['one node of ten', (n: number) => n % 10 === 5],
  ])('invalid_client for %s stops nobody else', async (_, isRefused) => {
    const { registry, clock, source } = scripted();
    let asked = 0;
    const refused = new OwnerTokenError('client_refused', 'no', { status: 401, oauthError: 'invalid_client' });
    source.script((call) => (isRefused(asked++) ? call.fail(refused) : call.succeed()));
    await withCanaries(registry);
    for (const key of keys(600)) {
      const before = asked;
      const error = await registry.getToken(key).catch((thrown: OwnerTokenError) => thrown);
      expect(error instanceof OwnerTokenError ? error.failureScope : 'served').toBe(
        isRefused(before) ? 'owner' : 'served',
      );
      clock.advance(20);
    }
    expect(registry.stats().pauses.client).toBeUndefined();
    await registry.close();
  });
});

describe('I2', () => {
  it('one revoked key in 1,000: only that owner fails, quietly and ever more rarely; it recovers by itself', async () => {
    await using service = await LoopbackService.start();
    let revoked = true;
    let posts = 0;
    service.always((call) => {
      const isConcerned = call.accessKey === 'key-500';
      if (isConcerned) posts++;
      (revoked && isConcerned ? json(400, { error: 'invalid_grant' }) : token())(call);
    });
    let warned = 0;
    const logger: Logger = { debug: () => {}, info: () => {}, warn: () => void warned++ };
    const { registry, clock } = overHttp(service, { logger });
    const owners = keys(1_000);
    const { codes } = tally(await Promise.allSettled(owners.map((key) => registry.getToken(key))));
    expect(codes).toEqual({ owner_refused: 1 });
    const others = owners.filter((key) => key !== 'key-500');
    const tried: number[] = [];
    for (let second = 0; second < 1_800; second++) {
      const before = posts;
      expect((await errorOf(registry.getToken('key-500'))).code).toBe('owner_refused');
      if (posts > before) tried.push(second);
      if (second % 600 === 0) await Promise.all(others.map((key) => registry.getToken(key)));
      clock.advance(1_000);
    }
    const gaps = tried.slice(1).map((at, index) => at - (tried[index] ?? 0));
    expect(gaps).toEqual([...gaps].sort((a, b) => a - b));
    expect(gaps.at(-1)).toBe(225);
    expect(tried.length).toBeLessThan(16);
    expect(warned).toBe(tried.length + 1);
    // Another cold owner is not held up, nor is anybody else.
    await registry.getToken('key-1001');
    expect(registry.stats().pauses).toEqual({ owners: 1 });
    revoked = false;
    clock.advance(225_000);
    await registry.getToken('key-500');
    expect(registry.stats().pauses).toEqual({ owners: 0 });
    await registry.close();
  });
});

describe('I3', () => {
  it.each<[string, (nowMs: number) => string, number]>([
    ['30', () => '30', 30_000],
    ['0', () => '0', 100],
    ['a date 2 minutes on', (now) => new Date(now + 120_000).toUTCString(), 60_000],
    ['1.5', () => '1.5', 1_500],
    ['soon', () => 'soon', 100],
  ])('429 with Retry-After of %s: honoured for its owner, for a minute at first; nobody else waits', async (...row) => {
    const [, retryAfter, pauseMs] = row;
    await using service = await LoopbackService.start();
    const { registry, clock } = overHttp(service);
    service.next(json(429, {}, { 'retry-after': retryAfter(clock.now()) }));
    const startMs = clock.now();
    const limited = { code: 'rate_limited', failureScope: 'owner', status: 429, retryAtMs: startMs + pauseMs };
    expect(await errorOf(registry.getToken('key-1'))).toMatchObject(limited);
    expect(await errorOf(registry.getToken('key-1'))).toMatchObject({ ...limited, failedAtMs: startMs });
    await registry.getToken('key-2');
    // Without Retry-After the pause is 75 ms, and callers are told to wait at least 100 ms.
    const isGiven = pauseMs > 100;
    clock.advance(isGiven ? pauseMs - 1 : 74);
    await errorOf(registry.getToken('key-1'));
    expect(service.calls).toHaveLength(2);
    clock.advance(1);
    await registry.getToken('key-1');
    expect(service.calls).toHaveLength(3);
    await registry.close();
  });

  it('once escalated, Retry-After is honoured for everybody, and a canary asks once a minute', async () => {
    await using service = await LoopbackService.start();
    const { registry, clock } = overHttp(service);
    await withCanaries(registry);
    service.always(json(429, {}, { 'retry-after': '3600' }));
    for (const key of keys(3)) await errorOf(registry.getToken(key));
    await until(() => registry.stats().pauses.endpoint !== undefined);
    const refused = { code: 'rate_limited', failureScope: 'endpoint', retryAtMs: clock.now() + 60_000 };
    expect(await errorOf(registry.getToken('key-4'))).toMatchObject(refused);
    const posts = service.calls.length;
    clock.advance(59_999);
    await settle();
    expect(service.calls).toHaveLength(posts);
    service.always(token());
    clock.advance(1);
    await until(() => service.calls.length > posts && registry.stats().inFlight === 0);
    expect(service.calls.at(-1)?.accessKey).toMatch(/^held/);
    await asTimePasses(registry.getToken('key-4'), clock, 50, registry); // Still paced.
    // An hour that was announced to everybody binds nobody longer than a minute.
    await asTimePasses(registry.getToken('key-1'), clock, 50, registry);
    await registry.close();
  });

  it('an owner that gets a Retry-After of an hour twice in a row is left alone for the hour', async () => {
    await using service = await LoopbackService.start();
    const { registry, clock } = overHttp(service);
    await withCanaries(registry);
    for (const pauseMs of [60_000, 3_600_000]) {
      service.next(json(429, {}, { 'retry-after': '99999' }));
      expect(await errorOf(registry.getToken('key-1'))).toMatchObject({ retryAtMs: clock.now() + pauseMs });
      clock.advance(pauseMs);
    }
    await registry.getToken('key-1');
    await registry.close();
  });
});

describe('I4', () => {
  const HOUR_MS = 3_600_000;
  const STEP_MS = 50;
  const OUTAGE_MS = 600_000;
  const down = () => new OwnerTokenError('endpoint_unavailable', 'down');
  const OUTAGES: Record<string, (call: ScriptedCall, later: (fn: () => void, ms: number) => void) => void> = {
    '503 at once': (call, later) => later(() => call.fail(down()), 50),
    'silence until the deadline': (call, later) => later(() => call.fail(down()), 10_000),
    'refused connections': (call) =>
      call.fail(new OwnerTokenError('endpoint_unavailable', 'refused', { failureScope: 'endpoint' })),
  };

  it.each(Object.entries(OUTAGES))(
    'ten minutes of %s, hour-long tokens, 1,000 owners: no failed call, few attempts, fresh soon after',
    async (_, fail) => {
      const owners = keys(1_000);
      const { registry, clock, source } = scripted({ random: seeded(4) });
      const later = (fn: () => void, ms: number) => void clock.setTimeout(fn, ms);
      let inFlight = 0;
      let most = 0;
      const askedAtMs: number[] = [];
      let isDown = false;
      let upSinceMs: number | undefined;
      source.script((call) => {
        askedAtMs.push(clock.monotonic());
        source.calls.length = 0;
        most = Math.max(most, ++inFlight);
        const counted: ScriptedCall = {
          ...call,
          fail: (error) => {
            inFlight--;
            call.fail(error);
          },
        };
        if (isDown) return fail(counted, later);
        later(() => {
          inFlight--;
          if (!isDown && upSinceMs === undefined && clock.monotonic() > outageEndMs) upSinceMs = clock.monotonic();
          call.succeed({ response: { expires_in: 3600 } });
        }, 50);
      });
      let failed = 0;
      const run = async (ms: number) => {
        for (let passed = 0; passed < ms; passed += STEP_MS) {
          // Each owner once a second, in its own fiftieth of it.
          const slot = (clock.monotonic() / STEP_MS) % 20;
          for (let index = slot; index < owners.length; index += 20) {
            registry.getToken(owners[index] as string).catch(() => failed++);
          }
          for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve));
          clock.advance(STEP_MS);
        }
      };
      let outageEndMs = Number.POSITIVE_INFINITY;
      await run(5_000);
      expect(registry.stats().usable).toBe(1_000);
      clock.advance(0.6 * HOUR_MS - clock.monotonic());
      await run(120_000); // A sixth of them have been refreshed when it begins.

      isDown = true;
      const before = askedAtMs.length;
      const outageStartMs = clock.monotonic();
      await run(OUTAGE_MS);
      const attempts = askedAtMs.length - before;
      isDown = false;
      outageEndMs = clock.monotonic();
      expect(attempts).toBeLessThanOrEqual(OUTAGE_MS / 5_000);
      expect(attempts).toBeGreaterThan(5);

      await run(50_000);
      expect(upSinceMs).toBeDefined();
      // A trial that was sent before the end may have to fail first.
      expect((upSinceMs ?? 0) - outageEndMs).toBeLessThanOrEqual(10_000 + 31_000);
      await run(Math.max(0, 30_000 - (clock.monotonic() - (upSinceMs ?? 0))));
      const due = owners.filter((key) => registry.describe(key).phase !== 'fresh');
      expect(due.length).toBeLessThanOrEqual(10);
      expect(failed).toBe(0);
      expect(most).toBeLessThanOrEqual(200);

      // No second peak: after the wave of recovery refreshes come at the pace of those who fall due.
      const recovered = clock.monotonic();
      await run(120_000);
      const perTenSeconds = Array.from({ length: 12 }, (_, index) => {
        const from = recovered + index * 10_000;
        return askedAtMs.filter((at) => at >= from && at < from + 10_000).length;
      });
      expect(Math.max(...perTenSeconds)).toBeLessThanOrEqual(60);
      expect(outageStartMs).toBeGreaterThan(0);
    },
  );
});

describe('I5', () => {
  it('one owner with 10,000 failing callers: the others are served as if it were not there', async () => {
    const take = async (failingCallers: number) => {
      const { registry, clock, source } = scripted({ concurrency: 2 });
      source.script((call) =>
        clock.setTimeout(() => (call.accessKey === 'failing' ? call.fail(new Error('no')) : call.succeed()), 50),
      );
      const failing = callAtOnce(failingCallers, registry, 'failing');
      const tookMs: number[] = [];
      for (let call = 0; call < 40; call++) {
        const startMs = clock.monotonic();
        const other = registry.getToken(`key-${call}`).then(() => tookMs.push(clock.monotonic() - startMs));
        void callAtOnce(failingCallers / 40, registry, 'failing');
        for (let step = 0; step < 4; step++) {
          await settle();
          clock.advance(25);
        }
        await settle();
        await other;
      }
      await failing;
      return { tookMs, posts: source.countFor('failing') };
    };
    const base = await take(0);
    const beside = await take(10_000);
    expect(base.posts).toBe(0);
    expect(beside.posts).toBeLessThanOrEqual(4);
    expect(beside.tookMs).toEqual(base.tookMs);
  });
});

it.each([3, 20])(
  'I4 ten minutes of outage without cached tokens, %i owners called twice a second: few attempts, all recover',
  async (count) => {
    const { registry, clock, source } = scripted({ random: seeded(count) });
    const owners = keys(count);
    let isDown = true;
    let asked = 0;
    source.script((call) => {
      asked++;
      source.calls.length = 0;
      clock.setTimeout(
        () => (isDown ? call.fail(new OwnerTokenError('endpoint_unavailable', 'down')) : call.succeed()),
        50,
      );
    });
    const run = async (ms: number, over = () => false) => {
      for (let passed = 0; passed < ms && !over(); passed += 500) {
        for (const key of owners) registry.getToken(key).catch(() => {});
        await settle();
        clock.advance(500);
      }
    };
    await run(600_000);
    // A tenth of what callers without protection would send.
    expect(asked).toBeLessThanOrEqual((count * 2 * 600) / 10);
    isDown = false;
    const upAtMs = clock.monotonic();
    await run(120_000, () => registry.stats().usable === count);
    expect(clock.monotonic() - upAtMs).toBeLessThanOrEqual(35_000);
  },
);

describe('a trial', () => {
  it('whose caller leaves, or whose owner is forgotten, does not leave the circuit without one', async () => {
    const { registry, clock, source } = scripted(
      {},
      failWith(() => new OwnerTokenError('rate_limited', 'no', { failureScope: 'endpoint' })),
    );
    await errorOf(registry.getToken('key-1'));
    clock.advance(1_000);
    source.script(undefined);
    const caller = new AbortController();
    const left = registry.getToken('key-2', { signal: caller.signal });
    caller.abort(new Error('left'));
    await expect(left).rejects.toThrow('left');
    await settle();
    const probe = registry.getToken('key-3');
    await settle();
    expect(source.calls).toHaveLength(2);
    registry.forget('key-3');
    const waiting = registry.getToken('key-4');
    await settle();
    expect(source.calls).toHaveLength(2);
    source.call(1).succeed();
    await probe;
    expect(registry.stats().pauses.endpoint).toBeUndefined();
    await settle();
    source.call(2).succeed();
    await waiting;
  });
});
