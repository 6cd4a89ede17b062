/** What the policy comes to in worlds, in virtual time, whose service does not tell its lifetime. */

import { beforeAll, describe, expect, it } from 'vitest';
import { learnedLifetime } from '../../src/expiry/learned-lifetime.ts';
import type { LearnedLifetime } from '../../src/expiry/learned-lifetime-types.ts';
import type { ExpiryPolicy } from '../../src/expiry/lifetime.ts';
import { OwnerTokenRegistry } from '../../src/registry/registry.ts';
import { runWorld, type World, type WorldCounts } from '../bench/learned-lifetime/world.mjs';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

const estimateOf = (policy: LearnedLifetime) => policy.stats().estimateMs;

/** Half the owners of the benchmark's worlds: half the evidence, in half the time. */
const run = <P extends ExpiryPolicy>(world: Omit<World<P>, 'makeRegistry'>) =>
  runWorld<P>({ owners: 50, ...world, makeRegistry: (options) => new OwnerTokenRegistry(options) });

it.each([
  ['30 s', 30_000],
  ['1 h', HOUR_MS],
  ['24 h', DAY_MS],
])('a hidden lifetime of %s is learned, and learned again when it halves and doubles', async (_, lifetimeMs) => {
  const phases = [1, 1, 0.5, 0.5, 1, 1].map((factor) => ({ lifetimeMs: lifetimeMs * factor, lifetimes: 5 }));
  const knowing = await run({ phases, policyFor: (hiddenMs) => ({ lifetimeMs: hiddenMs }) });
  const learning = await run({ phases, policyFor: () => learnedLifetime() });
  for (const phase of [1, 3, 5]) {
    const { calls, requests, outlived } = learning.counts[phase] as WorldCounts;
    expect(requests / (knowing.counts[phase] as WorldCounts).requests).toBeLessThanOrEqual(1.3);
    expect(outlived / calls).toBeLessThanOrEqual(0.005);
  }
});

it.each([
  ['5 min', 5 * MINUTE_MS],
  ['1 h', HOUR_MS],
  ['24 h', DAY_MS],
])('an API that refuses all owners for five minutes teaches nothing: a lifetime of %s', async (_, lifetimeMs) => {
  const fromMs = 5.5 * lifetimeMs;
  const untilMs = fromMs + 5 * MINUTE_MS;
  for (const callsPerLifetime of [10, 60]) {
    let beforeMs = 0;
    const since: number[] = [];
    await run({
      phases: [{ lifetimeMs, lifetimes: 8 }],
      callsPerLifetime,
      revoked: 0,
      spurious: 0,
      policyFor: () => learnedLifetime(),
      refuses: (nowMs) => nowMs >= fromMs && nowMs < untilMs,
      onCall: (nowMs, policy) => {
        if (nowMs < fromMs) beforeMs = estimateOf(policy);
        else if (nowMs < untilMs + lifetimeMs) since.push(estimateOf(policy) / beforeMs);
      },
    });
    expect(Math.min(...since), `${callsPerLifetime} calls`).toBeGreaterThanOrEqual(0.9);
    expect(Math.max(...since), `${callsPerLifetime} calls`).toBeLessThanOrEqual(1.1);
  }
});

/** Whether a call of an odd owner is accepted, by the age of its token and a random number. */
const oddAnswers: Record<string, (ageMs: number, random: number) => boolean> = {
  'any token older than 20 s is refused': (ageMs) => ageMs < 20_000,
  'any token older than half its life is refused': (ageMs) => ageMs < HOUR_MS / 2,
  'every second call is refused': (_, random) => random < 0.5,
  'every call is refused': () => false,
  'tokens that have ended are accepted': () => true,
};
describe('in an odd service', () => {
  const phases = [3, 4].map((lifetimes) => ({ lifetimeMs: HOUR_MS, lifetimes }));
  const world = { phases, callsPerLifetime: 100, policyFor: () => learnedLifetime() };
  let alone: WorldCounts[];

  beforeAll(async () => {
    alone = (await run(world)).counts;
  });

  it('a tenth of the owners, with shorter lifetimes from the start, costs the others at most a tenth more', async () => {
    const first = {
      ...world,
      phases: [{ lifetimeMs: HOUR_MS, lifetimes: 1 }],
      callsPerLifetime: 400,
      revoked: 0,
      spurious: 0,
    };
    const [without] = (await run({ ...first, owners: 225 })).counts;
    const [beside] = (await run({ ...first, owners: 250, odd: 25, oddAnswer: (ageMs) => ageMs < 20_000 })).counts;
    expect((beside as WorldCounts).requests / (without as WorldCounts).requests).toBeLessThanOrEqual(1.1);
  });

  it.each(Object.entries(oddAnswers))(
    '%s: a fifth of the owners does not decide for the others',
    async (_, oddAnswer) => {
      for (const odd of [3, 13]) {
        const { counts } = await run({ ...world, owners: 50 + odd, odd, oddAnswer });
        for (const [phase, { requests, outlived, calls }] of counts.entries()) {
          const { requests: without } = alone[phase] as WorldCounts;
          expect(requests / without, `${odd} odd owners`).toBeLessThanOrEqual(1.2);
          expect(outlived / calls).toBeLessThanOrEqual(0.005);
        }
      }
    },
  );
});
