/**
 * The circuit breaker of one scope: the client's (our credentials are refused) or the endpoint's (it is down, or limits
 * us). Closed, it admits every request. Open, it refuses all until a time that was drawn when it opened; then the next
 * request becomes the trial. Half-open, it waits for the outcome of the trial.
 *
 * | event                                   | closed | open                       | half-open                  |
 * | --------------------------------------- | ------ | -------------------------- | -------------------------- |
 * | `admit`                                 | passes | half-open: it is the trial | half-open: a new trial     |
 * | `succeeded` or `cleared`                | –      | closed, if it counts       | closed, if it counts       |
 * | `failed`: a failure of this scope       | open   | open, possibly for longer  | if it counts: open, longer |
 * | `cancel`, or a failure of another scope | –      | –                          | the trial's: open, no wait |
 * | `reset`                                 | –      | closed                     | closed                     |
 *
 * While the circuit is open or half-open, the outcome of the trial counts. So does any certain outcome (a success, or a
 * failure that only this scope can cause) of a trial that was replaced, and of a request that was sent after one whose
 * ambiguous failure opened the circuit: its success refutes what three failures suggested. All other requests were sent
 * before the circuit opened and say nothing about the current state. They only extend the pause, if they carry a later
 * `Retry-After`.
 *
 * A failure is inconclusive if its owner failed before, or has never succeeded while others have: the owner may be its
 * only cause. Such an owner must not keep the circuit open for the others:
 *
 * - If its trial takes longer than `TRIAL_TAKEOVER_AFTER_MS`, the next request of an owner that has not failed becomes
 *   the trial.
 * - If its trial fails ambiguously, the pause doubles for owners that failed. Others wait half a second more, or not at
 *   all if the trial hung, because they have waited long enough. The same applies to any owner's trial while no owner
 *   has succeeded: a few wrong keys then look like a wrong client secret, until the trial of a healthy owner settles
 *   it. So that it comes soon, the client's circuit then tries new owners without a pause, and does not wait for the
 *   outcome of one before it tries the next.
 * - If the trial of a proven owner fails ambiguously, the pause of the others grows by a fifth instead of doubling.
 *   Otherwise, if many owners failed once each, the healthy ones would wait too long for their turn.
 */

import { OwnerTokenError, type WiderScope } from '../errors.ts';
import { drawLength, drawPause, type Pause, type PauseRange, retryAfterMsOf } from './backoff.ts';

/**
 * What is known about an owner. `new`: no request has ended yet. `unproven`: all have failed. `proven`: the last one
 * succeeded. `failing`: the last one failed, an earlier one succeeded.
 */
export type OwnerStanding = 'new' | 'unproven' | 'proven' | 'failing';

/** The right to make one request. It is returned exactly once, to `succeeded`, `failed` or `cancel`. */
export interface Permit {
  /** Counts up in the order in which requests are sent. */
  readonly number: number;
  readonly standing: OwnerStanding;
  /** How many requests were in flight when it was sent, itself included. */
  readonly inFlight: number;
  /** Whether its failure would be inconclusive; see above. */
  readonly inconclusive: boolean;
}

/** An open or half-open circuit, as `stats()` shows it. */
export interface CircuitState {
  readonly pause: Pause;
  /** The trial request is in flight. */
  readonly probing: boolean;
}

/** A failure of this scope. */
export interface CircuitFailure {
  readonly error: OwnerTokenError;
  readonly nowMs: number;
  /** Whether the failure escalated from its owner, which may still be the cause. */
  readonly isEscalated: boolean;
  /** Whether the request hung before it failed. */
  readonly hung: boolean;
}

/** The pauses of an open circuit. That of owners that failed never ends before that of the others. */
interface Pauses {
  readonly pause: Pause;
  /** How many times the base of `pause` was doubled. */
  readonly doublings: number;
  readonly pauseOfFailed: Pause;
  /** The number of the first request whose success closes the circuit; `Infinity` until the next trial is sent. */
  readonly countsFrom: number;
}

interface Closed {
  readonly kind: 'closed';
  readonly trial?: undefined;
  readonly countsFrom: number;
}

interface Open extends Pauses {
  readonly kind: 'open';
  readonly trial?: undefined;
}

interface HalfOpen extends Pauses {
  readonly kind: 'half-open';
  readonly trial: Permit;
  readonly trialSentAtMs: number;
}

