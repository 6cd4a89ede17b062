/** What the policy makes of single tokens. What it comes to in whole worlds: `learned-lifetime-worlds.test.ts`. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type LearnedLifetime,
  type LearnedLifetimeOptions,
  learnedLifetime,
} from '../../src/expiry/learned-lifetime.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** Names of tokens that were never used before. */
let tokens = 0;
const newToken = () => `token-${++tokens}`;

/** A token of this owner is accepted at the first age, and rejected at the second if there is one. */
function live(policy: LearnedLifetime, owner: string, acceptedMs: number, rejectedMs?: number): void {
  const token = newToken();
  policy.accepted({ owner, token, ageMs: acceptedMs });
  if (rejectedMs !== undefined) policy.rejected({ owner, token, ageMs: rejectedMs });
}

/** What so many new tokens are said to live, as multiples of the estimate. */
function stated(policy: LearnedLifetime, count: number): number[] {
  return Array.from({ length: count }, () => policy.lifetimeMs({ token: newToken() }) / policy.estimateMs);
}

const explorersIn = (policy: LearnedLifetime, count: number) => stated(policy, count).filter((each) => each > 1);

describe('the stated lifetime', () => {
  it('is the estimate, and twice that for every fourth token', () => {
    const policy = learnedLifetime({ guessMs: 2 * MINUTE_MS });
    expect(policy.estimateMs).toBe(2 * MINUTE_MS);
    expect(stated(policy, 8)).toEqual([1, 1, 1, 2, 1, 1, 1, 2]);
  });

  it('stays the same for a token when asked again, even after evidence', () => {
    const policy = learnedLifetime();
    const before = policy.lifetimeMs({ token: 'a' });
    live(policy, 'owner', HOUR_MS);
    expect(policy.lifetimeMs({ token: 'a' })).toBe(before);
    expect(policy.lifetimeMs({ token: 'b' })).toBe(HOUR_MS);
  });

  it('is remembered for 10,000 tokens', () => {
    const policy = learnedLifetime();
    policy.lifetimeMs({ token: 'a' });
    live(policy, 'owner', HOUR_MS);
    stated(policy, 9_999);
    expect(policy.lifetimeMs({ token: 'a' })).toBe(300_000);
    stated(policy, 10_000);
    expect(policy.lifetimeMs({ token: 'a' })).toBe(HOUR_MS);
  });

  it('of explorers doubles after every eighth until a token is accepted in the second half of the estimate', () => {
    const policy = learnedLifetime();
    const first = explorersIn(policy, 4 * 7);
    expect(first).toEqual(Array(7).fill(2));
    expect(explorersIn(policy, 4 * 9)).toEqual([...Array(8).fill(4), 8]);
    live(policy, 'owner', 149_999);
    expect(explorersIn(policy, 4)).toEqual([8]);
    live(policy, 'owner', 150_000);
    expect(explorersIn(policy, 4)).toEqual([2]);
  });

  it('is that of an explorer half as often after each that ended beyond the estimate, until the estimate changes', () => {
    const policy = learnedLifetime();
    const interval = () => 32 / explorersIn(policy, 32).length;
    expect(interval()).toBe(4);
    live(policy, 'a', 150_000, 400_000);
    expect(interval()).toBe(8);
    live(policy, 'a', 300_000);
    expect(interval()).toBe(8);
    // Not accepted in the second half: it may have been revoked long before.
    live(policy, 'b', 100_000, 400_000);
    expect(interval()).toBe(8);
    live(policy, 'c', 301_000);
    expect(interval()).toBe(4);
    for (let index = 0; index < 30; index++) live(policy, 'a', 200_000, 400_000);
    expect(explorersIn(policy, 2 * 1_024)).toHaveLength(2);
  });
});

