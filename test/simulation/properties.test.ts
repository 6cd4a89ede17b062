import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/errors.ts';
import { assessLifetime, MAX_LIFETIME_MS, planLife } from '../../src/expiry/lifetime.ts';
import { expiresIn, firstKnown, jwtExp } from '../../src/expiry/policies.ts';
import { type Blame, initialBlame, reduceBlame } from '../../src/failures/blame.ts';
import { circuitPause, ownerPause } from '../../src/failures/pauses.ts';
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
  const failures = fc.record({
    count: fc.integer({ min: 1, max: 2_000 }),
    jitter: share(),
    askedMs: fc.option(fc.double(), { nil: undefined }),
  });
  const lengths = (count: number, baseMs: number, capMs: number) => {
    const fullMs = Math.min(capMs, baseMs * 2 ** (count - 1));
    return [fullMs / 2, fullMs] as const;
  };

  it("an owner's pause is between half and all of the doubled base, up to the cap, or what the service asked for", () => {
    fc.assert(
      fc.property(failures, ({ count, jitter, askedMs }) => {
        const error = new OwnerTokenError('rate_limited', 'no', { retryAfterMs: askedMs });
        const lengthMs = ownerPause(error, count, true, RANGES, 0, jitter).retryAtMonotonicMs;
        if (askedMs !== undefined && Number.isFinite(askedMs)) {
          expect(lengthMs).toBe(Math.min(Math.max(askedMs, 1_000), 3_600_000));
          return;
        }
        const [least, most] = lengths(count, 1_000, 30_000);
        expect(lengthMs).toBeGreaterThanOrEqual(least);
        expect(lengthMs).toBeLessThanOrEqual(most);
      }),
    );
  });

  it('an open circuit is extended by what the service asked for, by a minute at most', () => {
    fc.assert(
      fc.property(failures, ({ count, jitter, askedMs }) => {
        const error = new OwnerTokenError('rate_limited', 'no', { retryAfterMs: askedMs });
        const lengthMs = circuitPause('endpoint', error, count, RANGES, 0, jitter).retryAtMonotonicMs;
        const [least, most] = lengths(count, 500, 30_000);
        const isAsked = askedMs !== undefined && Number.isFinite(askedMs);
        const obeyedMs = isAsked ? Math.min(Math.max(askedMs, 1_000), 60_000) : 0;
        expect(lengthMs).toBeGreaterThanOrEqual(Math.max(obeyedMs, least));
        expect(lengthMs).toBeLessThanOrEqual(Math.max(obeyedMs, most));
      }),
    );
  });
});

describe('blame', () => {
  it('no circuit opens for fewer than three suspects in a row, ten before anyone has succeeded, or while a canary succeeds', () => {
    const step = fc.record({ owner: fc.integer({ min: 0, max: 14 }), succeeds: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.boolean(), (steps, canariesSucceed) => {
        let blame: Blame<number> = initialBlame();
        const suspects = new Set<number>();
        let canFail = 0;
        const error = new OwnerTokenError('endpoint_unavailable', 'no');
        const tell = (owner: number, number: number, succeeds: boolean, isTrial: boolean) => {
          const sent = { owner, number, isTrial };
          const event = succeeds
            ? ({ kind: 'succeeded', ...sent } as const)
            : ({ kind: 'failed', ...sent, error, isFirst: true, jitter: 0.5 } as const);
          return reduceBlame(blame, event, RANGES, number);
        };
        for (const [index, { owner, succeeds }] of steps.entries()) {
          const number = 10 * index + 1;
          const hasCanaries = blame.canaries.length > 0;
          let next = tell(owner, number, succeeds, false);
          blame = next.blame;
          if (succeeds) suspects.clear();
          else suspects.add(owner);
          for (canFail = 0; next.askCanary && canFail < 5; canFail++) {
            const canary = blame.canaries.find((each) => !blame.asked.includes(each));
            next = reduceBlame(blame, { kind: 'asked', owner: canary, jitter: 0.5 }, RANGES, number);
            blame = next.blame;
            if (canary === undefined) break;
            next = tell(canary, number + canFail + 1, canariesSucceed, true);
            blame = next.blame;
            if (canariesSucceed) suspects.clear();
          }
          if (blame.phase !== 'open') continue;
          expect(suspects.size).toBeGreaterThanOrEqual(hasCanaries ? 3 : 10);
          expect(hasCanaries && canariesSucceed).toBe(false);
          return;
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
