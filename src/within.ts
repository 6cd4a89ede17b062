/** A time limit that counts only while the event loop could have read what arrived. */

import { type Clock, startLimit, systemClock } from './clock.ts';

/**
 * How long the event loop has waited for anything, in milliseconds. By a given clock, and in a runtime that does not say
 * (workerd), it does nothing else.
 */
const idleMs = (clock: Clock): number =>
  (clock === systemClock ? (performance as Loop).eventLoopUtilization?.().idle : undefined) ?? clock.monotonic();

/** Not of `performance` as browsers have it, for whose types this file is checked too. */
interface Loop {
  eventLoopUtilization?(): { readonly idle: number };
}

/**
 * The result of work that never fails, or undefined when the time is up. If the event loop was busy for most of that time, it has
 * not read what arrived, or not even sent what the work began with: the same time is given once more. So it is if the limit is
 * late: a loop also counts as idle while the machine gives its process no CPU time.
 *
 * @param mostMs how much time it is given in all.
 */
export function within<T>(work: Promise<T>, ms: number, clock: Clock, mostMs: number): Promise<T | undefined> {
  const idleBeforeMs = idleMs(clock);
  return new Promise((resolve) => {
    const timeOut = (_hasStoodStill: boolean, isLate: boolean) => {
      const isBusy = isLate || idleMs(clock) - idleBeforeMs < ms / 2;
      resolve(isBusy && mostMs > ms ? within(work, ms, clock, mostMs - ms) : undefined);
    };
    void work.then(resolve).then(startLimit(clock, timeOut, ms));
  });
}
