/** One timer for the whole queue, set for the request that is overdue first. */

import type { Time } from '../clock.ts';

export class QueueTimer {
  readonly #time: Time;
  readonly #onOverdue: () => void;
  #cancel: (() => void) | undefined;

  constructor(time: Time, onOverdue: () => void) {
    this.#time = time;
    this.#onOverdue = onOverdue;
  }

  /** @param overdueAtMs of the oldest queued request; undefined if none is queued. */
  watch(overdueAtMs: number | undefined): void {
    if (overdueAtMs === undefined) {
      this.#cancel?.();
      this.#cancel = undefined;
      return;
    }
    // Requests only leave or come later, so the timer is never late for those that remain. Whole milliseconds: what sums
    // of fractions lose would make it early again and again.
    const waitMs = Math.max(0, Math.ceil(overdueAtMs - this.#time.now().monotonicMs));
    this.#cancel ??= this.#time.startTimer(() => {
      this.#cancel = undefined;
      this.#onOverdue();
    }, waitMs);
  }
}