type State = Closed | Open | HalfOpen;

const CLOSED: Closed = { kind: 'closed', countsFrom: Number.POSITIVE_INFINITY };

/** How many distinct owners in a row must fail ambiguously until the failure escalates to this scope. */
export const SUSPECTS_TO_ESCALATE = 3;

/** How many doublings the pause grows by when the trial of a proven owner fails ambiguously. */
const AMBIGUOUS_GROWTH = 1 / 4;

/** The longest pause of the others after the trial of an owner that is not proven. */
const PAUSE_AFTER_UNPROVEN_MS = 500;

/** How long a trial whose failure would be inconclusive may take before another owner's request replaces it. */
export const TRIAL_TAKEOVER_AFTER_MS = 500;

/** The shortest time between two trials of new owners by the client's circuit, while no owner has succeeded. */
const FIRST_START_INTERVAL_MS = 50;

/** The shortest wait that callers are given while the trial is in flight. */
const MIN_WAIT_FOR_TRIAL_MS = 100;

export class CircuitBreaker {
  readonly scope: WiderScope;
  readonly #range: PauseRange;
  readonly #requestTimeoutMs: number;
  readonly #random: () => number;
  #state: State = CLOSED;
  /** Owners whose failures may be this scope's. */
  readonly #suspects: string[] = [];

  /** @param options `requestTimeoutMs` is the longest that a trial can take. */
  constructor(scope: WiderScope, range: PauseRange, options: { requestTimeoutMs: number; random: () => number }) {
    this.scope = scope;
    this.#range = range;
    this.#requestTimeoutMs = options.requestTimeoutMs;
    this.#random = options.random;
  }

  /** Undefined while the circuit is closed. */
  get state(): CircuitState | undefined {
    const state = this.#state;
    return state.kind === 'closed' ? undefined : { pause: state.pause, probing: state.kind === 'half-open' };
  }

  /**
   * The pause that refuses a request now.
   *
   * @param failed whether the last request of this owner failed.
   */
  pauseFor(nowMs: number, failed: boolean): Pause | undefined {
    const state = this.#state;
    if (state.kind === 'closed') return undefined;
    const pause = failed ? state.pauseOfFailed : state.pause;
    if (nowMs < pause.retryAtMonotonicMs) return pause;
    if (state.kind === 'open') return undefined;
    const retryAtMonotonicMs = this.#retryAtBesideTrial(state, nowMs, failed);
    return nowMs < retryAtMonotonicMs ? { ...pause, retryAtMonotonicMs } : undefined;
  }

  /** A request that no pause refuses is about to be sent. */
  admit(permit: Permit, nowMs: number): void {
    const state = this.#state;
    if (state.kind === 'closed') return;
    const countsFrom = Math.min(state.countsFrom, permit.number);
    this.#state = { ...state, kind: 'half-open', trial: permit, trialSentAtMs: nowMs, countsFrom };
  }

