import { describe, expect, it } from 'vitest';
import { FallbackBudget } from '../../src/redis/fallback-budget.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';

const { signal } = new AbortController();

/** How many enter at once. */
function entered(budget: FallbackBudget): number {
  let count = 0;
  while (count < 1_000 && budget.tryEnter()) count++;
  return count;
}

describe('the fallback budget', () => {
  it('is what one process would take, divided by the replicas; ten are assumed before the first count', () => {
    const clock = new ManualClock();
    expect(entered(new FallbackBudget(clock))).toBe(1);
    const [alone, few, many] = [1, 4, 1_000].map((replicas) => {
      const budget = new FallbackBudget(clock);
      budget.replicas = replicas;
      return entered(budget);
    });
    expect([alone, few, many]).toEqual([8, 2, 1]);
  });

  it('doubles every two seconds, and begins anew after a quiet time', () => {
    const clock = new ManualClock();
    const budget = new FallbackBudget(clock);
    budget.replicas = 4;
    expect(entered(budget)).toBe(2);
    clock.advance(2_000);
    expect(entered(budget)).toBe(2);
    clock.advance(2_000);
    expect(entered(budget)).toBe(4);
    for (let left = 0; left < 8; left++) budget.leave();
    clock.advance(10_001);
    expect(entered(budget)).toBe(2);
  });

  it('lets the others in as places come free, in order, and an aborted one leaves', async () => {
    const budget = new FallbackBudget(new ManualClock());
    budget.replicas = 4;
    entered(budget);
    const controller = new AbortController();
    const order: string[] = [];
    const waits = ['first', 'aborted', 'second'].map((name) =>
      budget.enter(name === 'aborted' ? controller.signal : signal).then(
        () => order.push(name),
        (reason: Error) => order.push(reason.message),
      ),
    );
    controller.abort(new Error('left'));
    budget.leave();
    await settle();
    expect(order).toEqual(['left', 'first']);
    budget.leave();
    await Promise.all(waits);
    expect(order).toEqual(['left', 'first', 'second']);
  });
});
