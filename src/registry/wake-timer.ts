/** The timer of the scheduler: fires at the time that was set last, or earlier. */

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

  /** @param atMs monotonic; infinite: nothing is due. */
  set(atMs: number, { monotonicMs }: Instant): void {
    // A timer that fires too early wakes the scheduler once for nothing, which costs less than restarting it each time.
    if (this.#cancel && atMs >= this.#atMs && atMs !== Number.POSITIVE_INFINITY) return;
    this.#cancel?.();
    this.#cancel = undefined;
    if (atMs === Number.POSITIVE_INFINITY) return;
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
