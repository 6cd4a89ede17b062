/** What each ready-made policy states. Which values of `expires_in` count: row E1 of the guarantees. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import { assessLifetime, type ExpiryPolicy, MAX_LIFETIME_MS } from '../../src/expiry/lifetime.ts';
import { expiresIn, firstKnown, fixedLifetime, jwtExp, untilRejected } from '../../src/expiry/policies.ts';
import { jwt } from '../helpers/jwt.ts';

const NOW_MS = Date.UTC(2030, 0, 1);
const NOW_S = NOW_MS / 1000;

/** What `expiresIn()` makes of this value of `expires_in`. */
const stated = (value: unknown) => expiresIn().lifetimeMs({ token: 't', response: { expires_in: value } });

function codeOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    return error instanceof OwnerTokenError ? error.code : String(error);
  }
  return 'nothing thrown';
}

describe('expires_in', () => {
  it('is absent when the field or the whole response is missing', () => {
    expect(expiresIn().lifetimeMs({ token: 't', response: {} })).toBeUndefined();
    expect(expiresIn().lifetimeMs({ token: 't' })).toBeUndefined();
  });

  it('makes no token immortal, whatever it is', () => {
    fc.assert(
      fc.property(fc.oneof(fc.anything(), fc.double(), fc.string()), (value) => {
        expect(assessLifetime(stated(value)).lifetimeMs).toBeLessThanOrEqual(MAX_LIFETIME_MS);
      }),
    );
  });
});

describe('expiresIn', () => {
  const response = { ttl: 5, data: { expires_in: 60 }, 'data.flat': 7, nothing: null };

  it('reads another field, in another unit', () => {
    expect(expiresIn({ field: 'ttl' }).lifetimeMs({ token: 't', response })).toBe(5000);
    expect(expiresIn({ field: 'ttl', unit: 'ms' }).lifetimeMs({ token: 't', response })).toBe(5);
    expect(expiresIn({ field: 'ttl', unit: 'min' }).lifetimeMs({ token: 't', response })).toBe(300_000);
  });

  it('reads a refresh hint in the unit of the lifetime: refresh_in, or else refresh_after', () => {
    const of = (fields: object, options = {}) =>
      expiresIn(options).lifetimeMs({ token: 't', response: { expires_in: 3600, ...fields } });
    expect(of({ refresh_in: 1800 })).toEqual({ lifetimeMs: 3_600_000, refreshAfterMs: 1_800_000 });
    expect(of({ refresh_in: '1800' })).toEqual({ lifetimeMs: 3_600_000, refreshAfterMs: 1_800_000 });
    expect(of({ refresh_after: 900 })).toEqual({ lifetimeMs: 3_600_000, refreshAfterMs: 900_000 });
    expect(of({ refresh_in: null, refresh_after: 900 })).toEqual({ lifetimeMs: 3_600_000, refreshAfterMs: 900_000 });
    expect(of({ refresh_in: 1800, refresh_after: 900 })).toMatchObject({ refreshAfterMs: 1_800_000 });
    expect(of({ data: { ttl: 60, refresh_in: 30 } }, { field: 'data.ttl', unit: 'min' })).toEqual({
      lifetimeMs: 3_600_000,
      refreshAfterMs: 1_800_000,
    });
    // Without a lifetime there is nothing to refresh ahead of.
    expect(of({ expires_in: undefined, refresh_in: 1800 })).toBeUndefined();
  });

  it.each([
    ['expires_in', {}, undefined],
    ['refresh_in', { expires_in: 3600 }, 3_600_000],
    ['refresh_after', { expires_in: 3600 }, 3_600_000],
  ])('ignores %s of Object.prototype', (name, response, lifetimeMs) => {
    Object.defineProperty(Object.prototype, name, { value: 60, configurable: true });
    try {
      expect(expiresIn().lifetimeMs({ token: 't', response })).toBe(lifetimeMs);
    } finally {
      Reflect.deleteProperty(Object.prototype, name);
    }
  });

  it('lets a refresh hint in the response only make a refresh earlier, and never within a second', () => {
    fc.assert(
      fc.property(fc.oneof(fc.anything(), fc.double(), fc.string()), (hint) => {
        const response = { expires_in: 3600, refresh_in: hint };
        const { refreshAfterMs = 1000, ...rest } = assessLifetime(expiresIn().lifetimeMs({ token: 't', response }));
        expect(rest).toEqual({ lifetimeMs: 3_600_000 });
        expect(refreshAfterMs).toBeGreaterThanOrEqual(1000);
        expect(refreshAfterMs).toBeLessThan(3_600_000);
      }),
    );
  });

  it('follows a path through own properties of objects only', () => {
    const at = (field: string) => expiresIn({ field }).lifetimeMs({ token: 't', response });
    expect(at('data.expires_in')).toBe(60_000);
    expect(at('ttl.expires_in')).toBeUndefined();
    expect(at('data.constructor')).toBeUndefined();
    expect(at('absent.expires_in')).toBeUndefined();
    expect(at('nothing.expires_in')).toBeUndefined();
  });

  it.each([
    [{ field: '' }, 'field: expected the name of a field, or a path with dots'],
    [{ field: 3 }, 'field: expected the name of a field, or a path with dots'],
    [{ unit: 'h' }, "unit: expected 'ms', 's' or 'min'"],
    [{ unit: 'toString' }, "unit: expected 'ms', 's' or 'min'"],
    [{ unit: ['s'] }, "unit: expected 'ms', 's' or 'min'"],
    [{ felid: 'ttl' }, 'felid: unknown option; expected one of field, unit'],
    [null, 'options: expected an object'],
  ])('refuses %j', (options, problem) => {
    expect(codeOf(() => expiresIn(options as never))).toBe('invalid_options');
    expect(() => expiresIn(options as never)).toThrow(`expiresIn: invalid options:\n  - ${problem}`);
  });
});

