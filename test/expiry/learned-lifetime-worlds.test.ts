/** What the policy comes to in worlds, in virtual time, whose service does not tell its lifetime. */

import { beforeAll, describe, expect, it } from 'vitest';
import { learnedLifetime } from '../../src/expiry/learned-lifetime.ts';
import type { ExpiryPolicy } from '../../src/expiry/lifetime.ts';
import { OwnerTokenRegistry } from '../../src/registry/registry.ts';
import { runWorld, type World, type WorldCounts } from '../bench/learned-lifetime/world.mjs';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

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
        if (nowMs < fromMs) beforeMs = policy.estimateMs;
        else if (nowMs < untilMs + lifetimeMs) since.push(policy.estimateMs / beforeMs);
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

describe('a lifetime of an hour', () => {
  const hour = {
    phases: [3, 4].map((lifetimes) => ({ lifetimeMs: HOUR_MS, lifetimes })),
    revoked: 0,
    spurious: 0,
    policyFor: () => learnedLifetime(),
  };
  let alone: WorldCounts[];

  beforeAll(async () => {
    alone = (await run(hour)).counts;
  });

  /** Requests of the owners that are not odd, for one in the same hours of the undisturbed world. */
  async function costOf(world: Partial<World<ExpiryPolicy>>): Promise<number[]> {
    const { counts } = await run({ ...hour, ...world });
    return counts.map(({ requests }, phase) => requests / (alone[phase] as WorldCounts).requests);
  }

  it.each(Object.entries(oddAnswers))(
    '%s: with 10 to 15 in a hundred such owners, the others make at most 1.3 times the requests',
    async (_, oddAnswer) => {
      for (const odd of [6, 9]) {
        const cost = await costOf({ owners: 50 + odd, odd, oddAnswer });
        expect(Math.max(...cost), `${odd} odd owners`).toBeLessThanOrEqual(1.3);
      }
    },
  );

  it.each(Object.entries(oddAnswers))(
    '%s: with five such new owners a minute, the others make at most twice the requests',
    async (_, oddAnswer) => {
      for (const minutes of [1, 3]) {
        const cost = await costOf({
          owners: 50 + 5 * minutes,
          odd: 5 * minutes,
          oddStayMs: minutes * MINUTE_MS,
          oddAnswer,
        });
        expect(Math.max(...cost), `each for ${minutes} min`).toBeLessThanOrEqual(2);
      }
    },
  );

  it('costs at most 1.5 times the requests if all tokens are revoked every 90 minutes', async () => {
    // A policy that knows the lifetime makes 1.24 times as many, too.
    expect(Math.max(...(await costOf({ revokedAllEveryMs: 90 * MINUTE_MS })))).toBeLessThanOrEqual(1.5);
  });
});

it.each([1, 2, 24])(
  'a lifetime of %i h is learned from ten owners that call once every quarter of an hour',
  async (hours) => {
    const lifetimeMs = hours * HOUR_MS;
    const { policy } = await run({
      owners: 10,
      callsPerLifetime: 4 * hours,
      phases: [{ lifetimeMs, lifetimes: 10 }],
      revoked: 0,
      spurious: 0,
      policyFor: () => learnedLifetime(),
    });
    expect(policy.estimateMs / lifetimeMs).toBeGreaterThan(0.8);
    expect(policy.estimateMs / lifetimeMs).toBeLessThanOrEqual(1);
  },
);

it.each([1, 2])('%i owners are enough to learn that tokens live for a minute', async (owners) => {
  for (const callsPerLifetime of [6, 12, 60]) {
    const { policy, counts } = await run({
      owners,
      callsPerLifetime,
      phases: [20, 40].map((lifetimes) => ({ lifetimeMs: MINUTE_MS, lifetimes })),
      policyFor: () => learnedLifetime(),
    });
    expect(policy.estimateMs / MINUTE_MS, `${callsPerLifetime} calls`).toBeGreaterThan(0.7);
    expect(policy.estimateMs / MINUTE_MS).toBeLessThanOrEqual(1);
    const [, { outlived, calls }] = counts as [WorldCounts, WorldCounts];
    expect(outlived / calls).toBeLessThanOrEqual(0.03);
  }
});
