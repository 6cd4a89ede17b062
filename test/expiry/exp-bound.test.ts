import { describe, expect, it } from 'vitest';
import { msUntilExp, overridesExp } from '../../src/expiry/exp-bound.ts';
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
  ])('what is left until exp counts from the end of the second that the service stated: at %d s %d ms', (now, left) => {
    expect(at(now)).toBe(left);
    expect(at(now, WITHOUT_IAT)).toBe(left);
  });

  it('what is left until exp is nothing in its last second, and in the one after, which rounding may have added', () => {
    for (const now of [1_599, 1_600, 1_600.999]) expect(at(now)).toBe(0);
  });

  it('what is left until exp is unbounded by a clock that cannot be the issuer’s', () => {
    for (const now of [0, 998, 1_601, 5_200, -1e9]) expect(at(now)).toBe(Infinity);
    for (const now of [1_601, 5_200]) expect(at(now, WITHOUT_IAT)).toBe(Infinity);
  });

  it('what is left until exp allows for one second before iat', () => {
    expect(at(999)).toBe(600_000);
    expect(msUntilExp({ token: jwt({ iat: 1_000.4, exp: 1_600.4 }), serviceTimeMs: 1_000_000 })).toBe(599_400);
  });

  it('what is left until exp is unknown without the service’s time, and without exp', () => {
    expect(msUntilExp({ token: TOKEN })).toBeUndefined();
    expect(at(1_300, 'opaque')).toBeUndefined();
    expect(at(1_300, jwt({ iat: 1_000 }))).toBeUndefined();
  });
});

describe('a lifetime beyond exp', () => {
  const issued = { token: TOKEN, response: { expires_in: 5 } };
  const overrides = (policy: ExpiryPolicy, lifetimeMs = 1) => overridesExp(policy, issued, lifetimeMs);
  const unknown: ExpiryPolicy = { lifetimeMs: () => undefined };

  it('a lifetime beyond exp holds if the user has set it', () => {
    expect(overrides(fixedLifetime(60_000))).toBe(true);
    expect(overrides({ ...fixedLifetime(60_000), rejected: () => {} })).toBe(true);
    expect(overrides(untilRejected(), Infinity)).toBe(true);
    expect(overrides({ lifetimeMs: () => Infinity }, Infinity)).toBe(true);
  });

  it('a lifetime beyond exp does not hold if it was read from the response', () => {
    for (const policy of [expiresIn(), jwtExp(), unknown, { lifetimeMs: () => 60_000 }]) {
      expect(overrides(policy)).toBe(false);
    }
  });

  it('a lifetime beyond exp is that of the policy which firstKnown uses', () => {
    expect(overrides(firstKnown(unknown, fixedLifetime(60_000)))).toBe(true);
    expect(overrides(firstKnown(unknown, firstKnown(fixedLifetime(60_000))))).toBe(true);
    expect(overrides(firstKnown(expiresIn(), fixedLifetime(60_000)))).toBe(false);
    expect(overrides(firstKnown(unknown, unknown))).toBe(false);
  });
});
