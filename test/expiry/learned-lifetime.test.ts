/** What the policy makes of single tokens. What it comes to in whole worlds: `learned-lifetime-worlds.test.ts`. */

import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import { learnedLifetime } from '../../src/expiry/learned-lifetime.ts';
import type {
  LearnedLifetime,
  LearnedLifetimeOptions,
  LearnedLifetimeSnapshot,
} from '../../src/expiry/learned-lifetime-types.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

const estimateOf = (policy: LearnedLifetime) => policy.stats().estimateMs;

/** What a hundred tokens are stated to live. */
function stated(policy: LearnedLifetime, from = 0): number[] {
  return Array.from({ length: 100 }, (_, index) => policy.lifetimeMs({ token: `token-${from + index}` }));
}

/** One token's life as seen from here: accepted at these ages, and refused at the last if there is one. */
function live(policy: LearnedLifetime, name: string, acceptedMs: number[], refusedMs?: number): void {
  const age = { owner: `owner of ${name}`, token: name };
  for (const ageMs of acceptedMs) policy.accepted({ ...age, ageMs });
  if (refusedMs !== undefined) policy.rejected({ ...age, ageMs: refusedMs });
}

/** Many owners' tokens that all end at one age. */
function endAt(policy: LearnedLifetime, lifetimeMs: number, tokens = 50): void {
  for (let index = 0; index < tokens; index++) {
    live(policy, `ends-${lifetimeMs}-${index}`, [0, lifetimeMs * 0.5, lifetimeMs * 0.98], lifetimeMs * 1.02);
  }
}

describe('the stated lifetime', () => {
  it('is the guess without evidence, and more for explorers', () => {
    const values = stated(learnedLifetime({ guessMs: 2 * MINUTE_MS }));
    const guessed = values.filter((value) => value === 2 * MINUTE_MS);
    const explored = values.filter((value) => value !== 2 * MINUTE_MS);
    expect(explored).toHaveLength(16);
    expect(guessed).toHaveLength(84);
    expect(Math.min(...explored)).toBeGreaterThanOrEqual(4 * MINUTE_MS);
    expect(Math.max(...explored)).toBeGreaterThan(HOUR_MS);
  });

  it('stays the same for a token when asked again, even after evidence', () => {
    const policy = learnedLifetime();
    const before = stated(policy);
    endAt(policy, MINUTE_MS);
    expect(stated(policy)).toEqual(before);
    expect(stated(policy, 1000)).not.toEqual(before);
  });

  it('is remembered for a limited number of tokens', () => {
    const policy = learnedLifetime({ exploration: 0 });
    stated(policy);
    endAt(policy, MINUTE_MS);
    expect(policy.lifetimeMs({ token: 'token-99' })).toBe(300_000);
    for (let from = 1000; from < 1300; from += 100) stated(policy, from);
    expect(policy.lifetimeMs({ token: 'token-99' })).toBeLessThan(MINUTE_MS);
  });

  it('is that of an explorer less often once the lifetime is known, and each explorer costs credit', () => {
    const policy = learnedLifetime();
    endAt(policy, HOUR_MS);
    const before = policy.stats().evidence.explorers;
    for (let from = 0; from < 2000; from += 100) stated(policy, from);
    expect(policy.stats().evidence.explorers - before).toBeLessThanOrEqual(2);
  });

  it('is that of new explorers after accepted calls, unless they are made together', () => {
    const explorersAfter = (agesMs: (index: number) => number) => {
      const policy = learnedLifetime({ exploration: 0.05 });
      endAt(policy, HOUR_MS);
      for (let from = 0; from < 2000; from += 100) stated(policy, from);
      const before = policy.stats().evidence.explorers;
      for (let index = 0; index < 300; index++) live(policy, 'caller', [agesMs(index)]);
      for (let from = 2000; from < 9000; from += 100) stated(policy, from);
      return policy.stats().evidence.explorers - before;
    };
    expect(explorersAfter((index) => index * 10_000)).toBe(2);
    expect(explorersAfter((index) => index * 3)).toBe(0);
  });
});

