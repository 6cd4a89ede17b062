import { expect, it } from 'vitest';
import { Pace } from '../../src/redis/pace.ts';
import { ManualClock } from '../helpers/manual-clock.ts';

it('a turn of the pace that has come and is not used makes room for the next at once', () => {
  const clock = new ManualClock();
  const pace = new Pace(clock, () => 1_000);
  const [first, second] = [pace.enter(), pace.enter()];
  expect([first.isNow, second.isNow]).toEqual([true, false]);
  pace.leave(first);
  expect(second.isNow).toBe(true);
});

it('a call that leaves the line before its turn delays no other call', () => {
  const clock = new ManualClock();
  const pace = new Pace(clock, () => 1_000);
  const [, second, third] = [pace.enter(), pace.enter(), pace.enter()];
  pace.leave(second);
  clock.advance(999);
  expect(third.isNow).toBe(false);
  clock.advance(1);
  expect([second.isNow, third.isNow, clock.pendingTimers]).toEqual([false, true, 0]);
});
