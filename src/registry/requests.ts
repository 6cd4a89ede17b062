/**
 * Owns each token request from its creation until its callers have its outcome, at most one per owner. {@link Requests.#run} is
 * the life of one; what comes before it begins requests and lets callers join, what comes after it drops them. `scheduler.ts`
 * decides when a request is sent, `request-outcomes.ts` what its outcome changes.
 */

import { Cancellation } from '../cancellation.ts';
import { type Instant, inSlices, nextTurn, SLICE, settledWithin, stopTimer, type Time } from '../clock.ts';
import type { OwnerTokenError } from '../errors/owner-token-error.ts';
import { type Circuit, PATIENCE_MS } from '../failures/blame-state.ts';
import { paceAllows } from '../failures/pace.ts';
import type { Pause } from '../failures/pauses.ts';
import { refusal } from '../failures/refusals.ts';
import { type Diagnostics, ReportedRequest } from '../reporting/diagnostics.ts';
import type { AccessToken } from '../token.ts';
import { AsyncContext } from './async-context.ts';
import { type Caller, Flight } from './flight.ts';
import { heldFrom } from './held-token.ts';
import type { RegistrySettings } from './options.ts';
import type { OwnerTable } from './owner-table.ts';
import { RecentTokens } from './recent-tokens.ts';
import { RequestOutcomes } from './request-outcomes.ts';
import { Scheduler } from './scheduler.ts';
import { backoffOf, clearSlot, dropEnded, isLive, laterPause, reasonOf, type Slot } from './slot.ts';
import { callSource, closedError, readFailure, type SourceCall } from './source-call.ts';
import { Waiters } from './waiters.ts';

/** Outside any caller's async context, because no caller requests a canary. */
const CANARY_CONTEXT: Readonly<AsyncContext> = new AsyncContext('OwnerTokenCanary');

/** After this many failures in a row, an owner's request goes over a new connection. */
const FAILURES_BEFORE_NEW_CONNECTION = 2;

