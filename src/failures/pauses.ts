/**
 * How long requests pause after a failure.
 *
 * | scope | after | pause: base, cap |
 * |---|---|---|
 * | owner | the client is refused, and not for this owner alone; or a failure of the endpoint | 0.1 s, up to the cap of that scope: 30 s |
 * | owner | any other failure, including an exception of the source | `pauses.owner`: 1 s, 5 min |
 * | client | failed canaries | `pauses.client`: 0.5 s, 30 s |
 * | endpoint | failed canaries | `pauses.endpoint`: 0.5 s, 30 s |
 *
 * A pause doubles from the base up to the cap: an owner's with each failure in a row, a circuit's once a canary and a caller
 * have both failed as trials, because one failed trial says little about a service that fails in part. Half of a pause is
 * jitter, drawn once, when the failure is recorded: if each read drew it, the shortest draw would win.
 *
 * A `Retry-After` makes a pause longer, never shorter. An owner's first one, and any one that stops all owners, counts for a minute at
 * most, because services announce an hour and are back after two minutes. While an owner's token lives, a failed refresh is
 * not urgent: it pauses for at least ten seconds, or a third of the token's remaining life if that is less.
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

/** The pause of an owner. */
export interface OwnerPause extends Pause {
  /** The number of the first request in that row. */
  readonly firstNumber: number;
}

/** The base of an owner's pause after a usually transient failure, and roughly the delay of a retry. */
export const TRANSIENT_BASE_MS = 100;
/** The longest that a `Retry-After` stops all owners, and that an owner's first one stops the owner. */
const LONGEST_OBEYED_MS = 60_000;
/** The least pause after a failed refresh, or this share of the token's remaining life if that is less. */
const REFRESH_AGAIN = { afterMs: 10_000, ofLife: 1 / 3 } as const;

/** The failure of an owner's request. */
export interface RequestFailure {
  readonly error: OwnerTokenError;
  /** Failures in a row, this one included. */
  readonly count: number;
  /** How much longer the owner has a usable token. */
  readonly leftMs: number;
  /** Whether only this owner is refused: another got a token since the first failure, and none got one lately after such a refusal. */
  readonly isAlone: boolean;
}

/** The pause of an owner. */
export function ownerPause(failure: RequestFailure, ranges: PauseRanges, nowMs: number, jitter: number): Pause {
  const { error, count, leftMs } = failure;
  const { retryAfterMs = 0 } = error;
  const askedMs = count === 1 ? Math.min(retryAfterMs, LONGEST_OBEYED_MS) : retryAfterMs;
  const drawnMs = jitteredLength(count, ownerRange(failure, ranges), jitter);
  const refreshAgainMs = Math.min(REFRESH_AGAIN.afterMs, REFRESH_AGAIN.ofLife * leftMs);
  return { error, count, retryAtMonotonicMs: nowMs + Math.max(askedMs, drawnMs, refreshAgainMs) };
}

/** What concerns the client or the endpoint is often over soon; an unknown refusal, or one of an owner alone, may be its own. */
function ownerRange({ error, isAlone }: RequestFailure, ranges: PauseRanges): PauseRange {
  const { baseMs, capMs } = ranges.owner;
  const { scope } = OwnerTokenError.escalationOf(error);
  if (scope === 'owner' || (scope === 'client' && (isAlone || error.code !== 'client_refused'))) return ranges.owner;
  return {
    baseMs: Math.min(baseMs, TRANSIENT_BASE_MS),
    capMs: Math.min(capMs, Math.max(baseMs, ranges[scope].capMs)),
  };
}

/**
 * The pause of a circuit.
 *
 * @param count failed trials in a row, this one included.
 */
export function circuitPause(
  scope: WiderScope,
  failure: OwnerTokenError,
  count: number,
  range: PauseRange,
  nowMs: number,
  jitter: number,
): Pause {
  const error = OwnerTokenError.restated(failure, { failureScope: scope });
  const obeyedMs = Math.min(failure.retryAfterMs ?? 0, LONGEST_OBEYED_MS);
  const drawnMs = jitteredLength(Math.ceil(count / 2), range, jitter);
  return { error, count, retryAtMonotonicMs: nowMs + Math.max(obeyedMs, drawnMs) };
}

/** The base, doubled for each failure after the first, up to the cap. */
export const doubled = (count: number, baseMs: number, capMs: number): number =>
  Math.min(capMs, baseMs * 2 ** (count - 1));

/** The doubled base up to the cap, less up to half of it. */
export function jitteredLength(count: number, { baseMs, capMs }: PauseRange, jitter: number): number {
  return doubled(count, baseMs, capMs) * (0.5 + jitter / 2);
}
