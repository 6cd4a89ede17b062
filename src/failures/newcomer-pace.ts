/**
 * Slows down the requests of newcomers (owners that never succeeded) while they fail. In an outage, newcomers may be
 * the only owners that make requests, because the others still have their tokens. Once any owner has succeeded,
 * newcomers alone do not open a circuit, because they may simply have wrong keys. So from the third ambiguous failure
 * in a row on, each one doubles the interval between their requests, up to a second. A newcomer's success ends that.
 */

const FREE_FAILURES = 2;
const MIN_INTERVAL_MS = 125;
const MAX_INTERVAL_MS = 1_000;

export class NewcomerPace {
  /** Monotonic time before which no newcomer's request is sent. */
  nextAtMs = Number.NEGATIVE_INFINITY;
  #failures = 0;

  /** A newcomer's request is sent. */
  sent(nowMs: number): void {
    const doublings = this.#failures - FREE_FAILURES - 1;
    if (doublings >= 0) this.nextAtMs = nowMs + Math.min(MAX_INTERVAL_MS, MIN_INTERVAL_MS * 2 ** doublings);
  }

  /** A newcomer's request failed ambiguously. */
  failed(): void {
    this.#failures++;
  }

  /** A newcomer's request succeeded, or `resume()` was called. */
  reset(): void {
    this.#failures = 0;
    this.nextAtMs = Number.NEGATIVE_INFINITY;
  }
}