describe('the estimate', () => {
  it('is raised by a token that is accepted beyond it', () => {
    const policy = learnedLifetime();
    live(policy, 'a', 300_000);
    expect(policy.estimateMs).toBe(300_000);
    live(policy, 'a', 400_000);
    expect(policy.estimateMs).toBe(400_000);
  });

  /** Three owners whose tokens live as long as is thought. */
  const withOwners = () => {
    const policy = learnedLifetime();
    for (const owner of ['a', 'b', 'c']) live(policy, owner, 0);
    return policy;
  };

  it('is lowered by the strikes of three owners, to the highest age at which one of their tokens was accepted', () => {
    const policy = withOwners();
    live(policy, 'a', 50_000, 61_000);
    live(policy, 'a', 50_000, 61_000);
    live(policy, 'b', 58_000, 90_000);
    expect(policy.estimateMs).toBe(300_000);
    live(policy, 'c', 40_000, 80_000);
    expect(policy.estimateMs).toBe(58_000);
  });

  it('is lowered by fewer strikes where there are fewer owners', () => {
    const alone = learnedLifetime();
    live(alone, 'a', 55_000, 65_000);
    expect(alone.estimateMs).toBe(55_000);
    const two = learnedLifetime();
    live(two, 'b', 0);
    live(two, 'a', 55_000, 65_000);
    expect(two.estimateMs).toBe(300_000);
    live(two, 'b', 50_000, 65_000);
    expect(two.estimateMs).toBe(55_000);
  });

  it('is lowered only by three times as many owners as contradict', () => {
    const policy = learnedLifetime();
    for (let owner = 0; owner < 6; owner++) live(policy, `bad ${owner}`, 0);
    live(policy, 'good 1', 250_000);
    live(policy, 'good 2', 250_000);
    for (let owner = 0; owner < 5; owner++) live(policy, `bad ${owner}`, 50_000, 60_000);
    expect(policy.estimateMs).toBe(300_000);
    live(policy, 'bad 5', 50_000, 60_000);
    expect(policy.estimateMs).toBe(50_000);
  });

  it('does not count owners that contradicted before the last 256 reports', () => {
    const afterReports = (count: number) => {
      const policy = learnedLifetime();
      live(policy, 'good', 250_000);
      for (let report = 0; report < count; report++) live(policy, `owner ${report % 2}`, 0);
      live(policy, 'owner 0', 50_000, 60_000);
      live(policy, 'owner 1', 50_000, 60_000);
      return policy.estimateMs;
    };
    expect(afterReports(251)).toBe(300_000);
    expect(afterReports(252)).toBe(50_000);
  });

  it('is lowered by tokens that end between the half of it and its end', () => {
    const policy = withOwners();
    for (const owner of ['a', 'b', 'c']) live(policy, owner, 200_000, 300_000);
    expect(policy.estimateMs).toBe(200_000);
    for (const owner of ['a', 'b', 'c']) live(policy, owner, 120_000, 150_000);
    expect(policy.estimateMs).toBe(120_000);
  });

  it('loses the strike of an owner whose token is accepted in the second half', () => {
    const policy = withOwners();
    live(policy, 'a', 50_000, 60_000);
    live(policy, 'a', 150_000);
    live(policy, 'b', 150_001, 160_000);
    live(policy, 'c', 150_001, 160_000);
    expect(policy.estimateMs).toBe(300_000);
  });

  it('is not lowered again by tokens from before it was lowered', () => {
    const policy = learnedLifetime();
    for (const owner of ['a', 'b', 'c']) policy.accepted({ owner, token: `of ${owner}`, ageMs: 10_000 });
    for (const owner of ['d', 'e', 'f']) policy.accepted({ owner, token: `of ${owner}`, ageMs: 5_000 });
    for (const owner of ['a', 'b', 'c']) policy.rejected({ owner, token: `of ${owner}`, ageMs: 20_000 });
    expect(policy.estimateMs).toBe(10_000);
    for (const owner of ['a', 'b', 'c']) live(policy, owner, 4_000);
    for (const owner of ['d', 'e', 'f']) policy.accepted({ owner, token: `of ${owner}`, ageMs: 5_000 });
    for (const owner of ['d', 'e', 'f']) policy.rejected({ owner, token: `of ${owner}`, ageMs: 6_000 });
    expect(policy.estimateMs).toBe(10_000);
  });

  it('is not changed by rejected tokens that were never accepted, such as those of an owner that was refused', () => {
    const policy = learnedLifetime();
    for (let index = 0; index < 100; index++) {
      policy.rejected({ owner: `owner ${index % 9}`, token: newToken(), ageMs: 20_000 });
    }
    expect(policy.estimateMs).toBe(300_000);
    live(policy, 'owner 0', 0);
    policy.rejected({ owner: 'owner 0', token: newToken(), ageMs: 20_000 });
    expect(policy.estimateMs).toBe(300_000);
  });

  it('is kept for the last token of 10,000 owners at most', () => {
    const strikesAfter = (others: number) => {
      const policy = learnedLifetime();
      policy.accepted({ owner: 'first', token: 'its token', ageMs: 1 });
      for (let index = 0; index < others; index++) live(policy, `owner ${index}`, 0);
      policy.rejected({ owner: 'first', token: 'its token', ageMs: 2_000 });
      live(policy, 'owner 1', 1, 2_000);
      live(policy, 'owner 2', 1, 2_000);
      return policy.estimateMs < 300_000;
    };
    expect(strikesAfter(9_999)).toBe(true);
    expect(strikesAfter(10_000)).toBe(false);
  });

  it('stays within minMs and maxMs, and so does every stated lifetime, whatever ages are reported', () => {
    const report = fc.record({
      what: fc.constantFrom('accepted' as const, 'rejected' as const),
      owner: fc.integer({ min: 0, max: 9 }).map(String),
      token: fc.integer({ min: 0, max: 3 }).map(String),
      // A clock that was set back makes an age negative.
      ageMs: fc.oneof(fc.double({ min: -DAY_MS, max: DAY_MS, noNaN: true }), fc.constantFrom(0, 1, Infinity)),
    });
    fc.assert(
      fc.property(fc.array(report, { maxLength: 200 }), (reports) => {
        const policy = learnedLifetime({ minMs: 10_000, maxMs: HOUR_MS });
        for (const { what, ...age } of reports) {
          policy[what](age);
          for (const ms of [policy.estimateMs, policy.lifetimeMs({ token: newToken() })]) {
            expect(ms).toBeGreaterThanOrEqual(10_000);
            expect(ms).toBeLessThanOrEqual(HOUR_MS);
          }
        }
      }),
      { numRuns: 200 },
    );
  });

  it('is at least minMs after a clock was set back', () => {
    const policy = learnedLifetime();
    live(policy, 'owner', -HOUR_MS, -HOUR_MS);
    expect(policy.estimateMs).toBe(1_000);
    expect(stated(policy, 4)).toEqual([1, 1, 1, 2]);
  });
});

