/** What `stats()` and `describe()` return: plain data without secrets. */

import { type Instant, onWallClock } from '../clock.ts';
import type { FailureScope, OwnerTokenErrorCode } from '../errors.ts';
import type { Blame } from '../failures/blame.ts';
import type { Pause } from '../failures/pauses.ts';
import type { OwnerTable } from './owner-table.ts';
import type { Requests } from './requests.ts';
import { backoffOf, isUsable, type Phase, phaseOf, type Slot, type Surroundings } from './slot.ts';

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
  /** Those in flight that take far longer than usual, and have freed their permits for others. */
  slow: number;
  /** The most token requests in flight at once, slow ones apart: the option `concurrency`. */
  concurrency: number;
  /** Token requests that wait for a permit now. */
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
  /** Cached tokens dropped by `reject`. */
  rejections: number;
  /** Owners evicted because the cache was full. */
  evictions: number;
  /** What is paused now. */
  pauses: PauseStats;
}

/** One owner's state. */
export function ownerState(slot: Slot, now: Instant, around: Surroundings): OwnerState {
  const pause = laterPause(around.circuit, slot.trouble?.failure);
  return {
    phase: phaseOf(slot, now, around),
    ...(isUsable(slot, now) && { expiresAtMs: slot.held.expiresAtMs }),
    ...(pause && { code: pause.error.code, retryAtMs: onWallClock(pause.retryAtMonotonicMs, now) }),
  };
}

/** The pause that refuses a call of this owner: its own or an open circuit's, whichever ends later. */
export function pauseInForce(slot: Slot, now: Instant, { circuit }: Surroundings): Pause | undefined {
  return laterPause(circuit, backoffOf(slot, now));
}

/** Whichever pause ends later. */
function laterPause(a: Pause | undefined, b: Pause | undefined): Pause | undefined {
  if (!a || !b) return a ?? b;
  return a.retryAtMonotonicMs >= b.retryAtMonotonicMs ? a : b;
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
  const { queue, canaries, blame } = scheduler;
  const { inFlight, queued, lists } = queue;
  const pauses = { owners: owners.failingCount, ...circuitStat(blame, now) };
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

/** The open circuit, by its scope. */
function circuitStat({ circuit, outstanding }: Blame<string>, now: Instant): Omit<PauseStats, 'owners'> {
  if (!circuit) return {};
  const { scope, error, count, retryAtMonotonicMs } = circuit;
  const { code, failedAtMs } = error;
  const retryAtMs = onWallClock(retryAtMonotonicMs, now);
  return { [scope]: { code, failedAtMs, retryAtMs, failures: count, probing: outstanding > 0 } };
}
