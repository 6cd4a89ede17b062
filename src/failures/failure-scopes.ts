/**
 * Which scope a failure is attributed to, and what that stops. Nothing here waits or reads a clock: a pause is a time
 * before which no request is made, and calls that come sooner are refused. Client and endpoint have a circuit breaker
 * each; an owner's backoff is drawn here and kept in its slot.
 *
 * Scope escalation: some failures may be anybody's doing (a timeout, a reset, a 5xx, an unusable answer; a 4xx without a
 * code). Each is attributed to its owner at first. When three distinct owners fail in a row, with no success of any
 * owner in between, the failure is the endpoint's (or the client's), and so is every such failure until that circuit
 * closes. A failure counts only
 *
 * - if its owner is not doubtful: one that failed before says nothing new, and one that never succeeded while others have
 *   may have a wrong key. While nobody has succeeded yet, owners without a failure count;
 * - if nothing sent after it has succeeded: then it says nothing about the present.
 *
 * Newcomers, which never succeeded, are asked for more slowly while they fail: see `newcomer-pace.ts`.
 */

import { type FailureScope, OwnerTokenError, type WiderScope } from '../errors.ts';
import { drawLength, drawPause, type Pause, type PauseRange } from './backoff.ts';
import { CircuitBreaker, type CircuitState, type OwnerStanding, type Permit } from './circuit-breaker.ts';
import { NewcomerPace } from './newcomer-pace.ts';
import { SlowStart } from './slow-start.ts';

export interface PauseRanges {
  readonly owner: PauseRange;
  readonly client: PauseRange;
  readonly endpoint: PauseRange;
}

export interface FailureScopesOptions {
  readonly ranges: PauseRanges;
  /** Requests in flight at once, when nothing slows them down. */
  readonly concurrency: number;
  /** When a request has been answered at the latest. */
  readonly requestTimeoutMs: number;
  readonly random: () => number;
}

/** Which requests may start. */
export interface StartLimits {
  /** How many requests may be in flight. */
  readonly inFlight: number;
  /** Whether owners that never succeeded are among them. */
  readonly newcomers: boolean;
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

/** What a failure led to. */
export interface FailureOutcome {
  readonly scope: 'owner' | WiderScope;
  /** Whether the request hung before it failed. */
  readonly hung: boolean;
  /** The owner's own pause, if it has one from this. */
  readonly ownerPause: Pause | undefined;
  /** The pause of the client or the endpoint, if the failure is theirs. */
  readonly circuitPause: Pause | undefined;
  /** The scopes whose circuit closed, since the answer shows that they work. */
  readonly lifted: readonly WiderScope[];
}

/** A request that took longer before it failed hung: it occupied a permit for long enough to hold others up. */
export const HUNG_AFTER_MS = 500;

/** The breakers of client and endpoint, and how failures of owners escalate to them. */
export class FailureScopes {
  readonly #breakers: Readonly<Record<WiderScope, CircuitBreaker>>;
  readonly #slowStart: SlowStart;
  readonly #newcomerPace = new NewcomerPace();
  readonly #ownerRange: PauseRange;
  readonly #random: () => number;
  #permits = 0;
  /** The number of the request sent last of all that have succeeded. */
  #newestSuccess = 0;

  constructor(options: FailureScopesOptions) {
    const { ranges } = options;
    this.#breakers = {
      client: new CircuitBreaker('client', ranges.client, options),
      endpoint: new CircuitBreaker('endpoint', ranges.endpoint, options),
    };
    this.#slowStart = new SlowStart(options.concurrency);
    this.#ownerRange = ranges.owner;
    this.#random = options.random;
  }

