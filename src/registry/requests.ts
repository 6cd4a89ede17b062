/**
 * Owns each token request from its creation until its callers are settled, at most one per owner. Read it from the top: a
 * request is created, sent, and settled; or its callers leave, and it is dropped. `scheduler.ts` decides when it is sent.
 */

import { Cancellation } from '../cancellation.ts';
import { type Instant, inSlices, nextTurn, settledWithin, type Time } from '../clock.ts';
import type { Diagnostics } from '../diagnostics.ts';
import type { OwnerTokenError } from '../errors.ts';
import type { FailedEvent, Step } from '../failures/reducer.ts';
import { withOutcome } from '../failures/refusals.ts';
import type { AccessToken, IssuedToken, RequestReason } from '../token.ts';
import { Flight, type LaneName, type Waiter } from './flight.ts';
import { dateIssued, heldTokenFrom, lifetimeOf } from './held-token.ts';
import { laneOf } from './lanes.ts';
import type { RegistrySettings } from './options.ts';
import type { OwnerTable } from './owner-table.ts';
import { errorOf, Scheduler, SLICE } from './scheduler.ts';
import {
  dropEnded,
  forgotten,
  type HeldToken,
  hasDeniedTokens,
  isDenied,
  isUsable,
  reasonOf,
  failed as recordFailure,
  succeeded as recordSuccess,
  type Slot,
} from './slot.ts';
import { callSource, closedError, readFailure, type SourceCall, wasAborted } from './source-call.ts';
import { Waiters } from './waiters.ts';

export class Requests {
  /** Calls of the source, those among them that were refreshes, and failed requests. */
  readonly counts = { requests: 0, refreshes: 0, failures: 0 };
  readonly scheduler: Scheduler;
  readonly #settings: RegistrySettings;
  readonly #time: Time;
  readonly #owners: OwnerTable;
  readonly #diagnostics: Diagnostics;
  readonly #waiters = new Waiters((leaving) => this.#drop(leaving, ([waiter, flight]) => this.#leave(waiter, flight)));
  /** The token that was stored last. */
  #last: { readonly slot: Slot; readonly token: string } | undefined;
  #whenIdle: (() => void) | undefined;

  constructor(settings: RegistrySettings, owners: OwnerTable, diagnostics: Diagnostics) {
    this.#settings = settings;
    this.#time = settings.time;
    this.#owners = owners;
    this.#diagnostics = diagnostics;
    this.scheduler = new Scheduler(settings, owners, diagnostics, {
      send: (flight) => void this.#send(flight),
      refuse: (flight, error) => this.#refuse(flight, error),
    });
  }

  get waiting(): number {
    return this.#waiters.count;
  }

  begin(accessKey: string, slot: Slot, signal: AbortSignal | undefined, lane = laneOf(slot)): Promise<AccessToken> {
    const flight = this.#create(accessKey, slot, lane);
    const outcome = this.#waiters.wait(flight, signal);
    this.scheduler.add(flight);
    return outcome;
  }

