/**
 * One token request from its creation until its callers have its outcome, and its owner's concurrent callers, who share it
 * (single-flight).
 */

import { type Instant, stopTimer, type Time, type Timer } from '../../clock.ts';
import type { OwnerTokenError } from '../../errors/owner-token-error.ts';
import { PATIENCE_MS } from '../../failures/blame.ts';
import type { AccessToken } from '../../token.ts';
import { AsyncContext } from '../async-context.ts';
import type { Remembered } from '../owners/recent-tokens.ts';
import { isInStreak, isLive, type Slot } from '../owners/slot.ts';
import { type Lane, QueueEntry } from './queue.ts';
import type { SourceCall } from './source-call.ts';

/** The lane of a request that a caller waits for. */
export function laneOf({ held, history }: Slot): Lane {
  if (history.failure) return 'failing';
  return held || history.issuedAtMs !== undefined ? 'known' : 'new';
}

/** A caller that waits for a request. */
export interface Caller {
  /** Ends this caller's wait. */
  readonly signal: AbortSignal | undefined;
  /** Whether it needs a newer token than the one that is held. */
  readonly isDemanding: boolean;
  /** Whether it is a warm-up, which lets other callers go first and retries by itself. */
  readonly isWarmUp: boolean;
}

/** A caller with a promise of its own: it may leave before the request ends, or get another result than the others. */
interface Waiter extends Omit<Caller, 'isWarmUp'> {
  readonly resolve: (token: AccessToken) => void;
  readonly reject: (reason: unknown) => void;
  readonly leave: () => void;
}

/** The promise that all other callers share. */
class SharedOutcome {
  /** How many callers wait for it. */
  count = 0;
  resolve!: (token: AccessToken) => void;
  reject!: (reason: unknown) => void;
  readonly promise: Promise<AccessToken> = new Promise((resolve, reject) => {
    this.resolve = resolve;
    this.reject = reject;
  });
}

export class Flight extends QueueEntry {
  readonly accessKey: string;
  readonly slot: Slot;
  /** The shared promise, and the callers with their own. Created when first needed; only {@link Waiters} changes them. */
  shared: SharedOutcome | undefined = undefined;
  apart: Set<Waiter> | undefined = undefined;

  /** The async context of the call that began the request. */
  readonly context: Readonly<AsyncContext> = new AsyncContext('OwnerTokenRequest');

  /** `lifecycle.ts`: the failure after which it was retried, and whether it was repeated after an inconclusive answer. */
  failure: OwnerTokenError | undefined = undefined;
  isRepeated = false;
  /** `requests.ts`: whether all callers so far are warm-ups. */
  isWarmUp = false;
  /** `recent-tokens.ts`: another owner's token that the first answer brought. */
  othersToken: Remembered | undefined = undefined;
  /** `lifecycle.ts`: the call of the source, once it was sent. */
  call: SourceCall | undefined = undefined;
  /** The time limit of callers that can get a rejected token instead, while it is queued. */
  patience: Timer | undefined = undefined;

  /** `scheduler.ts`: the delay of a retry, then what is left of `maxQueueMs`. */
  retryTimer: Timer | undefined = undefined;
  /** `scheduler.ts`: set for a canary or another trial: what was known of the service when it was sent. */
  trialOf: object | undefined = undefined;

  constructor(slot: Slot, lane: Lane | undefined, nowMs: number) {
    super(lane ?? laneOf(slot), nowMs);
    this.accessKey = slot.accessKey;
    this.slot = slot;
  }

  /** Its wait in the queue has ended. */
  stopTimers(): void {
    if (this.patience) stopTimer(this.patience);
    if (this.retryTimer) stopTimer(this.retryTimer);
    this.patience = undefined;
  }

  /** Whether it waits in a lane, or for its retry. */
  get isQueued(): boolean {
    return this.place === this.lane || this.place === 'retrying';
  }

  /** How many callers wait for it. */
  get waiting(): number {
    return (this.shared?.count ?? 0) + (this.apart?.size ?? 0);
  }

  /** Whether a caller needs a newer token than the one that is held. */
  get hasDemanding(): boolean {
    return [...(this.apart ?? [])].some(({ isDemanding }) => isDemanding);
  }

  /** Whether it has left the queue for good: its callers have the outcome, or have all left. */
  get hasEnded(): boolean {
    return this.place === undefined;
  }
}

