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
import { OwnerTokenError } from '../errors.ts';
import type { Circuit } from '../failures/blame.ts';
import type { Pause } from '../failures/pauses.ts';
import type { AccessToken, RequestReason } from '../token.ts';

/** Names an owner by its access key. */
interface Namer {
  nameOf(accessKey: string): string;
}

/** A token to hold, and how far the timeline is ahead of its instants, which are wall-clock times. */
export interface HeldToken {
  readonly token: AccessToken;
  readonly aheadMs: number;
}

/** What is known of an owner besides its token. Immutable: healthy owners share one, to save memory. */
interface OwnerHistory {
  /** The last failure, cached until a request succeeds. */
  readonly failure: Pause | undefined;
  /** When the token that was dropped last was requested; undefined if none was dropped. */
  readonly issuedAtMs: number | undefined;
  /** Fingerprints of the most recently rejected tokens, newest first. */
  readonly denylist: readonly string[];
  /** The last rejected token, until a new token replaces it. */
  readonly lastRejected: AccessToken | undefined;
  /** How many tokens in a row were rejected while fresh, without any accepted call. */
  readonly freshRejections: number;
  /** Whether any call with the held token was accepted. */
  readonly wasAccepted: boolean;
}

const EMPTY_HISTORY: OwnerHistory = {
  failure: undefined,
  issuedAtMs: undefined,
  denylist: [],
  lastRejected: undefined,
  freshRejections: 0,
  wasAccepted: false,
};
const ACCEPTED_HISTORY: OwnerHistory = { ...EMPTY_HISTORY, wasAccepted: true };

/** The facts of one owner. */
export class Slot {
  readonly accessKey: string;
  /** The cached token. */
  held: AccessToken | undefined = undefined;
  /** How far the timeline is ahead of the token's instants. */
  aheadMs = 0;
  /** What else is known of the owner. */
  history: OwnerHistory = EMPTY_HISTORY;
  #name: string | Namer;

