/**
 * Spaces requests evenly, by a rate per second. This is a token bucket of size one, stored as the time at which it is
 * full again. A request that starts a little late, because timers fire late, does not delay those that follow.
 */

const LATE_MS = 10;

export class Pace {
  #perSecond: number;
  #nextAtMs = Number.NEGATIVE_INFINITY;

  /** @param perSecond `Infinity` for no bound. */
  constructor(perSecond = Number.POSITIVE_INFINITY) {
    this.#perSecond = perSecond;
  }

  get perSecond(): number {
    return this.#perSecond;
  }

  /** Monotonic time before which no request starts. */
  get nextAtMs(): number {
    return this.#nextAtMs;
  }

  /**
   * Sets the rate. It applies from the second next request on, or also to the next one if `lastSentMs` is given.
   *
   * @param lastSentMs when the last request was sent. The next one never starts earlier than under the former rate.
   */
  set(perSecond: number, lastSentMs = Number.NEGATIVE_INFINITY): void {
    this.#perSecond = perSecond;
    this.#nextAtMs = Math.max(this.#nextAtMs, lastSentMs + 1_000 / perSecond);
  }

  sent(nowMs: number): void {
    if (this.#perSecond === Number.POSITIVE_INFINITY) return;
    const isOnTime = nowMs - this.#nextAtMs <= LATE_MS;
    this.#nextAtMs = (isOnTime ? this.#nextAtMs : nowMs) + 1_000 / this.#perSecond;
  }

  /** The next request may start at once, and so may those that follow. */
  removeBound(): void {
    this.#perSecond = Number.POSITIVE_INFINITY;
    this.#nextAtMs = Number.NEGATIVE_INFINITY;
  }
}
