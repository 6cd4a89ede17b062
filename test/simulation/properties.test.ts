import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/errors.ts';
import { assessLifetime, MAX_LIFETIME_MS, planLife } from '../../src/expiry/lifetime.ts';
import { expiresIn, firstKnown, jwtExp } from '../../src/expiry/policies.ts';
import { drawPause } from '../../src/failures/backoff.ts';
import type { Permit } from '../../src/failures/circuit-breaker.ts';
import { FailureScopes } from '../../src/failures/failure-scopes.ts';
import { accessKeyOf } from '../../src/registry/access-key.ts';
import { Fingerprints } from '../../src/registry/fingerprints.ts';
import { anyString } from '../helpers/any-string.ts';

const share = () => fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });
const RANGES = {
  owner: { baseMs: 1_000, capMs: 300_000 },
  client: { baseMs: 1_000, capMs: 60_000 },
  endpoint: { baseMs: 500, capMs: 30_000 },
};

describe('pauses', () => {
  it('a drawn pause is between half and all of the doubled base, up to the cap, or what the service asked for', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2_000 }), share(), fc.option(fc.double()), (count, drawn, askedMs) => {
        const error = new OwnerTokenError('rate_limited', 'no', { retryAfterMs: askedMs ?? undefined });
        const lengthMs = drawPause(error, count, RANGES.endpoint, 0, () => drawn).retryAtMonotonicMs;
        if (askedMs !== null && Number.isFinite(askedMs)) {
          expect(lengthMs).toBe(Math.min(Math.max(askedMs, 1_000), 3_600_000));
        } else {
          const fullMs = Math.min(30_000, 500 * 2 ** (count - 1));
          expect(lengthMs).toBeGreaterThanOrEqual(fullMs / 2);
          expect(lengthMs).toBeLessThanOrEqual(fullMs);
        }
      }),
    );
  });

  it('without three distinct owners failing in a row no failure that may be anybody’s stops all; with success between, none', () => {
    const step = fc.record({ owner: fc.integer({ min: 0, max: 5 }), succeeds: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const pauses = new FailureScopes({
          requestTimeoutMs: 30_000,
          ranges: RANGES,
          concurrency: { initial: 16, min: 1, max: 128 },
          requestsPerSecond: undefined,
          random: () => 0.5,
        });
        const failures = new Map<number, number>();
        const suspects = new Set<number>();
        for (const [n, { owner, succeeds }] of steps.entries()) {
          const count = failures.get(owner) ?? 0;
          const permit = pauses.admit(n, count > 0 ? 'failing' : 'new', 1) as Permit;
          if (succeeds) {
            pauses.succeeded(permit, n, undefined);
            suspects.clear();
            failures.delete(owner);
            continue;
          }
          suspects.add(owner);
          const error = new OwnerTokenError('endpoint_unavailable', 'no');
          const at = { nowMs: n, sentAtMs: n, resends: 0, isOnlyRequest: true };
          const failure = { permit, error, owner: String(owner), ownerFailures: count, ...at };
          const { scope } = pauses.failed(failure);
          failures.set(owner, count + 1);
          if (scope === 'endpoint') {
            expect(suspects.size).toBeGreaterThanOrEqual(3);
            return;
          }
        }
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('lifetimes', () => {
  it('whatever is stated, a token ends, after it is refreshed, and not later than was said', () => {
    const stated = fc.oneof(fc.double(), fc.integer(), fc.string(), fc.anything());
    fc.assert(
      fc.property(stated, share(), fc.double({ min: 0.01, max: 1, noNaN: true }), (value, drawn, from) => {
        const policy = firstKnown(expiresIn(), jwtExp());
        const said = policy.lifetimeMs({ token: 'opaque', requestedAtMs: 0, response: { expires_in: value } });
        const { lifetimeMs } = assessLifetime(said);
        expect(lifetimeMs).toBeGreaterThan(0);
        expect(lifetimeMs).toBeLessThanOrEqual(MAX_LIFETIME_MS);
        const plan = planLife({ requestedAtMs: 0, lifetimeMs, refreshWindow: [from, 1], random: () => drawn });
        expect(plan.refreshAtMs).toBeLessThanOrEqual(plan.expiresAtMs);
        expect(plan.expiresAtMs).toBeLessThan(lifetimeMs);
        expect(plan.expiresAtMs).toBeGreaterThanOrEqual(lifetimeMs * 0.949);
      }),
      {
        numRuns: 2_000,
        examples: [
          [1e20, 0.5, 0.6],
          ['1e999', 0.5, 0.6],
          [Number.POSITIVE_INFINITY, 0, 1],
        ],
      },
    );
  });
});

describe('access keys', () => {
  const names = new Fingerprints(new Uint8Array(16));

  it('two keys that differ in anything have names that differ, and no name has the key in it', () => {
    fc.assert(
      fc.property(anyString, anyString, (a, b) => {
        fc.pre(a !== '' && b !== '' && a.isWellFormed() && b.isWellFormed());
        expect(accessKeyOf(a)).toBe(a);
        expect(names.namesOf(a).owner === names.namesOf(b).owner).toBe(a === b);
        if (a.length > 4) expect(names.namesOf(a).owner).not.toContain(a);
        expect(names.namesOf(a).owner).not.toBe(names.ofToken(a));
      }),
      { numRuns: 1_000 },
    );
  });
});
