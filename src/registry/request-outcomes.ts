/** What the outcome of a token request changes: what is known of the owner and of the service, and what the callers get. */

import { type Instant, stoodStill, stopTimer, type Time } from '../clock.ts';
import type { OwnerTokenError } from '../errors/owner-token-error.ts';
import { circuitOf } from '../failures/blame-state.ts';
import type { Attribution } from '../failures/reducer.ts';
import { withOutcome } from '../failures/refusals.ts';
import { afterArrival } from '../failures/rejections.ts';
import type { Diagnostics, ReportedRequest } from '../reporting/diagnostics.ts';
import type { Flight } from './flight.ts';
import type { RegistrySettings } from './options.ts';
import type { OwnerTable } from './owner-table.ts';
import type { RecentTokens } from './recent-tokens.ts';
import type { Scheduler } from './scheduler.ts';
import {
  type HeldToken,
  isLive,
  isReplacing,
  isRequestedSince,
  isUsable,
  laterPause,
  leftMsOf,
  recordFailure,
  recordSuccess,
  troubleOf,
} from './slot.ts';
import { isInconclusive, type SourceCall, wasAborted } from './source-call.ts';
import type { Waiters } from './waiters.ts';

interface Parts {
  readonly settings: RegistrySettings;
  readonly owners: OwnerTable;
  readonly diagnostics: Diagnostics;
  readonly scheduler: Scheduler;
  readonly waiters: Waiters;
  readonly recentTokens: RecentTokens;
  readonly counts: { failures: number };
}

export class RequestOutcomes {
  /** Called when no request is left. */
  whenIdle: (() => void) | undefined;
  readonly #settings: RegistrySettings;
  readonly #time: Time;
  readonly #owners: OwnerTable;
  readonly #diagnostics: Diagnostics;
  readonly #scheduler: Scheduler;
  readonly #waiters: Waiters;
  readonly #recentTokens: RecentTokens;
  readonly #counts: { failures: number };

  constructor({ settings, owners, diagnostics, scheduler, waiters, recentTokens, counts }: Parts) {
    this.#settings = settings;
    this.#time = settings.time;
    this.#owners = owners;
    this.#diagnostics = diagnostics;
    this.#scheduler = scheduler;
    this.#waiters = waiters;
    this.#recentTokens = recentTokens;
    this.#counts = counts;
  }

  succeeded(flight: Flight, { sent, message }: SourceCall, held: HeldToken, now: Instant): void {
    const { slot, accessKey: owner } = flight;
    // A token that was requested earlier, by another replica for example, is no evidence about the service now.
    if (isRequestedSince(sent, held.token, now)) {
      const isTrial = this.#scheduler.endTrial(flight);
      const tookMs = this.#latencyOf(flight, sent, now);
      this.#scheduler.step({ kind: 'succeeded', owner, isTrial, tookMs, ...this.#load(flight) }, now);
    }
    if (this.end(flight, now)) {
      const rejected = isReplacing(slot) ? slot.held : undefined;
      const { rejection } = slot.history;
      recordSuccess(slot, held, afterArrival(rejection, slot.held, sent.monotonicMs, now.monotonicMs));
      this.#owners.store(slot);
      this.#recentTokens.stored(slot, held.token, rejected);
    } else {
      // The success has made the owner a canary again.
      this.#scheduler.step({ kind: 'forgotten', owner }, now);
    }
    this.#waiters.resolve(flight, held.token);
    this.#diagnostics.requestSucceeded(message, held.token, slot, now.monotonicMs);
    if (!troubleOf(slot)) this.#diagnostics.recovered(slot);
    this.#scheduler.react(now);
  }

