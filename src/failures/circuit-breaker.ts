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
 * An owner that is known to fail may be the only cause of its failure, so it must not keep the circuit open for others:
 *
 * - once its trial has taken `TRIAL_TAKEOVER_AFTER_MS`, another owner's request replaces it as the trial;
 * - when its trial fails in a way that may be its own doing, the pause grows for such owners alone. Others wait one
 *   more pause of the same length, or none if the trial hung, since they have waited that long already.
 */

import { OwnerTokenError, type WiderScope } from '../errors.ts';
import { drawPause, type Pause, type PauseRange, retryAfterMsOf } from './backoff.ts';

/**
 * What is known of an owner: `proven` once a request of it succeeded, `failing` while its last request failed, else
 * `new`.
 */
export type OwnerStanding = 'new' | 'proven' | 'failing';

/** The right to make one request. Each is given back exactly once, to `succeeded`, `failed` or `cancel`. */
export interface Permit {
  /** Counts up in the order in which requests are sent. */
  readonly number: number;
  /** What was known of its owner when it was admitted. */
  readonly standing: OwnerStanding;
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

/** Until when an open circuit refuses: owners known to fail never come before the others. */
interface Pauses {
  readonly pause: Pause;
  readonly pauseOfFailing: Pause;
}

type State =
  | { readonly kind: 'closed' }
  | ({ readonly kind: 'open' } & Pauses)
  | ({ readonly kind: 'half-open'; readonly trial: Permit; readonly trialSentAtMs: number } & Pauses);

/** How many distinct owners in a row must fail in a way that may be anybody's doing until it is this scope's. */
const SUSPECTS_TO_ESCALATE = 3;

/** How long the trial of an owner that is known to fail may take before another owner's request replaces it. */
export const TRIAL_TAKEOVER_AFTER_MS = 500;

export class CircuitBreaker {
  readonly scope: WiderScope;
  readonly #range: PauseRange;
  readonly #random: () => number;
  #state: State = { kind: 'closed' };
  /** Owners whose failures may be this scope's. */
  readonly #suspects = new Set<string>();

  constructor(scope: WiderScope, range: PauseRange, random: () => number) {
    this.scope = scope;
    this.#range = range;
    this.#random = random;
  }

  /** Undefined while the circuit is closed. */
  get state(): CircuitState | undefined {
    const state = this.#state;
    return state.kind === 'closed' ? undefined : { pause: state.pause, probing: state.kind === 'half-open' };
  }

  /** The pause that refuses a request now. */
  pauseFor(nowMs: number, standing: OwnerStanding): Pause | undefined {
    const state = this.#state;
    if (state.kind === 'closed') return undefined;
    const pause = standing === 'failing' ? state.pauseOfFailing : state.pause;
    const isRefused = nowMs < pause.retryAtMonotonicMs || !mayBeTrial(state, nowMs, standing);
    return isRefused ? pause : undefined;
  }

  /** A request that no pause refuses is sent. */
  admit(permit: Permit, nowMs: number): void {
    const state = this.#state;
    if (state.kind === 'closed') return;
    const { pause, pauseOfFailing } = state;
    this.#state = { kind: 'half-open', trial: permit, trialSentAtMs: nowMs, pause, pauseOfFailing };
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
    const draw = (count: number) => drawPause(error, count, this.#range, failure.nowMs, this.#random);
    const isAsked = retryAfterMsOf(error, this.#range.capMs) !== undefined;
    if (state.kind === 'closed') return this.#pauseAll(draw(1));
    if (!this.#isTrial(permit)) {
      const asked = draw(state.pause.count);
      if (!isAsked || asked.retryAtMonotonicMs <= state.pause.retryAtMonotonicMs) return state.pause;
      this.#state = { ...state, pause: asked, pauseOfFailing: laterOf(asked, state.pauseOfFailing) };
      return asked;
    }
    if (permit.standing !== 'failing' || !failure.isEscalated || isAsked) {
      return this.#pauseAll(draw(state.pause.count + 1));
    }
    const pause = failure.hung ? state.pause : draw(state.pause.count);
    return this.#open({ pause, pauseOfFailing: laterOf(pause, draw(state.pauseOfFailing.count + 1)) });
  }

  /** Closes the circuit and forgets all suspects. Returns whether it was open. */
  reset(): boolean {
    const wasOpen = this.#state.kind !== 'closed';
    this.#state = { kind: 'closed' };
    this.#suspects.clear();
    return wasOpen;
  }

  #pauseAll(pause: Pause): Pause {
    return this.#open({ pause, pauseOfFailing: pause });
  }

  #open({ pause, pauseOfFailing }: Pauses): Pause {
    this.#state = { kind: 'open', pause, pauseOfFailing };
    this.#suspects.clear();
    return pauseOfFailing;
  }

  #isTrial(permit: Permit): boolean {
    return this.#state.kind === 'half-open' && this.#state.trial === permit;
  }
}

/** Whether a request of such an owner may become the trial. */
function mayBeTrial(state: State, nowMs: number, standing: OwnerStanding): boolean {
  if (state.kind !== 'half-open') return true;
  const isFromFailing = state.trial.standing === 'failing';
  return isFromFailing && standing !== 'failing' && nowMs >= state.trialSentAtMs + TRIAL_TAKEOVER_AFTER_MS;
}

function laterOf(pause: Pause, other: Pause): Pause {
  return other.retryAtMonotonicMs > pause.retryAtMonotonicMs ? other : pause;
}