it.each([
  [{ guessMs: 0 }, 'guessMs: expected milliseconds from 1000 to ten years'],
  [{ guessMs: Number.NaN }, 'guessMs: expected'],
  [{ minMs: 999 }, 'minMs: expected milliseconds from 1000 to ten years'],
  [{ minMs: '1000' }, 'minMs: expected milliseconds'],
  [{ maxMs: Number.POSITIVE_INFINITY }, 'maxMs: expected milliseconds'],
  [{ snapshot: {} }, 'snapshot: unknown option'],
  [null, 'learnedLifetime: invalid options:\n  - options: expected an object'],
])('learnedLifetime refuses the options %j: %s', (options, problem) => {
  expect(() => learnedLifetime(options as LearnedLifetimeOptions)).toThrow(
    expect.objectContaining({ code: 'invalid_options', message: expect.stringContaining(problem) }),
  );
});

it('learnedLifetime takes a guess outside its bounds as the nearer bound', () => {
  expect(learnedLifetime({ minMs: HOUR_MS }).estimateMs).toBe(HOUR_MS);
  expect(learnedLifetime({ minMs: 1_000, maxMs: 3_650 * DAY_MS, guessMs: 1_000 }).estimateMs).toBe(1_000);
  expect(learnedLifetime({ maxMs: MINUTE_MS }).estimateMs).toBe(MINUTE_MS);
});
