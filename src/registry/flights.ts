/**
 * The token requests under way, one an owner: from the wish for a token, through its turn and the source, to what the
 * slot keeps and what those who wait are given. The registry decides that a request is needed; this makes it.
 */

import { type Clock, type Instant, settledWithin } from '../clock.ts';
import type { Diagnostics, RequestMessage } from '../diagnostics.ts';
import { OwnerTokenError } from '../errors.ts';
import type { OwnerStanding, Permit } from '../failures/circuit-breaker.ts';
import type { FailureOutcome, FailureScopes } from '../failures/failure-scopes.ts';
import { failureOf, refusal, withOutcome } from '../failures/refusals.ts';
import type { IssuedToken, RequestReason, TokenRequest, TokenSource } from '../token.ts';
import { Flight } from './flight.ts';
import { type DatedToken, dateIssued, type HoldingRules, heldTokenFrom, lifetimeOf } from './held-token.ts';
import { type QueuedRequest, RequestQueue, type RequestQueueOptions } from './request-queue.ts';
import { failed, type HeldToken, type Slot, standingOf, started, succeeded } from './slot.ts';

/** What requests are made with. */
export interface RequestParts {
  readonly source: TokenSource;
  readonly rules: HoldingRules;
  readonly pauses: FailureScopes;
  readonly diagnostics: Diagnostics;
  readonly now: () => Instant;
  readonly clock: Clock | undefined;
  readonly turns: Omit<RequestQueueOptions, 'limit'>;
  /** Stores the slot of an owner for whom a request has settled. */
  readonly keep: (accessKey: string, slot: Slot) => void;
}

/** Counted since the registry was made. */
export interface RequestCounts {
  requests: number;
  refreshes: number;
  failures: number;
}

/** One owner's request, from its wish to its outcome. */
interface OwnerFlight extends QueuedRequest {
  readonly accessKey: string;
  readonly slot: Slot;
  readonly flight: Flight;
  readonly standing: OwnerStanding;
  /** The generation in which it was sent; undefined while it is queued, when it may still serve a newer one. */
  generation: number | undefined;
  permit: Permit | undefined;
  /** Monotonic: when the source was asked last. */
  sentAtMs: number;
  /** What is told of the asking that is under way. */
  message: RequestMessage;
}

export class Requests {
  readonly counts: RequestCounts = { requests: 0, refreshes: 0, failures: 0 };
  readonly #parts: RequestParts;
  readonly #turns: RequestQueue;
  /** What later callers may join, by access key. */
  readonly #joinable = new Map<string, OwnerFlight>();
  /** All that has not settled, those of earlier generations included. */
  readonly #unsettled = new Set<OwnerFlight>();
  readonly #abort = new AbortController();
  #whenIdle: (() => void) | undefined;

  constructor(parts: RequestParts) {
    this.#parts = parts;
    this.#turns = new RequestQueue({ ...parts.turns, limit: () => parts.pauses.limit });
  }

  get inFlight(): number {
    return this.#unsettled.size - this.#turns.queued;
  }

  get queued(): number {
    return this.#turns.queued;
  }