/** Lets callers wait for a request. One whose signal aborts leaves at once; the others still wait. */
export class Waiters {
  /** How many callers wait. */
  count = 0;
  /** How many left after more than a second. */
  abandoned = 0;
  /** What to do when a signal aborts. One listener for all calls that share it: Node warns about the eleventh. */
  readonly #leaving = new Map<AbortSignal, { readonly all: Set<() => void>; readonly onAbort: () => void }>();
  readonly #time: Time;
  readonly #isRateLimited: (now: Instant) => boolean;
  readonly #left: (flight: Flight) => void;

  /**
   * @param isRateLimited whether a rate limit delays the next request.
   * @param left called when a caller has left a request.
   */
  constructor(time: Time, isRateLimited: (now: Instant) => boolean, left: (flight: Flight) => void) {
    this.#time = time;
    this.#isRateLimited = isRateLimited;
    this.#left = left;
  }

  wait(flight: Flight, { signal, isDemanding, isWarmUp }: Caller, since: Instant): Promise<AccessToken> {
    this.count++;
    if (!signal && !isDemanding) {
      flight.shared ??= new SharedOutcome();
      flight.shared.count++;
      return flight.shared.promise;
    }
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#end(flight, waiter);
        // The end of a warm-up ends all of its calls, and no caller has given up.
        const isLate = this.#time.now().monotonicMs - since.monotonicMs > PATIENCE_MS;
        if (isLate && !isWarmUp) this.abandoned++;
        reject(signal?.reason);
        this.#left(flight);
      };
      const waiter: Waiter = { signal, isDemanding, resolve, reject, leave };
      flight.apart ??= new Set();
      flight.apart.add(waiter);
      if (signal) this.#leavingOn(signal).add(leave);
    });
  }

  /**
   * Whether calls get the rejected token because the request has been queued for a second: within a streak, in which a newer token
   * would hardly help, or under a rate limit, which makes the queue long.
   */
  isLate(flight: Flight, now: Instant): boolean {
    return flight.isQueued && now.monotonicMs - flight.queuedAtMs >= PATIENCE_MS && this.#isForLong(flight, now);
  }

  #isForLong({ slot }: Flight, now: Instant): boolean {
    return isInStreak(slot) || this.#isRateLimited(now);
  }

  /** Gives the callers the rejected token, if there is one, once the request {@link isLate}. The request goes on. */
  limitPatience(flight: Flight, now: Instant): void {
    if (!flight.isQueued || flight.patience || !isLive(flight.slot, now)) return;
    const giveUp = () => {
      flight.patience = undefined;
      const now = this.#time.now();
      const { slot } = flight;
      if (this.#isForLong(flight, now) && isLive(slot, now)) this.resolve(flight, slot.held, true);
    };
    flight.patience = this.#time.startTimer(giveUp, Math.max(0, flight.queuedAtMs + PATIENCE_MS - now.monotonicMs));
  }

  /** The callers get the token; with `meanwhile`, only those that do not need a newer one. */
  resolve(flight: Flight, token: AccessToken, meanwhile = false): void {
    this.#endShared(flight)?.resolve(token);
    for (const waiter of flight.apart ?? []) {
      if (meanwhile && waiter.isDemanding) continue;
      this.#end(flight, waiter);
      waiter.resolve(token);
    }
  }

  /** All callers get the error. */
  reject(flight: Flight, error: unknown): void {
    // Marks the promise as handled, for callers that ignore it. Diagnostics report the failure.
    flight.shared?.promise.catch(() => {});
    this.#endShared(flight)?.reject(error);
    for (const waiter of flight.apart ?? []) {
      this.#end(flight, waiter);
      waiter.reject(error);
    }
  }

  /** Later callers share another promise. */
  #endShared(flight: Flight): SharedOutcome | undefined {
    const { shared } = flight;
    this.count -= shared?.count ?? 0;
    flight.shared = undefined;
    return shared;
  }

  #end({ apart }: Flight, waiter: Waiter): void {
    const { signal, leave } = waiter;
    apart?.delete(waiter);
    this.count--;
    const sharers = signal && this.#leaving.get(signal);
    if (!sharers?.all.delete(leave) || sharers.all.size > 0) return;
    this.#leaving.delete(signal as AbortSignal);
    signal?.removeEventListener('abort', sharers.onAbort);
  }

  #leavingOn(signal: AbortSignal): Set<() => void> {
    let sharers = this.#leaving.get(signal);
    if (!sharers) {
      const all = new Set<() => void>();
      const onAbort = () => {
        for (const leave of all) leave();
      };
      sharers = { all, onAbort };
      this.#leaving.set(signal, sharers);
      signal.addEventListener('abort', onAbort, { once: true });
    }
    return sharers.all;
  }
}
