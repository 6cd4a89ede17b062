/**
 * Decides when requests start: puts them into the queue, gives them permits, and refuses those that cannot be served.
 * What may start follows from `failures/`; the order, from `request-queue.ts`. Every change of either ends with
 * {@link Dispatch.startNext}.
 */

import { type Instant, inMicrotask, nextTurn, type Time } from '../clock.ts';
import type { Diagnostics } from '../diagnostics.ts';
import { OwnerTokenError, type OwnerTokenErrorCode, type WiderScope } from '../errors.ts';
import type { Permit } from '../failures/circuit-breaker.ts';
import type { FailedRequest, FailureScopes } from '../failures/failure-scopes.ts';
import { refusal } from '../failures/refusals.ts';
import type { Flight } from './flight.ts';
import type { RegistrySettings } from './options.ts';
import { LONGEST_WAIT, RequestQueue, STANDINGS } from './request-queue.ts';

/** Carries out what is decided here; implemented by `Flights`. */
export interface Runner {
  /** Sends a request. Must end with {@link Dispatch.releasePermit}, unless the request is sent again. */
  run(flight: Flight, permit: Permit): void;
  /** Fails a queued request. */
  refuse(flight: Flight, error: OwnerTokenError): void;
}

/** How many requests are refused in one turn of the event loop. */
export const SLICE = 128;

export class Dispatch {
  readonly #settings: RegistrySettings;
  readonly #time: Time;
  readonly #failures: FailureScopes;
  readonly #diagnostics: Diagnostics;
  readonly #runner: Runner;
  readonly #queue: RequestQueue<Flight>;
  /** One timer for the whole queue, for whichever comes first: a request is overdue, may start, or is slow. */
  #cancelTimer: (() => void) | undefined;
  #wakeAtMs = 0;
  #closed = false;
  #blocks = 0;
  /** The next slice of refusals is due in the next turn of the event loop. */
  #isRefusing = false;

  constructor(settings: RegistrySettings, failures: FailureScopes, diagnostics: Diagnostics, runner: Runner) {
    this.#settings = settings;
    this.#time = settings.time;
    this.#failures = failures;
    this.#diagnostics = diagnostics;
    this.#runner = runner;
    this.#queue = new RequestQueue(settings);
  }

  get queued(): number {
    return this.#queue.queued;
  }

  /** Whether no other request is in flight. */
  get isOnlyRequest(): boolean {
    return this.#queue.inFlight <= 1;
  }

  /** When a request (queued or in flight) was added to the queue. */
  sinceMs(flight: Flight): number {
    return this.#queue.sinceMs(flight);
  }

