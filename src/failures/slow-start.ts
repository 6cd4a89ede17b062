/**
 * How many requests may be in flight: all that the concurrency allows, except after a pause. Then one, and twice as
 * many after each success, so that a service that has just come back is not asked by everybody at once.
 */

import type { Permit } from './circuit-breaker.ts';

export class SlowStart {
  readonly #concurrency: number;
  #limit: number;
  /** The number of the permit whose answer ended the pause. */
  #begunBy = 0;

  constructor(concurrency: number) {
    this.#concurrency = concurrency;
    this.#limit = concurrency;
  }

  get limit(): number {
    return this.#limit;
  }

  /** The answer to this request ended a pause. */
  begin(permit: Permit): void {
    this.#limit = 1;
    this.#begunBy = permit.number;
  }

  /** A request succeeded. One that was sent before the pause says nothing about what the service can take after it. */
  succeeded(permit: Permit): void {
    if (permit.number > this.#begunBy) this.#limit = Math.min(this.#limit * 2, this.#concurrency);
  }

  /** Lifts the limit: a pause began, which admits trial requests only, or a person said that all is well. */
  end(): void {
    this.#limit = this.#concurrency;
  }
}
