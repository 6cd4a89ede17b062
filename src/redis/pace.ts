/**
 * This replica's share of a quota: its send times are spaced by the quota divided by the number of replicas, without bursts.
 * Calls take them in order.
 */

import { type Clock, startTimer, stopTimer, type Timer } from '../clock.ts';

/** One call's place in the line for a send time. */
export interface Turn {
  /** Whether the call may send its request as far as the quota is concerned. */
  isNow: boolean;
  /** Called when the send time has come. */
  onCome(): void;
}

export class Pace {
  readonly #clock: Clock;
  readonly #intervalMs: () => number;
  readonly #line = new Set<Turn>();
  #nextAtMs = Number.NEGATIVE_INFINITY;
  #timer: Timer | undefined;

  /** @param intervalMs the time between two requests of this replica. */
  constructor(clock: Clock, intervalMs: () => number) {
    this.#clock = clock;
    this.#intervalMs = intervalMs;
  }

  /** Joins the end of the line. The send time may be now. */
  enter(): Turn {
    const turn: Turn = { isNow: false, onCome: () => {} };
    this.#line.add(turn);
    this.#serve();
    return turn;
  }

  /** The call sends no request after all. The next one in the line has its send time. */
  leave(turn: Turn): void {
    if (!this.#line.delete(turn)) this.#nextAtMs = Number.NEGATIVE_INFINITY;
    this.#serve();
  }

  #serve(): void {
    stopTimer(this.#timer);
    for (const turn of this.#line) {
      const nowMs = this.#clock.monotonic();
      if (nowMs < this.#nextAtMs) {
        this.#timer = startTimer(this.#clock, () => this.#serve(), this.#nextAtMs - nowMs);
        return;
      }
      this.#nextAtMs = nowMs + this.#intervalMs();
      this.#line.delete(turn);
      turn.isNow = true;
      turn.onCome();
    }
  }
}
