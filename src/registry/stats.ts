/** What `stats()` returns: plain numbers, in a time that does not depend on how many owners and requests there are. */

import { type Instant, onWallClock, pastOnWallClock } from '../clock.ts';
import type { FailureScope, OwnerTokenErrorCode } from '../errors/owner-token-error.ts';
import type { Blame } from '../failures/blame-state.ts';
import type { OwnerTable } from './owner-table.ts';
import type { Requests } from './requests.ts';

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
