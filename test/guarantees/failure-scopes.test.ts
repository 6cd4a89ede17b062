/** I. Failure scopes. */

import { describe, expect, it } from 'vitest';
import { type Logger, OwnerTokenError } from '../../src/index.ts';
import { type Answer, json, LoopbackService, status, token } from '../helpers/loopback-service.ts';
import { settle } from '../helpers/manual-clock.ts';
import { callAtOnce, errorOf, isSettled, keys, overHttp, scripted, tally, until } from '../helpers/registries.ts';
import { type ScriptedCall, ScriptedSource } from '../helpers/scripted-source.ts';
import { seeded } from '../helpers/seeded.mjs';

const unavailable = () => new OwnerTokenError('endpoint_unavailable', 'down');
const failWith = (make: () => unknown) => new ScriptedSource((call) => call.fail(make()));

describe('I1', () => {
  it('I1 invalid_client: no POST beyond those in flight, then one probe per growing interval; held tokens are served', async () => {
    await using service = await LoopbackService.start();
    let secret = 'the-secret';
    const { registry, clock } = overHttp(service, { concurrency: 4 }, { clientSecret: () => secret });
    const held = await registry.getToken('held');
    service.always((call) =>
      (call.fields.client_secret === 'the-secret' ? json(401, { error: 'invalid_client' }) : token())(call),
    );
    const before = service.calls.length;
    const first = tally(await Promise.allSettled(keys(100).map((key) => registry.getToken(key))));
    expect(first.codes).toEqual({ client_refused: 100 });
    expect(service.calls.length - before).toBeLessThanOrEqual(4);

    const probes: number[] = [];
    for (let tick = 0; tick < 6_000; tick++) {
      const posts = service.calls.length;
      const refused = callAtOnce(1, registry, `key-${tick % 100}`);
      if (!(await isSettled(refused)) || service.calls.length > posts) {
        await until(() => registry.stats().inFlight === 0);
        probes.push(clock.monotonic());
      }
      expect(tally(await refused).codes).toEqual({ client_refused: 1 });
      if (tick % 100 === 0) expect(await registry.getToken('held')).toBe(held);
      clock.advance(100);
    }
    // 0.75, 1.5, 3 … of the doubled base, up to 45 s of its cap, to the next tenth of a second.
    const gaps = probes.slice(1).map((at, index) => at - (probes[index] ?? 0));
    expect(gaps.slice(0, 7)).toEqual([1_500, 3_000, 6_000, 12_000, 24_000, 45_000, 45_000]);
    expect(service.calls.length - before).toBeLessThanOrEqual(4 + probes.length);

    // The secret is mended: the next probe lifts it for all.
    secret = 'the-new-secret';
    expect((await errorOf(registry.getToken('key-1'))).retryAtMs).toBeGreaterThan(clock.now());
    clock.advance(45_000);
    await registry.getToken('key-1');
    expect(tally(await Promise.allSettled(keys(100).map((key) => registry.getToken(key)))).codes).toEqual({});
    await registry.close();
  });

  it('I1 one after another: one POST, and resume() lifts the pause at once', async () => {
    await using service = await LoopbackService.start();
    service.next(json(401, { error: 'invalid_client' }));
    const { registry } = overHttp(service);
    for (const key of keys(50)) {
      expect(await errorOf(registry.getToken(key))).toMatchObject({ code: 'client_refused', failureScope: 'client' });
    }
    expect(service.calls).toHaveLength(1);
    registry.resume();
    expect(tally(await Promise.allSettled(keys(50).map((key) => registry.getToken(key)))).codes).toEqual({});
    await registry.close();
  });

  it.each<[string, Answer]>([
    ['unauthorized_client', json(400, { error: 'unauthorized_client' })],
    ['invalid_request', json(400, { error: 'invalid_request' })],
    ['unsupported_grant_type', json(400, { error: 'unsupported_grant_type' })],
    ['405', status(405)],
    ['415', status(415)],
  ])('I1 %s stops the client just so', async (_, answer) => {
    await using service = await LoopbackService.start();
    service.always(answer);
    const { registry } = overHttp(service);
    await errorOf(registry.getToken('key-1'));
    expect(await errorOf(registry.getToken('key-2'))).toMatchObject({ code: 'client_refused', failureScope: 'client' });
    expect(service.calls).toHaveLength(1);
    await registry.close();
  });

  it('I1 a 4xx without a code stops the client at the third owner in a row that once worked, and not before', async () => {
    await using service = await LoopbackService.start();
    const { registry, clock } = overHttp(service);
    for (const key of ['c', 'd', 'e', 'f', 'g']) await registry.getToken(key);
    clock.advance(3_600_000);
    const before = service.calls.length;
    service.next(status(403), status(403), token(), status(403), status(403), status(403));
    for (const key of ['d', 'e'])
      expect(await errorOf(registry.getToken(key))).toMatchObject({ code: 'owner_refused', failureScope: 'owner' });
    await registry.getToken('c'); // A success in between: it counts anew.
    clock.advance(2_000);
    const failures = [];
    for (const key of ['f', 'g', 'c', 'd', 'new']) {
      if (key === 'c') registry.reject('c', await registry.getToken('c'));
      failures.push(await errorOf(registry.getToken(key)));
    }
    expect(failures.map(({ code, failureScope }) => [code, failureScope])).toEqual([
      ...[
        ['owner_refused', 'owner'],
        ['owner_refused', 'owner'],
      ],
      ...Array.from({ length: 3 }, () => ['client_refused', 'client']),
    ]);
    expect(service.calls.length - before).toBe(6);
    await registry.close();
  });

  it('I1 at a first start, when nobody has succeeded yet, the third owner in a row is enough', async () => {
    await using service = await LoopbackService.start();
    service.always(status(401));
    const { registry } = overHttp(service);
    const codes = [];
    for (const key of keys(5)) codes.push((await errorOf(registry.getToken(key))).code);
    expect(codes).toEqual(['owner_refused', 'owner_refused', 'client_refused', 'client_refused', 'client_refused']);
    expect(service.calls).toHaveLength(3);
    await registry.close();
  });
});

