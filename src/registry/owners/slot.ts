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
 * | rejected    | a token that is to be replaced, before expiry | waits for a newer one; gets this one if that request   |
 * |             |                                               | is refused or fails, or is queued for over a second    |
 * |             |                                               | within a streak or under a rate limit                  |
 * | requesting  | no usable token, a request in flight          | waits for that request                                 |
 * | backing-off | no usable token, a pause in force             | is refused with the cached error                       |
 * | expired     | a token past its expiry                       | waits for a new request                                |
 * | empty       | no token                                      | waits for a new request                                |
 *
 * Precedence, from the top: a usable token is served whatever else failed; then an in-flight request is shared; then a
 * pause refuses, unless a rejected token is left; only then does a request begin.
 *
 * Stored elsewhere: the in-flight requests, which eviction must not touch (`owner-table.ts`), and the circuits of
 * client and endpoint, which concern all owners (`failures/`).
 */

import { elapsedMs, type Instant, MAX_READING_ERROR_MS } from '../../clock.ts';
import { OwnerTokenError } from '../../errors/owner-token-error.ts';
import type { Life } from '../../expiry/exp-bound.ts';
import type { Circuit } from '../../failures/blame.ts';
import type { OwnerPause, Pause } from '../../failures/pauses.ts';
import { afterResume, type RejectionState } from '../../failures/rejections.ts';
import type { AccessToken } from '../../token.ts';
import type { RequestReason } from '../../token-source.ts';

/** Names an owner by its access key. */
interface Namer {
  nameOf(accessKey: string): string;
}

/** A token to hold, and the offset of the timeline from its instants, which are wall-clock times. */
export interface HeldToken {
  readonly token: AccessToken;
  readonly offsetMs: number;
  /** {@link Life.isStated} */
  readonly isStated: boolean;
}

/** What is known of an owner, apart from its token. Immutable: healthy owners share one, to save memory. */
interface OwnerHistory {
  /** The last failure, cached until a request succeeds. */
  readonly failure: OwnerPause | undefined;
  /** When the last dropped token was requested; undefined if none was dropped. */
  readonly issuedAtMs: number | undefined;
  /** What rejections say about the token that is held, or was held last; undefined if nothing. */
  readonly rejection: RejectionState | undefined;
  /** {@link Life.isStated} of the last token. */
  readonly isStated: boolean;
}

const NO_HISTORY: OwnerHistory = { failure: undefined, issuedAtMs: undefined, rejection: undefined, isStated: false };
/** Of nearly all owners: the last token stated how long it lives, and nothing has happened since. */
const HEALTHY_HISTORY: OwnerHistory = { ...NO_HISTORY, isStated: true };

/** The facts of one owner. */
export class Slot {
  readonly accessKey: string;
  /** The cached token. */
  held: AccessToken | undefined = undefined;
  /** The offset of the timeline from the token's instants. */
  offsetMs = 0;
  /** What else is known of the owner. */
  history: OwnerHistory = NO_HISTORY;
  #name: string | Namer;

  constructor(accessKey: string, namer: Namer) {
    this.accessKey = interned(checkedAccessKey(accessKey));
    this.#name = namer;
  }

