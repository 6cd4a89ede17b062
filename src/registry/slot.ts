/**
 * The state of one owner, and the decisions that follow from it. Facts are stored, phases are derived: "fresh",
 * "refresh-due" and "expired" come from one stored fact, a token, at different times. Nothing here does I/O, reads a
 * clock, logs or creates a promise, so each row of this table can be tested in isolation.
 *
 * | phase       | facts                                         | a caller                                               |
 * | ----------- | --------------------------------------------- | ------------------------------------------------------ |
 * | fresh       | a token before its refresh point              | is served                                              |
 * | refresh-due | a token past its refresh point, before expiry | is served; a refresh starts, unless one is in flight   |
 * |             |                                               | or a pause is in force                                 |
 * | requesting  | no usable token, a request in flight          | waits for that request                                 |
 * | backing-off | no usable token, a pause in force             | is refused with the cached error                       |
 * | expired     | a token past its expiry                       | waits for a new request                                |
 * | empty       | no token                                      | waits for a new request                                |
 *
 * Precedence, from the top: a usable token is served whatever else failed; then an in-flight request is shared; then a
 * pause refuses; only then does a request begin.
 *
 * Stored elsewhere: the in-flight requests, which eviction must not touch (`owner-table.ts`), and the circuits of
 * client and endpoint, which concern all owners (`failures/`).
 */

import type { Instant } from '../clock.ts';
import type { OwnerTokenError } from '../errors.ts';
import type { Pause } from '../failures/backoff.ts';
import type { OwnerStanding } from '../failures/circuit-breaker.ts';
import type { AccessToken, RequestReason } from '../token.ts';

/** A token to hold, and how far the timeline is ahead of its instants, which are wall-clock times. */
export interface HeldToken {
  readonly token: AccessToken;
  readonly aheadMs: number;
}

/** The owner's last failure, cached until a request succeeds. */
export interface Failure {
  readonly error: OwnerTokenError;
  /** Failures in a row. */
  readonly count: number;
  readonly retryAtMonotonicMs: number;
  /** Whether the request hung before it failed. */
  readonly hung?: boolean;
}

/** The facts of one owner. */
export interface Slot {
  /** The owner's name in logs, errors and reports. */
  readonly owner: string;
  /** Identifies the owner uniquely, which a label may not. */
  readonly digest: string;
  /** The cached token. Set only through {@link hold}, as are the next three. */
  held: AccessToken | undefined;
  /** How far the timeline is ahead of the token's instants. */
  aheadMs: number;
  /** The promise that callers get. Created once, because a new one would be a third of the cost of a hit. */
  served: Promise<AccessToken> | undefined;
  /**
   * The token is fresh at least until this second of the timeline: with `served`, all that a cache hit reads. A small
   * integer, because V8 allocates other numbers as separate objects, and with many owners each is a CPU cache miss.
   */
  freshUntilSecond: number;
  failure: Failure | undefined;
  /** Whether a request of this owner ever succeeded. */
  hasSucceeded: boolean;
  /** Fingerprints of the tokens rejected last, newest first. */
  denylist: readonly string[];
  /** The last rejected token, until a new token replaces it. */
  lastRejected: AccessToken | undefined;
  /** How many tokens in a row were rejected while fresh, without any accepted call. */
  freshRejections: number;
  /** Whether any call with the held token was accepted. */
  wasAccepted: boolean;
}

/**
 * The state of an owner at a given time. `fresh`: a call gets the cached token. `refresh-due`: it gets the cached token,
 * and a refresh starts. `requesting`: it waits for the request in flight. `backing-off`: it fails with the cached error.
 * `expired`, `empty`: it starts a request.
 *
 * @example
 * ```ts
 * const working: Phase[] = ['fresh', 'refresh-due'];
 * console.log(working.includes(registry.describe(accessKey).phase)); // → false
 * ```
 */
export type Phase = 'fresh' | 'refresh-due' | 'requesting' | 'backing-off' | 'expired' | 'empty';
/** The last column of the table. */
export type Decision = 'serve' | 'serve-and-refresh' | 'wait' | 'refuse' | 'request';

/** State outside the slot that a decision depends on. */
export interface Surroundings {
  /** Whether a request is in flight that a caller would join. */
  readonly requesting: boolean;
  /** The pause of an open circuit. */
  readonly circuitPause: Pause | undefined;
}

const DENYLIST_LENGTH = 4;
/** A token rejected within this share of its life, and within this time, was rejected while fresh. */
const FRESH_SHARE = 0.1;
const FRESH_MS = 10_000;

/** The largest small integer. A token that is fresh for longer is served all the same, only less quickly. */
const LAST_SECOND = 2 ** 31 - 1;

export function createSlot(owner: string, digest = owner): Slot {
  return {
    owner,
    digest,
    held: undefined,
    aheadMs: 0,
    served: undefined,
    freshUntilSecond: 0,
    failure: undefined,
    hasSucceeded: false,
    denylist: [],
    lastRejected: undefined,
    freshRejections: 0,
    wasAccepted: false,
  };
}

/** The promise to serve at this second of the timeline if the held token is certainly fresh. This alone decides a hit. */
export function servedAt(slot: Slot, second: number): Promise<AccessToken> | undefined {
  return second < slot.freshUntilSecond ? slot.served : undefined;
}

