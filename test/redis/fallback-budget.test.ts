import { describe, expect, it } from 'vitest';
import { FallbackBudget, fallBackAtMs } from '../../src/redis/fallback-budget.ts';
import { ManualClock } from '../helpers/manual-clock.ts';

const newBudget = (clock: ManualClock, replicas?: number, random = 0.5) => {
  const budget = new FallbackBudget(clock, () => random);
  if (replicas !== undefined) for (const count of [replicas, replicas]) budget.replicas = count;
  return budget;
};

const delayOf = (budget: FallbackBudget, maxSilenceMs = 8_000) => {
  const fallback = budget.take(maxSilenceMs);
  return fallBackAtMs(fallback, maxSilenceMs) - fallback.sinceMs;
};

const delaysOf = (budget: FallbackBudget, calls: number) => Array.from({ length: calls }, () => delayOf(budget));

describe('the fallback budget', () => {
  it('is a burst, then a rate, and what it has nothing for waits for the longest time', () => {
    expect(delaysOf(newBudget(new ManualClock(), 5), 9)).toEqual([
      0, 0, 1_000, 3_000, 5_000, 7_000, 9_000, 9_000, 9_000,
    ]);
  });

  it('is divided by the other replicas; ten are assumed before the first count', () => {
    expect(delaysOf(newBudget(new ManualClock(), 2), 10)).toEqual([...Array(8).fill(0), 250, 750]);
    expect(delaysOf(newBudget(new ManualClock()), 3)).toEqual([0, 2_750, 7_250]);
  });

  it('has no limit for a replica that is alone', () => {
    expect(delaysOf(newBudget(new ManualClock(), 1), 1_000)).toEqual(Array(1_000).fill(0));
    expect(delaysOf(newBudget(new ManualClock(), 0), 1_000)).toEqual(Array(1_000).fill(0));
  });

  it('assumes a second replica until the second count', () => {
    const budget = newBudget(new ManualClock());
    budget.replicas = 1;
    expect(delaysOf(budget, 10)).toEqual([...Array(8).fill(0), 250, 750]);
    expect(budget.replicas).toBe(1);
    budget.replicas = 1;
    expect(delayOf(budget)).toBe(0);
  });

  it('of all replicas together is 8 requests at once and 2 a second, though each has less than one', () => {
    const clock = new ManualClock();
    const delays = Array.from({ length: 100 }, (_, replica) =>
      delaysOf(newBudget(clock, 100, replica / 100), 50),
    ).flat();
    const within = (ms: number) => delays.filter((delayMs) => delayMs <= ms).length;
    expect([within(0), within(5_000)]).toEqual([8, 18]);
    // Those that wait the longest time do not end at the same moment.
    expect(Math.min(...delays.filter((delayMs) => delayMs > 7_999))).toBe(8_000);
    expect(Math.max(...delays)).toBe(9_980);
    expect(new Set(delays).size).toBeGreaterThan(100);
  });

  it('caps the wait at 1.25 × the allowed silence', () => {
    const budget = newBudget(new ManualClock(), 20);
    const delays = Array.from({ length: 20 }, () => delayOf(budget, 18_000));
    expect(Math.max(...delays)).toBe(18_000 * 1.125);
  });

  it('fills up to the burst again, and no further, and is not charged for calls that waited the longest time', () => {
    const clock = new ManualClock();
    const budget = newBudget(clock, 5);
    delaysOf(budget, 1_000);
    clock.advance(2_000);
    expect(delayOf(budget)).toBe(7_000);
    clock.advance(13_000);
    expect(delaysOf(budget, 3)).toEqual([0, 0, 1_000]);
    clock.advance(3_600_000);
    expect(delaysOf(budget, 3)).toEqual([0, 0, 1_000]);
  });
});
