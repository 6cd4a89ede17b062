import { describe, expect, it } from 'vitest';
import { FallbackBudget } from '../../src/redis/fallback-budget.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';

const { signal } = new AbortController();

const newBudget = (clock: ManualClock) => new FallbackBudget(clock, () => 0.5);

/** How many enter at once. */
function entered(budget: FallbackBudget): number {
  let count = 0;
  while (count < 1_000 && budget.tryEnter()) count++;
  return count;
}

describe('the fallback budget', () => {
  it('is what one process would take, divided by the replicas; ten are assumed before the first count', () => {
    const clock = new ManualClock();
    expect(entered(newBudget(clock))).toBe(1);
    const [alone, few, many] = [1, 4, 1_000].map((replicas) => {
      const budget = newBudget(clock);
      budget.replicas = replicas;
      return entered(budget);
    });
    expect([alone, few, many]).toEqual([8, 2, 1]);
  });

  it('doubles every two seconds, and begins anew after a quiet time', () => {
    const clock = new ManualClock();
    const budget = newBudget(clock);
    budget.replicas = 4;
    expect(entered(budget)).toBe(2);
    clock.advance(2_000);
    expect(entered(budget)).toBe(2);
    clock.advance(2_000);
    expect(entered(budget)).toBe(4);
    for (let left = 0; left < 8; left++) budget.leave(0);
    clock.advance(10_001);
    expect(entered(budget)).toBe(2);
  });

  it('lets the others in as places come free, in order, and an aborted one leaves', async () => {
    const budget = newBudget(new ManualClock());
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
    budget.leave(0);
    await settle();
    expect(order).toEqual(['left', 'first']);
    budget.leave(0);
    await Promise.all(waits);
    expect(order).toEqual(['left', 'first', 'second']);
  });

  it('a share of less than one request at a time is one, and a rest that makes up for it', async () => {
    const clock = new ManualClock();
    const budget = newBudget(clock);
    // 0.4 of a request at a time.
    budget.replicas = 20;
    expect(entered(budget)).toBe(1);
    const controller = new AbortController();
    const waits = { first: false, second: false };
    const wait = (name: keyof typeof waits) =>
      void budget.enter(controller.signal).then(
        () => Object.assign(waits, { [name]: true }),
        () => {},
      );
    wait('first');
    wait('second');
    clock.advance(100);
    budget.leave(100);
    clock.advance(149);
    await settle();
    expect(waits).toEqual({ first: false, second: false });
    clock.advance(1);
    await settle();
    expect(waits).toEqual({ first: true, second: false });
    // It made no request after all, so it owes no rest.
    budget.leave(0);
    await settle();
    expect(waits.second).toBe(true);
    // Rests no longer than until the share doubles, and not for calls that have left.
    budget.leave(60_000);
    wait('first');
    expect(clock.pendingTimers).toBe(1);
    controller.abort();
    await settle();
    expect([clock.pendingTimers, budget.tryEnter()]).toEqual([0, false]);
    clock.advance(2_000);
    expect(budget.tryEnter()).toBe(true);
  });
});
