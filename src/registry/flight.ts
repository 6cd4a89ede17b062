/**
 * One token request from its creation until its callers have its outcome, shared by its owner's concurrent callers
 * (single-flight), and those callers. One whose signal aborts leaves at once; the others still wait.
 */

import { AsyncContext } from '../async-context.ts';
import type { Cancellation } from '../cancellation.ts';
import type { Instant, Timer } from '../clock.ts';
import { OwnerTokenError, type OwnerTokenErrorCode } from '../errors.ts';
import type { AccessToken } from '../token.ts';
import type { Slot } from './slot.ts';

/**
 * - `queued`: not sent yet, or to be retried; can still be dropped.
 * - `starting`: will be sent within the same tick; can still be dropped.
 * - `sent`: the source was called; `abort` cancels that call.
 * - `ended`: its callers have the outcome, or have all left.
 */
export type FlightPhase = 'queued' | 'starting' | 'sent' | 'ended';

/** Its priority; see `queue.ts`. */
export type Lane = 'trial' | 'known' | 'new' | 'refresh' | 'failing';

/** Where a request is until it ends; see `queue.ts`. */
export type Place = Lane | 'retrying' | 'running' | 'slow' | 'released';

/** The lane of a request that a caller waits for. */
export function laneOf({ held, history }: Slot): Lane {
  if (history.failure) return 'failing';
  return held || history.issuedAtMs !== undefined ? 'known' : 'new';
}

/** A caller with a signal, which may leave before the request ends. */
export interface Waiter {
  readonly signal: AbortSignal;
  readonly resolve: (token: AccessToken) => void;
  readonly reject: (reason: unknown) => void;
}

export class Flight {
  readonly accessKey: string;
  readonly slot: Slot;
  phase: FlightPhase = 'queued';
  /** Its priority, also while it is in no lane. */
  lane: Lane;
  /** Where it is in the scheduler's queue, and its neighbours there. Changed only by `queue.ts`. */
  place: Place | undefined;
  previous: Flight | undefined;
  next: Flight | undefined;
  /** Set for a canary or another trial: the round of the circuit in which it was sent. Its outcome counts in no other. */
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
  /** The time limit of the source, the delay of a retry, or what is left of a limit of its time in the queue. */
  timer: Timer | undefined;
  /** The wait of a sent request for a new permit, and what ends it. */
  permitWait: Promise<void> | undefined;
  resume: (() => void) | undefined;
  /** The async context of the call that began the request, for `AsyncLocalStorage`. */
  readonly context = new AsyncContext('OwnerTokenRequest');
  /** What callers without a signal wait for. Changed only by {@link Waiters}. */
  outcome!: Promise<AccessToken>;
  resolve!: (token: AccessToken) => void;
  reject!: (error: unknown) => void;
  /** Its callers. Changed only by {@link Waiters}; the set is created when first needed, because most have no signal. */
  waitingWithoutSignal = 0;
  waiters: Set<Waiter> | undefined;

  constructor(slot: Slot, lane: Lane | undefined, nowMs: number) {
    this.accessKey = slot.accessKey;
    this.slot = slot;
    this.lane = lane ?? laneOf(slot);
    this.queuedAtMs = nowMs;
    this.renewOutcome();
  }

  renewOutcome(): void {
    this.outcome = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }

  /** How many callers wait. */
  get waiting(): number {
    return (this.waiters?.size ?? 0) + this.waitingWithoutSignal;
  }
}

/** The error of a request that failed in the queue. */
export function errorOf({ slot }: Flight, code: OwnerTokenErrorCode, message: string, now: Instant): OwnerTokenError {
  return new OwnerTokenError(code, message, { owner: slot.owner, failedAtMs: now.wallMs });
}

/** The callers that share one signal, each with the request it waits for. */
interface Sharing {
  readonly flights: Map<Waiter, Flight>;
  readonly onAbort: () => void;
}

/**
 * The callers of all requests. Adds one listener per signal, no matter how many calls share it: adding a listener takes time
 * linear in the existing ones, and Node warns about the eleventh.
 */
export class Waiters {
  /** How many callers wait, with a signal or without. */
  count = 0;
  readonly #bySignal = new Map<AbortSignal, Sharing>();
  readonly #onAbort: (leaving: Iterable<[Waiter, Flight]>) => void;

  /** @param onAbort called with the callers whose signal has aborted, and their requests. */
  constructor(onAbort: (leaving: Iterable<[Waiter, Flight]>) => void) {
    this.#onAbort = onAbort;
  }

  /** Callers without a signal all get the same promise. */
  wait(flight: Flight, signal: AbortSignal | undefined): Promise<AccessToken> {
    this.count++;
    if (!signal) {
      flight.waitingWithoutSignal++;
      return flight.outcome;
    }
    return new Promise((resolve, reject) => {
      const waiter = { signal, resolve, reject };
      flight.waiters ??= new Set();
      flight.waiters.add(waiter);
      this.#sharing(signal).flights.set(waiter, flight);
    });
  }

  /** All callers get the token, but those whose signal has aborted. */
  resolve(flight: Flight, token: AccessToken): void {
    flight.resolve(token);
    for (const waiter of this.#release(flight)) {
      // Of many callers that share a signal, not all may have left yet.
      if (waiter.signal.aborted) waiter.reject(waiter.signal.reason);
      else waiter.resolve(token);
    }
  }

  /** All callers get this token; later ones wait for the request's own. */
  giveMeanwhile(flight: Flight, token: AccessToken): void {
    this.resolve(flight, token);
    flight.renewOutcome();
  }

  /** All callers get the error. */
  reject(flight: Flight, error: unknown): void {
    // Marks the promise as handled: a refresh has no caller. Diagnostics report the failure.
    flight.outcome.catch(() => {});
    flight.reject(error);
    for (const waiter of this.#release(flight)) waiter.reject(error);
  }

  /** Rejects a caller whose signal has aborted. False if its request has ended in the meantime. */
  leave(waiter: Waiter, flight: Flight): boolean {
    if (!flight.waiters?.delete(waiter)) return false;
    this.count--;
    waiter.reject(waiter.signal.reason);
    return true;
  }

  /** Nobody waits for the request any more. Returns its callers with a signal. */
  #release(flight: Flight): Iterable<Waiter> {
    const { waiters = [] } = flight;
    this.count -= flight.waiting;
    flight.waitingWithoutSignal = 0;
    flight.waiters = undefined;
    for (const waiter of waiters) {
      const { signal } = waiter;
      const sharing = this.#bySignal.get(signal);
      sharing?.flights.delete(waiter);
      if (sharing?.flights.size !== 0) continue;
      this.#bySignal.delete(signal);
      signal.removeEventListener('abort', sharing.onAbort);
    }
    return waiters;
  }

  #sharing(signal: AbortSignal): Sharing {
    let sharing = this.#bySignal.get(signal);
    if (!sharing) {
      const flights = new Map<Waiter, Flight>();
      const onAbort = () => {
        this.#bySignal.delete(signal);
        this.#onAbort(flights);
      };
      sharing = { flights, onAbort };
      this.#bySignal.set(signal, sharing);
      signal.addEventListener('abort', sharing.onAbort, { once: true });
    }
    return sharing;
  }
}
