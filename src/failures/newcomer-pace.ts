/**
 * How fast owners that never succeeded may be asked for. An outage may be met by nobody else, while the other owners
 * still hold their tokens; and no circuit opens by newcomers alone, since one of them may simply have a wrong key. So
 * from the third failure in a row that may be the service's doing, each doubles the time until the next newcomer's
 * request, in the end to a second. A newcomer that succeeds ends that.
 */

const FREE_FAILURES = 2;
const MIN_INTERVAL_MS = 125;
const MAX_INTERVAL_MS = 1_000;

export class NewcomerPace {
  /** Monotonic: no newcomer's request is sent before. */
  nextAtMs = Number.NEGATIVE_INFINITY;
  #failures = 0;

  /** A newcomer's request is sent. */
  sent(nowMs: number): void {
    const doublings = this.#failures - FREE_FAILURES - 1;
    if (doublings >= 0) this.nextAtMs = nowMs + Math.min(MAX_INTERVAL_MS, MIN_INTERVAL_MS * 2 ** doublings);
  }

  /** A newcomer's request failed, and it may be the service's doing. */
  failed(): void {
    this.#failures++;
  }

  /** A newcomer's request succeeded, or a person said that all is well. */
  reset(): void {
    this.#failures = 0;
    this.nextAtMs = Number.NEGATIVE_INFINITY;
  }
}
