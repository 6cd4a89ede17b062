/** What `describe()`, `owners()` and `stats()` return: plain data, owners by label or fingerprint, no secrets. */

import { type Instant, onWallClock } from '../clock.ts';
import type { FailureScope, OwnerTokenErrorCode } from '../errors/owner-token-error.ts';
import type { Blame } from '../failures/blame-state.ts';
import type { Pause } from '../failures/pauses.ts';
import { knownRejection } from '../failures/rejections.ts';
import { checkOptions, integer, type OptionRules } from '../option-check.ts';
import type { OwnerTable } from './owner-table.ts';
import type { Requests } from './requests.ts';
import { type Conditions, isLive, laterPause, type Phase, phaseOf, type Slot } from './slot.ts';

/**
 * What is known about one owner: "which customer is this, and why does it not work?"
 *
 * @example
 * ```ts
 * await registry.getToken('a wrong key').catch(() => {});
 * const { phase, code }: OwnerState = registry.describe('a wrong key');
 * console.log(phase, code); // → backing-off owner_refused
 * ```
 */
export interface OwnerState {
  /** What a call for this owner would get now. */
  readonly phase: Phase;
  /** Epoch ms: expiry of the cached token; `Infinity` if it is kept until rejected. */
  readonly expiresAtMs?: number;
  /** Code of the cached failure. */
  readonly code?: OwnerTokenErrorCode;
  /** Epoch ms: no request starts before this. */
  readonly retryAtMs?: number;
}

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
   * `failing`: owners whose last request failed. `rejected`: owners whose newest tokens the API rejects, see
   * {@link PauseStats.rejected}. `working`: the other owners with a token. Default: all, in this order.
   */
  state?: 'failing' | 'rejected' | 'working' | undefined;
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
  /** Epoch ms: when the last issued token was requested, if that is still known. */
  readonly issuedAtMs?: number;
  /** Why its last request failed, or else that the API rejected its tokens in a row; absent if neither. */
  readonly failure?: OwnerFailure;
}

/**
 * A pause of all owners: an open or half-open circuit.
 *
 * @example
 * ```ts
 * const { client, endpoint } = registry.stats().pauses;
 * const worst: PauseStat | undefined = client ?? endpoint;
 * if (worst) console.log(worst.code, new Date(worst.retryAtMs));
 * ```
 */
export interface PauseStat {
  /** Code of the failure. */
  readonly code: OwnerTokenErrorCode;
  /** Epoch ms: when the last failure happened. */
  readonly failedAtMs: number;
  /** Epoch ms: when the trial request may start. */
  readonly retryAtMs: number;
  /** Failures in a row. */
  readonly failures: number;
  /** Whether the trial request is in flight. */
  readonly probing: boolean;
}

/**
 * What is paused now.
 *
 * @example
 * ```ts
 * const pauses: PauseStats = registry.stats().pauses;
 * const healthy = !pauses.client && !pauses.endpoint;
 * console.log(healthy); // → true
 * ```
 */
export interface PauseStats {
  /** Owners whose last request failed, for a reason of their own. One whose pause has ended counts until it succeeds. */
  owners: number;
  /**
   * Owners whose newest tokens the API rejects although they replaced rejected ones; absent while there are none. Many at
   * once: the API fails. They get a token nevertheless, so that no call of theirs is refused. An owner counts until a call
   * is accepted; or, because then nothing more is known, until nobody has reported a rejection in the ten seconds after its
   * token was to be kept.
   */
  rejected?: {
    /** How many. */
    readonly owners: number;
    /** Epoch ms: since when the first of them. */
    readonly sinceMs: number;
  };
  /** The client's pause, which stops all requests; absent while its circuit is closed. */
  client?: PauseStat;
  /** The endpoint's pause, which stops all requests; absent while its circuit is closed. */
  endpoint?: PauseStat;
}

/**
 * What the registry holds, and counters since it was constructed.
 *
 * @example
 * ```ts
 * await registry.getToken(accessKey);
 * await registry.getToken(accessKey);
 * const { hits, requests }: RegistryStats = registry.stats();
 * console.log(hits, requests); // → 1 1
 * ```
 */
export interface RegistryStats {
  /** Owners in the cache now. */
  owners: number;
  /** Owners with a token. One whose token has expired counts until its next call. */
  usable: number;
  /** Token requests in flight now. */
  inFlight: number;
  /** Those in flight that take far longer than usual or wait for another replica, and have given their places to others. */
  slow: number;
  /** The most token requests in flight at once, slow ones apart: the option `concurrency`. */
  concurrency: number;
  /** Token requests that wait for their turn now. */
  queued: number;
  /** Callers that wait for a token request now. */
  waiting: number;
  /** Calls served from the cache. */
  hits: number;
  /** Calls that joined an in-flight or queued request. */
  joined: number;
  /** Calls refused by a pause, by its scope. */
  refused: Record<FailureScope, number>;
  /** Token requests sent: calls of the source. */
  requests: number;
  /** Token requests sent ahead of expiry, while the cached token was usable; part of `requests`. */
  refreshes: number;
  /** Canary requests: refreshes of owners that succeeded recently, to see whether the service works; part of `requests`. */
  canaries: number;
  /** Token requests that failed. */
  failures: number;
  /** Reports by `reject` of a cached token, without repeated ones. */
  rejections: number;
  /** Owners evicted because the cache was full. */
  evictions: number;
  /** What is paused now. */
  pauses: PauseStats;
}