describe('E5: jwtExp', () => {
  const lifetimeOf = (token: string) => jwtExp().lifetimeMs({ token, requestedAtMs: NOW_MS });

  it('states exp − iat, whatever our clock says', () => {
    expect(lifetimeOf(jwt({ iat: NOW_S - 9000, exp: NOW_S - 5400 }))).toBe(3_600_000);
    expect(lifetimeOf(jwt({ iat: 1000.25, exp: 1001 }))).toBe(750);
  });

  it('counts from the request without a readable iat', () => {
    expect(lifetimeOf(jwt({ exp: NOW_S + 60 }))).toBe(60_000);
    expect(lifetimeOf(jwt({ exp: NOW_S + 60, iat: 'yesterday' }))).toBe(60_000);
  });

  it('counts from the service’s time without a readable iat, unless that is not before exp', () => {
    const lifetimeAt = (serviceTimeMs: number, claims: object) =>
      jwtExp().lifetimeMs({ token: jwt(claims), requestedAtMs: NOW_MS, serviceTimeMs });
    for (const offMs of [-86_400_000, -60_000, 60_000, 86_400_000]) {
      expect(lifetimeAt(NOW_MS + offMs, { exp: NOW_S + offMs / 1_000 + 60 })).toBe(60_000);
    }
    expect(lifetimeAt(NOW_MS + 60_000, { exp: NOW_S + 60 })).toBe(60_000);
    expect(lifetimeAt(NOW_MS, { iat: NOW_S - 60, exp: NOW_S + 60 })).toBe(120_000);
  });

  it('counts from now when asked outside a registry', () => {
    const leastMs = Date.now();
    const nowMs = 4e12 - (jwtExp().lifetimeMs({ token: jwt({ exp: 4e9 }) }) as number);
    expect(nowMs).toBeGreaterThanOrEqual(leastMs);
    expect(nowMs).toBeLessThanOrEqual(Date.now());
  });

  it('passes on an exp before its iat, so that it can be reported', () => {
    expect(assessLifetime(lifetimeOf(jwt({ iat: 2000, exp: 1000 }))).problem).toBe('not_positive');
  });
});

