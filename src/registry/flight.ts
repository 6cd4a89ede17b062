/**
 * One token request from its creation until its callers are settled, shared by its owner's concurrent callers
 * (single-flight). It is its own entry in the lists of the scheduler.
 */

import { AsyncContext } from '../async-context.ts';
import type { Cancellation } from '../cancellation.ts';
import type { AccessToken } from '../token.ts';
import type { Linked, LinkedList } from './linked-list.ts';
import type { Slot } from './slot.ts';

/**
 * - `queued`: not sent yet, or to be retried; can still be dropped.
 * - `starting`: will be sent within the same tick; can still be dropped.
 * - `sent`: the source was called; `abort` cancels that call.
 * - `settled`: its callers have the outcome.
 */
export type FlightPhase = 'queued' | 'starting' | 'sent' | 'settled';

/** Its priority; see `lanes.ts`. */
export type LaneName = 'canary' | 'known' | 'new' | 'refresh' | 'failing';

/** A caller with a signal, which may leave before the request settles. */
export interface Waiter {
  readonly signal: AbortSignal;
  readonly resolve: (token: AccessToken) => void;
  readonly reject: (reason: unknown) => void;
}

export class Flight implements Linked<Flight> {
  readonly accessKey: string;
  readonly slot: Slot;
  phase: FlightPhase = 'queued';
  lane: LaneName;
  /** Set for a canary or another trial: the round of the circuit in which it was asked. Its outcome counts in no other. */
  trialRound: number | undefined;
  /** Requests are numbered in the order in which they start. */
  number = 0;
  /** When the request last joined the queue; a retry keeps the time of the first attempt. */
  queuedAtMs: number;
  startedAtMs = 0;
  /** How often it was retried. */
  resends = 0;
  /** Cancels the call of the source; set once it is sent. */
  abort: Cancellation | undefined;
  /** Cancels its timer: the time limit of the source, the delay of a retry, or the rest of `maxQueueMs`. */
  cancelTimer: (() => void) | undefined;
  /** The wait of a sent request for a new permit, and what ends it. */
  permitWait: Promise<void> | undefined;
  resume: (() => void) | undefined;
  /** The async context of the call that began the request, for `AsyncLocalStorage`. */
  readonly context = new AsyncContext('OwnerTokenRequest');
  /** Callers with a signal. Changed only by `waiters.ts`; created when first needed, because most have none. */
  waiters: Set<Waiter> | undefined;
  /** Links in the scheduler's list that it is in. */
  list: LinkedList<Flight> | undefined;
  previous: Flight | undefined;
  next: Flight | undefined;
  #waitingWithoutSignal = 0;
  readonly #outcome: Promise<AccessToken>;
  #resolve!: (token: AccessToken) => void;
  #reject!: (error: unknown) => void;

  constructor(accessKey: string, slot: Slot, lane: LaneName, nowMs: number) {
    this.accessKey = accessKey;
    this.slot = slot;
    this.lane = lane;
    this.queuedAtMs = nowMs;
    this.#outcome = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  /** How many callers wait. */
  get waiting(): number {
    return (this.waiters?.size ?? 0) + this.#waitingWithoutSignal;
  }

  /** Waits without a signal: all such callers get the same promise. */
  wait(): Promise<AccessToken> {
    this.#waitingWithoutSignal++;
    return this.#outcome;
  }

  /** Nobody waits any more. */
  settled(): void {
    this.waiters = undefined;
    this.#waitingWithoutSignal = 0;
  }

  resolve(token: AccessToken): void {
    this.#resolve(token);
    if (!this.waiters) return;
    for (const waiter of this.waiters) {
      // Of many callers that share a signal, not all may have left yet.
      if (waiter.signal.aborted) waiter.reject(waiter.signal.reason);
      else waiter.resolve(token);
    }
  }

  reject(error: unknown): void {
    // Marks the promise as handled: a refresh has no caller. Diagnostics report the failure.
    this.#outcome.catch(() => {});
    this.#reject(error);
    if (this.waiters) for (const waiter of this.waiters) waiter.reject(error);
  }
}
