/** E. Lifetimes. */

import { describe, expect, it, vi } from 'vitest';
import { fixedLifetime, type IssuedToken, type Logger, OwnerTokenRegistry } from '../../src/index.ts';
import { jwt } from '../helpers/jwt.ts';
import { shortNames } from '../helpers/log-lines.ts';
import { LoopbackService, silence, token } from '../helpers/loopback-service.ts';
import { type ManualClock, settle } from '../helpers/manual-clock.ts';
import { errorOf, overHttp, scripted } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';

/** What a lifetime counts as when nobody knows it. */
const UNKNOWN_MS = 300_000;
const marginOf = (lifetimeMs: number) => Math.min(lifetimeMs * 0.05, 10_000);

const granting = (grant: Partial<IssuedToken>) => new ScriptedSource((call) => call.succeed(grant));

/** Collects the events that are warned of. */
function warnings() {
  const events: object[] = [];
  const logger: Logger = { debug: () => {}, info: () => {}, warn: (fields) => void events.push(shortNames(fields)) };
  return { events, logger };
}

describe('E1', () => {
  it.each<[string, unknown, number, string | undefined]>([
    ['"3600"', '3600', 3_600_000, undefined],
    ['" 3600 "', ' 3600 ', 3_600_000, undefined],
    ['"3600.25"', '3600.25', 3_600_250, undefined],
    ['3600.5', 3600.5, 3_600_500, undefined],
    ['"+60.5"', '+60.5', 60_500, undefined],
    ['0', 0, UNKNOWN_MS, 'not_positive'],
    ['-0', -0, UNKNOWN_MS, 'not_positive'],
    ['-5', -5, UNKNOWN_MS, 'not_positive'],
    ['"-5"', '-5', UNKNOWN_MS, 'not_positive'],
    ['1e12', 1e12, UNKNOWN_MS, 'absurd'],
    ['1e20', 1e20, UNKNOWN_MS, 'absurd'],
    ['1e308', 1e308, UNKNOWN_MS, 'absurd'],
    ['1e999, which JSON reads as Infinity', JSON.parse('1e999'), UNKNOWN_MS, 'absurd'],
    ['-1e999', JSON.parse('-1e999'), UNKNOWN_MS, 'not_positive'],
    ['a string of 400 digits', '9'.repeat(400), UNKNOWN_MS, 'absurd'],
    ['an instant in epoch seconds', 1_893_456_000, UNKNOWN_MS, 'absurd'],
    ['"abc"', 'abc', UNKNOWN_MS, 'unreadable'],
    ['"1e3"', '1e3', UNKNOWN_MS, 'unreadable'],
    ['"Infinity"', 'Infinity', UNKNOWN_MS, 'unreadable'],
    ['"0x10"', '0x10', UNKNOWN_MS, 'unreadable'],
    ['"12 s"', '12 s', UNKNOWN_MS, 'unreadable'],
    ['""', '', UNKNOWN_MS, 'unreadable'],
    ['true', true, UNKNOWN_MS, 'unreadable'],
    ['{}', {}, UNKNOWN_MS, 'unreadable'],
    ['[3600]', [3600], UNKNOWN_MS, 'unreadable'],
    ['null', null, UNKNOWN_MS, 'absent'],
    ['absent', undefined, UNKNOWN_MS, 'absent'],
  ])(
    'expires_in of %s: by the rule, not immortal, not one POST per call, warned of once',
    async (_, expires_in, lifetimeMs, problem) => {
      const { events, logger } = warnings();
      const source = granting({ response: { expires_in } });
      const { registry, clock } = scripted({ logger }, source);
      const startMs = clock.now();
      const held = await registry.getToken('key-1');
      expect(held.expiresAtMs).toBe(startMs + lifetimeMs - marginOf(lifetimeMs));
      for (let call = 0; call < 20; call++) expect(await registry.getToken('key-1')).toBe(held);
      for (const key of ['key-2', 'key-3']) await registry.getToken(key);
      expect(source.countFor('key-1')).toBe(1);
      clock.advance(held.expiresAtMs - startMs - 1);
      expect(registry.peek('key-1')).toBe(held);
      clock.advance(1);
      expect(registry.peek('key-1')).toBeUndefined();
      await registry.getToken('key-1');
      expect(source.countFor('key-1')).toBe(2);
      expect(events).toEqual(
        problem === undefined
          ? []
          : [expect.objectContaining({ event: 'lifetime.unknown', kind: problem, assumedMs: UNKNOWN_MS })],
      );
    },
  );

  it('each kind of nonsense is warned of once per registry, however many owners and tokens show it', async () => {
    const { events, logger } = warnings();
    const source = new ScriptedSource((call, index) =>
      call.succeed({ response: { expires_in: [0, 'x', 1e20][index % 3] } }),
    );
    const { registry } = scripted({ logger, maxOwners: 5 }, source);
    for (let index = 0; index < 300; index++) await registry.getToken(`key-${index}`);
    expect(events).toHaveLength(3);
  });

  it.each([Number.NaN, -1, 0, 1e300, 'soon', null, {}, Number.NEGATIVE_INFINITY])(
    'a policy of the user that says %s makes no token immortal and none useless',
    async (said) => {
      const { registry, clock, source } = scripted(
        { expiry: { lifetimeMs: () => said as number } },
        ScriptedSource.answering(3600),
      );
      const held = await registry.getToken('key-1');
      expect(held.expiresAtMs).toBe(clock.now() + UNKNOWN_MS - marginOf(UNKNOWN_MS));
      await registry.getToken('key-1');
      expect(source.calls).toHaveLength(1);
    },
  );
});