  /** Which requests may start now. */
  limitsAt(nowMs: number): StartLimits {
    return { inFlight: this.#slowStart.limit, newcomers: nowMs >= this.#newcomerPace.nextAtMs };
  }

  /** Monotonic: no request of an owner that never succeeded is sent before. */
  get nextNewcomerAtMs(): number {
    return this.#newcomerPace.nextAtMs;
  }

  /** The pause that refuses a request of such an owner now, the client's before the endpoint's. */
  pauseFor(nowMs: number, standing: OwnerStanding): Pause | undefined {
    const { client, endpoint } = this.#breakers;
    const doubtful = this.#isDoubtful(standing);
    return client.pauseFor(nowMs, doubtful) ?? endpoint.pauseFor(nowMs, doubtful);
  }

  /** Admits one request, as the trial of each open circuit; undefined while a pause is in force. */
  admit(nowMs: number, standing: OwnerStanding): Permit | undefined {
    if (this.pauseFor(nowMs, standing)) return undefined;
    const permit = { number: ++this.#permits, standing, doubtful: this.#isDoubtful(standing) };
    for (const breaker of this.#both) breaker.admit(permit, nowMs);
    if (isNewcomer(standing)) this.#newcomerPace.sent(nowMs);
    return permit;
  }

  /** The request brought a token. Returns the scopes whose circuit that closed. */
  succeeded(permit: Permit): WiderScope[] {
    this.#newestSuccess = Math.max(this.#newestSuccess, permit.number);
    if (isNewcomer(permit.standing)) this.#newcomerPace.reset();
    const lifted = this.#both.filter((breaker) => breaker.succeeded(permit));
    if (lifted.length > 0) this.#slowStart.begin(permit);
    else this.#slowStart.succeeded(permit);
    return lifted.map(({ scope }) => scope);
  }

  /**
   * The scope that a failure of this request is attributed to. Asked before {@link failed} by a source that shares
   * failures; it gets the answer that `failed` will act on.
   */
  scopeOf({ permit, error, owner }: Pick<FailedRequest, 'permit' | 'error' | 'owner'>): FailureScope {
    const wider = OwnerTokenError.escalationOf(error);
    if (wider === undefined) return error.failureScope ?? 'owner';
    const breaker = this.#breakers[wider];
    const isEvidence = !this.#isDoubtful(permit.standing) && permit.number > this.#newestSuccess;
    return breaker.state || (isEvidence && breaker.countsAgainst(owner)) ? wider : 'owner';
  }

  /** The request failed: attributes the failure to a scope, and pauses that. */
  failed(request: FailedRequest): FailureOutcome {
    const { permit, error, ownerFailures, nowMs, sentAtMs } = request;
    const hung = nowMs - sentAtMs > HUNG_AFTER_MS;
    const scope = this.scopeOf(request);
    const lifted = this.#both
      .filter((breaker) => breaker.scope !== scope && settles(breaker, permit, error))
      .map((breaker) => breaker.scope);
    if (lifted.length > 0) this.#slowStart.begin(permit);
    if (scope === 'owner') {
      const mayBeOutage = this.#newestSuccess > 0 && OwnerTokenError.escalationOf(error) === 'endpoint';
      if (mayBeOutage && isNewcomer(permit.standing)) this.#newcomerPace.failed();
      const ownerPause = drawPause(error, ownerFailures + 1, this.#ownerRange, nowMs, this.#random);
      return { scope, hung, ownerPause, circuitPause: undefined, lifted };
    }
    const isEscalated = error.failureScope !== scope;
    const circuitPause = this.#breakers[scope].failed(permit, { error, nowMs, isEscalated, hung });
    this.#slowStart.end();
    const ownerPause = isEscalated
      ? this.#ownerPauseBeside(
          circuitPause,
          OwnerTokenError.restated(error, { failureScope: scope }),
          ownerFailures,
          hung,
        )
      : undefined;
    return { scope, hung, ownerPause, circuitPause, lifted };
  }

  /** The request was not made after all. */
  cancel(permit: Permit): void {
    for (const breaker of this.#both) breaker.cancel(permit);
  }

  /** Closes both circuits, without a trial or a slow start. Returns those that were open. */
  resume(): WiderScope[] {
    this.#newcomerPace.reset();
    this.#slowStart.end();
    return this.#both.filter((breaker) => breaker.reset()).map(({ scope }) => scope);
  }

  /** Undefined while the circuit is closed. */
  state(scope: WiderScope): CircuitState | undefined {
    return this.#breakers[scope].state;
  }

  /** Whether a failure of such an owner may well be its own doing. */
  #isDoubtful(standing: OwnerStanding): boolean {
    return standing !== 'proven' && (standing !== 'new' || this.#newestSuccess > 0);
  }

  /**
   * The pause of an owner whose failure escalated. It lasts as long as the circuit's and does not grow: the owner of
   * the trial in a long outage is not at fault. One whose request hung may be the cause itself, and as the next trial
   * would hold everybody up, so it waits a first step longer.
   */
  #ownerPauseBeside(circuitPause: Pause, error: OwnerTokenError, ownerFailures: number, hung: boolean): Pause {
    const beyondMs = hung ? drawLength(0, this.#ownerRange, this.#random) : 0;
    const retryAtMonotonicMs = circuitPause.retryAtMonotonicMs + beyondMs;
    return { error, count: Math.max(1, ownerFailures), retryAtMonotonicMs };
  }

  get #both(): CircuitBreaker[] {
    return [this.#breakers.client, this.#breakers.endpoint];
  }
}

/**
 * A request that failed in another scope: takes note of what that says of this one. Returns whether it closed the
 * circuit. An answer that refuses the owner by a code proves that the endpoint is up and accepts our credentials; a 4xx
 * without a code proves only that it is up.
 */
function settles(breaker: CircuitBreaker, permit: Permit, error: OwnerTokenError): boolean {
  const isRefusal = error.code === 'owner_refused' && error.failureScope === 'owner';
  const isNamed = OwnerTokenError.escalationOf(error) === undefined;
  if (isRefusal && (isNamed || breaker.scope === 'endpoint')) return breaker.cleared(permit);
  breaker.cancel(permit);
  return false;
}

/** Whether no request of such an owner ever succeeded. */
export function isNewcomer(standing: OwnerStanding): boolean {
  return standing === 'new' || standing === 'unproven';
}
