/**
 * What is known of one owner, and what follows from it. Facts are stored, phases derived: "fresh", "refresh-due" and
 * "expired" are one stored fact, a token, seen at different times. Nothing here does I/O, reads a clock, logs or
 * creates a promise, so each row of this table can be read off and tested as it stands.
 *
 * | phase       | facts                                            | a caller is                                       |
 * | ----------- | ------------------------------------------------ | ------------------------------------------------- |
 * | fresh       | a token before its refresh point                 | served                                            |
 * | refresh-due | a token past its refresh point, before expiry    | served; a refresh starts, unless one is under way |
 * |             |                                                  | or a pause is in force                            |
 * | requesting  | no usable token, a request under way             | made to wait for that request                     |
 * | backing-off | no usable token, a pause in force                | refused with the remembered error                 |
 * | expired     | a token past its expiry                          | made to wait for a new request                    |
 * | empty       | no token                                         | made to wait for a new request                    |
 *
 * Precedence, from the top: a usable token is served whatever else failed; then a request under way is shared; then a
 * pause refuses; only then is something asked.
 *
 * Generations: each request is sent in the slot's generation. A rejected token or a forgotten owner raises it, and an
 * answer to a request of an earlier one settles those who waited for it but is not kept: it may be the very token that
 * was rejected, or older than what is known now.
 *
 * Left out: the requests under way, which have a table of their own so that eviction cannot touch them, and the pauses
 * of the client and the endpoint, which concern all owners.
 */

import type { Instant } from '../clock.ts';
import type { OwnerTokenError } from '../errors.ts';
import type { OwnerStanding } from '../failures/circuit-breaker.ts';
import type { AccessToken, RequestReason } from '../token.ts';

/** A token, and its two instants on the monotonic clock beside those on the wall clock. */
export interface HeldToken {
  readonly token: AccessToken;
  /** The token as callers are given it, made once: a promise for each hit would be a third of its cost. */
  readonly served: Promise<AccessToken>;
  readonly issuedAtMonotonicMs: number;
  readonly refreshAtMonotonicMs: number;
  readonly expiresAtMonotonicMs: number;
}

/** The owner's last failure, remembered until a request succeeds. */
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
  /** Set through {@link hold} alone. */
  held: HeldToken | undefined;
  /**
   * What a hit reads, and nothing besides: what it is given, and until when that is fresh by each clock. All of it is in
   * `held` too; but with many owners every object on the way is a cache miss, and this is half the way.
   */
  served: Promise<AccessToken> | undefined;
  freshUntilMs: number;
  freshUntilMonotonicMs: number;
  failure: Failure | undefined;
  /** Whether a request of this owner ever succeeded. */
  hasSucceeded: boolean;
  generation: number;
  /** Fingerprints of the tokens rejected last, newest first. */
  rejected: readonly string[];
  /** The rejected token that no newer one has replaced. */
  lastRejected: AccessToken | undefined;
  /** Tokens in a row that were rejected while they were fresh. */
  quickRejections: number;
}

export type Phase = 'fresh' | 'refresh-due' | 'requesting' | 'backing-off' | 'expired' | 'empty';
export type Decision = 'serve' | 'serve-and-refresh' | 'wait' | 'refuse' | 'request';

/** What the slot itself does not know. */
export interface Surroundings {
  /** A request of the slot's generation is under way. */
  readonly underWay: boolean;
  /** A pause of the client or the endpoint is in force. */
  readonly paused: boolean;
}

/** How many rejected tokens are remembered. */
const REMEMBERED_REJECTIONS = 4;
/** A token rejected within this share of its life, and within this time, was rejected while fresh. */
const FRESH_SHARE = 0.1;
const FRESH_MS = 10_000;

