/**
 * What a failure stops, and what lifts it. Nothing here waits or reads a clock: a pause is a moment before which nothing
 * is asked, and calls that come sooner are refused. There are two gates before all requests (`gate.ts`); each owner's
 * own pause is kept in its slot and only drawn here.
 *
 * Widening: a failure that may be anybody's doing (a timeout, a reset, a 5xx, an answer that cannot be used; a 4xx
 * without a code) is at first its owner's alone. When three distinct owners fail so with no success of any in between,
 * it is the endpoint's (or the client's), and while that gate is not open every such failure is. An owner that had
 * failed before and not succeeded since is not counted again: it is known, and its failing says nothing new of others.
 */

import { OwnerTokenError, type WiderScope } from '../errors.ts';
import { drawLength, drawPause, type Pause, type PauseRange } from './backoff.ts';
import { CircuitBreaker, type CircuitState, type OwnerStanding, type Permit } from './circuit-breaker.ts';

export interface PauseRanges {
  readonly owner: PauseRange;
  readonly client: PauseRange;
  readonly endpoint: PauseRange;
}

/** A request that failed. */
export interface FailedRequest {
  readonly permit: Permit;
  readonly error: OwnerTokenError;
  /** Tells owners apart: the access key. */
  readonly owner: string;
  /** How often this owner had failed in a row before. */
  readonly ownerFailures: number;
  readonly nowMs: number;
  /** When the request was sent. */
  readonly sentAtMs: number;
}

/** What became of a failure. */
export interface FailureOutcome {
  readonly scope: 'owner' | WiderScope;
  /** Whether the request hung before it failed. */
  readonly hung: boolean;
  /** The owner's own pause, if it has one from this. */
  readonly ownerPause: Pause | undefined;
  /** The gate's pause, if one began or was prolonged. */
  readonly circuitPause: Pause | undefined;
  /** The gates whose pause was lifted, since the answer showed that it had no cause any more. */
  readonly lifted: readonly WiderScope[];
}

/** The two gates, and how failures of owners become theirs. */
export class FailureScopes {
  readonly #client: CircuitBreaker;
  readonly #endpoint: CircuitBreaker;
  readonly #ownerRange: PauseRange;
  readonly #hangsAfterMs: number;
  readonly #random: () => number;
  #passesGiven = 0;

  /** @param options `concurrency` is where a ramp ends. */
  constructor(options: { ranges: PauseRanges; concurrency: number; random: () => number }) {
    this.#client = new CircuitBreaker('client', options.ranges.client, options.concurrency);
    this.#endpoint = new CircuitBreaker('endpoint', options.ranges.endpoint, options.concurrency);
    this.#ownerRange = options.ranges.owner;
    this.#hangsAfterMs = options.ranges.endpoint.baseMs;
    this.#random = options.random;
  }

  /**
   * The pause that refuses a request of such an owner now, the client's before the endpoint's; undefined if one may be
   * made.
   */
  pauseFor(nowMs: number, standing: OwnerStanding): Pause | undefined {
    const failing = standing === 'failing';
    return this.#client.pauseFor(nowMs, failing) ?? this.#endpoint.pauseFor(nowMs, failing);
  }

  /** How many requests may be under way now. */
  get limit(): number {
    return Math.min(this.#client.limit, this.#endpoint.limit);
  }

  /** Admits one request, as the probe of each gate that is due; undefined while a pause is in force. */
  admit(nowMs: number, standing: OwnerStanding): Permit | undefined {
    if (this.pauseFor(nowMs, standing)) return undefined;
    const permit = { number: ++this.#passesGiven, standing };
    this.#client.admit(permit, nowMs);
    this.#endpoint.admit(permit, nowMs);
    return permit;
  }

  /** The request of this permit brought a token. Returns the gates whose pause it lifted. */
  succeeded(permit: Permit): WiderScope[] {
    return [this.#client, this.#endpoint].filter((gate) => gate.succeeded(permit)).map((gate) => gate.scope);
  }

  /** The request of this permit failed: attributes the failure to a scope, and pauses that. */
  failed({ permit, error, owner, ownerFailures, nowMs, sentAtMs }: FailedRequest): FailureOutcome {
    const hung = nowMs - sentAtMs > this.#hangsAfterMs;
    const scope = this.#scopeOf(permit, error, owner, ownerFailures);
    const lifted = [this.#client, this.#endpoint]
      .filter((gate) => gate.over(permit) && clears(gate.scope, error) && gate.lift(1))
      .map((gate) => gate.scope);
    if (scope === 'owner') {
      const ownerPause = drawPause(error, ownerFailures + 1, this.#ownerRange, nowMs, this.#random);
      return { scope, hung, ownerPause, circuitPause: undefined, lifted };
    }
    const isEscalated = error.failureScope !== scope;
    const moment = { nowMs, passesGiven: this.#passesGiven, random: this.#random, isEscalated, hung };
    const circuitPause = this.#gate(scope).close(permit, error, moment);
    const ownerPause = isEscalated
      ? this.#besides(circuitPause, error, ownerFailures, hung ? nowMs : undefined)
      : undefined;
    return { scope, hung, ownerPause, circuitPause, lifted };
  }

  /** The request of this permit was not made after all. */
  cancel(permit: Permit): void {
    this.#client.over(permit);
    this.#endpoint.over(permit);
  }

  /** Lifts both pauses, without a probe or a ramp. Returns the gates that were paused. */
  resume(): WiderScope[] {
    return [this.#client, this.#endpoint].filter((gate) => gate.lift()).map((gate) => gate.scope);
  }

  state(scope: WiderScope): CircuitState | undefined {
    return this.#gate(scope).state;
  }

  #scopeOf(permit: Permit, error: OwnerTokenError, owner: string, ownerFailures: number): 'owner' | WiderScope {
    const wider = OwnerTokenError.escalationOf(error);
    if (wider === undefined) return error.failureScope ?? 'owner';
    return this.#gate(wider).claims(permit, owner, ownerFailures) ? wider : 'owner';
  }

  /**
   * The pause of an owner whose failure was put down to a gate. It lasts as long as the gate's and does not grow: being
   * the probe of a long outage is not the owner's fault. One that hung may be the cause itself, and would hold up
   * everybody as the next probe; so it comes a first step later, and others have the first chance.
   */
  #besides(circuitPause: Pause, error: OwnerTokenError, ownerFailures: number, hungUntilMs: number | undefined): Pause {
    const { retryAtMonotonicMs } = circuitPause;
    const count = Math.max(1, ownerFailures);
    if (hungUntilMs === undefined) return { error, count, retryAtMonotonicMs };
    const lengthMs = drawLength(1, this.#ownerRange, this.#random);
    return { error, count, retryAtMonotonicMs: Math.max(hungUntilMs, retryAtMonotonicMs) + lengthMs };
  }

  #gate(scope: WiderScope): CircuitBreaker {
    return scope === 'client' ? this.#client : this.#endpoint;
  }
}

/** Whether a probe that failed so has shown that this gate's pause has no cause any more. */
function clears(scope: WiderScope, error: OwnerTokenError): boolean {
  if (error.code !== 'owner_refused' || error.failureScope !== 'owner') return false;
  return scope === 'endpoint' || OwnerTokenError.escalationOf(error) === undefined;
}
