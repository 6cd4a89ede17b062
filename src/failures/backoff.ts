/**
 * How long a failure holds requests back. Every pause is drawn here, once, when it is written: half of it is jitter,
 * and jitter drawn at each look would let the earliest draw win.
 */

import { OwnerTokenError } from '../errors.ts';

/** How long pauses of one scope are: doubling from `baseMs` up to `capMs`. */
export interface PauseRange {
  /** Milliseconds of the first pause, before jitter; 1 to 3,600,000. */
  readonly baseMs: number;
  /** Milliseconds that no pause exceeds, unless a 429 or 503 asks for more; `baseMs` to 86,400,000. */
  readonly capMs: number;
}

/** A cached failure, and until when it holds requests back. */
export interface Pause {
  readonly error: OwnerTokenError;
  /** Failures in a row that led here. */
  readonly count: number;
  readonly retryAtMonotonicMs: number;
}

/** Beyond this many doublings every base has reached every cap. */
const MAX_DOUBLINGS = 40;

/**
 * Draws a pause: as long as the source says it lasts for all replicas, else as long as the service asked for, else the
 * doubled base up to the cap, less up to half of it.
 *
 * @param count failures in a row, this one included.
 * @param fromMs the monotonic time at which the pause begins.
 * @param doublings how often the base was doubled: usually once by each failure after the first.
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
  // Counted by the fleet: this replica's own backoff does not grow.
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
 * How long the service asked for no further request; undefined if it did not. A 429 or a 503 may ask for up to an hour,
 * which is as much as any error carries. `Retry-After` with another failure is followed up to the scope's own cap.
 */
export function retryAfterMsOf({ code, status, retryAfterMs }: OwnerTokenError, capMs: number): number | undefined {
  if (retryAfterMs === undefined || code === 'rate_limited' || status === 429 || status === 503) return retryAfterMs;
  return Math.min(retryAfterMs, capMs);
}