describe('I2', () => {
  it('I2 one revoked key in 1,000: only that owner fails, quietly and ever more rarely; it recovers by itself', async () => {
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

  it('I2 any number of owners that are refused by name stop nobody else', async () => {
    await using service = await LoopbackService.start();
    service.always((call) =>
      (String(call.accessKey).startsWith('revoked') ? json(400, { error: 'invalid_grant' }) : token())(call),
    );
    const { registry } = overHttp(service);
    for (let index = 0; index < 50; index++) {
      expect((await errorOf(registry.getToken(`revoked-${index}`))).failureScope).toBe('owner');
      await registry.getToken(`good-${index}`);
    }
    for (let index = 50; index < 100; index++) await errorOf(registry.getToken(`revoked-${index}`));
    await registry.getToken('good-100');
    await registry.close();
  });
});

describe('I3', () => {
  const at = (ms: number) => new Date(ms).toUTCString();
  it.each<[string, (nowMs: number) => string, number]>([
    ['30', () => '30', 30_000],
    ['0', () => '0', 1_000],
    ['a date 2 minutes on', (now) => at(now + 120_000), 120_000],
    ['a date that is past', (now) => at(now - 120_000), 1_000],
    ['a date ten years on', (now) => at(now + 3e11), 3_600_000],
    ['99999999', () => '99999999', 3_600_000],
    ['a number of 400 digits', () => '9'.repeat(400), 3_600_000],
    ['-5', () => '-5', 375],
    ['1.5', () => '1.5', 375],
    ['soon', () => 'soon', 375],
    ['nothing', () => '', 375],
    ['an ISO date', (now) => new Date(now + 60_000).toISOString(), 375],
  ])(
    'I3 429 with Retry-After of %s: honoured and clamped; nothing sleeps in a call',
    async (_, retryAfter, pauseMs) => {
      await using service = await LoopbackService.start();
      const { registry, clock } = overHttp(service);
      service.next(json(429, {}, { 'retry-after': retryAfter(clock.now()) }));
      const startMs = clock.now();
      expect(await errorOf(registry.getToken('key-1'))).toMatchObject({
        ...{ code: 'rate_limited', failureScope: 'endpoint', status: 429, retryAtMs: startMs + pauseMs },
      });
      // Everybody is refused, at once: no time has to pass for it.
      for (const key of keys(5)) {
        const refused = await errorOf(registry.getToken(key));
        expect(refused).toMatchObject({ code: 'rate_limited', retryAtMs: startMs + pauseMs, failedAtMs: startMs });
      }
      expect(clock.pendingTimers).toBe(0);
      clock.advance(pauseMs - 1);
      await errorOf(registry.getToken('key-2'));
      expect(service.calls).toHaveLength(1);
      clock.advance(1);
      await registry.getToken('key-2');
      expect(service.calls).toHaveLength(2);
      await registry.close();
    },
  );
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
    'I4 ten minutes of %s, hour-long tokens, 1,000 owners: no failed call, few attempts, fresh soon after',
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

      await run(40_000);
      expect(upSinceMs).toBeDefined();
      expect((upSinceMs ?? 0) - outageEndMs).toBeLessThanOrEqual(31_000);
      await run(Math.max(0, 30_000 - (clock.monotonic() - (upSinceMs ?? 0))));
      const due = owners.filter((key) => registry.describe(key).phase !== 'fresh');
      expect(due.length).toBeLessThanOrEqual(10);
      expect(failed).toBe(0);
      expect(most).toBeLessThanOrEqual(128);

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
  it('I5 one owner with 10,000 failing callers: the others are asked for as if it were not there', async () => {
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
  'I4 ten minutes of outage with no token held, %i owners called twice a second: few attempts, and all recover',
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
    expect(asked).toBeLessThanOrEqual(120);
    isDown = false;
    const upAtMs = clock.monotonic();
    await run(120_000, () => registry.stats().usable === count);
    expect(clock.monotonic() - upAtMs).toBeLessThanOrEqual(35_000);
  },
);

it('I4 concurrency after an outage: one request, then twice as many per round trip, others queueing', async () => {
  const { registry, clock, source } = scripted({ concurrency: 8 });
  source.script((call) => call.fail(new OwnerTokenError('endpoint_unavailable', 'down')));
  for (const key of ['a', 'b', 'c']) await errorOf(registry.getToken(key));
  clock.advance(500);
  source.script(undefined);
  const probe = registry.getToken('probe');
  await settle();
  // Everybody else is refused until the probe is answered.
  const refused = await errorOf(registry.getToken('key-1'));
  expect(refused).toMatchObject({ failureScope: 'endpoint', retryAtMs: clock.now() + 100 });
  source.call(-1).succeed();
  await probe;
  const all = keys(40).map((key) => registry.getToken(key));
  const underWay = () => source.calls.filter((call) => !call.settled);
  for (const allowed of [1, 2, 4, 8, 8]) {
    await settle();
    expect(underWay()).toHaveLength(allowed);
    expect(registry.stats().queued).toBeGreaterThan(0);
    for (const call of underWay()) call.succeed();
  }
  source.script((call) => call.succeed());
  for (const call of underWay()) call.succeed();
  await Promise.all(all);
  expect(source.calls).toHaveLength(44);
});

it('I4 resume() ends the pause and restores concurrency at once', async () => {
  const { registry, source } = scripted({ concurrency: 8 });
  source.script((call) => call.fail(new OwnerTokenError('rate_limited', 'slow down', { retryAfterMs: 60_000 })));
  await errorOf(registry.getToken('a'));
  source.script(undefined);
  registry.resume('b'); // One owner's: the endpoint goes on pausing.
  expect((await errorOf(registry.getToken('b'))).code).toBe('rate_limited');
  registry.resume();
  const all = keys(8).map((key) => registry.getToken(key));
  await settle();
  expect(source.calls).toHaveLength(9);
  for (const call of source.calls.slice(1)) call.succeed();
  await Promise.all(all);
});

describe('failures', () => {
  it('jitter takes at most half of a pause, whatever `random` returns', async () => {
    for (const [drawn, pauseMs] of [
      [0, 500],
      [0.999, 1_000],
      [Number.NaN, 750],
      [7, 750],
      [-3, 750],
      ['x', 750],
    ] as const) {
      const { registry, clock } = scripted(
        { random: () => drawn as number },
        failWith(() => new Error('no')),
      );
      const { retryAtMs } = await errorOf(registry.getToken('key-1'));
      expect(Math.abs((retryAtMs ?? 0) - clock.now() - pauseMs)).toBeLessThanOrEqual(1);
    }
  });

  it('of three distinct owners in a row escalate to the endpoint, whatever their codes; of one owner they stay its own', async () => {
    const kinds = [unavailable, () => new OwnerTokenError('invalid_response', 'nonsense'), unavailable];
    const source = new ScriptedSource((call, index) => call.fail((kinds[index % 3] as () => unknown)()));
    const { registry, clock } = scripted({}, source);
    for (let round = 0; round < 6; round++) {
      expect((await errorOf(registry.getToken('key-1'))).failureScope).toBe('owner');
      clock.advance(300_000);
    }
    expect((await errorOf(registry.getToken('key-2'))).failureScope).toBe('owner');
    expect((await errorOf(registry.getToken('key-3'))).failureScope).toBe('endpoint');
    expect((await errorOf(registry.getToken('key-4'))).failureScope).toBe('endpoint');
    expect(source.calls).toHaveLength(8);
  });

  it('that a source attributes to the owner never escalate, and a success restarts the count', async () => {
    const source = new ScriptedSource();
    const { registry, clock } = scripted({}, source);
    const outcome = async (key: string, script: (call: ScriptedCall) => void) => {
      source.script(script);
      return registry.getToken(key).then(
        () => 'ok',
        (error: OwnerTokenError) => error.failureScope,
      );
    };
    const onPurpose = () => new OwnerTokenError('endpoint_unavailable', 'down', { failureScope: 'owner' });
    for (const key of keys(10)) {
      expect(await outcome(key, (call) => call.fail(onPurpose()))).toBe('owner');
      expect(await outcome(`${key} throws`, (call) => call.fail(new Error('no')))).toBe('owner');
    }
    for (const round of [1, 2, 3]) {
      for (const n of [1, 2]) {
        expect(await outcome(`anybody's ${round} ${n}`, (call) => call.fail(unavailable()))).toBe('owner');
        clock.advance(1_000); // New owners start more slowly while they fail.
      }
      expect(await outcome(`good ${round}`, (call) => call.succeed())).toBe('ok');
    }
  });

  it.each([
    ['names the owner', 'invalid_grant', [true, true]],
    ['has no code', undefined, [false, true]],
  ] as const)(
    'a trial whose refusal %s closes the circuit that it disproves',
    async (_, oauthError, [liftsClient, liftsEndpoint]) => {
      for (const [scope, lifts] of [
        ['client', liftsClient],
        ['endpoint', liftsEndpoint],
      ] as const) {
        const { registry, clock, source } = scripted(
          {},
          failWith(() => new OwnerTokenError('rate_limited', 'no', { failureScope: scope })),
        );
        await errorOf(registry.getToken('key-1'));
        clock.advance(1_000);
        source.script((call) => call.fail(new OwnerTokenError('owner_refused', 'no', { oauthError })));
        await errorOf(registry.getToken('key-2'));
        expect(registry.stats().pauses[scope] === undefined).toBe(lifts);
      }
    },
  );

  it('a trial whose caller leaves, or whose owner is forgotten, does not leave the circuit without one', async () => {
    const { registry, clock, source } = scripted(
      {},
      failWith(() => new OwnerTokenError('rate_limited', 'no')),
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
    await errorOf(registry.getToken('key-4'));
    source.call(1).succeed();
    await probe;
    expect(registry.stats().pauses.endpoint).toBeUndefined();
    source.script((call) => call.succeed());
    await registry.getToken('key-4');
  });

  it('I3 Retry-After pauses only the scope of the failure that carries it', async () => {
    await using service = await LoopbackService.start();
    service.next(
      status(503, '', { 'retry-after': '120' }),
      json(400, { error: 'invalid_grant' }, { 'retry-after': '60' }),
    );
    const { registry, clock } = overHttp(service);
    expect(await errorOf(registry.getToken('key-1'))).toMatchObject({
      failureScope: 'owner',
      retryAtMs: clock.now() + 120_000,
    });
    expect(await errorOf(registry.getToken('key-2'))).toMatchObject({
      failureScope: 'owner',
      retryAtMs: clock.now() + 60_000,
    });
    await registry.getToken('key-3');
    clock.advance(60_000);
    await registry.getToken('key-2');
    expect((await errorOf(registry.getToken('key-1'))).status).toBe(503);
    await registry.close();
  });
});
