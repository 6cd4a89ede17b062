/**
 * What a token request does whenever it leaves the queue, until its callers have its outcome: {@link Lifecycle.#run}. The methods
 * after it apply its outcome to the owner's slot, to the health of the service and to the callers. `requests.ts` begins requests,
 * and `scheduler.ts` decides when they are sent.
 */

import { Cancellation } from '../../cancellation.ts';
import { type Instant, stoodStill, type Time } from '../../clock.ts';
import type { OwnerTokenError } from '../../errors/owner-token-error.ts';
import type { Attribution } from '../../failures/reducer.ts';
import { withOutcome } from '../../failures/refusals.ts';
import { afterArrival } from '../../failures/rejections.ts';
import { recentLatencyMs, type SlowService, usualLatencyMs } from '../../failures/slow-service.ts';
import { type Diagnostics, ReportedRequest } from '../../reporting/diagnostics.ts';
import type { RegistrySettings } from '../options.ts';
import { heldFrom } from '../owners/held-token.ts';
import type { OwnerTable } from '../owners/owner-table.ts';
import { RecentTokens } from '../owners/recent-tokens.ts';
import {
  dropEnded,
  type HeldToken,
  isLive,
  isReplacing,
  isRequestedSince,
  isUsable,
  laterPause,
  leftMsOf,
  reasonOf,
  recordFailure,
  recordSuccess,
  troubleOf,
} from '../owners/slot.ts';
import { type FailedCalls, refusedBy } from './failed-calls.ts';
import { type Flight, Waiters } from './flight.ts';
import { Scheduler } from './scheduler.ts';
import { callSource, isInconclusive, readFailure, type SourceCall, wasAborted } from './source-call.ts';

/** After this many failures in a row, an owner's request goes over a new connection. */
const FAILURES_BEFORE_NEW_CONNECTION = 2;

/** Awaited to let the calling code go on first. */
const SETTLED = Promise.resolve();

export class Lifecycle {
  /** Calls of the source, those among them that were refreshes, and failed requests. */
  readonly counts = { requests: 0, refreshes: 0, failures: 0 };
  readonly failedCalls: FailedCalls = { request: 0, refused: 0, queue: 0 };
  readonly scheduler: Scheduler;
  readonly waiters: Waiters;
  readonly recentTokens: RecentTokens;
  /** Called when no request is left. */
  whenIdle: (() => void) | undefined;
  readonly #settings: RegistrySettings;
  readonly #time: Time;
  readonly #owners: OwnerTable;
  readonly #diagnostics: Diagnostics;