describe('exploring', () => {
  const START_MS = Date.UTC(2030, 0, 1);
  let tokens = 0;
  // A token explores or not by its hash, so each test begins with the same tokens, in whatever order they run.
  beforeEach(() => {
    tokens = 0;
  });

  /** What explorers among so many new tokens are stated, as multiples of the estimate. */
  function explorers(policy: LearnedLifetime, count: number, requestedAtMs = START_MS): number[] {
    const estimateMs = estimateOf(policy);
    const values = Array.from({ length: count }, () => policy.lifetimeMs({ token: `new-${++tokens}`, requestedAtMs }));
    return values.filter((value) => value !== estimateMs).map((value) => value / estimateMs);
  }

  /** A policy that knows the lifetime of an hour, with as much credit as it can earn. */
  function policyWithEvidence(): LearnedLifetime {
    const policy = learnedLifetime({ exploration: 0.05 });
    endAt(policy, HOUR_MS);
    for (let index = 0; index < 400; index++) live(policy, `payer-${index}`, [0]);
    return policy;
  }

  it('tries an unknown lifetime with every second token, from twice the estimate to maxMs, sixteen at once', () => {
    const policy = learnedLifetime({ maxMs: HOUR_MS });
    const first = explorers(policy, 16).length;
    expect(first).toBeGreaterThan(3);
    const more = explorers(policy, 400);
    expect(first + more.length).toBe(16);
    expect(explorers(policy, 400)).toEqual([]);
    for (const factor of more) expect(factor).toBeGreaterThanOrEqual(2);
    for (const factor of more) expect(factor).toBeLessThanOrEqual(12);
    expect(new Set(more).size).toBeGreaterThan(3);
    expect(policy.stats().evidence.explorers).toBe(16);
  });

  it('tries a known lifetime with four tokens at once, for one and a half times the estimate', () => {
    const policy = policyWithEvidence();
    const factors = explorers(policy, 400);
    expect(factors).toHaveLength(4);
    expect(Math.min(...factors)).toBeGreaterThanOrEqual(2);
    expect(explorers(policy, 400, START_MS + 1.49 * estimateOf(policy))).toEqual([]);
    expect(explorers(policy, 400, START_MS + 1.5 * estimateOf(policy))).toHaveLength(4);
  });

  it('costs credit if an explorer is rejected beyond the estimate', () => {
    const policy = policyWithEvidence();
    live(policy, 'long', [], 1.1 * HOUR_MS);
    expect(explorers(policy, 400)).toHaveLength(3);
  });
});

