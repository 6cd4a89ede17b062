import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import { Deadline } from '../../src/endpoint/deadline.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';

const never = new Promise<never>(() => {});

it('a deadline ends when the time is up, and not before', async () => {
  const clock = new ManualClock();
  const deadline = new Deadline(clock, 100, undefined);
  const work = deadline.race(never);
  clock.advance(99);
  expect(deadline.reason).toBeUndefined();
  clock.advance(1);
  expect(deadline.reason).toMatchObject({ name: 'TimeoutError', code: 'ETIMEDOUT' });
  await expect(work).rejects.toBe(deadline.reason);
  await expect(deadline.race(never)).rejects.toBe(deadline.reason);
});

it('a deadline ends with the signal, at once, also when that was aborted before', async () => {
  const controller = new AbortController();
  const clock = new ManualClock();
  const deadline = new Deadline(clock, 100, controller.signal);
  const work = deadline.race(never);
  controller.abort();
  expect(deadline.reason).toMatchObject({ code: 'closed' });
  await expect(work).rejects.toBe(deadline.reason);
  expect(new Deadline(clock, 100, AbortSignal.abort()).reason).toMatchObject({ code: 'closed' });
  expect(clock.pendingTimers).toBe(0);
});

it('a deadline leaves no timer and no listener once it is cancelled', async () => {
  const { signal } = new AbortController();
  const clock = new ManualClock();
  const deadline = new Deadline(clock, 100, signal);
  await deadline.race('done');
  await settle();
  expect([clock.pendingTimers, getEventListeners(signal, 'abort').length]).toEqual([1, 1]);
  deadline.cancel();
  expect([clock.pendingTimers, getEventListeners(signal, 'abort').length]).toEqual([0, 0]);
  clock.advance(1_000);
  expect(deadline.reason).toBeUndefined();
});