  constructor(settings: RegistrySettings, owners: OwnerTable, diagnostics: Diagnostics) {
    this.#settings = settings;
    this.#time = settings.time;
    this.#owners = owners;
    this.#diagnostics = diagnostics;
    this.scheduler = new Scheduler(settings, owners, diagnostics, (flight, refused) => {
      void flight.context.runInAsyncScope(this.#run, this, flight, refused);
    });
    const isRateLimited = ({ monotonicMs }: Instant) => this.scheduler.health.limiter.nextStartMs > monotonicMs;
    this.waiters = new Waiters(settings.time, isRateLimited, (flight) => this.dropIfUseless(flight));
    this.recentTokens = new RecentTokens(diagnostics);
  }

  /**
   * Runs each time a request leaves the queue: calls the source, then stores the token, queues the request again, or fails it. Runs in
   * the async context of the call that began the request.
   *
   * @param refused the error, if the queue or a circuit has refused the request.
   */
  async #run(flight: Flight, refused: OwnerTokenError | undefined): Promise<void> {
    // Lets the code that took it out of the queue finish first.
    await SETTLED;
    if (refused) return this.#refused(flight, refused);
    // All callers may have left, or the registry may have closed.
    while (!flight.hasEnded) {
      const call = this.#newCall(flight);
      let error: OwnerTokenError;
      try {
        const { issued } = await callSource(this.#settings, this.#diagnostics, call);
        // Nothing may be awaited between reading the answer and storing it.
        const now = this.#time.now();
        const held = heldFrom(this.#settings, this.#diagnostics, call, issued, now);
        call.check(held.token.value);
        return this.#succeeded(flight, call, held, now);
      } catch (thrown) {
        error = readFailure(thrown, flight.slot, this.#time.now());
      } finally {
        call.stopLimit?.();
      }
      if (flight.isRepeated || !this.#mustRepeat(flight, call, error)) {
        const retryDelayMs = this.#failed(flight, call, error);
        if (retryDelayMs === undefined) return;
        flight.failure = error;
        return this.#queueAgain(flight, retryDelayMs);
      }
      flight.isRepeated = true;
      if (!this.#tryRepeat(flight)) return this.#queueAgain(flight, 0);
    }
  }

  /** Takes a permit to send the request again at once. Returns false if the rate limit makes it wait, or the registry is closed. */
  #tryRepeat(flight: Flight): boolean {
    const now = this.#time.now();
    const mustWait = now.monotonicMs < this.scheduler.health.limiter.nextStartMs && !this.scheduler.isTrial(flight);
    if (this.scheduler.isClosed || mustWait) return false;
    this.scheduler.step({ kind: 'sent' }, now);
    return true;
  }

  /** Queues the request again; ends it instead if the registry was closed while its outcome was being reported. */
  #queueAgain(flight: Flight, delayMs: number): void {
    if (this.scheduler.isClosed) return void this.end(flight);
    const now = this.#time.now();
    flight.call = undefined;
    this.scheduler.enqueueAfter(flight, delayMs);
    this.waiters.limitPatience(flight, now);
    this.scheduler.startNext(now);
  }

  #newCall(flight: Flight): SourceCall {
    const { slot, queuedAtMs } = flight;
    const sent = this.#time.now();
    // A refresh may have been queued for longer than its token lived.
    const hasExpired = dropEnded(slot, sent);
    const { othersToken, isRepeated } = flight;
    const reason = othersToken ? 'rejected' : reasonOf(slot);
    const message = new ReportedRequest(this.#settings.name, slot, reason, sent.monotonicMs, queuedAtMs);
    this.counts.requests++;
    if (message.reason === 'refresh') this.counts.refreshes++;
    if (flight.lane === 'canary' && this.scheduler.isTrial(flight)) message.canary = true;
    const failures = slot.history.failure?.count ?? 0;
    const abort = new Cancellation();
    flight.call = {
      slot,
      abort,
      stopLimit: undefined,
      message,
      sent,
      freshConnection: failures >= FAILURES_BEFORE_NEW_CONNECTION || this.scheduler.isTrial(flight),
      rejected: reason === 'rejected' ? (othersToken?.token ?? slot.held) : undefined,
      check: (token) => this.recentTokens.check(flight, token, isRepeated),
      yieldPlace: () => this.scheduler.yieldPlace(flight),
    };
    // Last, because storing may evict an owner, and the logger that reports it may close the registry.
    if (hasExpired) this.#owners.store(slot);
    return flight.call;
  }

  #succeeded(flight: Flight, { sent, message }: SourceCall, held: HeldToken, now: Instant): void {
    const { slot, accessKey: owner } = flight;
    // A token that was requested earlier, by another replica for example, is no evidence about the service now.
    if (isRequestedSince(sent, held.token, now)) {
      this.scheduler.endTrial(flight);
      const tookMs = this.#latencyOf(flight, sent, now);
      const { status, code, failedAtMs = 0 } = flight.failure ?? slot.history.failure?.error ?? {};
      const unavailableMs = status === 503 ? now.monotonicMs - (now.wallMs - failedAtMs) : undefined;
      const before = { unavailableMs, wasRefused: code === 'client_refused' };
      const { number, place } = flight;
      const answered = { number, tookMs, isSlow: place === 'slow', running: this.scheduler.queue.running };
      const { slow } = this.scheduler.health;
      const { sinceMs } = slow;
      this.scheduler.step({ kind: 'succeeded', owner, ...answered, ...before }, now);
      if (slow.sinceMs !== sinceMs) this.#reportSpeed(slow);
    }
    if (this.end(flight, now)) {
      const isReissued = isReplacing(slot) && slot.held?.value === held.token.value;
      const { rejection } = slot.history;
      this.#owners.withoutService.remove(slot.accessKey);
      recordSuccess(slot, held, rejection && afterArrival(rejection, slot.held, sent.monotonicMs, now.monotonicMs));
      this.#owners.store(slot);
      const mixedUp = this.recentTokens.stored(flight, held.token);
      if (mixedUp) this.#owners.replace(mixedUp, now.monotonicMs);
      if (isReissued) {
        const { fingerprint: token } = held.token;
        this.#diagnostics.emit('token.reissued', () => ({ owner: slot.owner, token }));
      }
    } else {
      // The success has made the forgotten owner a canary again.
      this.scheduler.step({ kind: 'forgotten', owner }, now);
    }
    this.waiters.resolve(flight, held.token);
    this.#diagnostics.requestSucceeded(message, held.token, slot, now.monotonicMs);
    if (!troubleOf(slot)) this.#diagnostics.recovered(slot);
    this.scheduler.startNext(now);
  }

  #reportSpeed(slow: SlowService): void {
    const usualMs = usualLatencyMs(slow);
    const latencies = { latencyMs: Math.round(recentLatencyMs(slow)), usualMs: usualMs && Math.round(usualMs) };
    this.#diagnostics.emit(slow.sinceMs === undefined ? 'service.normal' : 'service.slow', () => latencies);
  }

  /** How long the answer took; as long as usual if it was read after a standstill. */
  #latencyOf(flight: Flight, sent: Instant, now: Instant): number {
    const tookMs = now.monotonicMs - sent.monotonicMs;
    // The scheduler moves the start of the requests that were in flight while the process stood still.
    const hasStoodStill = flight.startedAtMs > sent.monotonicMs || stoodStill(tookMs, this.#settings.longestRequestMs);
    return hasStoodStill ? (this.scheduler.health.promptMs ?? tookMs) : tookMs;
  }

