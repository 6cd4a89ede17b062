/**
 * Keeps this replica to its share of a quota: spaces requests by the number of replicas divided by the quota, without bursts, in
 * the order of the calls.
 */

import { type Clock, startTimer, stopTimer, type Timer } from '../clock.ts';

/** One call's permit to send, granted when its send time comes. */
export interface Permit {
  isGranted: boolean;
  onGrant(): void;
}

export class QuotaPacer {
  readonly #clock: Clock;
  readonly #intervalMs: () => number;
  readonly #line = new Set<Permit>();
  #nextAtMs = Number.NEGATIVE_INFINITY;
  #timer: Timer | undefined;

  /** @param intervalMs the time between two requests of this replica. */
  constructor(clock: Clock, intervalMs: () => number) {
    this.#clock = clock;
    this.#intervalMs = intervalMs;
  }

  /** Joins the end of the line. The permit may be granted at once. */
  enter(): Permit {
    const permit: Permit = { isGranted: false, onGrant: () => {} };
    this.#line.add(permit);
    this.#serve();
    return permit;
  }

  /** The call sends no request after all: its send time passes to the next call in the line. */
  leave(permit: Permit): void {
    if (!this.#line.delete(permit)) this.#nextAtMs = Number.NEGATIVE_INFINITY;
    this.#serve();
  }

  #serve(): void {
    stopTimer(this.#timer);
    for (const permit of this.#line) {
      const nowMs = this.#clock.monotonic();
      if (nowMs < this.#nextAtMs) {
        this.#timer = startTimer(this.#clock, () => this.#serve(), this.#nextAtMs - nowMs);
        return;
      }
      this.#nextAtMs = nowMs + this.#intervalMs();
      this.#line.delete(permit);
      permit.isGranted = true;
      permit.onGrant();
    }
  }
}