describe('evidence', () => {
  it('of one long-lived token does not raise the learned lifetime, of a second one does', () => {
    const policy = learnedLifetime();
    const before = estimateOf(policy);
    live(policy, 'a', [HOUR_MS]);
    expect(estimateOf(policy)).toBeLessThanOrEqual(before);
    live(policy, 'b', [HOUR_MS]);
    expect(estimateOf(policy)).toBeGreaterThan(before);
  });

  it('keeps the estimate within minMs and maxMs, whatever ages are reported', () => {
    const report = fc.record({
      what: fc.constantFrom('accepted' as const, 'rejected' as const),
      owner: fc.integer({ min: 0, max: 9 }).map(String),
      token: fc.integer({ min: 0, max: 30 }).map(String),
      ageMs: fc.oneof(
        fc.double({ min: 0, max: DAY_MS, noNaN: true }),
        fc.constantFrom(0, 1, Number.POSITIVE_INFINITY, Number.NaN, -1),
      ),
    });
    fc.assert(
      fc.property(fc.array(report, { maxLength: 200 }), (reports) => {
        const policy = learnedLifetime({ minMs: 10_000, maxMs: HOUR_MS });
        for (const { what, ...age } of reports) policy[what](age);
        for (const value of stated(policy)) {
          expect(value).toBeGreaterThanOrEqual(10_000);
          expect(value).toBeLessThanOrEqual(HOUR_MS);
        }
        expect(policy.stats().confidence).toBeGreaterThanOrEqual(0);
        expect(policy.stats().confidence).toBeLessThanOrEqual(1);
      }),
      { numRuns: 50 },
    );
  });

  it('weighs the same for each owner, however many tokens it goes through', () => {
    const policy = learnedLifetime();
    endAt(policy, HOUR_MS);
    const before = estimateOf(policy);
    // An hour of the life of each owner's tokens: 55 tokens of one, one token of each of 50.
    for (let index = 0; index < 55; index++) {
      policy.accepted({ owner: 'sick', token: `s${index}`, ageMs: MINUTE_MS });
      policy.rejected({ owner: 'sick', token: `s${index}`, ageMs: 1.1 * MINUTE_MS });
      live(policy, `well-${index}`, [0, 0.98 * HOUR_MS]);
    }
    expect(estimateOf(policy)).toBe(before);
    for (let index = 0; index < 12; index++) live(policy, `sick-${index}`, [MINUTE_MS], 1.1 * MINUTE_MS);
    expect(estimateOf(policy)).toBeLessThan(before);
  });

  it('of a minority whose tokens end early decides for nobody, while all other tokens are past that age', () => {
    const policy = learnedLifetime({ guessMs: HOUR_MS });
    const before = estimateOf(policy);
    const others = Array.from({ length: 90 }, (_, index) => ({ owner: `other ${index}`, token: `long ${index}` }));
    for (let ageMs = 0; ageMs < 0.9 * HOUR_MS; ageMs += 10_000) {
      for (const other of others) policy.accepted({ ...other, ageMs });
      for (let owner = 0; owner < 10 && ageMs > 10_000; owner++) {
        const short = { owner: `odd ${owner}`, token: `short ${owner} ${ageMs}` };
        policy.accepted({ ...short, ageMs: 5_000 });
        policy.rejected({ ...short, ageMs: 10_000 });
      }
    }
    expect(estimateOf(policy)).toBeGreaterThan(0.9 * before);
  });

  it('ignores rejections of tokens that were never accepted', () => {
    const policy = learnedLifetime({ guessMs: HOUR_MS });
    for (let index = 0; index < 100; index++) live(policy, `t${index}`, [], 20 * MINUTE_MS);
    expect(policy.stats().evidence).toMatchObject({ endings: 0, ignored: 100 });
    expect(estimateOf(policy)).toBe(HOUR_MS);
  });

  it('of tokens revoked all at once, at all ages, hardly moves the learned lifetime, and not for long', () => {
    const policy = learnedLifetime();
    endAt(policy, HOUR_MS);
    const before = estimateOf(policy);
    for (let index = 0; index < 100; index++) {
      const ageMs = (0.01 + 0.007 * index) * HOUR_MS;
      live(policy, `revoked-${index}`, [0, ageMs * 0.98], ageMs);
    }
    expect(estimateOf(policy)).toBeGreaterThan(before / 2);
    for (let index = 0; index < 20; index++) live(policy, `after-${index}`, [0, 0.98 * HOUR_MS], 1.02 * HOUR_MS);
    expect(estimateOf(policy)).toBeCloseTo(before, 5);
  });

  it('that comes late or twice says no more than the first', () => {
    const once = learnedLifetime();
    const twice = learnedLifetime();
    for (let index = 0; index < 10; index++) {
      live(once, `t${index}`, [0, 20 * MINUTE_MS], 21 * MINUTE_MS);
      live(twice, `t${index}`, [0, 20 * MINUTE_MS, 20 * MINUTE_MS, 5 * MINUTE_MS, 0], 21 * MINUTE_MS);
    }
    expect(twice.snapshot()).toEqual({ ...once.snapshot(), credit: expect.any(Number) });
    expect(twice.stats().evidence).toEqual(once.stats().evidence);
    expect(once.stats().evidence.survivals).toBe(20);
  });

  it('does not mistake a rejected token for the accepted one of the same owner', () => {
    const policy = learnedLifetime();
    live(policy, 'other', [0], 10_000);
    policy.accepted({ owner: 'o', token: 'first', ageMs: MINUTE_MS });
    policy.rejected({ owner: 'o', token: 'second', ageMs: 1000 });
    expect(policy.stats().evidence.ignored).toBe(1);
  });

  it('counts a token that is rejected several times, by calls made together, once', () => {
    const once = learnedLifetime();
    const often = learnedLifetime();
    live(once, 'a', [0, 20 * MINUTE_MS], 21 * MINUTE_MS);
    for (let call = 0; call < 10; call++) live(often, 'a', [0, 20 * MINUTE_MS], 21 * MINUTE_MS);
    expect(often.snapshot().scores).toEqual(once.snapshot().scores);
    expect(often.stats().evidence).toMatchObject({ endings: 1, ignored: 9 });
  });

  it('keeps the bounds in the stats within minMs and maxMs', () => {
    const policy = learnedLifetime({ minMs: 2 * MINUTE_MS, maxMs: 20 * MINUTE_MS });
    endAt(policy, MINUTE_MS);
    expect(policy.stats().betweenMs[0]).toBe(2 * MINUTE_MS);
    expect(estimateOf(policy)).toBe(2 * MINUTE_MS);
  });

  it('is kept for the last token of 10,000 owners at most', () => {
    const ignoredAfter = (others: number) => {
      const policy = learnedLifetime();
      live(policy, 'first', [0, 10_000]);
      for (let index = 0; index < others; index++) live(policy, `t${index}`, [0]);
      live(policy, 'first', [], 12_000);
      return policy.stats().evidence.ignored;
    };
    expect(ignoredAfter(9_999)).toBe(0);
    expect(ignoredAfter(10_000)).toBe(1);
  });
});