  /**
   * The owner's name in logs, errors and reports. Computed when first needed, because a fingerprint costs as much as many
   * hits, and a healthy owner may need none.
   */
  get owner(): string {
    if (typeof this.#name !== 'string') this.#name = this.#name.nameOf(this.accessKey);
    return this.#name;
  }
}

/**
 * The state of an owner at a given time. `fresh`: a call gets the cached token. `refresh-due`: it gets the cached token,
 * and a refresh starts. `rejected`: it waits for a newer token, or gets the rejected one if none can be had.
 * `requesting`: it waits for the request in flight. `backing-off`: it fails with the cached error. `expired`, `empty`: it
 * starts a request.
 *
 * @example
 * ```ts
 * const working: Phase[] = ['fresh', 'refresh-due'];
 * console.log(working.includes(registry.describe(accessKey).phase)); // → false
 * ```
 */
export type Phase = 'fresh' | 'refresh-due' | 'rejected' | 'requesting' | 'backing-off' | 'expired' | 'empty';
/** The last column of the table. */
export type Decision = 'serve' | 'serve-and-refresh' | 'wait' | 'refuse' | 'request';

/** State outside the slot that a decision depends on. */
export interface Conditions {
  /** Whether a caller would join a request; `late`: it has been queued for so long that the rejected token is served. */
  readonly requesting: boolean | 'late';
  /** The open circuit, if it refuses calls. */
  readonly circuit: Circuit | undefined;
  /** A token with less life left is not usable for this call. */
  readonly minValidityMs: number;
}

/** Whether the held token has not ended. It may have been rejected. */
export function isLive(slot: Slot, now: Instant): slot is Slot & { held: AccessToken } {
  return slot.held !== undefined && now.timelineMs - slot.offsetMs < slot.held.expiresAtMs;
}

/** How much longer a token is served, even one that is no longer held. */
export function leftMsOf(slot: Slot, token: AccessToken, now: Instant): number {
  return token.expiresAtMs - token.issuedAtMs - ageMsOf(slot, token, now);
}

/** Whether the held token is served without a request: it has not ended, and is not to be replaced. */
export function isUsable(slot: Slot, now: Instant): slot is Slot & { held: AccessToken } {
  return isLive(slot, now) && !isReplacing(slot);
}

/** Whether the held token was rejected, and a newer one is wanted. */
export const isReplacing = ({ history }: Slot): boolean => history.rejection?.kind === 'replacing';

/** Whether several tokens in a row were rejected. */
export const isInStreak = ({ history }: Slot): boolean => history.rejection?.streak !== undefined;

/** Why the owner counts as failing: its last request failed, or tokens in a row were rejected. */
export const troubleOf = ({ history }: Slot): Pause | undefined => history.failure ?? history.rejection?.streak;

/** A token's age: on the timeline while it is held, by the wall clock after. */
export function ageMsOf({ held, offsetMs }: Slot, token: AccessToken, now: Instant): number {
  return Math.max(0, (held === token ? now.timelineMs - offsetMs : now.wallMs) - token.issuedAtMs);
}

/** Whether the token was requested after the source was called, even if the wall clock was set back since. */
export function isRequestedSince(sent: Instant, { issuedAtMs }: AccessToken, now: Instant): boolean {
  return issuedAtMs >= Math.min(sent.wallMs, now.wallMs - elapsedMs(sent, now)) - MAX_READING_ERROR_MS;
}

/** The owner's backoff, if it is in force. */
export function backoffOf(slot: Slot, now: Instant): Pause | undefined {
  const { failure } = slot.history;
  return failure && now.monotonicMs < failure.retryAtMonotonicMs ? failure : undefined;
}

/** The pause that ends later. */
export function laterPause(a: Pause | undefined, b: Pause | undefined): Pause | undefined {
  if (!a || !b) return a ?? b;
  return a.retryAtMonotonicMs >= b.retryAtMonotonicMs ? a : b;
}

export function phaseOf(slot: Slot, now: Instant, conditions: Conditions): Phase {
  const { held, offsetMs } = slot;
  const nowMs = now.timelineMs - offsetMs;
  const isLeft = held && nowMs < held.expiresAtMs && held.expiresAtMs - nowMs >= conditions.minValidityMs;
  if (isLeft && isReplacing(slot)) return conditions.requesting === true ? 'requesting' : 'rejected';
  if (isLeft) return nowMs < held.refreshAtMs ? 'fresh' : 'refresh-due';
  if (conditions.requesting) return 'requesting';
  if (conditions.circuit || backoffOf(slot, now)) return 'backing-off';
  return held ? 'expired' : 'empty';
}

/** What to do for a caller: the last column of the table. */
export function decide(slot: Slot, now: Instant, conditions: Conditions): Decision {
  switch (phaseOf(slot, now, conditions)) {
    case 'fresh':
      return 'serve';
    case 'refresh-due':
      return mayRequest(slot, now, conditions) ? 'serve-and-refresh' : 'serve';
    case 'rejected':
      return mayRequest(slot, now, conditions) ? 'request' : 'serve';
    case 'requesting':
      return 'wait';
    case 'backing-off':
      return 'refuse';
    case 'expired':
    case 'empty':
      return 'request';
  }
}

const mayRequest = (slot: Slot, now: Instant, { requesting, circuit }: Conditions): boolean =>
  !requesting && !circuit && !backoffOf(slot, now);

/**
 * Drops a token that has ended, so that it does not come back when the wall clock is set back. Returns whether there was such
 * a token.
 */
export function dropEnded(slot: Slot, now: Instant): boolean {
  const { held } = slot;
  if (!held || isLive(slot, now)) return false;
  slot.held = undefined;
  update(slot, { issuedAtMs: held.issuedAtMs });
  return true;
}

/** Why a request is made. */
export function reasonOf(slot: Slot): RequestReason {
  if (slot.held) return isReplacing(slot) ? 'rejected' : 'refresh';
  return slot.history.issuedAtMs === undefined ? 'absent' : 'expired';
}

/** Stores the token that a request returned. Of the history, only what rejections say about this token remains. */
export function recordSuccess(slot: Slot, { token, offsetMs, isStated }: HeldToken, rejection?: RejectionState): void {
  slot.history = isStated ? HEALTHY_HISTORY : NO_HISTORY;
  if (rejection) update(slot, { rejection });
  slot.held = token;
  slot.offsetMs = offsetMs;
}

/** Stores the failure of a request. The held token stays. */
export function recordFailure(slot: Slot, failure: OwnerPause): void {
  update(slot, { failure });
}

/** Stores what rejections say about the held token. */
export function recordRejection(slot: Slot, rejection: RejectionState | undefined): void {
  update(slot, { rejection });
}

/** Ends the owner's backoff. Returns whether there was one. */
export function endBackoff(slot: Slot): boolean {
  if (!slot.history.failure) return false;
  update(slot, { failure: undefined });
  return true;
}

/** Ends the owner's backoff, and the keeping of a rejected token. Returns whether the owner counted as failing. */
export function endPause(slot: Slot): boolean {
  const trouble = troubleOf(slot);
  const { rejection } = slot.history;
  if (trouble || rejection) update(slot, { failure: undefined, rejection: rejection && afterResume(rejection) });
  return trouble !== undefined;
}

/** The owner was removed: drops its token and history. Returns whether there was a token or a failure. */
export function clearSlot(slot: Slot): boolean {
  const wasHeld = slot.held !== undefined || troubleOf(slot) !== undefined;
  slot.held = undefined;
  slot.history = NO_HISTORY;
  return wasHeld;
}

function update(slot: Slot, changes: Partial<OwnerHistory>): void {
  slot.history = { ...slot.history, ...changes };
}

/** More than a header or body should carry. */
const MAX_LENGTH = 16_384;

/**
 * Returns the access key if it can identify an owner.
 *
 * Unpaired surrogates are refused because UTF-8 cannot encode them: two different keys would become the same key on the
 * way to the service, and in every digest.
 *
 * @throws OwnerTokenError `invalid_access_key`
 */
export function checkedAccessKey(given: unknown): string {
  if (typeof given === 'string' && given !== '' && given.length <= MAX_LENGTH && given.isWellFormed()) return given;
  const expected = `a non-empty string of well-formed Unicode, at most ${MAX_LENGTH} characters`;
  const hint = given === '' ? '; it is empty (is its environment variable set?)' : '';
  throw new OwnerTokenError('invalid_access_key', `the access key cannot be used: expected ${expected}${hint}`);
}

const NO_PROPERTIES = Object.freeze({});

/**
 * The access key as a string to keep: one that V8 has interned, as it does with the name of every property that is looked up.
 *
 * - V8 makes the given string a reference to the interned one, and the next garbage collection replaces one by the other. So a
 *   caller that keeps its access keys looks them up by the very string that the table holds: V8 compares two pointers
 *   instead of the text of two strings.
 * - If the given string is a slice of a longer one, it no longer keeps that one in memory.
 */
export function interned(accessKey: string): string {
  Reflect.has(NO_PROPERTIES, accessKey);
  return accessKey;
}