describe('E2', () => {
  it.each([1, 5, 60])('a lifetime of %i s is reused, up to a margin that is a share of it', async (seconds) => {
    const { registry, clock, source } = scripted({}, ScriptedSource.answering(seconds));
    const held = await registry.getToken('key-1');
    const steps = 20;
    for (let step = 0; step < steps * 0.6; step++) {
      expect(await registry.getToken('key-1')).toBe(held);
      clock.advance((seconds * 1000) / steps);
    }
    expect(source.calls).toHaveLength(1);
    expect(held.expiresAtMs - held.issuedAtMs).toBe(seconds * 950);
  });

  it('a lifetime of 40 days overflows no timer and loops nowhere', async () => {
    const days = 86_400_000;
    const { registry, clock, source } = scripted({}, ScriptedSource.answering(40 * 86_400));
    const held = await registry.getToken('key-1');
    expect(clock.pendingTimers).toBe(0);
    for (let day = 0; day < 24; day++) {
      clock.advance(days);
      expect(await registry.getToken('key-1')).toBe(held);
    }
    expect(source.calls).toHaveLength(1);
    clock.advance(15.99 * days);
    expect(registry.peek('key-1')).toBe(held);
    await registry.getToken('key-1');
    await settle();
    await registry.getToken('key-1');
    expect(source.calls).toHaveLength(2);
  });
});

it('E3 the answer took 8 s of a 10 s lifetime: 2 s are left, less the margin', async () => {
  await using service = await LoopbackService.start();
  service.always(silence());
  const { registry, clock } = overHttp(service);
  const startMs = clock.now();
  const waiting = registry.getToken('key-1');
  const post = await service.arrived(1);
  clock.advance(8_000);
  post.answer(token({ expires_in: 10 }));
  const held = await waiting;
  expect(held).toMatchObject({ issuedAtMs: startMs, expiresAtMs: startMs + 9_500 });
  clock.advance(1_499);
  expect(registry.peek('key-1')).toBe(held);
  clock.advance(1);
  expect(registry.peek('key-1')).toBeUndefined();
  await registry.close();
});

it('E3 two answers that took longer than the token lives are a failure, not a token', async () => {
  const { registry, clock, source } = scripted();
  const waiting = registry.getToken('key-1');
  await settle();
  clock.advance(10_000);
  source.call(0).succeed({ response: { expires_in: 10 } });
  await settle();
  clock.advance(10_000);
  source.call(1).succeed({ response: { expires_in: 10 } });
  expect((await errorOf(waiting)).code).toBe('invalid_response');
  expect(registry.peek('key-1')).toBeUndefined();
});