  /** Whether an outcome proves nothing, so that the request is repeated once. */
  #mustRepeat(flight: Flight, call: SourceCall, error: OwnerTokenError): boolean {
    const { scheduler } = this;
    // Another owner's token shows that the service works.
    const isStopped = scheduler.circuit && !scheduler.isTrial(flight) && !flight.othersToken;
    const { requestTimeoutMs } = this.#settings;
    const isProof = !isInconclusive(call, error, this.#time.now(), requestTimeoutMs);
    if (scheduler.isClosed || isStopped || isProof) return false;
    this.#diagnostics.requestAbandoned(call.message);
    return true;
  }

  /**
   * The source rejected, or did not settle in time; or what it returned cannot be used.
   *
   * @returns after how many milliseconds it is retried; undefined if the request has ended.
   */
  #failed(flight: Flight, call: SourceCall, error: OwnerTokenError): number | undefined {
    const { abort, message, sent } = call;
    const now = this.#time.now();
    if (wasAborted(abort, error)) {
      this.end(flight, now);
      this.#diagnostics.requestAbandoned(message);
      return void this.scheduler.startNext(now);
    }
    this.counts.failures++;
    const { slot, accessKey: owner, number, waiting, lane } = flight;
    const { failure } = slot.history;
    const isWanted = !flight.isWarmUp && lane !== 'canary' && (waiting > 0 || this.#owners.isCurrent(flight));
    const step = this.scheduler.step(
      {
        kind: 'failed',
        owner,
        error,
        isRetry: flight.failure !== undefined,
        isTrial: this.scheduler.endTrial(flight),
        tookMs: now.monotonicMs - sent.monotonicMs,
        firstNumber: failure?.firstNumber ?? number,
        // The answered one included.
        running: this.scheduler.queue.running,
        jitter: this.#settings.random(),
        ownerFailures: failure?.count ?? 0,
        leftMs: isUsable(slot, now) ? leftMsOf(slot, slot.held, now) : 0,
        isNeeded: isWanted && (!isUsable(slot, now) || flight.hasDemanding),
      },
      now,
    );
    if (step.retryDelayMs === undefined) return void this.#failForGood(flight, message, error, step, now);
    this.#diagnostics.requestFailed(message, error);
    return step.retryDelayMs;
  }

  #failForGood(
    flight: Flight,
    message: ReportedRequest,
    error: OwnerTokenError,
    { scope, ownerPause: givenPause }: Attribution,
    now: Instant,
  ): void {
    const { slot } = flight;
    const isCurrent = this.#owners.isCurrent(flight);
    const ownerPause = isCurrent ? givenPause : undefined;
    if (isCurrent && flight.waiting > 0) this.#owners.noteUnserved(slot, now, error);
    // The key was revoked with the token that the API rejected.
    if (isCurrent && isReplacing(slot) && error.code === 'owner_refused') this.#owners.loseService(slot, now, error);
    if (ownerPause) {
      recordFailure(slot, ownerPause);
      this.#owners.store(slot);
    }
    const circuit = scope === 'owner' ? undefined : this.scheduler.circuit;
    const reported = withOutcome(error, scope, laterPause(ownerPause, circuit), now);
    this.end(flight, now);
    this.#fail(flight, reported, 'request', now);
    this.#diagnostics.requestFailed(message, reported);
    if (ownerPause && scope === 'owner') this.#diagnostics.paused(slot, ownerPause, reported, message);
    this.scheduler.startNext(now, message);
  }

  #refused(flight: Flight, error: OwnerTokenError): void {
    this.end(flight);
    this.#fail(flight, error, refusedBy(error), this.#time.now());
    this.scheduler.startNext();
  }

  /** The callers get the error, or the owner's token if it has not ended and they do not need a newer one. */
  #fail(flight: Flight, error: OwnerTokenError, by: keyof FailedCalls, now: Instant): void {
    const { slot } = flight;
    if (isLive(slot, now)) this.waiters.resolve(flight, slot.held, true);
    this.failedCalls[by] += flight.waiting;
    this.waiters.reject(flight, error);
  }

  /** The request leaves every list. Returns whether its outcome is to be stored. */
  end(flight: Flight, now?: Instant): boolean {
    const { queue } = this.scheduler;
    const wasCurrent = this.scheduler.remove(flight);
    if (flight.trialOf && this.scheduler.endTrial(flight)) {
      const event = { kind: 'trialDropped', jitter: this.#settings.random() } as const;
      this.scheduler.step(event, now ?? this.#time.now());
    }
    if (this.whenIdle && queue.queued + queue.inFlight === 0) this.whenIdle();
    return wasCurrent;
  }

  /** Drops a request that no caller waits for. Once sent, it is aborted instead, unless its token will be stored. */
  dropIfUseless(flight: Flight): void {
    if (flight.waiting > 0 || flight.hasEnded) return;
    if (!flight.call) {
      this.end(flight);
      this.scheduler.startNext();
    } else if (!this.#owners.isCurrent(flight)) flight.call.abort.abort(new DOMException('no callers', 'AbortError'));
  }
}
