/** What `stats()` returns: plain numbers, in a time that does not depend on how many owners and requests there are. */

import { type Instant, onWallClock, pastOnWallClock } from '../clock.ts';
import type { FailureScope, OwnerTokenErrorCode, WiderScope } from '../errors/owner-token-error.ts';
import type { Blame } from '../failures/blame.ts';
import { type PaceStat, paceStat } from '../failures/limiter.ts';
import { recentLatencyMs, type SlowService, usualLatencyMs } from '../failures/slow-service.ts';
import type { PauseSubject } from '../reporting/diagnostics.ts';
import type { OwnerTable } from './owners/owner-table.ts';
import type { Slot } from './owners/slot.ts';
import type { Flight } from './requests/flight.ts';
import type { RequestQueue } from './requests/queue.ts';
import type { Requests } from './requests/requests.ts';

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
  /** The HTTP status of the last response. */
  readonly status?: number;
  /** Epoch ms: when the outage began. */
  readonly sinceMs: number;
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
  /** Owners whose last request failed for an owner-specific reason. One whose pause has ended counts until it succeeds. */
  owners: number;
  /**
   * Owners whose newest tokens the API rejects although they replaced rejected ones; absent while there are none. Many at
   * once mean that the API fails. Their calls get a token nevertheless. An owner counts until a call is accepted, or until two
   * further tokens have come without a rejection.
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
  /** Owners with a token, but for those without service. One whose token has expired counts until its next call. */
  usable: number;
  /** Token requests in flight now. */
  inFlight: number;
  /** In-flight requests that take far longer than usual or wait for another replica, and have given their places to others. */
  slow: number;
  /** The most token requests in flight at once, not counting slow ones: the option `concurrency`. */
  concurrency: number;
  /** Token requests queued now. */
  queued: number;
  /**
   * How long the first queued request has waited, in milliseconds, not counting refreshes and failing owners; 0 if none
   * waits.
   */
  longestQueuedMs: number;
  /** Callers that wait for a token request now. */
  waiting: number;
  /** Calls served from the cache. */
  hits: number;
  /** Calls that joined an in-flight or queued request. */
  joined: number;
  /** Calls refused at once by a pause, by its scope. */
  refused: Record<FailureScope, number>;
  /**
   * Calls that failed, those of warm-ups included: their own or a shared request failed, a pause refused them at once or in the
   * queue, or the queue was full or took too long. Not counted: calls that no registry could serve (`closed`,
   * `invalid_access_key`, `invalid_options`), and `abandonedCalls`.
   */
  failedCalls: Record<'request' | 'refused' | 'queue', number>;
  /** Calls that their `signal` ended after they had waited for over a second, without those of warm-ups. */
  abandonedCalls: number;
  /** Calls queued for over a second before their request was sent. */
  late: number;
  /** Calls that failed with `queue_full`. */
  queueFull: number;
  /** Calls that failed with `queue_timeout`. */
  queueTimeouts: number;
  /** Token requests sent: calls of the source. */
  requests: number;
  /** Token requests sent ahead of expiry, while the cached token was usable; part of `requests`. */
  refreshes: number;
  /** Canary requests: refreshes of owners that succeeded recently, to see whether the service works; part of `requests`. */
  canaries: number;
  /** Token requests that failed. */
  failures: number;
  /** How long a request for a token takes, in milliseconds: a mean over about ten seconds; absent before the first token. */
  latencyMs?: number;
  /** Set while the service is slow: tokens have taken over four times as long as usual, and over a second, for 20 seconds. */
  slowService?: {
    /** Epoch ms: when they began to. */
    readonly sinceMs: number;
    /** How long they take now, in milliseconds. */
    readonly latencyMs: number;
    /** How many times as long as usual that is; absent if the service was slow before ten tokens had come: over five seconds. */
    readonly times?: number;
  };
  /** The rate limit on token requests; absent while there is none. */
  pace?: PaceStat;
  /** Reports by `reject` of a cached token, without repeated ones. */
  rejections: number;
  /** Owners evicted because the cache was full. */
  evictions: number;
  /** What is paused now. */
  pauses: PauseStats;
  /**
   * Owners without service: from the first call that was not served until the owner gets a token, is forgotten, or nobody has
   * called it for two hours. Also owners whose token the API rejected and whose own request for a newer one was refused since,
   * until a call with the old one is accepted.
   */
  withoutService: {
    /** How many. */
    readonly owners: number;
    /** Owners that nobody has called for two hours; absent while there are none. None is added while a circuit is open. */
    readonly lapsed?: {
      /** How many; not part of the count above. */
      readonly owners: number;
      /** Epoch ms: the first of their last calls. */
      readonly firstFailedAtMs: number;
      /** Epoch ms: the last of their last calls. */
      readonly lastFailedAtMs: number;
    };
  };
}