describe('E4', () => {
  const HOUR_MS = 3_600_000;
  const DAY_MS = 24 * HOUR_MS;
  /** Time passes by one clock alone. */
  const wallAlone = (clock: ManualClock, ms: number) => clock.jumpWall(ms);
  const monotonicAlone = (clock: ManualClock, ms: number) => {
    clock.advance(ms);
    clock.jumpWall(-ms);
  };

  it.each<[string, (clock: ManualClock) => void]>([
    ['set an hour on', (clock) => clock.jumpWall(HOUR_MS)],
    ['set an hour back', (clock) => clock.jumpWall(-HOUR_MS)],
    ['set a day on', (clock) => clock.jumpWall(DAY_MS)],
    ['set a day back', (clock) => clock.jumpWall(-DAY_MS)],
    ['frozen', () => {}],
  ])('the wall clock is %s: nothing is served past its life, at most one extra request', async (what, jump) => {
    const source = ScriptedSource.answering(7_200);
    const { registry, clock } = scripted({}, source);
    const issuedAt = new Map<unknown, number>([[await registry.getToken('key-1'), clock.monotonic()]]);
    const pass = what === 'frozen' ? monotonicAlone : (of: ManualClock, ms: number) => of.advance(ms);
    pass(clock, 600_000);
    jump(clock);
    // Two lives in minutes. How old a token truly is, the monotonic clock knows here.
    for (let minute = 0; minute < 240; minute++) {
      const given = await registry.getToken('key-1');
      await settle();
      if (!issuedAt.has(given)) issuedAt.set(given, clock.monotonic());
      expect(clock.monotonic() - (issuedAt.get(given) ?? 0)).toBeLessThan(7_200_000);
      pass(clock, 60_000);
    }
    // Without a jump: one at the start, and one each time 70 % of the life are over (84 min): 0, 84, 168 …
    const withoutJump = 1 + Math.floor(250 / 84);
    expect(source.calls.length).toBeLessThanOrEqual(withoutJump + 1);
  });

  it('the monotonic clock stands still while the wall runs, as in suspension: nothing past its expiry by the wall', async () => {
    const source = ScriptedSource.answering(7_200);
    const { registry, clock } = scripted({}, source);
    let held = await registry.getToken('key-1');
    for (let hour = 0; hour < 24; hour++) {
      wallAlone(clock, HOUR_MS);
      const given = await registry.getToken('key-1');
      expect(given.expiresAtMs).toBeGreaterThan(clock.now());
      await settle();
      held = registry.peek('key-1') ?? held;
      expect(held.expiresAtMs).toBeGreaterThan(clock.now());
    }
    expect(source.calls.length).toBeLessThanOrEqual(25);
  });

  it('the clock jumps while a request is in flight: its token is not held for longer than it lives', async () => {
    for (const jumpMs of [HOUR_MS, -HOUR_MS, DAY_MS, -DAY_MS]) {
      const { registry, clock, source } = scripted();
      const waiting = registry.getToken('key-1');
      await settle();
      clock.jumpWall(jumpMs);
      clock.advance(100);
      source.script((call) => call.succeed({ response: { expires_in: 7_200 } }));
      source.call(0).succeed({ response: { expires_in: 7_200 } });
      await waiting;
      const sentMonotonicMs = 0;
      clock.advance(7_199_000 - clock.monotonic() + sentMonotonicMs);
      expect(registry.peek('key-1')).toBeUndefined();
    }
  });

  it.each([
    ['stands still', 0, 95_000],
    ['is set a day on', 86_400_000, 11],
    ['is set a day back', -86_400_000, 95_000],
  ])(
    "with the system's own clocks, and a wall clock that %s: nothing is served past its end",
    async (_, jumpMs, passedMs) => {
      vi.useFakeTimers({ toFake: ['Date', 'performance'] });
      try {
        const source = ScriptedSource.answering(100);
        await using registry = new OwnerTokenRegistry({ source });
        const held = await registry.getToken('key-1');
        expect(await registry.getToken('key-1')).toBe(held);
        const frozenAtMs = Date.now() + jumpMs;
        vi.advanceTimersByTime(passedMs);
        vi.setSystemTime(frozenAtMs);
        expect(registry.peek('key-1')).toBeUndefined();
        expect(await registry.getToken('key-1')).not.toBe(held);
        expect(source.calls).toHaveLength(2);
      } finally {
        vi.useRealTimers();
      }
    },
  );

  it('pauses run on the monotonic clock: a jump neither ends nor prolongs one', async () => {
    for (const jumpMs of [DAY_MS, -DAY_MS]) {
      const source = new ScriptedSource((call) => call.fail(new Error('no')));
      const { registry, clock } = scripted({}, source);
      await errorOf(registry.getToken('key-1'));
      clock.jumpWall(jumpMs);
      const refused = await errorOf(registry.getToken('key-1'));
      expect(refused.retryAtMs).toBe(clock.now() + 750);
      expect(source.calls).toHaveLength(1);
      clock.advance(750);
      source.script((call) => call.succeed());
      await registry.getToken('key-1');
    }
  });
});