/** Whether the held token may be served. */
export function isUsable(slot: Slot, now: Instant): slot is Slot & { held: AccessToken } {
  return slot.held !== undefined && now.timelineMs - slot.aheadMs < slot.held.expiresAtMs;
}

/** Whether the held token may be served and is not yet due for a refresh. */
function isFresh(slot: Slot, now: Instant): boolean {
  return slot.held !== undefined && now.timelineMs - slot.aheadMs < slot.held.refreshAtMs;
}

/** The age of the held token. */
export function heldForMs({ aheadMs }: Slot, { issuedAtMs }: AccessToken, now: Instant): number {
  return now.timelineMs - aheadMs - issuedAtMs;
}

/** The owner's backoff, if it is in force. */
export function backoffOf(slot: Slot, now: Instant): Failure | undefined {
  const { failure } = slot;
  return failure !== undefined && now.monotonicMs < failure.retryAtMonotonicMs ? failure : undefined;
}

/** The owner's standing, which decides whether its failure is evidence against a wider scope. */
export function standingOf({ hasSucceeded, failure }: Slot): OwnerStanding {
  if (hasSucceeded) return failure ? 'failing' : 'proven';
  return failure ? 'unproven' : 'new';
}

export function phaseOf(slot: Slot, now: Instant, around: Surroundings): Phase {
  if (isFresh(slot, now)) return 'fresh';
  if (isUsable(slot, now)) return 'refresh-due';
  if (around.requesting) return 'requesting';
  if (around.circuitPause || backoffOf(slot, now)) return 'backing-off';
  return slot.held ? 'expired' : 'empty';
}

/** What to do for a caller: the last column of the table. */
export function decide(slot: Slot, now: Instant, around: Surroundings): Decision {
  const phase = phaseOf(slot, now, around);
  switch (phase) {
    case 'fresh':
      return 'serve';
    case 'refresh-due':
      return around.requesting || around.circuitPause || backoffOf(slot, now) ? 'serve' : 'serve-and-refresh';
    case 'requesting':
      return 'wait';
    case 'backing-off':
      return 'refuse';
    case 'expired':
    case 'empty':
      return 'request';
  }
}

/**
 * A request is sent: returns its reason. Drops an expired token, so that a late rejection of it does not detach this
 * request and begin a second one.
 */
export function started(slot: Slot, now: Instant): RequestReason {
  if (isUsable(slot, now)) return 'refresh';
  if (slot.held) {
    hold(slot, undefined);
    slot.freshRejections = 0;
    return 'expired';
  }
  return slot.lastRejected ? 'rejected' : 'absent';
}

/** The owner's in-flight request returned a token. */
export function succeeded(slot: Slot, { token, aheadMs }: HeldToken): void {
  // The previous token was replaced without being rejected, so the streak ends.
  if (slot.held) slot.freshRejections = 0;
  hold(slot, token, aheadMs);
  slot.hasSucceeded = true;
  slot.failure = undefined;
  slot.lastRejected = undefined;
}

/** The owner's in-flight request failed. A usable token stays. */
export function failed(slot: Slot, failure: Failure): void {
  slot.failure = failure;
}

/** Puts a token on the denylist. Returns false if it is there already. */
export function denied(slot: Slot, fingerprint: string): boolean {
  if (slot.denylist.includes(fingerprint)) return false;
  slot.denylist = [fingerprint, ...slot.denylist].slice(0, DENYLIST_LENGTH);
  return true;
}

/**
 * A call with this token was accepted, so a rejection of it elsewhere is not the owner's fault. Ends the streak of
 * rejections and the pause that it caused. Returns whether there was such a pause.
 */
export function accepted(slot: Slot, token: AccessToken): boolean {
  const isHeld = slot.held === token;
  if (isHeld) slot.wasAccepted = true;
  else if (!slot.denylist.includes(token.fingerprint)) return false;
  slot.freshRejections = 0;
  if (slot.failure?.error.code !== 'token_rejected') return false;
  slot.failure = undefined;
  return true;
}

/** The service rejected the held token: drops it. */
export function rejected(slot: Slot, held: AccessToken, now: Instant): void {
  const lifetimeMs = held.expiresAtMs - held.issuedAtMs;
  const isFresh = heldForMs(slot, held, now) <= Math.min(FRESH_MS, lifetimeMs * FRESH_SHARE);
  slot.freshRejections = isFresh && !slot.wasAccepted ? slot.freshRejections + 1 : 0;
  slot.lastRejected = held;
  hold(slot, undefined);
}

/** The owner was removed: drops its token and failure. Returns whether there was either. */
export function forgotten(slot: Slot): boolean {
  const wasHeld = slot.held !== undefined || slot.failure !== undefined;
  hold(slot, undefined);
  slot.failure = undefined;
  return wasHeld;
}

/** Puts a token into the slot, or takes it out. */
function hold(slot: Slot, token: AccessToken | undefined, aheadMs = 0): void {
  slot.held = token;
  slot.aheadMs = aheadMs;
  slot.wasAccepted = false;
  slot.served = token && Promise.resolve(token);
  slot.freshUntilSecond = token ? Math.min(LAST_SECOND, Math.floor((token.refreshAtMs + aheadMs) / 1000)) : 0;
}