/** Takes the same time however many owners and requests there are. */
export function registryStats(
  counts: Pick<RegistryStats, 'concurrency' | 'hits' | 'joined' | 'rejections'>,
  owners: OwnerTable,
  requests: Requests,
  failingSinceMs: (paused: PauseSubject) => number | undefined,
  now: Instant,
): RegistryStats {
  const { size, usable, evictions } = owners;
  const { waiting, scheduler, refused, failedCalls, abandonedCalls } = requests;
  const { queue, canaries, counts: queueCounts, health } = scheduler;
  const pace = paceStat(health.limiter, now.monotonicMs);
  const { inFlight, queued, lists } = queue;
  const pauses = {
    owners: owners.failing.size,
    ...rejectedStat(owners, failingSinceMs, now),
    ...circuitStat(health.blame, failingSinceMs, now),
  };
  return {
    owners: size,
    usable: usable - owners.withoutService.withToken,
    inFlight,
    slow: lists.slow.length,
    queued,
    longestQueuedMs: longestQueuedMs(queue, now),
    waiting,
    ...counts,
    refused: { ...refused },
    failedCalls: { ...failedCalls },
    abandonedCalls,
    ...queueCounts,
    evictions,
    ...requests.counts,
    canaries,
    ...latencyStat(health.slow, now),
    ...(pace && { pace }),
    pauses,
    withoutService: withoutServiceStat(owners, health.blame, now),
  };
}

function latencyStat(slow: SlowService, now: Instant): Pick<RegistryStats, 'latencyMs' | 'slowService'> {
  if (slow.recent.weight === 0) return {};
  const [recentMs, usualMs] = [recentLatencyMs(slow), usualLatencyMs(slow)];
  const latencyMs = Math.round(recentMs);
  if (slow.sinceMs === undefined) return { latencyMs };
  const times = usualMs === undefined ? {} : { times: Math.round((10 * recentMs) / usualMs) / 10 };
  return { latencyMs, slowService: { sinceMs: pastOnWallClock(slow.sinceMs, now), latencyMs, ...times } };
}

function withoutServiceStat(
  { withoutService }: OwnerTable,
  { doubt }: Blame<string>,
  now: Instant,
): RegistryStats['withoutService'] {
  if (!doubt?.circuit) withoutService.lapse(now.monotonicMs);
  const { size, lapsed, lapsedMs } = withoutService;
  if (!lapsedMs) return { owners: size };
  const firstFailedAtMs = pastOnWallClock(lapsedMs.firstMs, now);
  return {
    owners: size,
    lapsed: { owners: lapsed, firstFailedAtMs, lastFailedAtMs: pastOnWallClock(lapsedMs.lastMs, now) },
  };
}

/** How long the first request has been queued, of those that calls wait for and whose owners do not fail. */
function longestQueuedMs({ lists }: RequestQueue<Flight>, { monotonicMs }: Instant): number {
  const queuedAtMs = [lists.known, lists.new].map(({ first }) => first?.queuedAtMs ?? monotonicMs);
  return Math.round(monotonicMs - Math.min(...queuedAtMs));
}

function rejectedStat(
  { rejected }: OwnerTable,
  failingSinceMs: (slot: Slot) => number | undefined,
  now: Instant,
): Pick<PauseStats, 'rejected'> {
  const [first] = rejected;
  if (!first) return {};
  return {
    rejected: { owners: rejected.size, sinceMs: pastOnWallClock(failingSinceMs(first) ?? now.monotonicMs, now) },
  };
}

/** The open circuit, by its scope. */
function circuitStat(
  { doubt }: Blame<string>,
  circuitSinceMs: (scope: WiderScope) => number | undefined,
  now: Instant,
): Omit<PauseStats, 'owners'> {
  if (!doubt?.circuit) return {};
  const { circuit, outstanding } = doubt;
  const { scope, error, count, retryAtMonotonicMs } = circuit;
  const { code, status, failedAtMs } = error;
  const beganMs = circuitSinceMs(scope);
  const retryAtMs = onWallClock(retryAtMonotonicMs, now);
  const sinceMs = beganMs === undefined ? failedAtMs : pastOnWallClock(beganMs, now);
  const known = { code, ...(status !== undefined && { status }), sinceMs, failedAtMs, retryAtMs };
  return { [scope]: { ...known, failures: count, probing: outstanding > 0 } };
}