describe('a snapshot', () => {
  it('carries what was learned over a restart, as JSON', () => {
    const policy = learnedLifetime();
    endAt(policy, HOUR_MS);
    const saved = JSON.stringify(policy.snapshot());
    expect(saved.length).toBeLessThan(2048);
    expect(saved).not.toContain('ends-');
    const restored = learnedLifetime({ snapshot: JSON.parse(saved) });
    expect(restored.stats().estimateMs).toBe(policy.stats().estimateMs);
    expect(restored.stats().betweenMs).toEqual(policy.stats().betweenMs);
    expect(restored.stats().confidence).toBeCloseTo(policy.stats().confidence, 2);
    expect(restored.snapshot()).toEqual(policy.snapshot());
  });

  type Spoiler = (good: LearnedLifetimeSnapshot) => unknown;
  it.each<[string, Spoiler]>([
    ['null', () => null],
    ['text', () => 'text'],
    ['empty', () => ({})],
    ['another version', (good) => ({ ...good, version: 2 })],
    ['no lifetime', (good) => ({ ...good, estimateMs: 0 })],
    ['a lifetime in text', (good) => ({ ...good, estimateMs: '300000' })],
    ['no credit', (good) => ({ ...good, credit: Number.NaN })],
    ['more credit than there is', (good) => ({ ...good, credit: 17 })],
    ['no scores', (good) => ({ ...good, scores: [] })],
    ['scores in text', (good) => ({ ...good, scores: 'many' })],
    ['scores over the best', (good) => ({ ...good, scores: good.scores.map(() => 1) })],
    ['scores that are none', (good) => ({ ...good, scores: good.scores.map(() => null) })],
  ])('is refused if it is spoiled: %s', (_, spoil) => {
    const snapshot = spoil(learnedLifetime().snapshot()) as never;
    expect(problemsOf({ snapshot })).toContain('snapshot: expected what snapshot() returned');
  });
});

it.each([
  [{ guessMs: 0 }, 'guessMs: expected milliseconds from 1000 to ten years'],
  [{ guessMs: Number.NaN }, 'guessMs: expected'],
  [{ guessMs: 31 * DAY_MS }, 'guessMs: expected'],
  [{ guessMs: 5000, minMs: 10_000 }, 'guessMs: expected milliseconds from minMs to maxMs'],
  [{ minMs: 999 }, 'minMs: expected milliseconds from 1000 to ten years'],
  [{ minMs: '1000' }, 'minMs: expected milliseconds'],
  [{ minMs: 20_000, maxMs: 10_000 }, 'minMs: expected no more than maxMs'],
  [{ maxMs: Number.POSITIVE_INFINITY }, 'maxMs: expected milliseconds'],
  [{ exploration: -0.1 }, 'exploration: expected a share from 0 to 0.05'],
  [{ exploration: 0.06 }, 'exploration: expected a share'],
  [{ gues: 5 }, 'gues: unknown option'],
  [null, 'learnedLifetime: invalid options:\n  - options: expected an object'],
])('learnedLifetime refuses the options %j: %s', (options, path) => {
  expect(problemsOf(options as never)).toContain(path);
});

function problemsOf(options: LearnedLifetimeOptions): string {
  try {
    learnedLifetime(options);
  } catch (error) {
    if (error instanceof OwnerTokenError && error.code === 'invalid_options') return error.message;
    throw error;
  }
  return '';
}
