/**
 * Attributes each failure to a scope and pauses that scope. Nothing here waits or reads a clock: a pause is a time
 * before which no request is made, and earlier calls are refused. Client and endpoint have a circuit breaker each; an
 * owner's backoff is drawn here and stored in its slot.
 *
 * Scope escalation: an ambiguous failure (a timeout, a reset, a 5xx, an unusable response; a 4xx without a code) may be
 * caused by the owner or by a wider scope. It is attributed to its owner at first. When three distinct owners in a row
 * fail so, with no success of any owner in between, the failure is attributed to the endpoint (or the client), and so
 * is every ambiguous failure until that circuit closes. A failure counts only
 *
 * - if it is conclusive. A further failure of the same owner says nothing new, and an owner that has never succeeded
 *   while others have may have a wrong key. Until any owner has succeeded, the first failure of each owner counts;
 * - if no request sent later has succeeded. Otherwise the failure says nothing about the current state.
 *
 * A failure that stops only its owner may still slow requests down, or its request may be sent again. `flow.ts` decides
 * both.
 */

import { type FailureScope, OwnerTokenError, type WiderScope } from '../errors.ts';
import { drawLength, drawPause, type Pause, type PauseRange } from './backoff.ts';
import { CircuitBreaker, type CircuitState, type OwnerStanding, type Permit } from './circuit-breaker.ts';
import { Flow, type FlowOptions, isNewcomer, type TokenResponse } from './flow.ts';

/**
 * How long a failure of each scope stops requests.
 *
 * @example
 * ```ts
 * const pauses: Partial<PauseRanges> = { endpoint: { baseMs: 1_000, capMs: 10_000 } };
 * const source = new TokenEndpoint({ baseUrl, clientId, clientSecret });
 * await using tokens = new OwnerTokenRegistry({ source, pauses });
 * ```
 */
export interface PauseRanges {
  /** Requests of one owner. Default: 1 s to 5 min. */
  readonly owner: PauseRange;
  /** All requests, while the service refuses the client. Default: 1 s to 60 s. */
  readonly client: PauseRange;
  /** All requests, while the endpoint fails. Default: 0.5 s to 30 s. */
  readonly endpoint: PauseRange;
}

export interface FailureScopesOptions extends FlowOptions {
  readonly ranges: PauseRanges;
  /** The longest that a request can take. */
  readonly requestTimeoutMs: number;
  readonly random: () => number;
}

/** A request that failed. */
export interface FailedRequest {
  readonly permit: Permit;
  readonly error: OwnerTokenError;
  /** Identifies the owner: its access key. */
  readonly owner: string;
  /** How many times in a row this owner had failed before. */
  readonly ownerFailures: number;
  readonly nowMs: number;
  /** When the request was sent. */
  readonly sentAtMs: number;
  /** How often it was sent again before. */
  readonly resends: number;
  /** Whether no other request is in flight. */
  readonly isOnlyRequest: boolean;
}

/**
 * What a failure led to: a pause of the scope that it was attributed to. A failure of a wider scope may also pause the
 * owner.
 */
export type FailureOutcome = {
  /** Whether the request hung before it failed. */
  readonly hung: boolean;
  /** The scopes whose circuit closed, because the response proves that they work. */
  readonly lifted: readonly WiderScope[];
} & (
  | { readonly scope: 'owner'; readonly ownerPause: Pause; readonly circuitPause: undefined }
  | { readonly scope: WiderScope; readonly ownerPause: Pause | undefined; readonly circuitPause: Pause }
);

/**
 * A request that took longer than this before it failed counts as hung: it occupied a permit long enough to delay
 * others.
 */
export const HUNG_AFTER_MS = 500;

/** How often a request that gets a 429 each time is sent again. */
const MAX_RESENDS = 10;

/** A request whose failure is transient is sent again after 50 to 150 ms. */
const RETRY_AFTER_MS = { least: 50, range: 100 } as const;

/** The base of an owner's pauses after transient failures, most of which are gone a moment later. */
const TRANSIENT_FAILURE_BASE_MS = 100;

