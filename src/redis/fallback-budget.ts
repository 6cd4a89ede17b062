/**
 * When a call may request a token by itself although Redis may still answer. Without a bound, a Redis that only answers
 * late would turn into one request per owner and replica.
 *
 * A token bucket bounds these requests: 8 at once and 2 a second for all replicas together, however many calls wait. A
 * replica whose second or later count finds no other replica has no limit, because its requests duplicate nobody's. A call
 * for which the bucket has nothing waits for the late reply, and falls back after 8 to 10 s without one (18 to 22.5 s while
 * the replica has not had a reply yet). If nothing else gets a reply either, sharing is suspended (see
 * `circuit-breaker.ts`): calls then fall back at once, also those that wait, and only their registries limit how many
 * requests they make, as without sharing.
 *
 * Jitter: each replica begins at a random point between two of its requests, because most replicas of a large fleet have
 * less than one at once.
 */

import type { Clock } from '../clock.ts';

/** Of all replicas together, in the long run. */
const REQUESTS_PER_SECOND = 2;
/** Of all replicas together, after a time without any. */
const BURST = 8;
/** The number of replicas assumed until the first count. */
const ASSUMED_REPLICAS = 10;

/** When a call falls back whose record cannot be read. */
export interface FallbackTime {
  /** Monotonic. */
  readonly sinceMs: number;
  /** The monotonic time of the call's request from the bucket; `Infinity` if the bucket had none. */
  readonly byBudgetMs: number;
  /** Multiplies the limit, so that calls without a request from the bucket do not fall back at the same moment. */
  readonly jitter: number;
}

/** The largest `jitter`. */
export const MAX_JITTER = 1.25;

/** The monotonic time at which the call falls back, by the limit on silence that holds now: it may have changed. */
export function fallBackAtMs({ sinceMs, byBudgetMs, jitter }: FallbackTime, maxSilenceMs: number): number {
  return Math.min(byBudgetMs, sinceMs + maxSilenceMs * jitter);
}

export class FallbackBudget {
  readonly #clock: Clock;
  readonly #random: () => number;
  #replicas = ASSUMED_REPLICAS;
  /** How many counts there have been, whatever they found. */
  #timesCounted = 0;
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
    this.#timesCounted++;
  }

  /**
   * Takes a request from the bucket, unless the call would have to wait for it longer than for Redis.
   *
   * @param maxSilenceMs how long Redis may leave operations unanswered.
   */
  take(maxSilenceMs: number): FallbackTime {
    const sinceMs = this.#clock.monotonic();
    // The first count of a starting fleet may find only this replica, so it is not trusted.
    const others = Math.max(this.#replicas - 1, this.#timesCounted > 1 ? 0 : 1);
    if (others === 0) return { sinceMs, byBudgetMs: sinceMs, jitter: 1 };
    const intervalMs = (1_000 / REQUESTS_PER_SECOND) * others;
    const burstMs = (1_000 / REQUESTS_PER_SECOND) * BURST;
    const jitter = 1 + this.#random() * (MAX_JITTER - 1);
    const fullAtMs = Math.max(this.#fullAtMs, sinceMs - intervalMs * this.#random()) + intervalMs;
    const byBudgetMs = Math.max(sinceMs, fullAtMs - burstMs);
    if (byBudgetMs - sinceMs >= maxSilenceMs * jitter) return { sinceMs, byBudgetMs: Infinity, jitter };
    this.#fullAtMs = fullAtMs;
    return { sinceMs, byBudgetMs, jitter };
  }
}