  /**
   * Before the first success, begins a request for some of the calls that the circuit refuses, ever fewer: nothing else can
   * show that the service works. Undefined for all other calls.
   */
  tryRefused(accessKey: string, slot: Slot, signal: AbortSignal | undefined): Promise<AccessToken> | undefined {
    const { admit } = this.scheduler.step({ kind: 'refused' }, this.#time.now());
    return admit ? this.begin(accessKey, slot, signal, 'canary') : undefined;
  }

  join(flight: Flight, signal: AbortSignal | undefined): Promise<AccessToken> {
    this.scheduler.promote(flight);
    return this.#waiters.wait(flight, signal);
  }

  /** Begins a request that no caller waits for, unless the queue is full. */
  refresh(accessKey: string, slot: Slot): void {
    if (this.scheduler.hasQueueSpace()) this.scheduler.add(this.#create(accessKey, slot, 'refresh'));
  }

  #create(accessKey: string, slot: Slot, lane: LaneName): Flight {
    const flight = new Flight(accessKey, slot, lane, this.#time.now().monotonicMs);
    this.#owners.began(flight);
    return flight;
  }

  /** Calls the source, and once more if it returns a token that is on the owner's denylist. */
  async #send(flight: Flight): Promise<void> {
    // All callers may have left since the request started, or the registry may have closed.
    if (flight.phase === 'settled') return;
    flight.phase = 'sent';
    const abort = new Cancellation();
    flight.abort = abort;
    let call = this.#newCall(flight, abort, this.#reasonOf(flight));
    let deniedBefore: OwnerTokenError | undefined;
    try {
      for (;;) {
        const { returned } = await callSource(this.#settings, this.#diagnostics, call, this.scheduler);
        flight.cancelTimer?.();
        const now = this.#time.now();
        const held = this.#heldFrom(returned, call, now);
        if (held) return this.#succeeded(call, held, now);
        if (deniedBefore) throw deniedBefore;
        const message = 'the service re-issued a token that was reported as rejected';
        deniedBefore = errorOf(flight, 'token_rejected', message, now);
        this.#diagnostics.requestFailed(call.message, deniedBefore);
        abort.throwIfAborted();
        await this.scheduler.takePermit(flight);
        call = this.#newCall(flight, abort, 'rejected');
      }
    } catch (thrown) {
      flight.cancelTimer?.();
      this.#failed(call, thrown);
    }
  }

  /** A refresh may have been queued for longer than its token lived. */
  #reasonOf({ slot, accessKey }: Flight): RequestReason {
    if (dropEnded(slot, this.#time.now()) && this.#owners.flightOf(accessKey)?.slot === slot) this.#owners.store(slot);
    return reasonOf(slot);
  }

  #newCall(flight: Flight, abort: Cancellation, reason: RequestReason): SourceCall {
    this.counts.requests++;
    if (reason === 'refresh') this.counts.refreshes++;
    const sent = this.#time.now();
    const message = this.#diagnostics.newRequest(flight.slot, reason, sent.monotonicMs, flight.queuedAtMs);
    if (this.scheduler.isTrial(flight) && flight.lane === 'canary') message.canary = true;
    return { flight, abort, message, sent };
  }

  /** The token to hold; undefined if it is on the denylist. */
  #heldFrom(returned: IssuedToken, { flight: { slot }, sent }: SourceCall, now: Instant): HeldToken | undefined {
    const { expiry, fingerprints } = this.#settings;
    const issued = dateIssued(returned, sent, now);
    const fingerprint = hasDeniedTokens(slot) ? fingerprints.ofToken(issued.token) : undefined;
    if (fingerprint !== undefined && isDenied(slot, fingerprint)) return undefined;
    const life = lifetimeOf(expiry, issued);
    if (life.problem) this.#diagnostics.lifetimeUnknown(slot, life.problem, life.lifetimeMs);
    return heldTokenFrom(this.#settings, issued, life, slot, now, fingerprint ?? fingerprints);
  }

  #succeeded({ flight, sent, message }: SourceCall, held: HeldToken, now: Instant): void {
    const { slot, accessKey, number } = flight;
    const tookMs = now.monotonicMs - sent.monotonicMs;
    // Without a permit, the token came from another replica, which is no evidence about the service now.
    if (this.scheduler.isSent(flight)) {
      const isTrial = this.scheduler.isTrial(flight);
      flight.trialRound = undefined;
      this.scheduler.step({ kind: 'succeeded', owner: accessKey, number, isTrial, tookMs }, now);
    }
    if (this.#owners.isCurrent(flight)) {
      recordSuccess(slot, held);
      this.#owners.store(slot);
      this.#compareWithLast(slot, held.token.value);
    } else this.scheduler.step({ kind: 'forgotten', owner: accessKey }, now);
    flight.resolve(held.token);
    this.#waiters.settled(flight);
    this.#end(flight);
    this.#diagnostics.requestSucceeded(message, held.token, slot, now.monotonicMs);
    this.scheduler.react(now);
  }

  /** Warns if two owners received the same token, because the service may ignore the access key. */
  #compareWithLast(slot: Slot, token: string): void {
    if (this.#last?.token === token && this.#last.slot !== slot) this.#diagnostics.tokenShared(slot, this.#last.slot);
    this.#last = { slot, token };
  }

  #failed(call: SourceCall, thrown: unknown): void {
    const { flight, abort, message } = call;
    const now = this.#time.now();
    const error = readFailure(thrown, flight, now);
    // A request that has settled already was refused while its source waited for a permit.
    if (flight.phase !== 'sent' || wasAborted(abort, error)) {
      this.#end(flight);
      this.#diagnostics.requestAbandoned(message);
      this.scheduler.react(now);
      return;
    }
    this.counts.failures++;
    const step = this.#stepOfFailure(call, error, now);
    if (step.resendAfterMs !== undefined) {
      this.scheduler.retryLater(flight, step.resendAfterMs);
      this.#diagnostics.requestFailed(message, error);
      this.scheduler.react(now);
      return;
    }
    this.#settleFailure(call, error, step, now);
  }

  #stepOfFailure({ flight, sent }: SourceCall, error: OwnerTokenError, now: Instant): Step<string> {
    const { slot, accessKey, number, resends } = flight;
    const isTrial = this.scheduler.isTrial(flight);
    const isOwn = this.scheduler.isSent(flight);
    if (isOwn) flight.trialRound = undefined;
    const event: FailedEvent<string> = {
      ...{ kind: 'failed', owner: accessKey, error, resends, jitter: this.#settings.random() },
      // What another replica was told says nothing of the service now.
      ...(isOwn ? { number, isTrial } : { number: 0, isTrial: false }),
      ownerFailures: slot.trouble?.failure?.count ?? 0,
      tookMs: now.monotonicMs - sent.monotonicMs,
      isNeeded: !isUsable(slot, now) && (flight.waiting > 0 || this.#owners.isCurrent(flight)),
    };
    return this.scheduler.step(event, now);
  }

  #settleFailure({ flight, message }: SourceCall, error: OwnerTokenError, step: Step<string>, now: Instant): void {
    const { scope = 'owner', ownerPause } = step;
    const { slot } = flight;
    if (ownerPause && this.#owners.isCurrent(flight)) {
      recordFailure(slot, ownerPause);
      this.#owners.store(slot);
    }
    const pause = ownerPause ?? (scope === 'owner' ? undefined : this.scheduler.circuit);
    const reported = withOutcome(error, scope, pause, now);
    this.#end(flight);
    this.#reject(flight, reported);
    this.#diagnostics.requestFailed(message, reported);
    if (ownerPause && scope === 'owner') this.#diagnostics.paused(slot, ownerPause, reported, message);
    this.scheduler.react(now, message);
  }

