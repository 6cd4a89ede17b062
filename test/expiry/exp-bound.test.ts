import { describe, expect, it } from 'vitest';
import { lifeOf, msUntilExp, overridesExp } from '../../src/expiry/exp-bound.ts';
import type { ExpiryPolicy } from '../../src/expiry/lifetime.ts';
import { expiresIn, firstKnown, fixedLifetime, jwtExp, untilRejected } from '../../src/expiry/policies.ts';
import { jwt } from '../helpers/jwt.ts';

/** A JWT of ten minutes, and the same without `iat`. */
const TOKEN = jwt({ iat: 1_000, exp: 1_600 });
const WITHOUT_IAT = jwt({ exp: 1_600 });

const at = (seconds: number, token = TOKEN) => msUntilExp({ token, serviceTimeMs: seconds * 1_000 });

describe('what is left until exp', () => {
  it.each([
    [1_000, 599_000],
    [1_300, 299_000],
    [1_598, 1_000],
    [1_300.25, 299_750],
    [1_599.75, 250],
  ])('counts from the end of the second that the service stated: at %d s %d ms', (now, left) => {
    expect(at(now)).toBe(left);
    expect(at(now, WITHOUT_IAT)).toBe(left);
  });

  it('is nothing in its last second, and in the one after, which rounding may have added', () => {
    for (const now of [1_599, 1_600, 1_600.999]) expect(at(now)).toBe(0);
  });

  it('is unbounded by a clock that cannot be the issuer’s', () => {
    for (const now of [0, 998, 1_601, 5_200, -1e9]) expect(at(now)).toBe(Infinity);
    for (const now of [1_601, 5_200]) expect(at(now, WITHOUT_IAT)).toBe(Infinity);
  });

  it('allows for one second before iat', () => {
    expect(at(999)).toBe(600_000);
    expect(msUntilExp({ token: jwt({ iat: 1_000.4, exp: 1_600.4 }), serviceTimeMs: 1_000_000 })).toBe(599_400);
  });

  it('is unknown without the service’s time, and without exp', () => {
    expect(msUntilExp({ token: TOKEN })).toBeUndefined();
    expect(at(1_300, 'opaque')).toBeUndefined();
    expect(at(1_300, jwt({ iat: 1_000 }))).toBeUndefined();
  });
});

describe('how long a token lives', () => {
  const life = (token: string, seconds: number | undefined, wasStated = false, tookMs = 0) =>
    lifeOf(expiresIn(), { token, serviceTimeMs: 1_598_000, response: { expires_in: seconds } }, wasStated, tookMs);

  it('ends at its exp, less no margin, or at the end that was stated, whichever comes first', () => {
    expect(life(TOKEN, 3_600).lifetimeMs * 0.95).toBeCloseTo(1_000);
    expect(life('opaque', 3_600)).toMatchObject({ lifetimeMs: 3_600_000, isStated: true, isExpIgnored: false });
    expect(life(jwt({ iat: 1_000, exp: 9_000 }), 60)).toMatchObject({ lifetimeMs: 60_000 });
    expect(life(jwt({ iat: 5_000, exp: 9_000 }), 60)).toMatchObject({ lifetimeMs: 60_000, isExpIgnored: true });
  });

  it('is a second in the second of its exp, also for an owner that never got a lifetime', () => {
    const dying = jwt({ iat: 1_000, exp: 1_598 });
    expect(life(dying, undefined)).toMatchObject({ isStated: true, isExpIgnored: false });
    expect(life(dying, undefined).lifetimeMs * 0.95).toBeCloseTo(1_000);
  });

  it('is a second when 0 or less is stated after a stated lifetime, which goes on stating one', () => {
    for (const seconds of [0, -3]) {
      const last = life('opaque', seconds, true);
      expect(last).toMatchObject({ isStated: true, isExpIgnored: false });
      expect(last.problem).toBeUndefined();
      expect(last.lifetimeMs * 0.95).toBeCloseTo(1_000);
    }
  });

  it('counts the last second from the arrival', () => {
    expect(life('opaque', 0, true, 5_000).lifetimeMs * 0.95).toBeCloseTo(6_000);
  });

  it('is no longer than was stated, even in its last second', () => {
    expect(life(jwt({ iat: 1_000, exp: 1_598 }), 1, false, 990)).toMatchObject({ lifetimeMs: 1_000 });
  });

  it('is unknown when nothing usable is stated', () => {
    expect(life('opaque', 0)).toMatchObject({ problem: 'not_positive', lifetimeMs: 300_000, isStated: false });
    expect(life('opaque', undefined, true)).toMatchObject({ problem: 'absent', isStated: false });
  });
});

describe('a lifetime beyond exp', () => {
  const issued = { token: TOKEN, response: { expires_in: 5 } };
  const overrides = (policy: ExpiryPolicy, lifetimeMs = 1) => overridesExp(policy, issued, lifetimeMs);
  const unknown: ExpiryPolicy = { lifetimeMs: () => undefined };

  it('holds if the user has set it', () => {
    expect(overrides(fixedLifetime(60_000))).toBe(true);
    expect(overrides({ ...fixedLifetime(60_000), rejected: () => {} })).toBe(true);
    expect(overrides(untilRejected(), Infinity)).toBe(true);
    expect(overrides({ lifetimeMs: () => Infinity }, Infinity)).toBe(true);
  });

  it('does not hold if it was read from the response', () => {
    for (const policy of [expiresIn(), jwtExp(), unknown, { lifetimeMs: () => 60_000 }]) {
      expect(overrides(policy)).toBe(false);
    }
  });

  it('is that of the policy which firstKnown uses', () => {
    expect(overrides(firstKnown(unknown, fixedLifetime(60_000)))).toBe(true);
    expect(overrides(firstKnown(unknown, firstKnown(fixedLifetime(60_000))))).toBe(true);
    expect(overrides(firstKnown(expiresIn(), fixedLifetime(60_000)))).toBe(false);
    expect(overrides(firstKnown(unknown, unknown))).toBe(false);
  });
});
