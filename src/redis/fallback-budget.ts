/**
 * When a call that Redis does not answer may request a token by itself. A slow Redis would otherwise turn into one request
 * per owner and replica. A token bucket bounds these requests: all replicas together make about 8 at once and 2 a second,
 * however many calls wait. A replica's share is so sized that a fleet of one has no limit, since it duplicates nobody's
 * request.
 *
 * A call that the bucket has nothing for waits for the late reply of Redis, and falls back after 8 to 10 s without
 * one. The bucket is jittered: each replica begins at a random point between two of its requests.
 *
 * The budget applies while Redis may answer. Once it has been silent for so long that the circuit breaker opens (see
 * `circuit-breaker.ts`), calls fall back at once, and only their registry limits how many requests it makes.
 */

import type { Clock } from '../clock.ts';
import { MAX_SILENCE_MS } from './circuit-breaker.ts';

/** Of all replicas together, in the long run. */
const REQUESTS_PER_SECOND = 2;
/** Of all replicas together, after a time without any. */
const BURST = 8;
/** The number of replicas assumed until the first count. */
const ASSUMED_REPLICAS = 10;

export class FallbackBudget {
  readonly #clock: Clock;
  readonly #random: () => number;
  #replicas = ASSUMED_REPLICAS;
  /** When the bucket is full again; later than now by one interval for each request that was taken from it. */
  #fullAtMs = Number.NEGATIVE_INFINITY;

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

  /** Takes a request from the bucket. Returns how long the call must wait before it falls back. */
  delayMs(): number {
    const nowMs = this.#clock.monotonic();
    const intervalMs = (1_000 / REQUESTS_PER_SECOND) * (this.#replicas - 1);
    const burstMs = (1_000 / REQUESTS_PER_SECOND) * BURST;
    const longestMs = MAX_SILENCE_MS * (1 + this.#random() / 4);
    const fullAtMs = Math.max(this.#fullAtMs, nowMs - intervalMs * this.#random()) + intervalMs;
    const delayMs = Math.max(0, fullAtMs - burstMs - nowMs);
    if (delayMs >= longestMs) return longestMs;
    this.#fullAtMs = fullAtMs;
    return delayMs;
  }
}
