import { expect, it } from 'vitest';
import { QuotaPacer } from '../../src/redis/pace.ts';
import { ManualClock } from '../helpers/manual-clock.ts';

it('a permit that was granted and is not used passes to the next call at once', () => {
  const clock = new ManualClock();
  const pace = new QuotaPacer(clock, () => 1_000);
  const [first, second] = [pace.enter(), pace.enter()];
  expect([first.isGranted, second.isGranted]).toEqual([true, false]);
  pace.leave(first);
  expect(second.isGranted).toBe(true);
});

it('a call that leaves the line before its send time delays no other call', () => {
  const clock = new ManualClock();
  const pace = new QuotaPacer(clock, () => 1_000);
  const [, second, third] = [pace.enter(), pace.enter(), pace.enter()];
  pace.leave(second);
  clock.advance(999);
  expect(third.isGranted).toBe(false);
  clock.advance(1);
  expect([second.isGranted, third.isGranted, clock.pendingTimers]).toEqual([false, true, 0]);
});
