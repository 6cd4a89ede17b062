/**
 * The circuit breaker of one scope: the client's (our credentials are refused) or the endpoint's (it is down, or limits
 * us). Closed, it lets every request pass. Open, it refuses all until a time that was drawn when it opened; then the
 * next request becomes the trial. Half-open, it waits for the answer to the trial.
 *
 * | event                                     | closed       | open                      | half-open                  |
 * | ----------------------------------------- | ------------ | ------------------------- | -------------------------- |
 * | `admit`                                   | passes       | half-open: it is the trial | half-open: a new trial    |
 * | `succeeded`, or an answer that clears it  | –            | –                         | the trial's: closed        |
 * | `failed`: a failure of this scope         | open         | open, maybe for longer    | the trial's: open, longer  |
 * | `cancel`, or a failure of another scope   | –            | –                         | the trial's: open, and due |
 * | `reset`                                   | –            | closed                    | closed                     |
 *
 * Open and half-open, only the trial's answer counts: all other requests were sent before the circuit opened, and say
 * nothing about what came after. They only prolong it if they carry a later `Retry-After`.
 *
 * A doubtful owner may be the only cause of its failure: it failed before, or it never succeeded while others have. It
 * must not keep the circuit open for the others:
 *
 * - once its trial has taken `TRIAL_TAKEOVER_AFTER_MS`, another owner's request replaces it as the trial;
 * - when its trial fails in a way that may be its own doing, the pause grows for doubtful owners alone. Others wait one
 *   more pause of the same length, or none if the trial hung, since they have waited that long already;
 * - even when the trial of another owner fails so, others wait a fifth longer only, not twice as long: where many owners
 *   fail, each of them once, the healthy ones must get their turn before long.
 */

import { OwnerTokenError, type WiderScope } from '../errors.ts';
import { drawPause, type Pause, type PauseRange, retryAfterMsOf } from './backoff.ts';

/**
 * What is known of an owner: whether a request of it ever succeeded (`proven`, `failing`), and whether its last one failed
 * (`failing`, `unproven`). `new`: none was answered yet.
 */
export type OwnerStanding = 'new' | 'unproven' | 'proven' | 'failing';

/** The right to make one request. Each is given back exactly once, to `succeeded`, `failed` or `cancel`. */
export interface Permit {
  /** Counts up in the order in which requests are sent. */
  readonly number: number;
  readonly standing: OwnerStanding;
  /** Whether its owner's failure may be its own doing: see above. */
  readonly doubtful: boolean;
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
  /** Whether the failure may be its owner's own doing all the same. */
  readonly isEscalated: boolean;
  /** Whether the request hung before it failed. */
  readonly hung: boolean;
}

/** Until when an open circuit refuses: doubtful owners never come before the others. */
interface Pauses {
  readonly pause: Pause;
  /** How often the base of `pause` was doubled. */
  readonly doublings: number;
  readonly pauseOfDoubtful: Pause;
}

interface Open extends Pauses {
  readonly kind: 'open';
}

interface HalfOpen extends Pauses {
  readonly kind: 'half-open';
  readonly trial: Permit;
  readonly trialSentAtMs: number;
}

type State = { readonly kind: 'closed' } | Open | HalfOpen;

/** How many distinct owners in a row must fail in a way that may be anybody's doing until it is this scope's. */
const SUSPECTS_TO_ESCALATE = 3;

/** How many doublings the pause grows by when a trial of no doubtful owner fails in a way that may be its own doing. */
const AMBIGUOUS_GROWTH = 1 / 4;

/** How long the trial of a doubtful owner may take before another owner's request replaces it. */
export const TRIAL_TAKEOVER_AFTER_MS = 500;

/** While the trial is in flight, callers are told to come again after this time at least. */
const MIN_WAIT_FOR_TRIAL_MS = 100;

export class CircuitBreaker {
  readonly scope: WiderScope;
  readonly #range: PauseRange;
  readonly #requestTimeoutMs: number;
  readonly #random: () => number;
  #state: State = { kind: 'closed' };
  /** Owners whose failures may be this scope's. */
  readonly #suspects = new Set<string>();

  /** @param options `requestTimeoutMs` is when a trial has been answered at the latest. */
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

  /** The pause that refuses a request now. */
  pauseFor(nowMs: number, doubtful: boolean): Pause | undefined {
    const state = this.#state;
    if (state.kind === 'closed') return undefined;
    const pause = doubtful ? state.pauseOfDoubtful : state.pause;
    if (nowMs < pause.retryAtMonotonicMs) return pause;
    if (state.kind === 'open') return undefined;
    const retryAtMonotonicMs = this.#retryAtBesideTrial(state, nowMs, doubtful);
    return nowMs < retryAtMonotonicMs ? { ...pause, retryAtMonotonicMs } : undefined;
  }

