/**
 * Backoff: how long requests pause after a failure. A pause is drawn once, when the failure is recorded. Half of it is
 * jitter: if that were drawn on each read, the earliest draw would win.
 */

import { OwnerTokenError } from '../errors.ts';

/**
 * The length of a scope's pauses, doubling from `baseMs` up to `capMs`.
 *
 * @example
 * ```ts
 * const range: PauseRange = { baseMs: 1_000, capMs: 60_000 };
 * ```
 */
export interface PauseRange {
  /** Milliseconds of the first pause, before jitter; 1 to 3,600,000. */
  readonly baseMs: number;
  /** Longest pause in milliseconds, unless a 429 or 503 asks for more; `baseMs` to 86,400,000. */
  readonly capMs: number;
}

/** A cached failure, and the time of the next attempt. */
export interface Pause {
  readonly error: OwnerTokenError;
  /** Failures in a row that led here. */
  readonly count: number;
  readonly retryAtMonotonicMs: number;
}

/** After this many doublings every base has reached its cap. */
const MAX_DOUBLINGS = 40;

/**
 * Draws a pause. Its length is, in this order of precedence: what the source has set for all replicas; what the service
 * asked for; the doubled base up to the cap, less up to half of it.
 *
 * @param count failures in a row, this one included.
 * @param fromMs the monotonic time at which the pause begins.
 * @param doublings how many times the base is doubled; by default once per failure after the first.
 */
export function drawPause(
  error: OwnerTokenError,
  count: number,
  range: PauseRange,
  fromMs: number,
  random: () => number,
  doublings = count - 1,
): Pause {
  const pauseMs = OwnerTokenError.pauseMsOf(error);
  // The fleet counts such failures, so the backoff of this replica does not grow.
  if (pauseMs !== undefined) return { error, count: count - 1, retryAtMonotonicMs: fromMs + pauseMs };
  const lengthMs = retryAfterMsOf(error, range.capMs) ?? drawLength(doublings, range, random);
  return { error, count, retryAtMonotonicMs: fromMs + lengthMs };
}

/** The doubled base up to the cap, less up to half of it. */
export function drawLength(doublings: number, range: PauseRange, random: () => number): number {
  const grownMs = Math.min(range.capMs, range.baseMs * 2 ** Math.min(doublings, MAX_DOUBLINGS));
  return grownMs * (0.5 + random() / 2);
}

/**
 * The wait that the service asked for; undefined if it did not. A 429 or 503 may ask for up to an hour, the upper bound
 * of `retryAfterMs` in any error. With other failures, `Retry-After` is limited by the scope's cap.
 */
export function retryAfterMsOf({ code, status, retryAfterMs }: OwnerTokenError, capMs: number): number | undefined {
  if (retryAfterMs === undefined || code === 'rate_limited' || status === 429 || status === 503) return retryAfterMs;
  return Math.min(retryAfterMs, capMs);
}