export function createSlot(owner: string): Slot {
  return {
    owner,
    held: undefined,
    served: undefined,
    freshUntilMs: Number.NEGATIVE_INFINITY,
    freshUntilMonotonicMs: Number.NEGATIVE_INFINITY,
    failure: undefined,
    hasSucceeded: false,
    generation: 0,
    rejected: [],
    lastRejected: undefined,
    quickRejections: 0,
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

/** The owner's own pause, if it is in force. */
export function pauseOf(slot: Slot, now: Instant): Failure | undefined {
  const { failure } = slot;
  return failure !== undefined && now.monotonicMs < failure.retryAtMonotonicMs ? failure : undefined;
}

/** What a failure of this owner says of others. */
export function standingOf(slot: Slot): OwnerStanding {
  if (slot.failure) return 'failing';
  return slot.hasSucceeded ? 'proven' : 'new';
}

export function phaseOf(slot: Slot, now: Instant, around: Surroundings): Phase {
  if (isFresh(slot, now)) return 'fresh';
  if (isUsable(slot.held, now)) return 'refresh-due';
  if (around.underWay) return 'requesting';
  if (around.paused || pauseOf(slot, now)) return 'backing-off';
  return slot.held ? 'expired' : 'empty';
}

/** What to do for a caller: the last column of the table. */
export function decide(slot: Slot, now: Instant, around: Surroundings): Decision {
  const phase = phaseOf(slot, now, around);
  switch (phase) {
    case 'fresh':
      return 'serve';
    case 'refresh-due':
      return around.underWay || around.paused || pauseOf(slot, now) ? 'serve' : 'serve-and-refresh';
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
 * A request is sent: says why. A token past its expiry is let go, so that a late rejection of it does not begin a new
 * generation and a second request.
 */
export function started(slot: Slot, now: Instant): RequestReason {
  if (isUsable(slot.held, now)) return 'refresh';
  if (slot.held) {
    hold(slot, undefined);
    slot.quickRejections = 0;
    return 'expired';
  }
  return slot.lastRejected ? 'rejected' : 'absent';
}

/** A request of this generation brought a token. Returns whether it is kept. */
export function succeeded(slot: Slot, generation: number, held: HeldToken): boolean {
  if (generation !== slot.generation) return false;
  // The token before this one was replaced without having been rejected: whoever used it was content.
  if (slot.held) slot.quickRejections = 0;
  hold(slot, held);
  slot.hasSucceeded = true;
  slot.failure = undefined;
  slot.lastRejected = undefined;
  return true;
}

/** A request of this generation failed. A usable token stays. Returns whether the failure is remembered. */
export function failed(slot: Slot, generation: number, failure: Failure): boolean {
  if (generation !== slot.generation) return false;
  slot.failure = failure;
  return true;
}

/** Remembers that this token was refused. Returns false if that was known. */
export function remembered(slot: Slot, fingerprint: string): boolean {
  if (slot.rejected.includes(fingerprint)) return false;
  slot.rejected = [fingerprint, ...slot.rejected].slice(0, REMEMBERED_REJECTIONS);
  return true;
}

/** The held token was refused by the service: drops it and begins a new generation. */
export function rejected(slot: Slot, held: HeldToken, now: Instant): void {
  const ageMs = now.monotonicMs - held.issuedAtMonotonicMs;
  const lifetimeMs = held.expiresAtMonotonicMs - held.issuedAtMonotonicMs;
  slot.quickRejections = ageMs <= Math.min(FRESH_MS, lifetimeMs * FRESH_SHARE) ? slot.quickRejections + 1 : 0;
  slot.lastRejected = held.token;
  hold(slot, undefined);
  slot.generation++;
}

/** The owner is gone, or all tokens are: nothing that is under way for it may be kept. Returns whether anything was held. */
export function forgotten(slot: Slot): boolean {
  const held = slot.held !== undefined || slot.failure !== undefined;
  hold(slot, undefined);
  slot.failure = undefined;
  slot.generation++;
  return held;
}

/** Puts a token into the slot, or takes it out. */
function hold(slot: Slot, held: HeldToken | undefined): void {
  slot.held = held;
  slot.served = held?.served;
  slot.freshUntilMs = held?.token.refreshAtMs ?? Number.NEGATIVE_INFINITY;
  slot.freshUntilMonotonicMs = held?.refreshAtMonotonicMs ?? Number.NEGATIVE_INFINITY;
}