  get waiting(): number {
    let sum = 0;
    for (const { flight } of this.#unsettled) sum += flight.waiting;
    return sum;
  }

  /** The slot of an owner for whom a request is under way that later callers may join. */
  slotOf(accessKey: string): Slot | undefined {
    return this.#joinable.get(accessKey)?.slot;
  }

  /** Whether a caller would join a request rather than begin one. */
  isUnderWay(accessKey: string): boolean {
    const found = this.#joinable.get(accessKey);
    return found !== undefined && (found.generation ?? found.slot.generation) === found.slot.generation;
  }

  /** Joins the request under way. */
  join(accessKey: string, signal: AbortSignal | undefined): ReturnType<Flight['wait']> {
    const joined = this.#joinable.get(accessKey) as OwnerFlight;
    this.#turns.raise(joined);
    return joined.flight.wait(signal);
  }

  /** Begins a request that the caller waits for. */
  begin(accessKey: string, slot: Slot, signal: AbortSignal | undefined): ReturnType<Flight['wait']> {
    const begun = this.#create(accessKey, slot, true);
    const outcome = begun.flight.wait(signal);
    if (!this.#turns.enqueue(begun)) {
      const message = 'too many owners wait for a token request: raise maxQueued or concurrency, or call less';
      this.#settle(begun, new OwnerTokenError('queue_full', message, this.#place(begun)));
    }
    return outcome;
  }

  /** Begins a request that nobody waits for; does nothing where there is no place for one. */
  refresh(accessKey: string, slot: Slot): void {
    const begun = this.#create(accessKey, slot, false);
    if (!this.#turns.enqueue(begun)) this.#drop(begun);
  }

  /** More requests may be under way than before: a ramp was cut short. */
  resume(): void {
    this.#turns.dispatch();
  }

  /** The owner is forgotten: its request goes on for those who wait, but is joined and kept no more. */
  disown(accessKey: string): boolean {
    const found = this.#joinable.get(accessKey);
    if (!found) return false;
    found.generation ??= found.slot.generation;
    this.#joinable.delete(accessKey);
    return true;
  }

  /** The access keys for which a request can be joined. */
  owners(): string[] {
    return [...this.#joinable.keys()];
  }

  /** Ends everything: callers get `closed`, sources their signal. Settles when all has, or the time is up. */
  async close(timeoutMs: number): Promise<number> {
    this.#turns.remove(() => true);
    for (const each of this.#unsettled) each.flight.reject(closedError(each.slot.owner, this.#parts.now()));
    for (const each of [...this.#unsettled]) if (!each.permit) this.#drop(each);
    this.#abort.abort(closedError(undefined, this.#parts.now()));
    if (this.#unsettled.size > 0) {
      const idle = new Promise<void>((resolve) => {
        this.#whenIdle = resolve;
      });
      await settledWithin(this.#parts.clock, timeoutMs, idle);
    }
    return this.#unsettled.size;
  }

  #create(accessKey: string, slot: Slot, waitedFor: boolean): OwnerFlight {
    const created: OwnerFlight = {
      accessKey,
      slot,
      waitedFor,
      standing: standingOf(slot),
      failing: slot.failure !== undefined,
      hanging: slot.failure?.hung === true,
      sentAtMs: 0,
      generation: undefined,
      permit: undefined,
      message: { owner: slot.owner, reason: 'absent' },
      flight: new Flight(() => this.#abandoned(created)),
      admit: () => this.#admit(created),
      run: () => this.#run(created),
      expire: () => this.#expire(created),
    };
    this.#joinable.set(accessKey, created);
    this.#unsettled.add(created);
    return created;
  }

  /** Nobody waits any more: what is not sent yet is dropped; what was sent is finished, and kept. */
  #abandoned(flight: OwnerFlight): void {
    if (this.#turns.withdraw(flight) || flight.generation === undefined) this.#drop(flight);
  }

  #expire(flight: OwnerFlight): void {
    const message = 'no turn for a token request came in time: raise concurrency or maxQueueMs, or call less';
    this.#settle(flight, new OwnerTokenError('queue_timeout', message, this.#place(flight)));
  }

  /** A pause may have begun while it was queued. */
  #admit(flight: OwnerFlight): boolean {
    const now = this.#parts.now();
    flight.permit = this.#parts.pauses.admit(now.monotonicMs, flight.standing);
    if (!flight.permit) this.#refused(flight, now);
    return flight.permit !== undefined;
  }

  /** Refuses a queued request if a pause is in force for it. */
  #refused(flight: OwnerFlight, now: Instant): boolean {
    const pause = this.#parts.pauses.pauseFor(now.monotonicMs, flight.standing);
    if (pause) this.#settle(flight, refusal(pause, flight.slot.owner, now));
    return pause !== undefined;
  }

  async #run(flight: OwnerFlight): Promise<void> {
    const { slot } = flight;
    // Everybody left in the moment after its turn had come.
    if (!this.#unsettled.has(flight)) return this.#parts.pauses.cancel(flight.permit as Permit);
    flight.generation ??= slot.generation;
    try {
      this.#landed(flight, await this.#obtain(flight, started(slot, this.#parts.now())));
    } catch (thrown) {
      this.#failed(flight, thrown);
    } finally {
      this.#drop(flight);
    }
  }

  /** Asks the source; once more if it gives a token that is known to be refused. */
  async #obtain(flight: OwnerFlight, reason: RequestReason): Promise<HeldToken> {
    const first = await this.#ask(flight, reason);
    if (!this.#isRefused(flight, first)) return this.#hold(flight, first);
    const insisted = 'the service insists on a token that was reported as refused';
    const error = new OwnerTokenError('token_rejected', insisted, { failureScope: 'owner', ...this.#place(flight) });
    this.#parts.diagnostics.requestFailed(flight.message, error);
    const second = await this.#ask(flight, 'rejected');
    if (this.#isRefused(flight, second)) throw error;
    return this.#hold(flight, second);
  }

  #isRefused(flight: OwnerFlight, grant: IssuedToken): boolean {
    return flight.slot.rejected.includes(this.#parts.rules.fingerprints.ofToken(grant.token));
  }

  async #ask(flight: OwnerFlight, reason: RequestReason): Promise<DatedToken> {
    const { source, rules, diagnostics, now } = this.#parts;
    const { slot, accessKey } = flight;
    const sent = now();
    if (this.#abort.signal.aborted) throw closedError(slot.owner, sent);
    flight.sentAtMs = sent.monotonicMs;
    this.counts.requests++;
    if (reason === 'refresh') this.counts.refreshes++;
    flight.message = { owner: slot.owner, reason };
    const request: TokenRequest = {
      signal: this.#abort.signal,
      reason,
      ...(slot.held && { held: slot.held.token }),
      ...(slot.lastRejected && { rejected: slot.lastRejected }),
      lifetimeMs: (grant) => lifetimeOf(rules.policy, dateIssued(grant, sent, now())).lifetimeMs,
    };
    // In an async function, so that a source that throws at once does so like one that rejects.
    const grant = await diagnostics.requestSent(flight.message, async () => source.requestToken(accessKey, request));
    return dateIssued(grant, sent, now());
  }

  #hold(flight: OwnerFlight, grant: DatedToken): HeldToken {
    const { rules, diagnostics, now } = this.#parts;
    const { lifetimeMs, problem } = lifetimeOf(rules.policy, grant);
    if (problem) diagnostics.lifetimeUnknown(flight.slot.owner, problem, lifetimeMs);
    return heldTokenFrom(rules, grant, lifetimeMs, flight.slot.held, now());
  }

  #landed(flight: OwnerFlight, held: HeldToken): void {
    const { pauses, diagnostics, keep } = this.#parts;
    const lifted = pauses.succeeded(flight.permit as Permit);
    if (succeeded(flight.slot, flight.generation as number, held)) keep(flight.accessKey, flight.slot);
    flight.flight.resolve(held.token);
    flight.message.token = held.token.fingerprint;
    flight.message.expiresAtMs = held.token.expiresAtMs;
    diagnostics.requestSucceeded(flight.message);
    for (const scope of lifted) diagnostics.lifted(scope);
  }

  #failed(flight: OwnerFlight, thrown: unknown): void {
    // The callers know already that it was closed.
    if (this.#abort.signal.aborted) return;
    const { pauses, keep } = this.#parts;
    const { slot, accessKey } = flight;
    const now = this.#parts.now();
    const error = failureOf(thrown, slot.owner, accessKey, now);
    this.counts.failures++;
    const ownerFailures = slot.failure?.count ?? 0;
    const { permit, sentAtMs } = flight as { permit: Permit; sentAtMs: number };
    const nowMs = now.monotonicMs;
    const verdict = pauses.failed({ permit, error, owner: accessKey, ownerFailures, nowMs, sentAtMs });
    const failure = verdict.ownerPause && { ...verdict.ownerPause, hung: verdict.hung };
    if (failure && failed(slot, flight.generation as number, failure)) keep(accessKey, slot);
    const outcome = withOutcome(error, verdict, now);
    flight.flight.reject(outcome);
    if (verdict.circuitPause) this.#turns.remove((turn) => this.#refused(turn as OwnerFlight, now));
    this.#tellFailure(flight, outcome, verdict);
  }

  #tellFailure(flight: OwnerFlight, outcome: OwnerTokenError, { scope, lifted }: FailureOutcome): void {
    const { diagnostics } = this.#parts;
    const { code } = outcome;
    const { owner } = flight.slot;
    // Every failure pauses something.
    const retryAtMs = outcome.retryAtMs as number;
    diagnostics.requestFailed(flight.message, outcome);
    diagnostics.paused({ scope, code, retryAtMs, ...(scope === 'owner' && { owner }) });
    for (const each of lifted) diagnostics.lifted(each);
  }

  #settle(flight: OwnerFlight, error: OwnerTokenError): void {
    this.#drop(flight);
    flight.flight.reject(error);
  }

  #drop(flight: OwnerFlight): void {
    if (this.#joinable.get(flight.accessKey) === flight) this.#joinable.delete(flight.accessKey);
    this.#unsettled.delete(flight);
    if (this.#unsettled.size === 0) this.#whenIdle?.();
  }

  #place(flight: OwnerFlight): { owner: string; failedAtMs: number } {
    return { owner: flight.slot.owner, failedAtMs: this.#parts.now().wallMs };
  }
}

/** What calls get once the registry is closed. */
export function closedError(owner: string | undefined, now: Instant): OwnerTokenError {
  return new OwnerTokenError('closed', 'the registry is closed', { owner, failedAtMs: now.wallMs });
}