  /** A request that no pause refuses is sent. */
  admit(permit: Permit, nowMs: number): void {
    const state = this.#state;
    if (state.kind === 'closed') return;
    this.#state = { ...state, kind: 'half-open', trial: permit, trialSentAtMs: nowMs };
  }

  /** Counts one more owner's failure against this scope. Returns whether enough distinct owners have failed in a row. */
  countsAgainst(owner: string): boolean {
    this.#suspects.add(owner);
    return this.#suspects.size >= SUSPECTS_TO_ESCALATE;
  }

  /** A request succeeded. Returns whether that closed the circuit. */
  succeeded(permit: Permit): boolean {
    this.#suspects.clear();
    return this.cleared(permit);
  }

  /** The answer shows that this scope works, whatever it says of its owner. Returns whether that closed the circuit. */
  cleared(permit: Permit): boolean {
    return this.#isTrial(permit) && this.reset();
  }

  /** The request was not made, or its failure says nothing about this scope. */
  cancel(permit: Permit): void {
    if (this.#isTrial(permit)) this.#open(this.#state as Pauses);
  }

  /** A request failed, and it is this scope's failure. Returns the pause of its owner. */
  failed(permit: Permit, failure: CircuitFailure): Pause {
    const state = this.#state;
    const error = OwnerTokenError.restated(failure.error, { failureScope: this.scope });
    const draw = (count: number, doublings = count - 1) =>
      drawPause(error, count, this.#range, failure.nowMs, this.#random, doublings);
    const isAsked = retryAfterMsOf(error, this.#range.capMs) !== undefined;
    if (state.kind === 'closed') return this.#pauseAll(draw(1), 0);
    if (!this.#isTrial(permit)) {
      const asked = draw(state.pause.count);
      if (!isAsked || asked.retryAtMonotonicMs <= state.pause.retryAtMonotonicMs) return state.pause;
      this.#state = { ...state, pause: asked, pauseOfDoubtful: laterOf(asked, state.pauseOfDoubtful) };
      return asked;
    }
    const { pause, doublings, pauseOfDoubtful } = state;
    if (!failure.isEscalated || isAsked) return this.#pauseAll(draw(pause.count + 1, doublings + 1), doublings + 1);
    const longer = draw(pauseOfDoubtful.count + 1);
    if (permit.doubtful) {
      const again = failure.hung ? pause : draw(pause.count, doublings);
      return this.#open({ pause: again, doublings, pauseOfDoubtful: laterOf(again, longer) });
    }
    const grown = doublings + AMBIGUOUS_GROWTH;
    const next = draw(pause.count + 1, grown);
    return this.#open({ pause: next, doublings: grown, pauseOfDoubtful: laterOf(next, longer) });
  }

  /** Closes the circuit and forgets all suspects. Returns whether it was open. */
  reset(): boolean {
    const wasOpen = this.#state.kind !== 'closed';
    this.#state = { kind: 'closed' };
    this.#suspects.clear();
    return wasOpen;
  }

  #pauseAll(pause: Pause, doublings: number): Pause {
    return this.#open({ pause, doublings, pauseOfDoubtful: pause });
  }

  #open({ pause, doublings, pauseOfDoubtful }: Pauses): Pause {
    this.#state = { kind: 'open', pause, doublings, pauseOfDoubtful };
    this.#suspects.clear();
    return pauseOfDoubtful;
  }

  /**
   * When to come again while the trial is in flight: when it may be replaced; else after as long as it has taken so far,
   * so that waiting for it costs a handful of calls, but by its deadline.
   */
  #retryAtBesideTrial({ trial, trialSentAtMs }: HalfOpen, nowMs: number, doubtful: boolean): number {
    if (trial.doubtful && !doubtful) return trialSentAtMs + TRIAL_TAKEOVER_AFTER_MS;
    const deadlineMs = trialSentAtMs + this.#requestTimeoutMs;
    return Math.max(nowMs + MIN_WAIT_FOR_TRIAL_MS, Math.min(2 * nowMs - trialSentAtMs, deadlineMs));
  }

  #isTrial(permit: Permit): boolean {
    return this.#state.kind === 'half-open' && this.#state.trial === permit;
  }
}

function laterOf(pause: Pause, other: Pause): Pause {
  return other.retryAtMonotonicMs > pause.retryAtMonotonicMs ? other : pause;
}