  /** How long the answer took; as long as usual if it was read after a standstill. */
  #latencyOf(flight: Flight, sent: Instant, now: Instant): number {
    const tookMs = now.monotonicMs - sent.monotonicMs;
    // The scheduler moves the start of the requests that were in flight while the process stood still.
    const hasStoodStill = flight.startedAtMs > sent.monotonicMs || stoodStill(tookMs, this.#settings.longestRequestMs);
    return hasStoodStill ? (this.#scheduler.health.latencyMs ?? tookMs) : tookMs;
  }

  /**
   * Discards an inconclusive outcome, so that the source is asked once more, unless the registry has closed or a circuit has
   * opened. Returns whether it did.
   */
  discardInconclusive(flight: Flight, call: SourceCall, error: OwnerTokenError): boolean {
    const now = this.#time.now();
    if (this.#scheduler.isClosed || !isInconclusive(call, error, now, this.#settings.requestTimeoutMs)) return false;
    if (circuitOf(this.#scheduler.health.blame) && !this.#scheduler.isTrial(flight)) return false;
    this.#diagnostics.requestAbandoned(call.message);
    return true;
  }

  /**
   * The source rejected, or did not settle in time; or what it returned cannot be used.
   *
   * @returns after how many milliseconds it is retried; undefined if the request has ended.
   */
  failed(flight: Flight, call: SourceCall, error: OwnerTokenError, retries: number): number | undefined {
    const { abort, message, sent } = call;
    const now = this.#time.now();
    if (wasAborted(abort, error)) {
      this.end(flight, now);
      this.#diagnostics.requestAbandoned(message);
      return void this.#scheduler.react(now);
    }
    this.#counts.failures++;
    const { slot, accessKey: owner, callers } = flight;
    const isStored = this.#owners.isCurrent(flight);
    const step = this.#scheduler.step(
      {
        kind: 'failed',
        owner,
        error,
        retries,
        isTrial: this.#scheduler.endTrial(flight),
        tookMs: now.monotonicMs - sent.monotonicMs,
        ...this.#load(flight),
        jitter: this.#settings.random(),
        ownerFailures: slot.history.failure?.count ?? 0,
        leftMs: isUsable(slot, now) ? leftMsOf(slot, slot.held, now) : 0,
        isNeeded: (!isUsable(slot, now) || callers.hasDemanding) && (callers.count > 0 || isStored),
      },
      now,
    );
    if (step.retryDelayMs === undefined) return void this.#failForGood(flight, message, error, step, now);
    this.#diagnostics.requestFailed(message, error);
    return step.retryDelayMs;
  }

  /** How many requests run, the answered one included. */
  #load({ number }: Flight) {
    const { lists, inFlight } = this.#scheduler.queue;
    return { number, running: lists.running.length, atOnce: inFlight };
  }

  #failForGood(
    flight: Flight,
    message: ReportedRequest,
    error: OwnerTokenError,
    { scope, ownerPause: givenPause }: Attribution,
    now: Instant,
  ): void {
    const { slot } = flight;
    const ownerPause = this.#owners.isCurrent(flight) ? givenPause : undefined;
    if (ownerPause) {
      recordFailure(slot, ownerPause);
      this.#owners.store(slot);
    }
    const circuit = scope === 'owner' ? undefined : circuitOf(this.#scheduler.health.blame);
    const pause = laterPause(ownerPause, circuit);
    const reported = withOutcome(error, scope, pause, now);
    this.end(flight, now);
    this.#fail(flight, reported, now);
    this.#diagnostics.requestFailed(message, reported);
    if (ownerPause && scope === 'owner') this.#diagnostics.paused(slot, ownerPause, reported, message);
    this.#scheduler.react(now, message);
  }

  /** The queue or a circuit has refused the request. */
  refused(flight: Flight, error: OwnerTokenError): void {
    this.end(flight);
    this.#fail(flight, error, this.#time.now());
    this.#scheduler.startNext();
  }

  /** The callers get the error, or the owner's token if it has not ended and they do not need a newer one. */
  #fail(flight: Flight, error: OwnerTokenError, now: Instant): void {
    const { slot } = flight;
    if (isLive(slot, now)) this.#waiters.giveMeanwhile(flight, slot.held);
    this.#waiters.reject(flight, error);
  }

  /** The request leaves every list. Returns whether its outcome is to be stored. */
  end(flight: Flight, now?: Instant): boolean {
    const { queue } = this.#scheduler;
    stopTimer(flight.patience);
    const wasCurrent = this.#owners.detach(flight);
    this.#scheduler.remove(flight);
    if (flight.trialOf && this.#scheduler.endTrial(flight)) {
      const event = { kind: 'trialDropped', jitter: this.#settings.random() } as const;
      this.#scheduler.step(event, now ?? this.#time.now());
    }
    if (this.whenIdle && queue.queued + queue.inFlight === 0) this.whenIdle();
    return wasCurrent;
  }
}
