/**
 * How many requests this replica makes at once while it does not share. An overloaded Redis must not turn into N requests
 * for each owner, all at once, on the same machines: so the replicas together begin with about as many as one process
 * would make, and each doubles its share every two seconds, until Redis no longer matters. A quiet time resets that.
 *
 * Those beyond it wait in order. Whoever had to wait asks Redis once more before it makes a request.
 */

import type { Clock } from '../clock.ts';

/** Requests of all replicas at once, at first. */
const FLEET_WIDTH = 8;
/** Assumed before the first count. */
const ASSUMED_REPLICAS = 10;
const DOUBLES_EVERY_MS = 2_000;
const QUIET_MS = 10_000;

export class FallbackBudget {
  readonly #clock: Clock;
  #replicas = ASSUMED_REPLICAS;
  #inFlight = 0;
  #beganAtMs = Number.NEGATIVE_INFINITY;
  #lastAtMs = Number.NEGATIVE_INFINITY;
  readonly #queue = new Set<() => void>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  set replicas(count: number) {
    this.#replicas = Math.max(1, count);
  }

  /** Takes a place at once, if there is one. */
  tryEnter(): boolean {
    const nowMs = this.#clock.monotonic();
    if (nowMs - this.#lastAtMs > QUIET_MS) this.#beganAtMs = nowMs;
    this.#lastAtMs = nowMs;
    if (this.#inFlight >= this.#width(nowMs)) return false;
    this.#inFlight++;
    return true;
  }

  /** Waits for a place. Rejects with the signal's reason. */
  async enter(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const leave = () => {
        this.#queue.delete(admit);
        reject(signal.reason);
      };
      const admit = () => {
        signal.removeEventListener('abort', leave);
        this.#queue.delete(admit);
        resolve();
      };
      signal.addEventListener('abort', leave, { once: true });
      this.#queue.add(admit);
    });
  }

  leave(): void {
    this.#inFlight--;
    for (const admit of this.#queue) {
      if (!this.tryEnter()) return;
      admit();
    }
  }

  #width(nowMs: number): number {
    const doublings = Math.min(20, Math.floor((nowMs - this.#beganAtMs) / DOUBLES_EVERY_MS));
    return Math.ceil(FLEET_WIDTH / this.#replicas) * 2 ** doublings;
  }
}
