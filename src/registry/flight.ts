/** One in-flight token request, shared by its owner's concurrent callers (single-flight). */

import { AsyncContext } from '../async-context.ts';
import type { Cancellation } from '../cancellation.ts';
import type { OwnerStanding } from '../failures/circuit-breaker.ts';
import type { AccessToken } from '../token.ts';
import type { Linked } from './linked-list.ts';
import type { QueuedRequest } from './request-queue.ts';
import { type Slot, standingOf } from './slot.ts';

/**
 * - `queued`: not sent yet, or to be sent again; can still be dropped. Why it is made is determined when it is sent.
 * - `permitted`: may be sent, which happens within the same tick; can still be dropped.
 * - `sent`: the source was called; `abort` cancels that call. The source may release its permit and queue for another:
 *   `permit` is the wait for it, which `resume` ends.
 * - `settled`: its callers have the outcome.
 */
export type FlightState =
  | { readonly phase: 'queued' }
  | { readonly phase: 'permitted' }
  | {
      readonly phase: 'sent';
      readonly abort: Cancellation;
      permit?: Promise<void> | undefined;
      resume?: () => void;
    }
  | { readonly phase: 'settled' };

/** A caller with a signal, which may leave before the request settles. */
export interface Waiter {
  readonly signal: AbortSignal;
  readonly resolve: (token: AccessToken) => void;
  readonly reject: (reason: unknown) => void;
}

export class Flight implements QueuedRequest, Linked<Flight> {
  readonly accessKey: string;
  readonly slot: Slot;
  /** The owner's standing when the request began. */
  readonly standing: OwnerStanding;
  state: FlightState = { phase: 'queued' };
  /** How often it was sent again after a failure. */
  resends = 0;
  /** Cancels its timer: the time limit of the source, or the delay before it is sent again. */
  cancelTimer: (() => void) | undefined;
  /** The async context of the call that began the request, for `AsyncLocalStorage`. */
  readonly context = new AsyncContext('OwnerTokenRequest');
  /** Callers with a signal. Changed only by `waiters.ts`; created when first needed, because most have none. */
  waiters: Set<Waiter> | undefined;
  /** Set by the request queue. */
  place: QueuedRequest['place'];
  /** Links in the list of unsettled requests (`Flights`), as are the two below. */
  list: Linked<Flight>['list'];
  previous: Flight | undefined;
  next: Flight | undefined;
  #waitingWithoutSignal = 0;
  readonly #outcome: Promise<AccessToken>;
  #resolve!: (token: AccessToken) => void;
  #reject!: (error: unknown) => void;

  constructor(accessKey: string, slot: Slot) {
    this.accessKey = accessKey;
    this.slot = slot;
    this.standing = standingOf(slot);
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
