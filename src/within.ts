/** A time limit that counts only while the event loop could have read what arrived. */

import { type Clock, startLimit, systemClock } from './clock.ts';

/**
 * How long the event loop has been idle, in milliseconds. With a given clock, and in a runtime that does not report it
 * (workerd), it counts as always idle.
 */
const idleMs = (clock: Clock): number =>
  (clock === systemClock ? (performance as Loop).eventLoopUtilization?.().idle : undefined) ?? clock.monotonic();

/** Missing in the types of browsers, against which this file is checked too. */
interface Loop {
  eventLoopUtilization?(): { readonly idle: number };
}

/**
 * The result of work that never fails, or undefined when the time is up. If the event loop was busy for most of that time, it
 * may not have read what arrived, or not even sent the request, so the work gets the same time again. So it does if the limit
 * is late, because a loop also counts as idle while its process gets no CPU time.
 *
 * @param maxMs the total time that it may get.
 */
export function within<T>(work: Promise<T>, ms: number, clock: Clock, maxMs: number): Promise<T | undefined> {
  const idleBeforeMs = idleMs(clock);
  return new Promise((resolve) => {
    const timeOut = (_hasStoodStill: boolean, isLate: boolean) => {
      const isBusy = isLate || idleMs(clock) - idleBeforeMs < ms / 2;
      resolve(isBusy && maxMs > ms ? within(work, ms, clock, maxMs - ms) : undefined);
    };
    void work.then(resolve).then(startLimit(clock, timeOut, ms));
  });
}