export class Requests {
  /** Calls of the source, those among them that were refreshes, and failed requests. */
  readonly counts = { requests: 0, refreshes: 0, failures: 0 };
  readonly scheduler: Scheduler;
  readonly #settings: RegistrySettings;
  readonly #time: Time;
  readonly #owners: OwnerTable;
  readonly #diagnostics: Diagnostics;
  readonly #waiters: Waiters = new Waiters((leaving) =>
    this.#drop(leaving, ([waiter, flight]) => {
      if (this.#waiters.leave(waiter, flight)) this.#dropIfUseless(flight);
    }),
  );
  readonly #recentTokens: RecentTokens;
  readonly #outcomes: RequestOutcomes;

  constructor(settings: RegistrySettings, owners: OwnerTable, diagnostics: Diagnostics) {
    this.#settings = settings;
    this.#time = settings.time;
    this.#owners = owners;
    this.#diagnostics = diagnostics;
    this.scheduler = new Scheduler(settings, owners, diagnostics, (slot, now) => this.#beginCanary(slot, now));
    this.#recentTokens = new RecentTokens(diagnostics);
    this.#outcomes = new RequestOutcomes({
      settings,
      owners,
      diagnostics,
      scheduler: this.scheduler,
      waiters: this.#waiters,
      recentTokens: this.#recentTokens,
      counts: this.counts,
    });
  }

  get waiting(): number {
    return this.#waiters.count;
  }

  begin(slot: Slot, caller: Caller, now: Instant): Promise<AccessToken> {
    const flight = new Flight(slot, undefined, now.monotonicMs);
    const outcome = this.#waiters.wait(flight, caller);
    this.#owners.attach(flight);
    void this.#run(flight, this.scheduler.enqueue(flight, now));
    this.#limitPatience(flight, now);
    return outcome;
  }

  /** If there is a rejected token, the callers get it after {@link PATIENCE_MS} in the queue. The request goes on. */
  #limitPatience(flight: Flight, now: Instant): void {
    if (!flight.isQueued || flight.patience || !isLive(flight.slot, now)) return;
    const giveUp = () => {
      flight.patience = undefined;
      const { held } = flight.slot;
      if (held && isLive(flight.slot, this.#time.now())) this.#waiters.giveMeanwhile(flight, held);
    };
    flight.patience = this.#time.startTimer(giveUp, Math.max(0, flight.queuedAtMs + PATIENCE_MS - now.monotonicMs));
  }

  /** Refuses the call because of a pause. */
  refuse(slot: Slot, now: Instant, circuit: Circuit | undefined): never {
    const pause = laterPause(circuit, backoffOf(slot, now)) as Pause;
    this.#diagnostics.refused(circuit && pause === circuit ? circuit.scope : slot);
    throw refusal(pause, slot.owner, now);
  }

  join(flight: Flight, caller: Caller, now: Instant): Promise<AccessToken> {
    this.scheduler.promote(flight, now);
    this.#limitPatience(flight, now);
    return this.#waiters.wait(flight, caller);
  }

  /** Begins a request that no caller waits for, unless the queue is full. */
  refresh(slot: Slot, now: Instant): void {
    if (!this.scheduler.hasQueueSpace(now)) return;
    const flight = new Flight(slot, 'refresh', now.monotonicMs);
    this.#owners.attach(flight);
    void this.#run(flight, this.scheduler.enqueue(flight, now));
  }

  #beginCanary(slot: Slot, now: Instant): Flight {
    const flight = new Flight(slot, 'canary', now.monotonicMs);
    this.#owners.attach(flight);
    void CANARY_CONTEXT.runInAsyncScope(() => this.#run(flight, this.scheduler.enqueueCanary(flight)));
    return flight;
  }

  /**
   * The life of a request: it waits in the queue, calls the source, and stores the token, joins the queue again or fails. It runs
   * in the async context of the call that began it.
   *
   * @param queued resolves once it may be sent, or with the error that refuses it.
   */
  async #run(flight: Flight, queued: Promise<OwnerTokenError | undefined>): Promise<void> {
    let refused = await queued;
    let mayAskAgain = true;
    for (let retries = 0; !refused; ) {
      // Since it was let through, all callers may have left, or the registry may have closed.
      if (flight.hasEnded) return;
      const call = this.#newCall(flight);
      let error: OwnerTokenError;
      try {
        const { issued } = await callSource(this.#settings, this.#diagnostics, call);
        // Nothing may be awaited between reading the answer and storing it.
        const now = this.#time.now();
        const held = heldFrom(this.#settings, this.#diagnostics, call, issued, now);
        call.check(held.token.value);
        return this.#outcomes.succeeded(flight, call, held, now);
      } catch (thrown) {
        error = readFailure(thrown, flight.slot, this.#time.now());
      } finally {
        stopTimer(call.limit);
      }
      if (mayAskAgain && this.#outcomes.discardInconclusive(flight, call, error)) {
        mayAskAgain = false;
        refused = await this.#askAgain(flight);
        continue;
      }
      const retryDelayMs = this.#outcomes.failed(flight, call, error, retries++);
      if (retryDelayMs === undefined) return;
      refused = await this.#queueAgain(flight, retryDelayMs);
    }
    this.#outcomes.refused(flight, refused);
  }

  /** The source is asked once more, in the same place; but while the rate does not allow it, only for a trial. */
  #askAgain(flight: Flight): Promise<OwnerTokenError | undefined> | undefined {
    const now = this.#time.now();
    const mayAsk = paceAllows(this.scheduler.health.pace, now.monotonicMs) || this.scheduler.isTrial(flight);
    if (this.scheduler.isClosed || !mayAsk) return this.#queueAgain(flight, 0);
    this.scheduler.step({ kind: 'sent', number: flight.number }, now);
    return undefined;
  }

  /** Ends the request instead if the registry was closed while its outcome was reported. */
  #queueAgain(flight: Flight, delayMs: number): Promise<OwnerTokenError | undefined> | undefined {
    if (this.scheduler.isClosed) return void this.#outcomes.end(flight);
    const now = this.#time.now();
    flight.call = undefined;
    const queued = this.scheduler.enqueueAfter(flight, delayMs);
    this.#limitPatience(flight, now);
    this.scheduler.react(now);
    return queued;
  }

  #newCall(flight: Flight): SourceCall {
    const { slot, queuedAtMs } = flight;
    stopTimer(flight.patience);
    flight.patience = undefined;
    const sent = this.#time.now();
    // A refresh may have been queued for longer than its token lived.
    const hasExpired = dropEnded(slot, sent);
    const doubted = this.#recentTokens.doubted(slot);
    const reason = doubted ? 'rejected' : reasonOf(slot);
    const message = new ReportedRequest(this.#settings.name, slot, reason, sent.monotonicMs, queuedAtMs);
    this.counts.requests++;
    if (message.reason === 'refresh') this.counts.refreshes++;
    if (flight.lane === 'canary' && this.scheduler.isTrial(flight)) message.canary = true;
    const failures = slot.history.failure?.count ?? 0;
    const abort = new Cancellation();
    flight.call = {
      slot,
      abort,
      limit: undefined,
      message,
      sent,
      freshConnection: failures >= FAILURES_BEFORE_NEW_CONNECTION || this.scheduler.isTrial(flight),
      rejected: reason === 'rejected' ? (doubted ?? slot.held) : undefined,
      check: (token) => this.#recentTokens.check(slot, token, abort),
      yieldPlace: () => this.scheduler.yieldPlace(flight),
    };
    // Last, because storing may evict an owner, and the logger that is told of it may close the registry.
    if (hasExpired && this.#owners.isCurrent(flight)) this.#owners.store(slot);
    return flight.call;
  }

  /** The owner was removed. Its request goes on for the callers that wait; without any, it is dropped. */
  forget(accessKey: string, flight: Flight | undefined): void {
    this.#recentTokens.forget(accessKey);
    this.scheduler.step({ kind: 'forgotten', owner: accessKey }, this.#time.now());
    if (flight) this.#dropIfUseless(flight);
  }

  /** All owners were forgotten: clears their slots, and drops the requests that no caller waits for. */
  forgetAll(flights: Iterable<Flight>): void {
    const now = this.#time.now();
    const { canaries, state } = this.scheduler.health.blame;
    const suspects = state.phase === 'closed' ? state.suspects : [];
    this.#recentTokens.forgetAll();
    for (const owner of [...canaries, ...suspects]) this.scheduler.step({ kind: 'forgotten', owner }, now);
    this.#drop(flights, (flight) => {
      clearSlot(flight.slot);
      this.#dropIfUseless(flight);
    });
  }

  /** Works in slices. No request starts in the meantime, because it may be one that is about to be dropped. */
  #drop<T>(items: Iterable<T>, drop: (item: T) => void): void {
    this.scheduler.block();
    inSlices(items, drop, () => this.scheduler.unblock());
  }

  /** Drops a request that no caller waits for. Once sent, it is aborted instead, unless its token will be stored. */
  #dropIfUseless(flight: Flight): void {
    if (flight.callers.count > 0 || flight.hasEnded) return;
    if (!flight.call) this.#outcomes.end(flight);
    else if (!this.#owners.isCurrent(flight)) flight.call.abort.abort(new DOMException('no callers', 'AbortError'));
  }

  /**
   * Rejects every caller with `closed` and aborts the sent requests; `timeoutMs` does not cut this short. Then waits for
   * what is left of `timeoutMs` until all requests have ended. Returns how many have not.
   */
  async close(timeoutMs: number): Promise<number> {
    this.#recentTokens.forgetAll();
    const endsAtMs = this.#time.now().monotonicMs + timeoutMs;
    let closed = 0;
    for (const flight of this.scheduler.close()) {
      const now = this.#time.now();
      this.#waiters.reject(flight, closedError(flight.slot.owner, now));
      // A source that never settles must not keep the process alive.
      stopTimer(flight.call?.limit);
      if (flight.call) flight.call.abort.abort(closedError(undefined, now));
      else this.#outcomes.end(flight, now);
      if (++closed % SLICE === 0) await nextTurn();
    }
    if (this.scheduler.queue.inFlight > 0) {
      const idle = new Promise<void>((resolve) => {
        this.#outcomes.whenIdle = resolve;
      });
      await settledWithin(this.#time, endsAtMs - this.#time.now().monotonicMs, idle);
    }
    return this.scheduler.queue.inFlight;
  }
}