describe('fixedLifetime and untilRejected', () => {
  it('say the same of every token', () => {
    expect(fixedLifetime(60_000).lifetimeMs({ token: 't', response: { expires_in: 5 } })).toBe(60_000);
    expect(untilRejected().lifetimeMs({ token: 't', response: { expires_in: 5 } })).toBe(Number.POSITIVE_INFINITY);
  });

  it.each([
    0,
    -1,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    MAX_LIFETIME_MS + 1,
    '60000',
    { lifetimeMs: 60_000 },
    undefined,
    null,
  ])('refuse %j as a fixed lifetime', (ms) => {
    expect(codeOf(() => fixedLifetime(ms as number))).toBe('invalid_options');
    expect(() => fixedLifetime(ms as number)).toThrow(
      'fixedLifetime: expected milliseconds, over 0 and up to ten years',
    );
  });
});

describe('firstKnown', () => {
  const saying = (...values: unknown[]): ExpiryPolicy[] =>
    values.map((value) => ({ lifetimeMs: () => value as number }));
  const first = (...values: unknown[]) => firstKnown(...saying(...values)).lifetimeMs({ token: 't' });

  it('gives the first lifetime that is usable', () => {
    expect(first(undefined, 5000, 6000)).toBe(5000);
    expect(first(Number.NaN, -1, Number.MAX_VALUE, 6000)).toBe(6000);
    expect(first(undefined, Number.POSITIVE_INFINITY)).toBe(Number.POSITIVE_INFINITY);
  });

  it('gives the first stated lifetime where none is usable', () => {
    expect(first(undefined, Number.NaN, -1)).toBeNaN();
    expect(first(0, Number.NaN)).toBe(0);
    expect(first(undefined, undefined)).toBeUndefined();
    expect(() => firstKnown()).toThrow('firstKnown: expected one or more policies');
  });

  it('asks no policy after the first usable lifetime', () => {
    const never: ExpiryPolicy = { lifetimeMs: () => expect.unreachable() };
    expect(firstKnown(...saying(5), never).lifetimeMs({ token: 't' })).toBe(5);
  });

  it('gives the first usable lifetime with its refresh hint', () => {
    const hinted = { lifetimeMs: 5000, refreshAfterMs: 2000 };
    expect(first({ lifetimeMs: 0, refreshAfterMs: 2000 }, hinted)).toBe(hinted);
  });

  it('hands evidence to every policy that wants it', () => {
    const heard: string[] = [];
    const learner = (name: string): ExpiryPolicy => ({
      lifetimeMs: () => undefined,
      accepted: ({ ageMs }) => void heard.push(`${name} accepted ${ageMs}`),
      rejected: ({ ageMs }) => void heard.push(`${name} rejected ${ageMs}`),
    });
    const policy = firstKnown(learner('a'), untilRejected(), learner('b'));
    policy.accepted?.({ owner: 'o', token: 't', ageMs: 1 });
    policy.rejected?.({ owner: 'o', token: 't', ageMs: 2 });
    expect(heard).toEqual(['a accepted 1', 'b accepted 1', 'a rejected 2', 'b rejected 2']);
  });

  it('throws what a policy throws', () => {
    const broken = { lifetimeMs: () => expect.fail('broken') } satisfies ExpiryPolicy;
    expect(() => firstKnown(broken, fixedLifetime(5)).lifetimeMs({ token: 't' })).toThrow('broken');
  });

  it.each([undefined, {}, () => 5, 'expiresIn'])('refuses %s as a policy', (policy) => {
    expect(codeOf(() => firstKnown(fixedLifetime(5), policy as never))).toBe('invalid_options');
    expect(() => firstKnown(policy as never)).toThrow('firstKnown: expected one or more policies');
  });
});