/** One owner's state. */
export function ownerState(slot: Slot, now: Instant, conditions: Conditions): OwnerState {
  const pause = laterPause(conditions.circuit, troubleNow(slot, now));
  return {
    phase: phaseOf(slot, now, conditions),
    ...(isLive(slot, now) && { expiresAtMs: slot.held.expiresAtMs }),
    ...(pause && { code: pause.error.code, retryAtMs: onWallClock(pause.retryAtMonotonicMs, now) }),
  };
}

const OWNERS_OPTIONS: OptionRules<OwnersOptions> = {
  limit: integer(1, 100_000, 100),
  state: {
    passes: (value) => ['failing', 'rejected', 'working'].includes(value as string),
    expected: '`failing`, `rejected` or `working`',
  },
};

/**
 * The owners that fail, the longest failing first, those without a token before those with one; then those whose tokens the
 * API rejects; then the others with a token, the most recently used first.
 *
 * @param conditions what else a decision about an owner depends on.
 * @param failingSinceMs when an owner's outage began, on the monotonic clock.
 */
export function ownerReports(
  owners: OwnerTable,
  given: OwnersOptions,
  now: Instant,
  conditions: (slot: Slot) => Conditions,
  failingSinceMs: (slot: Slot) => number | undefined,
): OwnerReport[] {
  const { limit, state } = checkOptions('owners', given, OWNERS_OPTIONS) as OwnersOptions & { limit: number };
  const nowMs = now.monotonicMs;
  const lists = {
    failing: owners.failing(),
    rejected: owners.rejected.rejected(nowMs),
    working: owners.working(nowMs),
  };
  const slots = new Set<Slot>();
  for (const list of state ? [lists[state]] : Object.values(lists)) take(list, limit, slots);
  // Only now, because a label is computed by the user's function, which may call the registry.
  return [...slots].map((slot) => ownerReport(slot, now, conditions(slot), failingSinceMs(slot)));
}

function take(from: Iterable<Slot>, limit: number, into: Set<Slot>): void {
  if (into.size === limit) return;
  for (const slot of from) if (into.add(slot).size === limit) return;
}

function ownerReport(slot: Slot, now: Instant, conditions: Conditions, sinceMs: number | undefined): OwnerReport {
  const issuedAtMs = slot.held?.issuedAtMs ?? slot.history.issuedAtMs;
  const failure = failureReport(slot, now, sinceMs);
  const { owner } = slot;
  return {
    owner,
    ...ownerState(slot, now, conditions),
    ...(issuedAtMs !== undefined && { issuedAtMs }),
    ...(failure && { failure }),
  };
}

/** The last failure, or the row of rejections unless that is long over: by hand, nobody may report an accepted call. */
function troubleNow(slot: Slot, now: Instant): Pause | undefined {
  const { failure, rejection } = slot.history;
  const isKnown = now.monotonicMs < (knownRejection(rejection)?.untilMs ?? 0);
  return failure ?? (isKnown ? rejection?.row : undefined);
}

function failureReport(slot: Slot, now: Instant, sinceMs: number | undefined): OwnerFailure | undefined {
  const trouble = troubleNow(slot, now);
  if (!trouble) return undefined;
  const { error, count: failures, retryAtMonotonicMs } = trouble;
  const { code, message, status, oauthError, failedAtMs } = error;
  return {
    code,
    message,
    ...(status !== undefined && { status }),
    ...(oauthError !== undefined && { oauthError }),
    sinceMs: sinceMs === undefined ? failedAtMs : pastOnWallClock(sinceMs, now),
    failedAtMs,
    failures,
    retryAtMs: onWallClock(retryAtMonotonicMs, now),
  };
}

/** Takes the same time however many owners and requests there are. */
export function registryStats(
  counts: Pick<RegistryStats, 'concurrency' | 'hits' | 'joined' | 'rejections' | 'refused'>,
  owners: OwnerTable,
  requests: Requests,
  now: Instant,
): RegistryStats {
  const { size, usable, evictions } = owners;
  const { waiting, scheduler } = requests;
  const { queue, canaries, health } = scheduler;
  const { inFlight, queued, lists } = queue;
  const pauses = { owners: owners.failingCount, ...rejectedStat(owners, now), ...circuitStat(health.blame, now) };
  return {
    owners: size,
    usable,
    inFlight,
    slow: lists.slow.length,
    queued,
    waiting,
    ...counts,
    evictions,
    ...requests.counts,
    canaries,
    pauses,
  };
}

const pastOnWallClock = (monotonicMs: number, now: Instant): number => now.wallMs - (now.monotonicMs - monotonicMs);

function rejectedStat({ rejected }: OwnerTable, now: Instant): Pick<PauseStats, 'rejected'> {
  const stat = rejected.stat(now.monotonicMs);
  return stat ? { rejected: { owners: stat.owners, sinceMs: pastOnWallClock(stat.sinceMs, now) } } : {};
}

/** The open circuit, by its scope. */
function circuitStat({ state }: Blame<string>, now: Instant): Omit<PauseStats, 'owners'> {
  if (state.phase !== 'open') return {};
  const { circuit, outstanding } = state;
  const { scope, error, count, retryAtMonotonicMs } = circuit;
  const { code, failedAtMs } = error;
  const retryAtMs = onWallClock(retryAtMonotonicMs, now);
  return { [scope]: { code, failedAtMs, retryAtMs, failures: count, probing: outstanding > 0 } };
}
