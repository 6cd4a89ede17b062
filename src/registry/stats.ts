/** What the registry says of itself and of one owner: plain data, made for looking at. */

import { type Instant, onWallClock } from '../clock.ts';
import type { OwnerTokenErrorCode } from '../errors.ts';
import type { Pause } from '../failures/backoff.ts';
import type { CircuitState } from '../failures/circuit-breaker.ts';
import { isUsable, type Phase, pauseOf, phaseOf, type Slot, type Surroundings } from './slot.ts';

/** What is known of one owner: "which customer is this, and why does it not work?" */
export interface OwnerState {
  readonly phase: Phase;
  /** Epoch ms: the end of the token held; `Infinity` if it is kept until rejected. */
  readonly expiresAtMs?: number;
  /** Code of the failure that is remembered. */
  readonly code?: OwnerTokenErrorCode;
  /** Epoch ms: no request is made before. */
  readonly retryAtMs?: number;
}

/** A pause of all owners. */
export interface PauseStat {
  readonly code: OwnerTokenErrorCode;
  /** Epoch ms. */
  readonly failedAtMs: number;
  /** Epoch ms: when the probe may be made. */
  readonly retryAtMs: number;
  /** Failures in a row. */
  readonly failures: number;
  /** The probe is under way. */
  readonly probing: boolean;
}

/** What the registry holds and has done since it was made. */
export interface RegistryStats {
  /** Owners held now, and those of them with a usable token. */
  owners: number;
  usable: number;
  /** Token requests under way, owners queued for one, and callers waiting for either. */
  inFlight: number;
  queued: number;
  waiting: number;
  /** Calls served from what was held, and calls that joined a request under way. */
  hits: number;
  joined: number;
  /** Times the source was asked, those to refresh a usable token among them, and requests that failed. */
  requests: number;
  refreshes: number;
  failures: number;
  /** Held tokens dropped by `reject`, and owners dropped for want of room. */
  rejections: number;
  evictions: number;
  /** Owners pausing now, and the pauses of all owners. */
  pauses: { owners: number; client?: PauseStat; endpoint?: PauseStat };
}

/** One owner's state. The pause that ends last is the one that is told. */
export function ownerState(
  slot: Slot,
  now: Instant,
  around: Surroundings,
  circuitPause: Pause | undefined,
): OwnerState {
  const pause = laterPause(circuitPause, slot.failure);
  return {
    phase: phaseOf(slot, now, around),
    ...(isUsable(slot.held, now) && { expiresAtMs: slot.held.token.expiresAtMs }),
    ...(pause && { code: pause.error.code, retryAtMs: onWallClock(pause.retryAtMonotonicMs, now) }),
  };
}

/** Of two pauses the one that ends last. */
export function laterPause(a: Pause | undefined, b: Pause | undefined): Pause | undefined {
  if (!a || !b) return a ?? b;
  return a.retryAtMonotonicMs >= b.retryAtMonotonicMs ? a : b;
}

export function pauseStat(state: CircuitState, now: Instant): PauseStat {
  const { error, count, retryAtMonotonicMs } = state.pause;
  const retryAtMs = onWallClock(retryAtMonotonicMs, now);
  return { code: error.code, failedAtMs: error.failedAtMs, retryAtMs, failures: count, probing: state.probing };
}

/** How many of these owners have a usable token, and how many pause. */
export function countOwners(slots: Iterable<Slot>, now: Instant): { usable: number; pausing: number } {
  let usable = 0;
  let pausing = 0;
  for (const slot of slots) {
    if (isUsable(slot.held, now)) usable++;
    if (pauseOf(slot, now)) pausing++;
  }
  return { usable, pausing };
}
