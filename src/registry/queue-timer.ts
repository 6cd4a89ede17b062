/** One timer for the whole queue. It fires when the first request is overdue, or when the next newcomer may start. */

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
   * @param overdueAtMs when the oldest queued request is overdue; undefined if none is queued.
   * @param nextNewcomerAtMs when the next newcomer may start; ignored if it has passed.
   */
  watch(overdueAtMs: number | undefined, nextNewcomerAtMs: number): void {
    if (overdueAtMs === undefined) {
      this.#cancel?.();
      this.#cancel = undefined;
      return;
    }
    const nowMs = this.#time.now().monotonicMs;
    const wakeAtMs = nowMs < nextNewcomerAtMs ? Math.min(overdueAtMs, nextNewcomerAtMs) : overdueAtMs;
    // A timer that fires too early wakes the queue once for nothing, which costs less than restarting it each time.
    if (this.#cancel && wakeAtMs >= this.#wakeAtMs) return;
    this.#cancel?.();
    this.#wakeAtMs = wakeAtMs;
    // Rounded up, because rounding errors of fractions would make the timer fire too early again and again.
    const waitMs = Math.max(0, Math.ceil(wakeAtMs - nowMs));
    this.#cancel = this.#time.startTimer(() => {
      this.#cancel = undefined;
      this.#onDue();
    }, waitMs);
  }
}