  /** Counts a failure of this owner against the scope. Returns whether enough distinct owners have failed in a row. */
  countsAgainst(owner: string): boolean {
    if (!this.#suspects.includes(owner)) this.#suspects.push(owner);
    return this.#suspects.length >= SUSPECTS_TO_ESCALATE;
  }

  /** A request succeeded. Returns whether that closed the circuit. */
  succeeded(permit: Permit): boolean {
    this.#suspects.length = 0;
    return this.cleared(permit);
  }

  /** The response proves that this scope works, even if the owner failed. Returns whether that closed the circuit. */
  cleared(permit: Permit): boolean {
    return counts(this.#state, permit) && this.reset();
  }

  /** The request was not made, or its failure says nothing about this scope. */
  cancel(permit: Permit): void {
    if (isTrial(this.#state, permit)) this.#open(this.#state);
  }

  /** The failure of a request was attributed to this scope. Returns the pause that applies to its owner. */
  failed(permit: Permit, failure: CircuitFailure): Pause {
    const state = this.#state;
    const error = OwnerTokenError.restated(failure.error, { failureScope: this.scope });
    const draw = (count: number, doublings = count - 1) =>
      drawPause(error, count, this.#range, failure.nowMs, this.#random, doublings);
    const hasRetryAfter = retryAfterMsOf(error, this.#range.capMs) !== undefined;
    const isAmbiguous = failure.isEscalated && !hasRetryAfter;
    if (state.kind === 'closed') {
      const pause = draw(1);
      const countsFrom = isAmbiguous ? permit.number + 1 : Number.POSITIVE_INFINITY;
      return this.#open({ pause, doublings: 0, pauseOfFailed: pause, countsFrom });
    }
    const isOutcome = isTrial(state, permit) || (!isAmbiguous && counts(state, permit));
    if (state.kind === 'open' || !isOutcome) {
      const extended = draw(state.pause.count);
      if (!hasRetryAfter || extended.retryAtMonotonicMs <= state.pause.retryAtMonotonicMs) return state.pause;
      this.#state = { ...state, pause: extended, pauseOfFailed: notBefore(extended, state.pauseOfFailed) };
      return extended;
    }
    const { pause, doublings, pauseOfFailed, countsFrom } = state;
    const longer = draw(pauseOfFailed.count + 1);
    if (isAmbiguous && permit.standing !== 'proven') {
      const retryAtMonotonicMs = this.#endOfShortPause(state, failure.nowMs);
      const again = failure.hung ? pause : { ...pause, retryAtMonotonicMs };
      return this.#open({ pause: again, doublings, pauseOfFailed: notBefore(again, longer), countsFrom });
    }
    const grown = doublings + (isAmbiguous ? AMBIGUOUS_GROWTH : 1);
    const next = draw(pause.count + 1, grown);
    return this.#open({
      ...{ pause: next, doublings: grown, pauseOfFailed: isAmbiguous ? notBefore(next, longer) : next },
      countsFrom: Number.POSITIVE_INFINITY,
    });
  }

  /** Closes the circuit and forgets all suspects. Returns whether it was open. */
  reset(): boolean {
    const wasOpen = this.#state.kind !== 'closed';
    this.#state = CLOSED;
    this.#suspects.length = 0;
    return wasOpen;
  }

  /** Whether the client's circuit is trying new owners, because none has succeeded yet. */
  #isFirstStart({ inconclusive, standing }: Permit): boolean {
    return this.scope === 'client' && !inconclusive && standing !== 'proven';
  }

  /** When others may go on after the ambiguous failure of a trial whose owner is not proven. */
  #endOfShortPause({ trial, trialSentAtMs }: HalfOpen, nowMs: number): number {
    if (this.#isFirstStart(trial)) return trialSentAtMs + FIRST_START_INTERVAL_MS;
    const capMs = Math.min(this.#range.baseMs, PAUSE_AFTER_UNPROVEN_MS);
    return nowMs + drawLength(0, { baseMs: capMs, capMs }, this.#random);
  }

  #open({ pause, doublings, pauseOfFailed, countsFrom }: Pauses): Pause {
    this.#state = { kind: 'open', pause, doublings, pauseOfFailed, countsFrom };
    this.#suspects.length = 0;
    return pauseOfFailed;
  }

  /**
   * When a caller should retry while the trial is in flight. If its request may replace the trial, that is when it may.
   * Otherwise the wait is as long as the trial has taken so far, and ends by the trial's deadline, so that a caller
   * that polls makes only a handful of calls.
   */
  #retryAtBesideTrial(state: HalfOpen, nowMs: number, failed: boolean): number {
    const { trial, trialSentAtMs } = state;
    if (trial.inconclusive && !failed) return trialSentAtMs + TRIAL_TAKEOVER_AFTER_MS;
    // Not after a failure that is the client's for certain: it pauses owners that failed no longer than others.
    const wasAmbiguous = state.pauseOfFailed !== state.pause;
    if (this.#isFirstStart(trial) && wasAmbiguous && !failed) return trialSentAtMs + FIRST_START_INTERVAL_MS;
    const deadlineMs = trialSentAtMs + this.#requestTimeoutMs;
    return Math.max(nowMs + MIN_WAIT_FOR_TRIAL_MS, Math.min(2 * nowMs - trialSentAtMs, deadlineMs));
  }
}

function isTrial(state: State, permit: Permit): state is HalfOpen {
  return state.trial === permit;
}

/** Whether a certain outcome of this request says something about the current state. */
function counts(state: State, permit: Permit): boolean {
  return permit.number >= state.countsFrom;
}

/** The second pause, ending no earlier than the first. */
function notBefore(first: Pause, second: Pause): Pause {
  return { ...second, retryAtMonotonicMs: Math.max(first.retryAtMonotonicMs, second.retryAtMonotonicMs) };
}
