/**
 * One gate before all requests: the client's (our credentials are refused) or the endpoint's (it is down or limits us).
 * It is, in this order:
 *
 * - open: every request passes;
 * - paused: none does, until its moment has come;
 * - due: one request passes, the probe; others are refused until it is answered. A failure of the gate's scope pauses
 *   anew, for twice as long. A success lifts the pause. So does an answer that blames only the owner, since whoever
 *   gives it is there and knows us; one without a code tells that it is there, and no more. An owner known to fail may hang
 *   as the probe and hold everybody up, so when it has had a first pause's time to answer, one that is not takes the
 *   probe over from it. And where its failure may be its own doing, the pause grows for owners known to fail alone:
 *   others come after one more of the same length, or at once where it hung, since they have waited for that already;
 * - ramping: one request at a time, then twice as many after each success, until the full concurrency is reached.
 *
 * Answers to requests sent before the pause began say nothing about what came after: they neither lift it nor make it
 * grow. They only prolong it if they carry a later `Retry-After`.
 */

import { OwnerTokenError, type WiderScope } from '../errors.ts';
import { drawPause, type Pause, type PauseRange } from './backoff.ts';

/**
 * What is known of an owner: `proven` once a request of it succeeded, `failing` while its last request failed, else
 * `new`.
 */
export type OwnerStanding = 'new' | 'proven' | 'failing';

/** The right to make one request. Each is given back exactly once, to `succeeded`, `failed` or `cancel`. */
export interface Permit {
  readonly number: number;
  /** What was known of its owner when it was admitted. */
  readonly standing: OwnerStanding;
}

/** A pause of all owners, as `stats()` tells it. */
export interface CircuitState {
  readonly pause: Pause;
  /** The probe is under way. */
  readonly probing: boolean;
}

const SUSPECTS_TO_WIDEN = 3;

/** How and when a request failed, and what is drawn from. */
interface Moment {
  readonly nowMs: number;
  readonly passesGiven: number;
  readonly random: () => number;
  /** Whether the failure may be its owner's own doing all the same. */
  readonly isEscalated: boolean;
  /** Whether the request hung before it failed. */
  readonly hung: boolean;
}

/** The state of one gate. */
export class CircuitBreaker {
  readonly scope: WiderScope;
  readonly #range: PauseRange;
  readonly #fullConcurrency: number;
  readonly #suspects = new Set<string>();
  #pause: Pause | undefined;
  /** What holds owners known to fail back for longer. */
  #pauseOfFailing: Pause | undefined;
  #probe: Permit | undefined;
  #probedAtMs = 0;
  /** How many requests may be under way: all that may ever be, unless the gate is ramping. */
  #limit: number;
  /** The number of the last permit given before the pause began. */
  #lastPassBefore = 0;

  constructor(scope: WiderScope, range: PauseRange, fullConcurrency: number) {
    this.scope = scope;
    this.#range = range;
    this.#fullConcurrency = fullConcurrency;
    this.#limit = fullConcurrency;
  }

  get state(): CircuitState | undefined {
    return this.#pause && { pause: this.#pause, probing: this.#probe !== undefined };
  }

  get limit(): number {
    return this.#limit;
  }

  pauseFor(nowMs: number, failing: boolean): Pause | undefined {
    const pause = failing ? later(this.#pause, this.#pauseOfFailing) : this.#pause;
    if (!pause) return undefined;
    return this.#isProbed(nowMs, failing) || nowMs < pause.retryAtMonotonicMs ? pause : undefined;
  }

  admit(permit: Permit, nowMs: number): void {
    if (!this.#pause) return;
    this.#probedAtMs = nowMs;
    // Taken over: what the former probe is answered counts as if it had been sent before the pause.
    if (this.#probe) this.#lastPassBefore = this.#probe.number;
    this.#probe = permit;
  }

  /** The request of this permit is over. Returns whether it was the probe. */
  over(permit: Permit): boolean {
    if (this.#probe !== permit) return false;
    this.#probe = undefined;
    return true;
  }

  succeeded(permit: Permit): boolean {
    this.#suspects.clear();
    if (this.#isFromBefore(permit)) return false;
    if (this.#pause) return this.lift(1);
    this.#rampTo(this.#limit * 2);
    return false;
  }

  /** Lifts the pause and lets this many requests be under way at first. */
  lift(limit = this.#fullConcurrency): boolean {
    const wasPaused = this.#pause !== undefined;
    this.#pause = undefined;
    this.#pauseOfFailing = undefined;
    this.#probe = undefined;
    this.#suspects.clear();
    this.#rampTo(limit);
    return wasPaused;
  }

  /** Whether a failure that may be anybody's is this gate's. */
  claims(permit: Permit, owner: string, ownerFailures: number): boolean {
    if (this.#pause) return true;
    if (this.#isFromBefore(permit)) return false;
    if (ownerFailures === 0) this.#suspects.add(owner);
    return this.#suspects.size >= SUSPECTS_TO_WIDEN;
  }

  close(permit: Permit, failure: OwnerTokenError, at: Moment): Pause {
    const { passesGiven, nowMs, random, isEscalated, hung } = at;
    const before = this.#pause;
    const error = OwnerTokenError.restated(failure, { failureScope: this.scope });
    const draw = (count: number) => drawPause(error, count, this.#range, nowMs, random);
    const isAsked = error.retryAfterMs !== undefined;
    if (before && this.#isFromBefore(permit)) {
      const again = draw(before.count);
      if (isAsked && again.retryAtMonotonicMs > before.retryAtMonotonicMs) this.#pause = again;
    } else if (before && permit.standing === 'failing' && isEscalated && !isAsked) {
      const grown = draw((this.#pauseOfFailing ?? before).count + 1);
      const again = draw(before.count);
      // At the cap both are drawn alike: others never come later than owners known to fail.
      const retryAtMonotonicMs = Math.min(again.retryAtMonotonicMs, grown.retryAtMonotonicMs);
      if (!hung) this.#pause = { ...again, retryAtMonotonicMs };
      this.#pauseOfFailing = grown;
      return grown;
    } else {
      this.#pause = draw((before?.count ?? 0) + 1);
      this.#pauseOfFailing = undefined;
      this.#lastPassBefore = passesGiven;
    }
    this.#limit = this.#fullConcurrency;
    this.#suspects.clear();
    return this.#pause as Pause;
  }

  /** Whether a probe is under way that this request may not take over. */
  #isProbed(nowMs: number, failing: boolean): boolean {
    if (!this.#probe) return false;
    return failing || this.#probe.standing !== 'failing' || nowMs < this.#probedAtMs + this.#range.baseMs;
  }

  #isFromBefore(permit: Permit): boolean {
    return permit.number <= this.#lastPassBefore;
  }

  #rampTo(limit: number): void {
    this.#limit = Math.min(limit, this.#fullConcurrency);
  }
}

/** Of two pauses the one that ends last: the service may have prolonged the one of all while the other stood. */
function later(pause: Pause | undefined, other: Pause | undefined): Pause | undefined {
  return pause && other && other.retryAtMonotonicMs > pause.retryAtMonotonicMs ? other : pause;
}
