/**
 * Slow start: after a pause, only one request may be in flight, and twice as many after each success, so that a service
 * that has just recovered is not flooded. Otherwise the limit is the concurrency.
 */

import type { Permit } from './circuit-breaker.ts';

export class SlowStart {
  readonly #concurrency: number;
  #limit: number;
  /** The number of the permit whose response ended the pause. */
  #begunBy = 0;

  constructor(concurrency: number) {
    this.#concurrency = concurrency;
    this.#limit = concurrency;
  }

  get limit(): number {
    return this.#limit;
  }

  /** The response to this request ended a pause. */
  begin(permit: Permit): void {
    this.#limit = 1;
    this.#begunBy = permit.number;
  }

  /** A request succeeded. Ignored if it was sent earlier than the one that ended the pause. */
  succeeded(permit: Permit): void {
    if (permit.number > this.#begunBy) this.#limit = Math.min(this.#limit * 2, this.#concurrency);
  }

  /** Lifts the limit: a pause began, which admits only trial requests, or `resume()` was called. */
  end(): void {
    this.#limit = this.#concurrency;
  }
}
