/** What `stats()` and `describe()` return: plain data without secrets. */

import { type Instant, onWallClock } from '../clock.ts';
import type { FailureScope, OwnerTokenErrorCode } from '../errors.ts';
import type { Pause } from '../failures/backoff.ts';
import type { CircuitState } from '../failures/circuit-breaker.ts';
import type { FailureScopes } from '../failures/failure-scopes.ts';
import type { Flights } from './flights.ts';
import type { OwnerTable } from './owner-table.ts';
import { backoffOf, isUsable, type Phase, phaseOf, type Slot, type Surroundings } from './slot.ts';

/** What is known about one owner: "which customer is this, and why does it not work?" */
export interface OwnerState {
  readonly phase: Phase;
  /** Epoch ms: expiry of the cached token; `Infinity` if it is kept until rejected. */
  readonly expiresAtMs?: number;
  /** Code of the cached failure. */
  readonly code?: OwnerTokenErrorCode;
  /** Epoch ms: no request starts before this. */
  readonly retryAtMs?: number;
}

/** A pause of all owners: an open or half-open circuit. */
export interface PauseStat {
  readonly code: OwnerTokenErrorCode;
  /** Epoch ms. */
  readonly failedAtMs: number;
  /** Epoch ms: when the trial request may start. */
  readonly retryAtMs: number;
  /** Failures in a row. */
  readonly failures: number;
  /** Whether the trial request is in flight. */
  readonly probing: boolean;
}

/** What the registry holds, and counters since it was constructed. */
export interface RegistryStats {
  /** Owners held now, and those of them with a usable token. */
  owners: number;
  usable: number;
  /** Token requests sent, requests queued, and callers that wait for either. */
  inFlight: number;
  queued: number;
  waiting: number;
  /** Calls served from the cache, and calls that joined an in-flight request. */
  hits: number;
  joined: number;
  /** Calls refused by a pause, by its scope. */
  refused: Record<FailureScope, number>;
  /** Calls of the source, those among them that refresh a usable token, and requests that failed. */
  requests: number;
  refreshes: number;
  failures: number;
  /** Cached tokens dropped by `reject`, and owners evicted. */
  rejections: number;
  evictions: number;
  /** Owners that back off now, and the pauses of all owners. */
  pauses: { owners: number; client?: PauseStat; endpoint?: PauseStat };
}

/** One owner's state. */
export function ownerState(slot: Slot, now: Instant, around: Surroundings): OwnerState {
  const pause = laterPause(around.circuitPause, slot.failure);
  return {
    phase: phaseOf(slot, now, around),
    ...(isUsable(slot, now) && { expiresAtMs: slot.held.expiresAtMs }),
    ...(pause && { code: pause.error.code, retryAtMs: onWallClock(pause.retryAtMonotonicMs, now) }),
  };
}

/** The pause that refuses a call of this owner: its own or an open circuit's, whichever ends later. */
export function pauseInForce(slot: Slot, now: Instant, { circuitPause }: Surroundings): Pause | undefined {
  return laterPause(circuitPause, backoffOf(slot, now));
}

/** Whichever pause ends later. */
function laterPause(a: Pause | undefined, b: Pause | undefined): Pause | undefined {
  if (!a || !b) return a ?? b;
  return a.retryAtMonotonicMs >= b.retryAtMonotonicMs ? a : b;
}

/** Iterates over all owners. */
export function registryStats(
  counts: Pick<RegistryStats, 'hits' | 'joined' | 'rejections' | 'refused'>,
  owners: OwnerTable,
  flights: Flights,
  failures: FailureScopes,
  now: Instant,
): RegistryStats {
  const { size, evictions } = owners;
  const { usable, pausing } = countOwners(owners.slots(), now);
  const { inFlight, queued, waiting } = flights;
  const pauses = { owners: pausing, ...pauseStats(failures, now) };
  return { owners: size, usable, inFlight, queued, waiting, ...counts, evictions, ...flights.counts, pauses };
}

/** The circuits that are not closed. */
export function pauseStats(failures: FailureScopes, now: Instant): { client?: PauseStat; endpoint?: PauseStat } {
  const client = failures.state('client');
  const endpoint = failures.state('endpoint');
  return {
    ...(client && { client: pauseStat(client, now) }),
    ...(endpoint && { endpoint: pauseStat(endpoint, now) }),
  };
}

function pauseStat(state: CircuitState, now: Instant): PauseStat {
  const { error, count, retryAtMonotonicMs } = state.pause;
  const retryAtMs = onWallClock(retryAtMonotonicMs, now);
  return { code: error.code, failedAtMs: error.failedAtMs, retryAtMs, failures: count, probing: state.probing };
}

/** How many of these owners have a usable token, and how many back off. */
export function countOwners(slots: Iterable<Slot>, now: Instant): { usable: number; pausing: number } {
  let usable = 0;
  let pausing = 0;
  for (const slot of slots) {
    if (isUsable(slot, now)) usable++;
    if (backoffOf(slot, now)) pausing++;
  }
  return { usable, pausing };
}