describe('E5', () => {
  it.each<[string, (nowSeconds: number) => Partial<IssuedToken>, number]>([
    ['an opaque token', () => ({ token: 'opaque' }), UNKNOWN_MS],
    ['an opaque token with two dots', () => ({ token: 'a.b.c' }), UNKNOWN_MS],
    ['a JWT without exp', () => ({ token: jwt({ sub: 'x' }) }), UNKNOWN_MS],
    ['a JWT with exp and iat', (now) => ({ token: jwt({ iat: now, exp: now + 600 }) }), 600_000],
    [
      'a JWT of a service whose clock is a minute ahead',
      (now) => ({ token: jwt({ iat: now + 60, exp: now + 660 }) }),
      600_000,
    ],
    ['a JWT with exp alone', (now) => ({ token: jwt({ exp: now + 600 }) }), 600_000],
    ['a JWT with exp as a string', (now) => ({ token: jwt({ exp: String(now + 600) }) }), UNKNOWN_MS],
    ['a JWT with an absurd exp', () => ({ token: jwt({ exp: 1e18 }) }), UNKNOWN_MS],
    [
      'a JWT whose exp is later than expires_in says',
      (now) => ({ token: jwt({ iat: now, exp: now + 6_000 }), response: { expires_in: 600 } }),
      600_000,
    ],
    [
      'a JWT whose exp is sooner than expires_in says',
      (now) => ({ token: jwt({ iat: now, exp: now + 600 }), response: { expires_in: 6_000 } }),
      6_000_000,
    ],
    [
      'a JWT beside an expires_in of nonsense',
      (now) => ({ token: jwt({ iat: now, exp: now + 600 }), response: { expires_in: 'x' } }),
      600_000,
    ],
  ])('%s: its lifetime is by the rule, and it is reused', async (_, grantAt, lifetimeMs) => {
    const source = new ScriptedSource();
    const { registry, clock } = scripted({}, source);
    source.script((call) => call.succeed(grantAt(clock.now() / 1000)));
    const held = await registry.getToken('key-1');
    expect(held.expiresAtMs - held.issuedAtMs).toBe(lifetimeMs - marginOf(lifetimeMs));
    for (let call = 0; call < 10; call++) await registry.getToken('key-1');
    expect(source.calls).toHaveLength(1);
  });

  it('fixedLifetime overrides what the answer and the token say', async () => {
    const source = granting({ token: jwt({ exp: 4e9 }), response: { expires_in: 5 } });
    const { registry } = scripted({ expiry: fixedLifetime(60_000) }, source);
    const held = await registry.getToken('key-1');
    expect(held.expiresAtMs - held.issuedAtMs).toBe(57_000);
  });
});