/** The breakers of client and endpoint, and how failures of owners escalate to them. */
export class FailureScopes {
  readonly #breakers: Readonly<Record<WiderScope, CircuitBreaker>>;
  readonly #both: readonly CircuitBreaker[];
  /** How many requests may be in flight, and how fast they may follow each other. */
  readonly flow: Flow;
  readonly #ownerRange: PauseRange;
  readonly #random: () => number;
  #permits = 0;
  /** The number of the most recently sent request that has succeeded. */
  #newestSuccess = 0;

  constructor(options: FailureScopesOptions) {
    const { ranges } = options;
    this.#breakers = {
      client: new CircuitBreaker('client', ranges.client, options),
      endpoint: new CircuitBreaker('endpoint', ranges.endpoint, options),
    };
    this.#both = [this.#breakers.client, this.#breakers.endpoint];
    this.flow = new Flow(options);
    this.#ownerRange = ranges.owner;
    this.#random = options.random;
  }

  /** The pause that refuses a request of an owner with this standing now. The client's takes precedence. */
  pauseFor(nowMs: number, standing: OwnerStanding): Pause | undefined {
    const { client, endpoint } = this.#breakers;
    const failed = hasFailed(standing);
    return client.pauseFor(nowMs, failed) ?? endpoint.pauseFor(nowMs, failed);
  }

  /** Admits one request, as the trial of each open circuit; undefined while a pause is in force. */
  admit(nowMs: number, standing: OwnerStanding, inFlight: number): Permit | undefined {
    if (this.pauseFor(nowMs, standing)) return undefined;
    const permit = { number: ++this.#permits, standing, inFlight, inconclusive: this.#isInconclusive(standing) };
    for (const breaker of this.#both) breaker.admit(permit, nowMs);
    this.flow.sent(permit, nowMs);
    return permit;
  }

  /**
   * The request returned a token. Returns the scopes whose circuit that closed.
   *
   * @param response undefined if its latency is not the service's: another replica obtained the token.
   */
  succeeded(permit: Permit, nowMs: number, response: Omit<TokenResponse, 'number'> | undefined): WiderScope[] {
    const { number } = permit;
    this.#newestSuccess = Math.max(this.#newestSuccess, number);
    const lifted: WiderScope[] = [];
    for (const breaker of this.#both) if (breaker.succeeded(permit)) lifted.push(breaker.scope);
    if (lifted.length > 0) this.flow.restart(number);
    this.flow.succeeded(permit, nowMs, response && { number, ...response });
    return lifted;
  }

  /**
   * The scope that a failure of this request is attributed to. A source that shares failures calls this before
   * {@link failed}, which will use the same scope.
   */
  scopeOf({ permit, error, owner }: Pick<FailedRequest, 'permit' | 'error' | 'owner'>): FailureScope {
    const wider = OwnerTokenError.escalationOf(error);
    if (wider === undefined) return error.failureScope ?? 'owner';
    const breaker = this.#breakers[wider];
    const isEvidence = !this.#isInconclusive(permit.standing) && permit.number > this.#newestSuccess;
    return breaker.state || (isEvidence && breaker.countsAgainst(owner)) ? wider : 'owner';
  }

  /**
   * After how many milliseconds a failed request is sent again, before its callers learn of the failure; undefined if
   * it is not, as always while a circuit is not closed. The failure of a request that is sent again pauses nobody, so
   * {@link failed} is not called.
   */
  resendAfterMs(request: FailedRequest): number | undefined {
    const { permit, error, resends, isOnlyRequest, nowMs } = request;
    const { number, standing } = permit;
    const { retryAfterMs } = error;
    if (OwnerTokenError.pauseMsOf(error) !== undefined || this.#both.some(({ state }) => state)) return undefined;
    if (error.code === 'rate_limited' && error.failureScope !== 'owner') {
      const isTooMuch = this.flow.rateLimited({ ...permit, nowMs, isOnlyRequest, retryAfterMs });
      return isTooMuch && retryAfterMs === undefined && resends < MAX_RESENDS ? 0 : undefined;
    }
    if (retryAfterMs !== undefined) return undefined;
    if (error.status === 503 && !this.#isInconclusive(standing)) this.flow.overloaded(number);
    const isIsolated =
      !hasFailed(standing) &&
      resends === 0 &&
      isTransient(error) &&
      error.oauthError === undefined &&
      !isHung(request) &&
      this.scopeOf(request) === 'owner';
    return isIsolated && this.flow.takeRetry(permit)
      ? RETRY_AFTER_MS.least + RETRY_AFTER_MS.range * this.#random()
      : undefined;
  }

  /** The request failed for good. Attributes the failure to a scope and pauses that scope. */
  failed(request: FailedRequest): FailureOutcome {
    const { permit, error, ownerFailures, nowMs } = request;
    const hung = isHung(request);
    const scope = this.scopeOf(request);
    const lifted = this.#both
      .filter((breaker) => breaker.scope !== scope && settles(breaker, permit, error))
      .map((breaker) => breaker.scope);
    if (lifted.length > 0) this.flow.restart(permit.number);
    if (scope === 'owner') {
      const mayBeOutage = this.#newestSuccess > 0 && OwnerTokenError.escalationOf(error) === 'endpoint';
      if (mayBeOutage && isNewcomer(permit.standing)) this.flow.newcomerFailed(permit.number);
      if (error.code === 'owner_refused') this.flow.refused(permit);
      const { baseMs, capMs } = this.#ownerRange;
      const range =
        isTransient(error) && !hung ? { baseMs: Math.min(baseMs, TRANSIENT_FAILURE_BASE_MS), capMs } : this.#ownerRange;
      const ownerPause = drawPause(error, ownerFailures + 1, range, nowMs, this.#random);
      return { scope, hung, ownerPause, circuitPause: undefined, lifted };
    }
    const isEscalated = error.failureScope !== scope;
    const circuitPause = this.#breakers[scope].failed(permit, { error, nowMs, isEscalated, hung });
    this.flow.paused();
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

  /** Closes both circuits without a trial and restores the initial concurrency. Returns the scopes that were open. */
  resume(): WiderScope[] {
    this.flow.resume();
    return this.#both.filter((breaker) => breaker.reset()).map(({ scope }) => scope);
  }

  /** Undefined while the circuit is closed. */
  state(scope: WiderScope): CircuitState | undefined {
    return this.#breakers[scope].state;
  }

  /** Whether an owner with this standing may be the only cause of its failure. */
  #isInconclusive(standing: OwnerStanding): boolean {
    return standing !== 'proven' && (standing !== 'new' || this.#newestSuccess > 0);
  }

  /**
   * The pause of an owner whose failure escalated. It lasts as long as the circuit's and does not grow, because the
   * owner of a trial is not to blame for a long outage. If the request hung, the pause is up to one base interval
   * longer: the owner may be the cause, and its next trial would delay everybody.
   */
  #ownerPauseBeside(circuitPause: Pause, error: OwnerTokenError, ownerFailures: number, hung: boolean): Pause {
    const beyondMs = hung ? drawLength(0, this.#ownerRange, this.#random) : 0;
    const retryAtMonotonicMs = circuitPause.retryAtMonotonicMs + beyondMs;
    return { error, count: Math.max(1, ownerFailures), retryAtMonotonicMs };
  }
}

/**
 * Handles a failure that was attributed to another scope, because its response may still prove that this scope works.
 * Returns whether that closed the circuit. A refusal of the owner proves that the endpoint is up, and one with a code
 * that it accepts our credentials. One without a code never gets here for the client: while the client's circuit is not
 * closed, that failure is the client's.
 */
function settles(breaker: CircuitBreaker, permit: Permit, error: OwnerTokenError): boolean {
  if (error.code === 'owner_refused' && error.failureScope === 'owner') return breaker.cleared(permit);
  breaker.cancel(permit);
  return false;
}

/** Whether the last request of an owner with this standing failed. */
function hasFailed(standing: OwnerStanding): boolean {
  return standing === 'unproven' || standing === 'failing';
}

function isHung({ nowMs, sentAtMs }: FailedRequest): boolean {
  return nowMs - sentAtMs > HUNG_AFTER_MS;
}

/** Whether the failure gives no reason and may be gone a moment later: a 5xx or a broken connection. */
function isTransient(error: OwnerTokenError): boolean {
  return error.code === 'endpoint_unavailable' && OwnerTokenError.escalationOf(error) === 'endpoint';
}
