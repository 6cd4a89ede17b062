/** One timer for many due times: fires at the earliest that was set. */

import type { Instant, Time } from '../clock.ts';

export class WakeTimer {
  readonly #time: Time;
  readonly #wake: () => void;
  #atMs = 0;
  #cancel: (() => void) | undefined;

  constructor(time: Time, wake: () => void) {
    this.#time = time;
    this.#wake = wake;
  }

  /** @param times monotonic; undefined: not due. */
  set(times: readonly (number | undefined)[], { monotonicMs }: Instant): void {
    const atMs = Math.min(...times.map((ms) => ms ?? Number.POSITIVE_INFINITY));
    if (atMs === Number.POSITIVE_INFINITY) {
      this.stop();
      return;
    }
    // A timer that fires too early wakes the scheduler once for nothing, which costs less than restarting it each time.
    if (this.#cancel && atMs >= this.#atMs) return;
    this.stop();
    this.#atMs = atMs;
    const fire = () => {
      this.#cancel = undefined;
      this.#wake();
    };
    // Rounded up: with fractions, rounding errors would make the timer fire too early again and again.
    this.#cancel = this.#time.startTimer(fire, Math.max(0, Math.ceil(atMs - monotonicMs)));
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }
}
