/**
 * Runs the token requests, at most one per owner. The registry decides that a request is needed; this file takes it
 * through its stages: queue, permit, source, outcome.
 */

import { Cancellation } from '../cancellation.ts';
import { type Instant, inSlices, nextTurn, settledWithin, type Time } from '../clock.ts';
import type { Diagnostics } from '../diagnostics.ts';
import type { FailureScope, OwnerTokenError } from '../errors.ts';
import type { Permit } from '../failures/circuit-breaker.ts';
import type { FailedRequest, FailureScopes } from '../failures/failure-scopes.ts';
import { withOutcome } from '../failures/refusals.ts';
import type { AccessToken, RequestReason } from '../token.ts';
import { Dispatch, type Runner, SLICE } from './dispatch.ts';
import { Flight, type Waiter } from './flight.ts';
import { LinkedList } from './linked-list.ts';
import type { RegistrySettings } from './options.ts';
import type { OwnerTable } from './owner-table.ts';
import {
  dropEnded,
  forgotten,
  type HeldToken,
  reasonOf,
  failed as recordFailure,
  succeeded as recordSuccess,
  type Slot,
} from './slot.ts';
import {
  type Attempt,
  closedError,
  type FlightHost,
  obtain,
  readFailure,
  type SentFlight,
  wasAborted,
} from './source-call.ts';
import { Waiters } from './waiters.ts';

export class Flights implements FlightHost, Runner {
  /** Calls of the source, those among them that were refreshes, and failed requests. */
  readonly counts = { requests: 0, refreshes: 0, failures: 0 };
  readonly #settings: RegistrySettings;
  readonly #time: Time;
  readonly #owners: OwnerTable;
  readonly #failures: FailureScopes;
  readonly #diagnostics: Diagnostics;
  readonly #dispatch: Dispatch;
  /** All unsettled requests, including detached ones. */
  readonly #unsettled = new LinkedList<Flight>();
  readonly #waiters = new Waiters((leaving) => this.#leave(leaving));
  #whenIdle: (() => void) | undefined;

  constructor(settings: RegistrySettings, owners: OwnerTable, failures: FailureScopes, diagnostics: Diagnostics) {
    this.#settings = settings;
    this.#time = settings.time;
    this.#owners = owners;
    this.#failures = failures;
    this.#diagnostics = diagnostics;
    this.#dispatch = new Dispatch(settings, failures, diagnostics, this);
  }

  get inFlight(): number {
    return this.#unsettled.length - this.queued;
  }

  get queued(): number {
    return this.#dispatch.queued;
  }

  get waiting(): number {
    return this.#waiters.count;
  }

  begin(accessKey: string, slot: Slot, signal: AbortSignal | undefined): Promise<AccessToken> {
    const flight = this.#create(accessKey, slot);
    const outcome = this.#waiters.wait(flight, signal);
    this.#dispatch.request(flight);
    return outcome;
  }

  join(flight: Flight, signal: AbortSignal | undefined): Promise<AccessToken> {
    this.#dispatch.promote(flight);
    return this.#waiters.wait(flight, signal);
  }