  /** Fails a request that waits. */
  #refuse(flight: Flight, error: OwnerTokenError): void {
    const { abort } = flight;
    if (flight.phase === 'sent') {
      // Its source waits for a permit. The request ends when the source settles, or by the time limit.
      this.scheduler.setAside(flight);
      flight.phase = 'settled';
      this.#owners.detach(flight);
      abort?.abort(error);
    } else this.#end(flight);
    this.#reject(flight, error);
  }

  #reject(flight: Flight, error: OwnerTokenError): void {
    flight.reject(error);
    this.#waiters.settled(flight);
  }

  /** The request leaves every list. */
  #end(flight: Flight): void {
    flight.phase = 'settled';
    flight.cancelTimer?.();
    this.#owners.detach(flight);
    this.scheduler.remove(flight);
    if (this.scheduler.isTrial(flight)) {
      flight.trialRound = undefined;
      this.scheduler.step({ kind: 'inconclusive', jitter: this.#settings.random() }, this.#time.now());
    }
    const { queued, inFlight } = this.scheduler.load;
    if (queued + inFlight === 0) this.#whenIdle?.();
  }

  /** The held token was rejected. A request already sent may return the same token, so its outcome is not stored. */
  rejected(accessKey: string): void {
    const flight = this.#owners.flightOf(accessKey);
    if (flight?.phase === 'sent') this.detach(flight);
  }

  /** Separates a request from its owner. It continues for its waiting callers; without any, it is dropped. */
  detach(flight: Flight): void {
    this.#owners.detach(flight);
    this.#dropIfUseless(flight);
  }

  /** The owner was removed, so it is no longer a canary. */
  forget(slot: Slot): void {
    if (this.#last?.slot === slot) this.#last = undefined;
    this.scheduler.step({ kind: 'forgotten', owner: slot.accessKey }, this.#time.now());
  }

  /** All owners were forgotten: clears their slots, and drops the requests that no caller waits for. */
  forgetAll(flights: Iterable<Flight>): void {
    this.#last = undefined;
    this.scheduler.forgetOwners();
    this.#drop(flights, (flight) => {
      forgotten(flight.slot);
      this.#dropIfUseless(flight);
    });
  }

  #leave(waiter: Waiter, flight: Flight): void {
    if (this.#waiters.leave(waiter, flight)) this.#dropIfUseless(flight);
  }

  /** Works in slices. No request starts in the meantime, because it may be one that is about to be dropped. */
  #drop<T>(items: Iterable<T>, drop: (item: T) => void): void {
    this.scheduler.block();
    inSlices(items, drop, () => this.scheduler.unblock());
  }

  /** Drops a request that no caller waits for. Once sent, it is aborted instead, unless its token will be stored. */
  #dropIfUseless(flight: Flight): void {
    if (flight.waiting > 0 || flight.phase === 'settled') return;
    if (flight.phase !== 'sent') this.#end(flight);
    else if (!this.#owners.isCurrent(flight)) flight.abort?.abort(new DOMException('no callers', 'AbortError'));
  }

  /**
   * Rejects every caller with `closed` and aborts the sent requests; `timeoutMs` does not cut this short. Then waits for
   * what is left of `timeoutMs` until all requests have settled. Returns how many have not.
   */
  async close(timeoutMs: number): Promise<number> {
    const endsAtMs = this.#time.now().monotonicMs + timeoutMs;
    for (const [index, flight] of this.scheduler.close().entries()) {
      if (index > 0 && index % SLICE === 0) await nextTurn();
      this.#closeRequest(flight);
    }
    if (this.scheduler.load.inFlight > 0) {
      const idle = new Promise<void>((resolve) => {
        this.#whenIdle = resolve;
      });
      await settledWithin(this.#time, endsAtMs - this.#time.now().monotonicMs, idle);
    }
    return this.scheduler.load.inFlight;
  }

  #closeRequest(flight: Flight): void {
    const { abort, phase } = flight;
    const now = this.#time.now();
    this.#reject(flight, closedError(flight.slot.owner, now));
    // A source that never settles must not keep the process alive.
    flight.cancelTimer?.();
    if (phase !== 'sent') {
      this.#end(flight);
      return;
    }
    this.scheduler.setAside(flight);
    abort?.abort(closedError(undefined, now));
  }
}
