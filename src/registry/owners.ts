/** What `owners()` returns: the owners that fail, worst first, and those in use, by label or fingerprint, never by key. */

import { type Instant, onWallClock } from '../clock.ts';
import type { OwnerTokenErrorCode } from '../errors.ts';
import { OptionCheck } from '../option-check.ts';
import type { OwnerTable } from './owner-table.ts';
import type { Slot, Surroundings } from './slot.ts';
import { type OwnerState, ownerState } from './stats.ts';

/**
 * Selects the owners that `owners()` returns.
 *
 * @example
 * ```ts
 * const options: OwnersOptions = { limit: 20, state: 'failing' };
 * ```
 */
export interface OwnersOptions {
  /** The most owners to return, 1 to 100,000. Default: 100. */
  limit?: number | undefined;
  /**
   * `failing`: owners whose last request failed. `working`: the other owners with a token. Default: both, the failing ones
   * first.
   */
  state?: 'failing' | 'working' | undefined;
}

/**
 * Why an owner fails.
 *
 * @example
 * ```ts
 * await registry.getToken('a wrong key').catch(() => {});
 * const failure: OwnerFailure | undefined = registry.owners({ state: 'failing' })[0]?.failure;
 * console.log(failure?.code, failure?.failures); // → owner_refused 1
 * ```
 */
export interface OwnerFailure {
  /** Code of the last failure. */
  readonly code: OwnerTokenErrorCode;
  /** What failed, in words. */
  readonly message: string;
  /** The HTTP status of the last response. */
  readonly status?: number;
  /** The `error` of an OAuth error response. */
  readonly oauthError?: string;
  /** Epoch ms: when the first failure in a row happened. */
  readonly sinceMs: number;
  /** Epoch ms: when the last failure happened. */
  readonly failedAtMs: number;
  /** Failures in a row. */
  readonly failures: number;
  /** Epoch ms: no request of this owner starts before this. */
  readonly retryAtMs: number;
}

/**
 * One owner in the list of `owners()`. `phase`, `code` and `retryAtMs` are what a call would get now, from the owner's own
 * failure or an open circuit.
 *
 * @example
 * ```ts
 * await registry.getToken(accessKey);
 * const [report]: OwnerReport[] = registry.owners();
 * console.log(report?.phase, report?.owner === registry.fingerprint(accessKey)); // → fresh true
 * ```
 */
export interface OwnerReport extends OwnerState {
  /** Label or fingerprint of the owner. */
  readonly owner: string;
  /** Epoch ms: when the last token was requested that the service issued, as far as it is remembered. */
  readonly issuedAtMs?: number;
  /** Why the owner fails; absent if its last request succeeded. */
  readonly failure?: OwnerFailure;
}

const MAX_LIMIT = 100_000;
const DEFAULT_LIMIT = 100;

/**
 * The owners that fail, the longest failing first, those without a token before those with one; then the others with a
 * token, the most recently used first.
 *
 * @param around what else a decision about an owner depends on.
 * @param failingSinceMs when an owner's outage began, on the monotonic clock.
 */
export function ownerReports(
  owners: OwnerTable,
  given: OwnersOptions,
  now: Instant,
  around: (slot: Slot) => Surroundings,
  failingSinceMs: (slot: Slot) => number | undefined,
): OwnerReport[] {
  const check = new OptionCheck<OwnersOptions>('owners', given, ['limit', 'state']);
  check.integer('limit', 1, MAX_LIMIT);
  check.when('state', (value) => value === 'failing' || value === 'working', '`failing` or `working`');
  const { limit = DEFAULT_LIMIT, state } = check.done();
  const slots: Slot[] = [];
  if (state !== 'working') take(owners.failing(), limit, slots);
  if (state !== 'failing') take(owners.working(), limit, slots);
  // Only now, because a label is computed by the user's function, which may call the registry.
  return slots.map((slot) => ownerReport(slot, now, around(slot), failingSinceMs(slot)));
}

function take(from: Iterable<Slot>, limit: number, into: Slot[]): void {
  if (into.length === limit) return;
  for (const slot of from) if (into.push(slot) === limit) return;
}

function ownerReport(slot: Slot, now: Instant, around: Surroundings, sinceMs: number | undefined): OwnerReport {
  const issuedAtMs = slot.held?.issuedAtMs ?? slot.trouble?.issuedAtMs;
  const failure = failureOf(slot, now, sinceMs);
  const { owner } = slot;
  return {
    owner,
    ...ownerState(slot, now, around),
    ...(issuedAtMs !== undefined && { issuedAtMs }),
    ...(failure && { failure }),
  };
}

function failureOf({ trouble }: Slot, now: Instant, sinceMs: number | undefined): OwnerFailure | undefined {
  if (!trouble?.failure) return undefined;
  const { error, count: failures, retryAtMonotonicMs } = trouble.failure;
  const { code, message, status, oauthError, failedAtMs } = error;
  return {
    code,
    message,
    ...(status !== undefined && { status }),
    ...(oauthError !== undefined && { oauthError }),
    sinceMs: sinceMs === undefined ? failedAtMs : now.wallMs - (now.monotonicMs - sinceMs),
    failedAtMs,
    failures,
    retryAtMs: onWallClock(retryAtMonotonicMs, now),
  };
}
