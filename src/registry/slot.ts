/**
 * What is known of one owner, and what follows from it. Facts are stored and phases derived: "fresh", "refresh-due" and
 * "expired" are one stored fact, a token, seen at different times. Nothing here does I/O, reads a clock, logs or
 * creates a promise, so each row of this table can be tested as it stands.
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
 * Left out: the in-flight requests, which eviction must not touch (`owner-table.ts`), and the circuits of client and
 * endpoint, which concern all owners (`failures/`).
 */

import type { Instant } from '../clock.ts';
import type { OwnerTokenError } from '../errors.ts';
import type { Pause } from '../failures/backoff.ts';
import type { OwnerStanding } from '../failures/circuit-breaker.ts';
import type { AccessToken, RequestReason } from '../token.ts';

/** A token with its times on the monotonic clock; the token itself has those on the wall clock. */
export interface HeldToken {
  readonly token: AccessToken;
  /** What callers get, made once: a new promise for each hit would be a third of its cost. */
  readonly served: Promise<AccessToken>;
  readonly issuedAtMonotonicMs: number;
  readonly refreshAtMonotonicMs: number;
  readonly expiresAtMonotonicMs: number;
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
  /** What logs, errors and reports call this owner. */
  readonly owner: string;
  /** Tells the owner apart from all others, which a label may not. */
  readonly digest: string;
  /** Set through {@link hold} alone. */
  held: HeldToken | undefined;
  /**
   * What a hit reads, and nothing besides: what is served, and until when it is fresh by each clock. `held` has all of it
   * too, but with many owners every object on the way is a cache miss.
   */
  served: Promise<AccessToken> | undefined;
  freshUntilMs: number;
  freshUntilMonotonicMs: number;
  failure: Failure | undefined;
  /** Whether a request of this owner ever succeeded. */
  hasSucceeded: boolean;
  /** Fingerprints of the tokens rejected last, newest first. */
  denylist: readonly string[];
  /** The rejected token that no newer one has replaced. */
  lastRejected: AccessToken | undefined;
  /** Tokens in a row that were rejected while they were fresh, and that no call was accepted with. */
  freshRejections: number;
  /** Whether a call was accepted with the held token. */
  wasAccepted: boolean;
}

/** The first column of the table. */
export type Phase = 'fresh' | 'refresh-due' | 'requesting' | 'backing-off' | 'expired' | 'empty';
/** The last column of the table. */
export type Decision = 'serve' | 'serve-and-refresh' | 'wait' | 'refuse' | 'request';

/** What a slot does not know. */
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

export function createSlot(owner: string, digest = owner): Slot {
  return {
    owner,
    digest,
    held: undefined,
    served: undefined,
    freshUntilMs: Number.NEGATIVE_INFINITY,
    freshUntilMonotonicMs: Number.NEGATIVE_INFINITY,
    failure: undefined,
    hasSucceeded: false,
    denylist: [],
    lastRejected: undefined,
    freshRejections: 0,
    wasAccepted: false,
  };
}

/** Whether the held token may be served: before its expiry by both clocks. */
export function isUsable(held: HeldToken | undefined, now: Instant): held is HeldToken {
  return held !== undefined && now.wallMs < held.token.expiresAtMs && now.monotonicMs < held.expiresAtMonotonicMs;
}

/** Whether the held token is usable and not yet due for a refresh. This alone decides a hit. */
export function isFresh(slot: Slot, now: Instant): slot is Slot & { served: Promise<AccessToken> } {
  return now.wallMs < slot.freshUntilMs && now.monotonicMs < slot.freshUntilMonotonicMs;
}

/** The owner's backoff, if it is in force. */
export function backoffOf(slot: Slot, now: Instant): Failure | undefined {
  const { failure } = slot;
  return failure !== undefined && now.monotonicMs < failure.retryAtMonotonicMs ? failure : undefined;
}

/** What is known of this owner, which decides what a failure of it says about others. */
export function standingOf({ hasSucceeded, failure }: Slot): OwnerStanding {
  if (hasSucceeded) return failure ? 'failing' : 'proven';
  return failure ? 'unproven' : 'new';
}

export function phaseOf(slot: Slot, now: Instant, around: Surroundings): Phase {
  if (isFresh(slot, now)) return 'fresh';
  if (isUsable(slot.held, now)) return 'refresh-due';
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
 * A request is sent: returns why. Drops an expired token, so that a late rejection of it does not detach this request
 * and begin a second one.
 */
export function started(slot: Slot, now: Instant): RequestReason {
  if (isUsable(slot.held, now)) return 'refresh';
  if (slot.held) {
    hold(slot, undefined);
    slot.freshRejections = 0;
    return 'expired';
  }
  return slot.lastRejected ? 'rejected' : 'absent';
}

/** The owner's in-flight request brought a token. */
export function succeeded(slot: Slot, held: HeldToken): void {
  // The previous token was replaced without being rejected, so the streak ends.
  if (slot.held) slot.freshRejections = 0;
  hold(slot, held);
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
 * A call with this token was accepted: a token is refused somewhere, but not everywhere. So the streak of rejections ends,
 * and a pause that it led to. Returns whether there was one.
 */
export function accepted(slot: Slot, token: AccessToken): boolean {
  const isHeld = slot.held?.token === token;
  if (isHeld) slot.wasAccepted = true;
  else if (!slot.denylist.includes(token.fingerprint)) return false;
  slot.freshRejections = 0;
  if (slot.failure?.error.code !== 'token_rejected') return false;
  slot.failure = undefined;
  return true;
}

/** The service rejected the held token: drops it. */
export function rejected(slot: Slot, held: HeldToken, now: Instant): void {
  const ageMs = now.monotonicMs - held.issuedAtMonotonicMs;
  const lifetimeMs = held.expiresAtMonotonicMs - held.issuedAtMonotonicMs;
  const wasFresh = ageMs <= Math.min(FRESH_MS, lifetimeMs * FRESH_SHARE) && !slot.wasAccepted;
  slot.freshRejections = wasFresh ? slot.freshRejections + 1 : 0;
  slot.lastRejected = held.token;
  hold(slot, undefined);
}

/** The owner is gone: drops its token and failure. Returns whether there was either. */
export function forgotten(slot: Slot): boolean {
  const wasHeld = slot.held !== undefined || slot.failure !== undefined;
  hold(slot, undefined);
  slot.failure = undefined;
  return wasHeld;
}

/** Puts a token into the slot, or takes it out. */
function hold(slot: Slot, held: HeldToken | undefined): void {
  slot.held = held;
  slot.wasAccepted = false;
  slot.served = held?.served;
  slot.freshUntilMs = held?.token.refreshAtMs ?? Number.NEGATIVE_INFINITY;
  slot.freshUntilMonotonicMs = held?.refreshAtMonotonicMs ?? Number.NEGATIVE_INFINITY;
}
