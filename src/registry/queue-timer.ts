/** One timer for the whole queue, set for the request that is overdue first, or for when the next newcomer may start. */

import type { Time } from '../clock.ts';

export class QueueTimer {
  readonly #time: Time;
  readonly #onDue: () => void;
  #cancel: (() => void) | undefined;
  #wakeAtMs = 0;

  constructor(time: Time, onDue: () => void) {
    this.#time = time;
    this.#onDue = onDue;
  }

  /**
   * @param overdueAtMs of the oldest queued request; undefined if none is queued.
   * @param nextNewcomerAtMs when the next newcomer may start, if that is to come.
   */
  watch(overdueAtMs: number | undefined, nextNewcomerAtMs: number): void {
    if (overdueAtMs === undefined) {
      this.#cancel?.();
      this.#cancel = undefined;
      return;
    }
    const nowMs = this.#time.now().monotonicMs;
    const wakeAtMs = nowMs < nextNewcomerAtMs ? Math.min(overdueAtMs, nextNewcomerAtMs) : overdueAtMs;
    // A timer that is early for what remains wakes the queue once for nothing; setting it anew each time costs more.
    if (this.#cancel && wakeAtMs >= this.#wakeAtMs) return;
    this.#cancel?.();
    this.#wakeAtMs = wakeAtMs;
    // Whole milliseconds: what sums of fractions lose would make the timer early again and again.
    const waitMs = Math.max(0, Math.ceil(wakeAtMs - nowMs));
    this.#cancel = this.#time.startTimer(() => {
      this.#cancel = undefined;
      this.#onDue();
    }, waitMs);
  }
}