  constructor(accessKey: string, namer: Namer) {
    this.accessKey = interned(accessKeyOf(accessKey));
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
export interface Conditions {
  /** Whether a request is in flight that a caller would join. */
  readonly requesting: boolean;
  /** The open circuit, if it refuses calls. */
  readonly circuit: Circuit | undefined;
}

const DENYLIST_LENGTH = 4;
/** A token rejected within this share of its life, and within this time, was rejected while fresh. */
const FRESH_SHARE = 0.1;
const FRESH_MS = 10_000;

/** Whether the held token may be served. */
export function isUsable(slot: Slot, now: Instant): slot is Slot & { held: AccessToken } {
  return slot.held !== undefined && now.timelineMs - slot.aheadMs < slot.held.expiresAtMs;
}

/** The age of the held token. */
function heldForMs({ aheadMs }: Slot, { issuedAtMs }: AccessToken, now: Instant): number {
  return now.timelineMs - aheadMs - issuedAtMs;
}

/** A token's age: on the timeline while it is held, by the wall clock after. */
export function ageMsOf(slot: Slot, token: AccessToken, now: Instant): number {
  return Math.max(0, slot.held === token ? heldForMs(slot, token, now) : now.wallMs - token.issuedAtMs);
}

/** The owner's backoff, if it is in force. */
export function backoffOf(slot: Slot, now: Instant): Pause | undefined {
  const { failure } = slot.history;
  return failure && now.monotonicMs < failure.retryAtMonotonicMs ? failure : undefined;
}

/** Whichever pause ends later. */
export function laterPause(a: Pause | undefined, b: Pause | undefined): Pause | undefined {
  if (!a || !b) return a ?? b;
  return a.retryAtMonotonicMs >= b.retryAtMonotonicMs ? a : b;
}

export function phaseOf(slot: Slot, now: Instant, conditions: Conditions): Phase {
  const { held, aheadMs } = slot;
  const nowMs = now.timelineMs - aheadMs;
  if (held && nowMs < held.refreshAtMs) return 'fresh';
  if (held && nowMs < held.expiresAtMs) return 'refresh-due';
  if (conditions.requesting) return 'requesting';
  if (conditions.circuit || backoffOf(slot, now)) return 'backing-off';
  return held ? 'expired' : 'empty';
}

/** What to do for a caller: the last column of the table. */
export function decide(slot: Slot, now: Instant, conditions: Conditions): Decision {
  const phase = phaseOf(slot, now, conditions);
  switch (phase) {
    case 'fresh':
      return 'serve';
    case 'refresh-due':
      return conditions.requesting || conditions.circuit || backoffOf(slot, now) ? 'serve' : 'serve-and-refresh';
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
 * Drops a token that has ended, so that it does not come back when the wall clock is set back, and a late rejection of
 * it does not detach the request for the next one. Returns whether there was such a token.
 */
export function dropEnded(slot: Slot, now: Instant): boolean {
  const { held } = slot;
  if (!held || isUsable(slot, now)) return false;
  drop(slot, held, { freshRejections: 0 });
  return true;
}

/** Why a request is made. */
export function reasonOf({ held, history }: Slot): RequestReason {
  if (held) return 'refresh';
  if (history.lastRejected) return 'rejected';
  return history.issuedAtMs === undefined ? 'absent' : 'expired';
}

/** The owner's in-flight request returned a token. Only the denylist and a streak of rejections survive that. */
export function recordSuccess(slot: Slot, { token, aheadMs }: HeldToken): void {
  const { denylist } = slot.history;
  // If a token was replaced without being rejected, the streak ends.
  const freshRejections = slot.held ? 0 : slot.history.freshRejections;
  const isHealthy = denylist.length === 0 && freshRejections === 0;
  slot.history = isHealthy ? EMPTY_HISTORY : { ...EMPTY_HISTORY, denylist, freshRejections };
  slot.held = token;
  slot.aheadMs = aheadMs;
}

/** The owner's in-flight request failed. A usable token stays. */
export function recordFailure(slot: Slot, failure: Pause): void {
  update(slot, { failure });
}

/**
 * Puts a token on the denylist. Returns false if it is there already.
 *
 * @param token the token itself, if it is known.
 */
export function addToDenylist(slot: Slot, fingerprint: string, token?: AccessToken): boolean {
  if (!slot.held && token) update(slot, { lastRejected: token });
  const { denylist } = slot.history;
  if (denylist.includes(fingerprint)) return false;
  update(slot, { denylist: [fingerprint, ...denylist].slice(0, DENYLIST_LENGTH) });
  return true;
}

/** Whether this token is on the denylist. */
export function isDenied({ history }: Slot, fingerprint: string): boolean {
  return history.denylist.includes(fingerprint);
}

/**
 * A call with this token was accepted, so a rejection of it elsewhere is not the owner's fault. Ends the streak of
 * rejections and the pause that it caused. Returns whether there was such a pause.
 */
export function recordAccepted(slot: Slot, token: AccessToken): boolean {
  const { held, history } = slot;
  if (held === token) {
    if (!history.wasAccepted)
      slot.history = history === EMPTY_HISTORY ? ACCEPTED_HISTORY : { ...history, wasAccepted: true };
  } else if (!isDenied(slot, token.fingerprint)) return false;
  if (history.freshRejections > 0) update(slot, { freshRejections: 0 });
  return history.failure?.error.code === 'token_rejected' && endPause(slot);
}

/** The owner's pause ends. Returns whether there was one. */
export function endPause(slot: Slot): boolean {
  if (!slot.history.failure) return false;
  update(slot, { failure: undefined, freshRejections: 0 });
  return true;
}

/** The service rejected the held token: drops it. Returns how many fresh ones in a row were rejected. */
export function dropRejected(slot: Slot, held: AccessToken, now: Instant): number {
  const { history } = slot;
  const lifetimeMs = held.expiresAtMs - held.issuedAtMs;
  const isFresh = heldForMs(slot, held, now) <= Math.min(FRESH_MS, lifetimeMs * FRESH_SHARE);
  const freshRejections = isFresh && !history.wasAccepted ? history.freshRejections + 1 : 0;
  drop(slot, held, { lastRejected: held, freshRejections });
  return freshRejections;
}

/** The owner was removed: drops its token and history. Returns whether there was a token or a failure. */
export function clearSlot(slot: Slot): boolean {
  const wasHeld = slot.held !== undefined || slot.history.failure !== undefined;
  slot.held = undefined;
  slot.history = EMPTY_HISTORY;
  return wasHeld;
}

/** Drops the held token and notes when it was issued. */
function drop(slot: Slot, { issuedAtMs }: AccessToken, changes: Partial<OwnerHistory>): void {
  slot.held = undefined;
  update(slot, { issuedAtMs, wasAccepted: false, ...changes });
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
export function accessKeyOf(given: unknown): string {
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
