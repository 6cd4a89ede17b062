/**
 * Runs the token requests, at most one per owner. The registry decides that a request is needed; this file takes it
 * through its stages: queue, permit, source, outcome.
 */

import { type Instant, nextTurn, settledWithin, type Time } from '../clock.ts';
import type { Diagnostics } from '../diagnostics.ts';
import { OwnerTokenError, type OwnerTokenErrorCode, type WiderScope } from '../errors.ts';
import type { Permit } from '../failures/circuit-breaker.ts';
import type { FailureScopes } from '../failures/failure-scopes.ts';
import { refusal, withOutcome } from '../failures/refusals.ts';
import type { AccessToken, IssuedToken, RequestReason } from '../token.ts';
import { Flight } from './flight.ts';
import { type DatedToken, heldTokenFrom, lifetimeOf } from './held-token.ts';
import type { RegistrySettings } from './options.ts';
import type { OwnerTable } from './owner-table.ts';
import { Permits } from './permits.ts';
import { QueueTimer } from './queue-timer.ts';
import { RequestQueue, STANDINGS } from './request-queue.ts';
import { dropEnded, failed, type HeldToken, isDenied, reasonOf, type Slot, succeeded } from './slot.ts';
import { type Attempt, callSource, closedError, readFailure, type SharingHooks, wasAborted } from './source-call.ts';
import { Waiters } from './waiters.ts';

/** Requests refused in one turn of the event loop. */
const SLICE = 256;

export class Flights {
  /** Calls of the source, those among them that were refreshes, and failed requests. */
  readonly counts = { requests: 0, refreshes: 0, failures: 0 };
  readonly #settings: RegistrySettings;
  readonly #time: Time;
  readonly #owners: OwnerTable;
  readonly #failures: FailureScopes;
  readonly #diagnostics: Diagnostics;
  readonly #queue: RequestQueue<Flight>;
  readonly #permits: Permits;
  /** All unsettled requests, including detached ones. */
  readonly #unsettled = new Set<Flight>();
  readonly #waiters = new Waiters((flight) => this.#dropIfUseless(flight));
  readonly #queueTimer: QueueTimer;
  #closed = false;
  #whenIdle: (() => void) | undefined;

