/**
 * Limits how many requests this replica makes at once while it does not share. Otherwise an overloaded Redis would turn into
 * one request per owner and replica, all at once. The replicas together begin with about as many requests as one process
 * would make, and each doubles its share every two seconds. A quiet period resets that. A replica whose share is less
 * than one request at a time makes one, and then none for as long as makes up for it, with jitter.
 *
 * Calls beyond the limit wait in order, and read Redis once more before they request a token.
 */

import { type Clock, startTimer } from '../clock.ts';

/** The initial limit on concurrent requests of all replicas together. */
const FLEET_WIDTH = 8;
/** The number of replicas assumed until the first count. */
const ASSUMED_REPLICAS = 10;
const DOUBLES_EVERY_MS = 2_000;
const QUIET_MS = 10_000;

export class FallbackBudget {
  readonly #clock: Clock;
  readonly #random: () => number;
  #replicas = ASSUMED_REPLICAS;
  #inFlight = 0;
  #beganAtMs = Number.NEGATIVE_INFINITY;
  #lastAtMs = Number.NEGATIVE_INFINITY;
  #restsUntilMs = Number.NEGATIVE_INFINITY;
  #cancelRest = () => {};
  readonly #queue = new Set<() => void>();

  constructor(clock: Clock, random: () => number) {
    this.#clock = clock;
    this.#random = random;
  }

  /** The last count, or what is assumed until the first. */
  get replicas(): number {
    return this.#replicas;
  }

  set replicas(count: number) {
    this.#replicas = Math.max(1, count);
  }

  /** Takes a place at once, if there is one. */
  tryEnter(): boolean {
    const nowMs = this.#clock.monotonic();
    if (nowMs - this.#lastAtMs > QUIET_MS) this.#beganAtMs = nowMs;
    this.#lastAtMs = nowMs;
    if (nowMs < this.#restsUntilMs || this.#inFlight >= this.#share(nowMs)) return false;
    this.#inFlight++;
    return true;
  }

  /** Waits for a place. Rejects with the signal's reason. */
  async enter(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const leave = () => {
        this.#queue.delete(admit);
        if (this.#queue.size === 0) this.#cancelRest();
        reject(signal.reason);
      };
      const admit = () => {
        signal.removeEventListener('abort', leave);
        this.#queue.delete(admit);
        resolve();
      };
      signal.addEventListener('abort', leave, { once: true });
      this.#queue.add(admit);
      this.#admitNext();
    });
  }

  /** @param requestMs how long the request took; 0 if none was made. */
  leave(requestMs: number): void {
    this.#inFlight--;
    const nowMs = this.#clock.monotonic();
    const owedMs = requestMs * Math.max(0, 1 / this.#share(nowMs) - 1);
    this.#restsUntilMs = nowMs + Math.min(DOUBLES_EVERY_MS, owedMs * (0.5 + this.#random()));
    this.#admitNext();
  }

  #admitNext(): void {
    this.#cancelRest();
    for (const admit of this.#queue) {
      if (!this.tryEnter()) break;
      admit();
    }
    const restMs = this.#restsUntilMs - this.#clock.monotonic();
    if (this.#queue.size > 0 && restMs > 0) {
      this.#cancelRest = startTimer(this.#clock, () => this.#admitNext(), restMs);
    }
  }

  /** How many requests this replica may make at once; a fraction stands for one at a time, with rests in between. */
  #share(nowMs: number): number {
    const doublings = Math.min(20, Math.floor((nowMs - this.#beganAtMs) / DOUBLES_EVERY_MS));
    return (FLEET_WIDTH / this.#replicas) * 2 ** doublings;
  }
}