  /** Queues a request that a caller waits for. Refuses it if the queue is full, or too long to serve it in time. */
  request(flight: Flight): void {
    const { flow } = this.#failures;
    const waitMs = flow.waitMs(this.#queue.ahead);
    if (waitMs > LONGEST_WAIT * this.#settings.maxQueueMs) {
      const message = `at the current rate the token request would wait ${Math.round(waitMs / 1_000)} s, over ${LONGEST_WAIT} times maxQueueMs: raise concurrency.max, requestsPerSecond or maxQueueMs, or make fewer calls`;
      this.#runner.refuse(flight, this.#errorOf(flight, 'queue_timeout', message));
      return;
    }
    if (!this.#hasPlaceFor(flight)) {
      const displaced = this.#queue.oldestRefresh;
      const message = 'the queue of token requests is full: raise maxQueued or concurrency, or make fewer calls';
      const error = this.#errorOf(displaced ?? flight, 'queue_full', message);
      this.#runner.refuse(displaced ?? flight, error);
      if (!displaced) return;
    }
    this.#add(flight, true);
  }

  /** Queues a request that nobody waits for. Returns false if the queue is full. */
  refresh(flight: Flight): boolean {
    if (!this.#hasPlaceFor(flight)) return false;
    this.#add(flight, false);
    return true;
  }

  /** A caller now waits for a queued refresh. */
  promote(flight: Flight): void {
    this.#queue.promote(flight, this.#time.now().monotonicMs);
  }

  /** Takes a request out of the queue. Returns false if it is not queued. */
  withdraw(flight: Flight): boolean {
    if (!this.#queue.withdraw(flight)) return false;
    // The time limit of a source that waits for a permit goes on.
    if (flight.state.phase !== 'sent') flight.cancelTimer?.();
    this.#watch();
    return true;
  }

  /** Starts nothing until {@link Dispatch.unblock} has been called as often. */
  block(): void {
    this.#blocks++;
  }

  unblock(): void {
    this.#blocks--;
    this.startNext();
  }

  /** Starts as many queued requests as may start now. */
  startNext(at?: Instant): void {
    const { flow } = this.#failures;
    let now = at;
    while (!this.#closed && this.#blocks === 0 && this.#queue.queued > 0) {
      now ??= this.#time.now();
      // Each of them may raise the limit.
      while (this.#queue.reclaimPermit(flow.slowAfterMs, now.monotonicMs)) flow.slowed();
      const flight = this.#queue.next(flow.limitsAt(now.monotonicMs), now.monotonicMs);
      if (!flight) break;
      // A sent request that waited for another permit.
      if (flight.state.phase === 'sent') {
        flight.state.resume?.();
        continue;
      }
      const permit = this.#failures.admit(now.monotonicMs, flight.standing, this.#queue.inFlight);
      if (!permit) {
        this.#queue.release(flight);
        this.#refuseIfPaused(flight, now);
        this.refuseQueued();
        return;
      }
      flight.state = { phase: 'permitted' };
      // Deferred, so that a caller can still leave in the same turn, and a source never runs inside the caller's own call.
      inMicrotask(() => this.#runner.run(flight, permit));
    }
    this.#watch(now);
  }

  /**
   * Queues a sent request for another permit and waits for it, unless the request has one or has settled. Concurrent
   * calls share one wait.
   */
  async takePermit(flight: Flight): Promise<void> {
    const { state } = flight;
    if (state.phase !== 'sent' || this.#queue.hasPermit(flight)) return;
    if (!state.permit) {
      state.permit = new Promise((resolve, reject) => {
        const { abort } = state;
        const leave = () => reject(abort.reason);
        abort.addEventListener('abort', leave);
        state.resume = () => {
          state.permit = undefined;
          abort.removeEventListener('abort', leave);
          resolve();
        };
      });
      this.#queue.release(flight);
      this.#add(flight, true);
    }
    await state.permit;
  }

  /** The request has ended, or only waits for another replica. */
  releasePermit(flight: Flight): void {
    if (this.#queue.release(flight)) this.startNext();
  }

  /** A request succeeded. Returns the scopes whose circuit that closed. */
  succeeded(flight: Flight, permit: Permit, sentAtMs: number, nowMs: number): WiderScope[] {
    const isLimitInUse = this.#queue.isFull(this.#failures.flow.limitsAt(nowMs));
    const latencyMs = nowMs - sentAtMs;
    this.#queue.served(flight, nowMs);
    // Without a permit it waited for another replica, so its latency is not the service's.
    const response = this.#queue.isInFlight(flight)
      ? { latencyMs, isLimitInUse, inFlight: this.#queue.inFlight }
      : undefined;
    return this.#failures.succeeded(permit, nowMs, response);
  }

  /** After how long a failed request should be sent again; undefined if it should not. */
  resendAfterMs(flight: Flight, request: FailedRequest): number | undefined {
    return this.#queue.isInFlight(flight) ? this.#failures.resendAfterMs(request) : undefined;
  }

  /** Requeues a failed request, unless it has given its permit back meanwhile. Returns whether it did. */
  sendAgain(flight: Flight, afterMs: number | undefined): boolean {
    if (afterMs === undefined || !this.#queue.isInFlight(flight)) return false;
    flight.state = { phase: 'queued' };
    flight.resends++;
    this.#queue.postpone(flight);
    const putBack = () => {
      this.#queue.putBack(flight, flight.waiting > 0);
      this.startNext();
    };
    if (afterMs > 0) flight.cancelTimer = this.#time.startTimer(putBack, afterMs);
    else putBack();
    return true;
  }

  /** Refuses the queued requests that an open circuit stops, in slices, because each refusal creates an error. */
  refuseQueued(): void {
    if (this.#isRefusing || this.#closed) return;
    const now = this.#time.now();
    let left = SLICE;
    for (const standing of STANDINGS) {
      for (let flight = this.#queue.first(standing); flight; flight = this.#queue.first(standing)) {
        if (!this.#refuseIfPaused(flight, now)) break;
        if (--left === 0) return void this.#refuseNextSlice();
      }
    }
    this.startNext();
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  close(): void {
    this.#closed = true;
    this.#stopTimer();
  }

  #refuseNextSlice(): void {
    this.#isRefusing = true;
    void nextTurn().then(() => {
      this.#isRefusing = false;
      this.refuseQueued();
    });
  }

  #hasPlaceFor(flight: Flight): boolean {
    if (this.#queue.hasPlace) return true;
    return this.#queue.mayStart(flight.standing, this.#failures.flow.limitsAt(this.#time.now().monotonicMs));
  }

  #add(flight: Flight, waitedFor: boolean): void {
    const now = this.#time.now();
    this.#queue.add(flight, waitedFor, now.monotonicMs);
    this.startNext(now);
  }

  #refuseIfPaused(flight: Flight, now: Instant): boolean {
    const pause = this.#failures.pauseFor(now.monotonicMs, flight.standing);
    if (!pause) return false;
    this.#diagnostics.refused(pause.error.failureScope as WiderScope, flight.waiting);
    this.#runner.refuse(flight, refusal(pause, flight.slot.owner, now));
    return true;
  }

  #stopTimer(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }

  #watch(at?: Instant): void {
    if (this.#closed) return;
    const { flow } = this.#failures;
    const overdueAtMs = this.#queue.overdueAtMs;
    if (overdueAtMs === undefined) {
      this.#stopTimer();
      return;
    }
    const nowMs = (at ?? this.#time.now()).monotonicMs;
    const others = [flow.nextStartAtMs(nowMs), this.#queue.nextSlowAtMs(flow.slowAfterMs, nowMs)];
    const wakeAtMs = Math.min(overdueAtMs, ...others.filter((ms) => ms !== undefined));
    // A timer that fires too early wakes the queue once for nothing, which costs less than restarting it each time.
    if (this.#cancelTimer && wakeAtMs >= this.#wakeAtMs) return;
    this.#cancelTimer?.();
    this.#wakeAtMs = wakeAtMs;
    // Rounded up: with fractions, rounding errors would make the timer fire too early again and again.
    const waitMs = Math.max(0, Math.ceil(wakeAtMs - nowMs));
    this.#cancelTimer = this.#time.startTimer(() => this.#wake(), waitMs);
  }

  #wake(): void {
    this.#cancelTimer = undefined;
    const { maxQueueMs } = this.#settings;
    const nowMs = this.#time.now().monotonicMs;
    // What is left after one slice is overdue too, so the next timer fires at once.
    for (let left = SLICE; left > 0; left--) {
      const overdue = this.#queue.overdue(nowMs);
      if (!overdue) break;
      const message = overdue.isStalled
        ? `no queued token request was served for ${maxQueueMs} ms (maxQueueMs): the service is slow or down; raise maxQueueMs to wait longer`
        : `the token request waited ${LONGEST_WAIT} times maxQueueMs: raise concurrency.max, requestsPerSecond or maxQueueMs, or make fewer calls`;
      this.#runner.refuse(overdue.request, this.#errorOf(overdue.request, 'queue_timeout', message));
    }
    this.startNext();
  }

  #errorOf({ slot }: Flight, code: OwnerTokenErrorCode, message: string): OwnerTokenError {
    return new OwnerTokenError(code, message, { owner: slot.owner, failedAtMs: this.#time.now().wallMs });
  }
}