  constructor(settings: RegistrySettings, owners: OwnerTable, failures: FailureScopes, diagnostics: Diagnostics) {
    this.#settings = settings;
    this.#time = settings.time;
    this.#owners = owners;
    this.#failures = failures;
    this.#diagnostics = diagnostics;
    this.#queue = new RequestQueue(settings);
    this.#queueTimer = new QueueTimer(settings.time, () => this.#wake());
    this.#permits = new Permits(settings.concurrency, (flight) => {
      this.#queue.release(flight);
      this.startNext();
    });
  }

  get inFlight(): number {
    return this.#unsettled.size - this.#queue.queued;
  }

  get queued(): number {
    return this.#queue.queued;
  }

  get waiting(): number {
    return this.#waiters.count;
  }

  begin(accessKey: string, slot: Slot, signal: AbortSignal | undefined): Promise<AccessToken> {
    const flight = this.#create(accessKey, slot);
    const outcome = this.#waiters.wait(flight, signal);
    if (!this.#enqueue(flight, true)) {
      const message = 'the queue of token requests is full: raise maxQueued or concurrency, or make fewer calls';
      this.#refuse(flight, this.#errorOf(flight, 'queue_full', message));
    }
    return outcome;
  }

  join(flight: Flight, signal: AbortSignal | undefined): Promise<AccessToken> {
    this.#queue.promote(flight, this.#time.now().monotonicMs);
    return this.#waiters.wait(flight, signal);
  }

  /** Begins a request that no caller waits for, unless the queue is full. */
  refresh(accessKey: string, slot: Slot): void {
    const flight = this.#create(accessKey, slot);
    if (!this.#enqueue(flight, false)) this.#end(flight);
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

  /** Starts as many queued requests as may start now. */
  startNext(): void {
    while (!this.#closed && this.#queue.queued > 0) {
      const now = this.#time.now();
      const flight = this.#queue.next(this.#failures.limitsAt(now.monotonicMs));
      if (!flight) break;
      if (flight.state.phase === 'sent') {
        this.#permits.occupy(flight, flight.state.resume as () => void);
        continue;
      }
      const permit = this.#failures.admit(now.monotonicMs, flight.standing);
      if (!permit) {
        this.#queue.release(flight);
        this.#refuseIfPaused(flight, now);
        this.#refuseQueued();
        return;
      }
      flight.state = { phase: 'permitted' };
      const run = () => void this.#run(flight, permit).finally(() => flight.releasePermit?.());
      this.#permits.occupy(flight, () => flight.context.runInAsyncScope(run));
    }
    this.#queueTimer.watch(this.#queue.overdueAtMs, this.#failures.nextNewcomerAtMs);
  }

  /** Rejects every caller with `closed` and aborts the sent requests. Returns how many did not settle in time. */
  async close(timeoutMs: number): Promise<number> {
    this.#closed = true;
    for (const [index, flight] of [...this.#unsettled].entries()) {
      if (index % SLICE === SLICE - 1) await nextTurn();
      this.#reject(flight, closedError(flight.slot.owner, this.#time.now()));
      if (flight.state.phase === 'sent') flight.state.abort.abort(closedError(undefined, this.#time.now()));
      else this.#end(flight);
    }
    if (this.#unsettled.size > 0) {
      const idle = new Promise<void>((resolve) => {
        this.#whenIdle = resolve;
      });
      await settledWithin(this.#time, timeoutMs, idle);
    }
    return this.#unsettled.size;
  }

  #create(accessKey: string, slot: Slot): Flight {
    const flight = new Flight(accessKey, slot);
    this.#owners.began(flight);
    this.#unsettled.add(flight);
    return flight;
  }

  /** False if the queue is full. A request that a caller waits for takes the place of the oldest refresh. */
  #enqueue(flight: Flight, waitedFor: boolean): boolean {
    const { monotonicMs } = this.#time.now();
    if (!this.#queue.hasPlaceFor(flight, this.#failures.limitsAt(monotonicMs))) {
      const displaced = waitedFor ? this.#queue.oldestRefresh : undefined;
      if (!displaced) return false;
      this.#end(displaced);
    }
    this.#queue.add(flight, waitedFor, monotonicMs);
    this.startNext();
    return true;
  }

  /** The hooks for a source that shares tokens with other processes. */
  #hooksFor(flight: Flight, permit: Permit): SharingHooks {
    const enqueue = () => {
      this.#queue.add(flight, true, this.#time.now().monotonicMs);
      this.startNext();
    };
    return {
      scopeOf: (error) => this.#failures.scopeOf({ permit, error, owner: flight.accessKey }),
      takePermit: () => this.#permits.wait(flight, enqueue),
    };
  }

  async #run(flight: Flight, permit: Permit): Promise<void> {
    // All callers have left since the permit was granted.
    if (flight.state.phase === 'settled') return this.#failures.cancel(permit);
    const abort = new AbortController();
    flight.state = { phase: 'sent', abort };
    let attempt = this.#attempt(flight, this.#reasonOf(flight));
    let held: HeldToken;
    const hooks = this.#hooksFor(flight, permit);
    const call = () => callSource(this.#settings, this.#diagnostics, flight, attempt, abort, hooks);
    try {
      let issued = await call();
      if (this.#isDenied(flight, issued)) {
        const message = 'the service re-issued a token that was reported as rejected';
        const error = this.#errorOf(flight, 'token_rejected', message);
        this.#diagnostics.requestFailed(attempt.message, error);
        abort.signal.throwIfAborted();
        await hooks.takePermit();
        attempt = this.#attempt(flight, 'rejected');
        issued = await call();
        if (this.#isDenied(flight, issued)) throw error;
      }
      held = this.#heldTokenFrom(flight, issued);
    } catch (thrown) {
      return this.#failed(flight, permit, attempt, thrown);
    }
    this.#succeeded(flight, permit, attempt, held);
  }

  #attempt(flight: Flight, reason: RequestReason): Attempt {
    this.counts.requests++;
    if (reason === 'refresh') this.counts.refreshes++;
    const message = this.#diagnostics.newRequest(flight.slot, reason, this.#queue.sinceMs(flight));
    return { sent: this.#time.now(), message };
  }

  /** A refresh may have been queued for longer than its token lived. */
  #reasonOf(flight: Flight): RequestReason {
    const { slot } = flight;
    if (dropEnded(slot, this.#time.now()) && this.#owners.isCurrent(flight)) this.#owners.store(slot);
    return reasonOf(slot);
  }

  #isDenied({ slot }: Flight, { token }: IssuedToken): boolean {
    return isDenied(slot, () => this.#settings.fingerprints.ofToken(token));
  }

  #heldTokenFrom({ slot }: Flight, issued: DatedToken): HeldToken {
    const life = lifetimeOf(this.#settings.expiry, issued);
    if (life.problem) this.#diagnostics.lifetimeUnknown(slot, life.problem, life.lifetimeMs);
    return heldTokenFrom(this.#settings, issued, life, slot, this.#time.now());
  }

  #succeeded(flight: Flight, permit: Permit, { message }: Attempt, held: HeldToken): void {
    const lifted = this.#failures.succeeded(permit);
    if (this.#owners.isCurrent(flight)) {
      succeeded(flight.slot, held);
      this.#owners.store(flight.slot);
    }
    flight.resolve(held.token);
    this.#waiters.settled(flight);
    this.#end(flight);
    this.#diagnostics.requestSucceeded(message, held.token, flight.slot);
    for (const scope of lifted) this.#diagnostics.lifted(scope);
  }

  #failed(flight: Flight, permit: Permit, { sent, message }: Attempt, thrown: unknown): void {
    const { slot, accessKey, state } = flight;
    const now = this.#time.now();
    const error = readFailure(thrown, flight, now);
    // If it has settled already, it was refused while its source waited for a permit.
    if (state.phase !== 'sent' || wasAborted(state.abort.signal, error)) {
      this.#failures.cancel(permit);
      this.#diagnostics.requestAbandoned(message);
      this.#end(flight);
      return;
    }
    this.counts.failures++;
    const outcome = this.#failures.failed({
      ...{ permit, error, owner: accessKey, ownerFailures: slot.trouble?.failure?.count ?? 0 },
      ...{ nowMs: now.monotonicMs, sentAtMs: sent.monotonicMs },
    });
    if (outcome.ownerPause && this.#owners.isCurrent(flight)) {
      failed(slot, { ...outcome.ownerPause, hung: outcome.hung });
      this.#owners.store(slot);
    }
    const reported = withOutcome(error, outcome, now);
    this.#refuse(flight, reported);
    if (outcome.circuitPause) this.#refuseQueued();
    this.#diagnostics.requestFailed(message, reported);
    const { scope, lifted, ownerPause, circuitPause } = outcome;
    const pause = circuitPause ?? ownerPause;
    if (pause) this.#diagnostics.paused(scope === 'owner' ? slot : scope, pause, reported, message);
    for (const each of lifted) this.#diagnostics.lifted(each);
  }

  /** A circuit is open: refuses the requests that it stops, in slices, because each refusal creates an error. */
  #refuseQueued(): void {
    const now = this.#time.now();
    let left = SLICE;
    for (const standing of STANDINGS) {
      for (let flight = this.#queue.first(standing); flight; flight = this.#queue.first(standing)) {
        if (!this.#refuseIfPaused(flight, now)) break;
        if (--left === 0) return void nextTurn().then(() => this.#refuseQueued());
      }
    }
    this.startNext();
  }

  #refuseIfPaused(flight: Flight, now: Instant): boolean {
    const pause = this.#failures.pauseFor(now.monotonicMs, flight.standing);
    if (!pause) return false;
    this.#diagnostics.refused(pause.error.failureScope as WiderScope, flight.waiting);
    this.#refuse(flight, refusal(pause, flight.slot.owner, now));
    return true;
  }

  /** Drops a request that no caller waits for. Once sent, it is aborted instead, unless its token will be stored. */
  #dropIfUseless(flight: Flight): void {
    if (flight.waiting > 0) return;
    if (flight.state.phase !== 'sent') this.#end(flight);
    else if (!this.#owners.isCurrent(flight)) flight.state.abort.abort(new DOMException('no callers', 'AbortError'));
  }

  #refuse(flight: Flight, error: OwnerTokenError): void {
    this.#end(flight, error);
    this.#reject(flight, error);
  }

  /** @param error why it was refused, if it was. */
  #end(flight: Flight, error?: OwnerTokenError): void {
    if (this.#queue.withdraw(flight)) {
      // Its source still waits for a permit.
      if (flight.state.phase === 'sent') flight.state.abort.abort(error);
      this.#queueTimer.watch(this.#queue.overdueAtMs, this.#failures.nextNewcomerAtMs);
    }
    flight.state = { phase: 'settled' };
    this.#owners.detach(flight);
    this.#unsettled.delete(flight);
    if (this.#unsettled.size === 0) this.#whenIdle?.();
  }

  #reject(flight: Flight, error: OwnerTokenError): void {
    flight.reject(error);
    this.#waiters.settled(flight);
  }

  #wake(): void {
    const message = 'the token request got no permit in time: raise concurrency or maxQueueMs, or make fewer calls';
    const nowMs = this.#time.now().monotonicMs;
    // What is left after one slice is overdue too, so the next timer fires at once.
    for (let left = SLICE; left > 0; left--) {
      const flight = this.#queue.overdue(nowMs);
      if (!flight) break;
      this.#refuse(flight, this.#errorOf(flight, 'queue_timeout', message));
    }
    this.startNext();
  }

  #errorOf({ slot }: Flight, code: OwnerTokenErrorCode, message: string): OwnerTokenError {
    return new OwnerTokenError(code, message, { owner: slot.owner, failedAtMs: this.#time.now().wallMs });
  }
}