  /** Begins a request that no caller waits for, unless the queue is full. */
  refresh(accessKey: string, slot: Slot): void {
    const flight = this.#create(accessKey, slot);
    if (!this.#dispatch.refresh(flight)) this.#end(flight);
  }

  /** The held token was rejected. A request already sent may return the same token, so its outcome is not stored. */
  rejected(accessKey: string): void {
    const flight = this.#owners.flightOf(accessKey);
    if (flight?.state.phase === 'sent') this.detach(flight);
  }

  /** Separates a request from its owner. It continues for its waiting callers; without any, it is dropped. */
  detach(flight: Flight): void {
    this.#owners.detach(flight);
    this.#dropIfUseless(flight);
  }

  /** Every owner was forgotten: drops the requests that nobody waits for, and clears the slots of the others. */
  forgetAll(flights: Iterable<Flight>): void {
    this.#drop(flights, (flight) => {
      forgotten(flight.slot);
      this.#dropIfUseless(flight);
    });
  }

  /** Ends the pauses of the client and the endpoint. */
  liftCircuits(): void {
    for (const scope of this.#failures.resume()) this.#diagnostics.lifted(scope);
    this.#dispatch.startNext();
  }

  takePermit(flight: Flight): Promise<void> {
    return this.#dispatch.takePermit(flight);
  }

  releasePermit(flight: Flight): void {
    this.#dispatch.releasePermit(flight);
  }

  scopeOf(sent: SentFlight, error: OwnerTokenError): FailureScope | undefined {
    const { flight, permit, attempt } = sent;
    attempt.retry = { of: error, afterMs: this.#resendAfterMs(flight, this.#failureOf(sent, error)) };
    if (attempt.retry.afterMs !== undefined) return undefined;
    return this.#failures.scopeOf({ permit, error, owner: flight.accessKey });
  }

  /** A request is not sent again if nobody waits and its token would not be stored. */
  #resendAfterMs(flight: Flight, request: FailedRequest): number | undefined {
    if (flight.waiting === 0 && !this.#owners.isCurrent(flight)) return undefined;
    return this.#dispatch.resendAfterMs(flight, request);
  }

  #failureOf({ flight, permit, attempt }: SentFlight, error: OwnerTokenError): FailedRequest {
    const { slot, accessKey, resends } = flight;
    return {
      ...{ permit, error, owner: accessKey, ownerFailures: slot.trouble?.failure?.count ?? 0, resends },
      ...{ nowMs: this.#time.now().monotonicMs, sentAtMs: attempt.sent.monotonicMs },
      isOnlyRequest: this.#dispatch.isOnlyRequest,
    };
  }

  newAttempt(flight: Flight, reason: RequestReason, sent = this.#time.now()): Attempt {
    this.counts.requests++;
    if (reason === 'refresh') this.counts.refreshes++;
    const queuedAtMs = this.#dispatch.sinceMs(flight);
    return { sent, message: this.#diagnostics.newRequest(flight.slot, reason, sent.monotonicMs, queuedAtMs) };
  }

  /**
   * Rejects every caller with `closed` and aborts the sent requests; `timeoutMs` does not cut this short. Then waits for
   * what is left of `timeoutMs` until all requests have settled. Returns how many have not.
   */
  async close(timeoutMs: number): Promise<number> {
    const endsAtMs = this.#time.now().monotonicMs + timeoutMs;
    this.#dispatch.close();
    // A copy, because requests leave the list meanwhile.
    for (const [index, flight] of [...this.#unsettled].entries()) {
      if (index > 0 && index % SLICE === 0) await nextTurn();
      this.#closeRequest(flight);
    }
    if (this.#unsettled.length > 0) {
      const idle = new Promise<void>((resolve) => {
        this.#whenIdle = resolve;
      });
      await settledWithin(this.#time, endsAtMs - this.#time.now().monotonicMs, idle);
    }
    return this.#unsettled.length;
  }

  #closeRequest(flight: Flight): void {
    const { state } = flight;
    const now = this.#time.now();
    this.#reject(flight, closedError(flight.slot.owner, now));
    if (state.phase === 'sent') {
      // Its source may wait for a permit.
      this.#dispatch.withdraw(flight);
      state.abort.abort(closedError(undefined, now));
    } else if (state.phase !== 'settled') this.#end(flight);
    // A source that never settles must not keep the process alive.
    flight.cancelTimer?.();
  }

  #create(accessKey: string, slot: Slot): Flight {
    const flight = new Flight(accessKey, slot);
    this.#owners.began(flight);
    this.#unsettled.push(flight);
    return flight;
  }

  run(flight: Flight, permit: Permit): void {
    flight.context.runInAsyncScope(this.#run, this, flight, permit);
  }

  refuse(flight: Flight, error: OwnerTokenError): void {
    const { state } = flight;
    if (state.phase === 'sent') {
      // Its source waits for a permit. The request ends when that settles, or by the time limit.
      this.#dispatch.withdraw(flight);
      flight.state = { phase: 'settled' };
      this.#owners.detach(flight);
      state.abort.abort(error);
    } else this.#end(flight);
    this.#reject(flight, error);
  }

  #run(flight: Flight, permit: Permit): void {
    // Since the permit was granted, all callers may have left, or the registry may have closed.
    if (flight.state.phase === 'settled' || this.#dispatch.isClosed) {
      this.#failures.cancel(permit);
      this.#dispatch.releasePermit(flight);
      return;
    }
    const abort = new Cancellation();
    flight.state = { phase: 'sent', abort };
    const now = this.#time.now();
    const attempt = this.newAttempt(flight, this.#reasonOf(flight, now), now);
    void obtain(this.#settings, this.#diagnostics, this, { flight, permit, abort, attempt });
  }

  /** A refresh may have been queued for longer than its token lived. */
  #reasonOf(flight: Flight, now: Instant): RequestReason {
    const { slot } = flight;
    if (dropEnded(slot, now) && this.#owners.isCurrent(flight)) this.#owners.store(slot);
    return reasonOf(slot);
  }

  succeeded({ flight, permit, attempt: { sent, message } }: SentFlight, held: HeldToken, now: Instant): void {
    const lifted = this.#dispatch.succeeded(flight, permit, sent.monotonicMs, now.monotonicMs);
    if (this.#owners.isCurrent(flight)) {
      recordSuccess(flight.slot, held);
      this.#owners.store(flight.slot);
    }
    flight.resolve(held.token);
    this.#waiters.settled(flight);
    this.#end(flight);
    this.#diagnostics.requestSucceeded(message, held.token, flight.slot, now.monotonicMs);
    for (const scope of lifted) this.#diagnostics.lifted(scope);
    this.#dispatch.releasePermit(flight);
  }

  failed(sent: SentFlight, thrown: unknown): void {
    if (!this.#settleFailure(sent, thrown)) this.#dispatch.releasePermit(sent.flight);
  }

  /** Handles a failure. Returns whether the request will be sent again. */
  #settleFailure(sent: SentFlight, thrown: unknown): boolean {
    const { flight, permit, attempt } = sent;
    const { message, retry } = attempt;
    const { slot, state } = flight;
    const now = this.#time.now();
    const error = readFailure(thrown, flight, now);
    // A request that has settled already was refused while its source waited for a permit.
    if (state.phase !== 'sent' || wasAborted(state.abort, error)) {
      this.#failures.cancel(permit);
      this.#diagnostics.requestAbandoned(message);
      this.#end(flight);
      return false;
    }
    this.counts.failures++;
    const request = this.#failureOf(sent, error);
    // The source may have asked before, and each failure counts once.
    const afterMs = retry?.of === thrown ? retry?.afterMs : this.#resendAfterMs(flight, request);
    if (this.#dispatch.sendAgain(flight, afterMs)) {
      this.#diagnostics.requestFailed(message, error);
      return true;
    }
    const outcome = this.#failures.failed(request);
    if (outcome.ownerPause && this.#owners.isCurrent(flight)) {
      recordFailure(slot, { ...outcome.ownerPause, hung: outcome.hung });
      this.#owners.store(slot);
    }
    const reported = withOutcome(error, outcome, now);
    this.#end(flight, reported);
    this.#reject(flight, reported);
    this.#diagnostics.requestFailed(message, reported);
    if (outcome.scope === 'owner') this.#diagnostics.paused(slot, outcome.ownerPause, reported, message);
    else this.#diagnostics.paused(outcome.scope, outcome.circuitPause, reported, message);
    for (const scope of outcome.lifted) this.#diagnostics.lifted(scope);
    // Only after `paused`: from then on diagnostics count refused calls for `pause.lifted`.
    if (outcome.circuitPause) this.#dispatch.refuseQueued();
    return false;
  }

  #leave(leaving: Iterable<[Waiter, Flight]>): void {
    this.#drop(leaving, ([waiter, flight]) => {
      if (this.#waiters.leave(waiter, flight)) this.#dropIfUseless(flight);
    });
  }

  /** Works in slices. No request starts in the meantime, because it may be one that is about to be dropped. */
  #drop<T>(items: Iterable<T>, drop: (item: T) => void): void {
    this.#dispatch.block();
    inSlices(items, drop, () => this.#dispatch.unblock());
  }

  /** Drops a request that no caller waits for. Once sent, it is aborted instead, unless its token will be stored. */
  #dropIfUseless(flight: Flight): void {
    if (flight.waiting > 0) return;
    if (flight.state.phase !== 'sent') this.#end(flight);
    else if (!this.#owners.isCurrent(flight)) flight.state.abort.abort(new DOMException('no callers', 'AbortError'));
  }

  /** @param error why it failed, if it did. */
  #end(flight: Flight, error?: OwnerTokenError): void {
    // A request that is both queued and sent has a source that has asked for a permit.
    if (this.#dispatch.withdraw(flight) && flight.state.phase === 'sent') flight.state.abort.abort(error);
    flight.state = { phase: 'settled' };
    this.#owners.detach(flight);
    this.#unsettled.remove(flight);
    if (this.#unsettled.length === 0) this.#whenIdle?.();
  }

  #reject(flight: Flight, error: OwnerTokenError): void {
    flight.reject(error);
    this.#waiters.settled(flight);
  }
}
