/**
 * One token request from its creation until its callers have its outcome, shared by its owner's concurrent callers
 * (single-flight), and those callers. One whose signal aborts leaves at once; the others still wait.
 */

import type { Instant, Timer } from '../clock.ts';
import type { OwnerTokenError } from '../errors/owner-token-error.ts';
import { PATIENCE_MS } from '../failures/blame-state.ts';
import type { AccessToken } from '../token.ts';
import { type Lane, QueueEntry } from './queue.ts';
import type { Slot } from './slot.ts';
import type { SourceCall } from './source-call.ts';

/** The lane of a request that a caller waits for. */
export function laneOf({ held, history }: Slot): Lane {
  if (history.failure) return 'failing';
  return held || history.issuedAtMs !== undefined ? 'known' : 'new';
}

/** Who waits for a request. */
export interface Caller {
  /** Ends this caller's wait. */
  readonly signal: AbortSignal | undefined;
  /** Whether it needs a newer token than the one that is held. */
  readonly isDemanding: boolean;
}

/** A caller with a promise of its own: it may leave before the request ends, or get something else than the others. */
export interface Waiter extends Caller {
  readonly resolve: (token: AccessToken) => void;
  readonly reject: (reason: unknown) => void;
}

export class Flight extends QueueEntry {
  readonly accessKey: string;
  readonly slot: Slot;

  /** `requests.ts`: the call of the source, while one is in progress. */
  call: SourceCall | undefined = undefined;
  /** `requests.ts`: the time limit of callers that can get a rejected token instead, while it is queued. */
  patience: Timer | undefined = undefined;

  /** `scheduler.ts`: ends its wait for its turn; with an error if it is refused. */
  endWait: ((refusal?: OwnerTokenError) => void) | undefined = undefined;
  /** `scheduler.ts`: the delay of a retry, then what is left of `maxQueueMs`. */
  retryTimer: Timer | undefined = undefined;
  /** `scheduler.ts`: set for a canary or another trial: what was known of the service when it was sent. */
  trialOf: object | undefined = undefined;

  /** {@link Waiters}: what callers without a signal wait for. */
  outcome!: Promise<AccessToken>;
  resolve!: (token: AccessToken) => void;
  reject!: (error: unknown) => void;
  /** {@link Waiters}: the callers. The set is created when first needed, because most share the outcome. */
  waitingTogether = 0;
  waiters: Set<Waiter> | undefined = undefined;

  constructor(slot: Slot, lane: Lane | undefined, nowMs: number) {
    super(lane ?? laneOf(slot), nowMs);
    this.accessKey = slot.accessKey;
    this.slot = slot;
    this.renewOutcome();
  }

  renewOutcome(): void {
    this.outcome = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }

  /** Whether a caller needs a newer token than the one that is held. */
  get isDemanded(): boolean {
    return this.waiters !== undefined && [...this.waiters].some(({ isDemanding }) => isDemanding);
  }

  /** How many callers wait. */
  get waiting(): number {
    return (this.waiters?.size ?? 0) + this.waitingTogether;
  }

  /** Whether it waits for its turn, or for its retry. */
  get isQueued(): boolean {
    return this.place === this.lane || this.place === 'retrying';
  }

  /** Whether it has left the queue for good: its callers have the outcome, or have all left. */
  get hasEnded(): boolean {
    return this.place === undefined;
  }
}

/** Whether the request has waited for its turn for as long as a call does that can get a rejected token instead. */
export function isLate({ isQueued, queuedAtMs }: Flight, { monotonicMs }: Instant): boolean {
  return isQueued && monotonicMs - queuedAtMs >= PATIENCE_MS;
}

/** The callers that share one signal, each with the request it waits for. */
interface SignalSharers {
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
  readonly #bySignal = new Map<AbortSignal, SignalSharers>();
  readonly #onAbort: (leaving: Iterable<[Waiter, Flight]>) => void;

  /** @param onAbort called with the callers whose signal has aborted, and their requests. */
  constructor(onAbort: (leaving: Iterable<[Waiter, Flight]>) => void) {
    this.#onAbort = onAbort;
  }

  /** Callers that are not demanding and have no signal all get the same promise. */
  wait(flight: Flight, { signal, isDemanding }: Caller): Promise<AccessToken> {
    this.count++;
    if (!signal && !isDemanding) {
      flight.waitingTogether++;
      return flight.outcome;
    }
    return new Promise((resolve, reject) => {
      const waiter = { signal, isDemanding, resolve, reject };
      flight.waiters ??= new Set();
      flight.waiters.add(waiter);
      if (signal) this.#sharersOf(signal).flights.set(waiter, flight);
    });
  }

  /** All callers get the token, but those whose signal has aborted. */
  resolve(flight: Flight, token: AccessToken): void {
    flight.resolve(token);
    for (const waiter of this.#release(flight)) {
      // Of many callers that share a signal, not all may have left yet.
      if (waiter.signal?.aborted) waiter.reject(waiter.signal.reason);
      else waiter.resolve(token);
    }
  }

  /** All callers but demanding ones get this token; later ones wait for the request's own. */
  giveMeanwhile(flight: Flight, token: AccessToken): void {
    const demanding = new Set([...(flight.waiters ?? [])].filter(({ isDemanding }) => isDemanding));
    for (const waiter of demanding) flight.waiters?.delete(waiter);
    this.resolve(flight, token);
    if (demanding.size > 0) flight.waiters = demanding;
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
    waiter.reject(waiter.signal?.reason);
    return true;
  }

  /** Nobody waits for the request any more. Returns its callers with promises of their own. */
  #release(flight: Flight): Iterable<Waiter> {
    const { waiters = [] } = flight;
    this.count -= flight.waiting;
    flight.waitingTogether = 0;
    flight.waiters = undefined;
    for (const waiter of waiters) {
      const { signal } = waiter;
      if (!signal) continue;
      const sharers = this.#bySignal.get(signal);
      sharers?.flights.delete(waiter);
      if (sharers?.flights.size !== 0) continue;
      this.#bySignal.delete(signal);
      signal.removeEventListener('abort', sharers.onAbort);
    }
    return waiters;
  }

  #sharersOf(signal: AbortSignal): SignalSharers {
    let sharers = this.#bySignal.get(signal);
    if (!sharers) {
      const flights = new Map<Waiter, Flight>();
      const onAbort = () => {
        this.#bySignal.delete(signal);
        this.#onAbort(flights);
      };
      sharers = { flights, onAbort };
      this.#bySignal.set(signal, sharers);
      signal.addEventListener('abort', sharers.onAbort, { once: true });
    }
    return sharers;
  }
}
