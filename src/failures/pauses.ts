/**
 * How long requests pause after a failure.
 *
 * | scope | after | pause: base, cap |
 * |---|---|---|
 * | owner | a failure that concerns the owner or the client | `pauses.owner`: 1 s, 5 min |
 * | owner | a hang of over 500 ms | `pauses.owner`, up to the cap of `pauses.endpoint`: 1 s, 30 s |
 * | owner | any other failure that concerns the endpoint | 0.1 s, up to the cap of `pauses.endpoint` |
 * | client | failed canaries | `pauses.client`: 0.5 s, 30 s |
 * | endpoint | failed canaries | `pauses.endpoint`: 0.5 s, 30 s |
 *
 * A pause doubles from the base up to the cap: an owner's with each failure in a row, a circuit's when a canary and a caller
 * have failed as trials, because one failed trial says little about a service that fails in part. Half of a pause is jitter,
 * drawn once, when the failure is recorded: if each read drew it, the shortest draw would win. A `Retry-After` replaces its
 * owner's pause. It extends a circuit's pause to one minute at most, because services announce an hour and are back after two
 * minutes.
 */

import { OwnerTokenError, type WiderScope } from '../errors/owner-token-error.ts';

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
  /** Longest pause in milliseconds, unless the service asks for more; `baseMs` to 86,400,000. */
  readonly capMs: number;
}

/**
 * How long a failure of each scope stops requests.
 *
 * @example
 * ```ts
 * const pauses: Partial<PauseRanges> = { endpoint: { baseMs: 1_000, capMs: 10_000 } };
 * const source = new TokenEndpoint({ baseUrl, clientId, clientSecret });
 * await using tokens = new OwnerTokenRegistry({ source, pauses });
 * ```
 */
export interface PauseRanges {
  /** Requests of one owner. Default: 1 s to 5 min. */
  readonly owner: PauseRange;
  /** All requests, while the service refuses the client. Default: 0.5 s to 30 s. */
  readonly client: PauseRange;
  /** All requests, while the endpoint fails. Default: 0.5 s to 30 s. */
  readonly endpoint: PauseRange;
}

/** A cached failure, and the time of the next attempt. */
export interface Pause {
  readonly error: OwnerTokenError;
  /** Failures in a row that led here. */
  readonly count: number;
  readonly retryAtMonotonicMs: number;
}

/** A request that took longer than this before it failed counts as hung. */
export const HUNG_AFTER_MS = 500;
/** The base of an owner's pause after a failure that is usually transient. */
const TRANSIENT_BASE_MS = 100;
/** How long a `Retry-After` may stop all owners before a trial request is sent. */
const LONGEST_OBEYED_MS = 60_000;
/** After this many doublings any base has reached its cap. */
const MAX_DOUBLINGS = 40;

/** The pause of an owner. @param count failures in a row, this one included. */
export function ownerPause(
  error: OwnerTokenError,
  count: number,
  hung: boolean,
  ranges: PauseRanges,
  nowMs: number,
  jitter: number,
): Pause {
  const lengthMs = error.retryAfterMs ?? drawLength(count, ownerRange(error, hung, ranges), jitter);
  return { error, count, retryAtMonotonicMs: nowMs + lengthMs };
}

function ownerRange(error: OwnerTokenError, hung: boolean, { owner, endpoint }: PauseRanges): PauseRange {
  if (OwnerTokenError.evidenceOf(error).scope !== 'endpoint') return owner;
  return {
    baseMs: hung ? owner.baseMs : Math.min(owner.baseMs, TRANSIENT_BASE_MS),
    capMs: Math.min(owner.capMs, Math.max(owner.baseMs, endpoint.capMs)),
  };
}

/**
 * The pause of a circuit.
 *
 * @param count failed trials in a row, this one included.
 * @param alternates whether canaries and callers take turns as trials; they do not before the first success.
 */
export function circuitPause(
  scope: WiderScope,
  failure: OwnerTokenError,
  count: number,
  alternates: boolean,
  ranges: PauseRanges,
  nowMs: number,
  jitter: number,
): Pause {
  const error = OwnerTokenError.restated(failure, { failureScope: scope });
  const obeyedMs = Math.min(failure.retryAfterMs ?? 0, LONGEST_OBEYED_MS);
  const drawnMs = drawLength(alternates ? Math.ceil(count / 2) : count, ranges[scope], jitter);
  return { error, count, retryAtMonotonicMs: nowMs + Math.max(obeyedMs, drawnMs) };
}

/** The doubled base up to the cap, less up to half of it. */
export function drawLength(count: number, { baseMs, capMs }: PauseRange, jitter: number): number {
  return Math.min(capMs, baseMs * 2 ** Math.min(count - 1, MAX_DOUBLINGS)) * (0.5 + jitter / 2);
}
