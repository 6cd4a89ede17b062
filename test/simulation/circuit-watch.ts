/**
 * Holds the circuit against the contract: that it opens only for enough suspects after canaries have failed, or for a
 * failure that its source put at a wider scope; that it stops every request but one trial at a time after each pause; and
 * that a success, or an answer that concerns only its owner, closes it.
 */

import { type FailureScope, OwnerTokenError, type RegistryStats } from '../../src/index.ts';
import type { Mark, WatchedOptions, WorldView } from './observed.ts';
import { SLOW_MS } from './request-account.ts';

/** The open circuit as it was seen when the world was last quiet. */
interface Seen {
  readonly retryAtMs: number;
  /** A canary that was asked before the circuit opened may still be queued, or in flight and taken for the trial. */
  readonly mayHaveOlderTrials: boolean;
}

const SUSPECTS = 3;
const SUSPECTS_BEFORE_ANY_SUCCESS = 10;
/** The registry may not remember more owners that succeeded. */
const MOST_CANARIES_KNOWN = 16;
const LONGEST_OBEYED_MS = 60_000;
/** How long the registry trusts a service that has shown that it works. */
const TRUST_MS = 5_000;
const OF_THE_OWNER = new Set<unknown>(['invalid_grant', 'invalid_scope', 'access_denied']);

/** Whether a failure speaks of its owner alone: on purpose, or by its OAuth code. */
const isOwners = ({ oauthError }: OwnerTokenError, given: FailureScope | undefined) =>
  given === 'owner' || (given === undefined && OF_THE_OWNER.has(oauthError));

export class CircuitWatch {
  readonly #world: WorldView;
  readonly #options: WatchedOptions;
  readonly #owners: number;
  readonly #broken: (what: string) => void;
  #seen: Seen | undefined;
  readonly #inFlight = new Set<Mark>();
  /** Requests in flight that certainly are trials, and when each was first sent. */
  readonly #trials = new Map<Mark, number>();
  /** Trials in flight when another request succeeded, which may therefore no longer be trials. */
  readonly #formerTrials = new Map<Mark, number>();
  /** The trial that ended last. One that is sent for its owner at that moment repeats it. */
  #lastTrial = { owner: -1, sentMs: 0, endedMs: 0 };
  /** Owners that may have failed since the last certain success. */
  #suspects = new Set<number | Mark>();
  /** Those of them since the last quiet step: the registry may come to know of them only after that success. */
  #newSuspects: (number | Mark)[] = [];
  readonly #everForgotten = new Set<number>();
  /** Owners whose first failure certainly counts, while nobody has succeeded and no circuit was open. */
  readonly #firstFailures = new Set<number>();
  readonly #haveFailed = new Set<number>();
  #mayHaveWorked = false;
  #mayBeTrustedUntilMs = 0;
  #hasEvicted = false;
  /** Owners that certainly succeeded and were not forgotten since; and those of them that did not fail since either. */
  readonly #haveSucceeded = new Set<number>();
  readonly #healthy = new Set<number>();
  /** How many canaries were asked: at the last quiet step, before the last success, and when nothing was queued. */
  #canaries = 0;
  #canariesAtSuccess = 0;
  /** Requests that may be trials, perhaps of an earlier circuit, and failed since the last success. */
  #failedTrials = 0;
  #canariesAtRest = 0;
  /** How many requests were queued at the last quiet step. */
  #queued = 0;
  /** What happened since the last quiet step. */
  readonly #given = new Set<FailureScope>();
  #granted: Mark[] = [];
  #answers = 0;
  #failures = 0;
  #worked = false;
  #mustClose = false;
  #isDisturbed = false;
  #wasOpen = false;
  #failuresTold = 0;
  #quietStep = 0;

  constructor(world: WorldView, owners: number, options: WatchedOptions, broken: (what: string) => void) {
    this.#world = world;
    this.#owners = owners;
    this.#options = options;
    this.#broken = broken;
  }

  /** Whether the answers since the last quiet step are one at most, and nothing else happened. */
  get isAlone(): boolean {
    return this.#quietStep === this.#world.step - 1 && this.#answers <= 1 && !this.#isDisturbed;
  }

  get isOpen(): boolean {
    return this.#seen !== undefined;
  }

  /** Whether a request that is sent now may be a canary or another trial. */
  mayBeTrial({ pauses, canaries }: RegistryStats): boolean {
    const isOpen = pauses.client !== undefined || pauses.endpoint !== undefined;
    return isOpen || this.#wasOpen || canaries > this.#canariesAtRest;
  }

  /** A request begins. */
  asks(mark: Mark, { pauses }: RegistryStats): void {
    this.#inFlight.add(mark);
    const seen = this.#seen;
    if (!seen || (!pauses.client && !pauses.endpoint)) return;
    // Without a canary, callers are let through.
    if (seen.mayHaveOlderTrials || this.#haveSucceeded.size === 0 || this.#hasEvicted) return;
    if (this.#world.clock.monotonicMs < seen.retryAtMs - 1.5) this.#broken('a request while the circuit is open');
    this.#endSlowTrials();
    if (this.#trials.size > 0) this.#broken('two trials of the circuit at once');
    const { owner, sentMs, endedMs } = this.#lastTrial;
    this.#trials.set(mark, owner === mark.owner && endedMs === mark.sentMs ? sentMs : mark.sentMs);
  }

  /** A request has ended without evidence, and is sent again. */
  discarded(mark: Mark): void {
    this.#over(mark);
    this.#isDisturbed = true;
  }

  /** @param isCertain whether it certainly counts as evidence. */
  failed(mark: Mark, error: unknown, given: FailureScope | undefined, isCertain: boolean): void {
    const { owner } = mark;
    this.#answers++;
    this.#failures++;
    if (mark.mayBeTrial) this.#failedTrials++;
    const wasTrial = this.#over(mark);
    const isFirst = !this.#haveFailed.has(owner);
    this.#haveFailed.add(owner);
    this.#healthy.delete(owner);
    if (!(error instanceof OwnerTokenError)) {
      this.#suspect(mark);
      return;
    }
    if (isOwners(error, given)) {
      this.#mustClose = wasTrial;
      if (mark.mayBeTrial) this.#mayBeTrustedUntilMs = this.#world.clock.monotonicMs + TRUST_MS;
      return;
    }
    this.#suspect(mark);
    const { code } = error;
    if (given) this.#given.add(given);
    // What a request throws that was aborted may be taken for its reaction to that.
    const isUncertain = !isCertain || mark.mayBeTrial || code === 'source_failed';
    if (isUncertain) this.#isDisturbed = true;
    else if (isFirst && this.#world.clock.monotonicMs >= this.#mayBeTrustedUntilMs) this.#firstFailures.add(owner);
  }

  /** @param isCurrent whether its token may be stored. */
  granted(mark: Mark, isCurrent: boolean): void {
    const { owner } = mark;
    this.#answers++;
    this.#over(mark);
    // A success closes the circuit, so its other trials no longer count, unless the token had already expired on arrival.
    for (const [trial, sentMs] of this.#trials) this.#formerTrials.set(trial, sentMs);
    this.#trials.clear();
    this.#granted.push(mark);
    this.#mayHaveWorked = true;
    if (isCurrent) return;
    this.#haveSucceeded.delete(owner);
    this.#healthy.delete(owner);
  }

  /** A caller was given the token of a request: it has succeeded, for certain. */
  delivered(owner: number, isCurrent: boolean): void {
    this.#worked = true;
    this.#suspects = new Set(this.#newSuspects);
    this.#canariesAtSuccess = this.#canaries;
    this.#failedTrials = 0;
    if (!isCurrent) return;
    this.#haveSucceeded.add(owner);
    this.#healthy.add(owner);
  }

  /** The registry no longer knows that this owner once succeeded. */
  forgotten(owner: number): void {
    this.#isDisturbed = true;
    this.#everForgotten.add(owner);
    this.#haveSucceeded.delete(owner);
    this.#healthy.delete(owner);
    this.#firstFailures.clear();
  }

  /** Whether a rejected owner is a canary is not certain. */
  rejected(owner: number): void {
    this.#healthy.delete(owner);
  }

  evicted(): void {
    this.#hasEvicted = true;
    this.#firstFailures.clear();
  }

  resumed(): void {
    this.#isDisturbed = true;
    this.#seen = undefined;
    this.#trials.clear();
    this.#firstFailures.clear();
  }

  checkQuiet(stats: RegistryStats): void {
    const { pauses, canaries, queued, failures } = stats;
    // The registry may refuse a token itself, for example one that arrived expired.
    if (failures - this.#failuresTold > this.#failures) {
      for (const mark of this.#granted) {
        this.#suspect(mark);
        this.#healthy.delete(mark.owner);
        if (mark.mayBeTrial) this.#failedTrials++;
      }
    }
    if (pauses.client && pauses.endpoint) this.#broken('two circuits are open');
    if (pauses.client || pauses.endpoint) this.#checkOpen(stats);
    else this.#checkClosed();
    if (queued === 0) this.#canariesAtRest = canaries;
    this.#queued = queued;
    this.#canaries = canaries;
    this.#given.clear();
    this.#granted = [];
    this.#newSuspects = [];
    this.#answers = 0;
    this.#failures = 0;
    this.#failuresTold = failures;
    this.#worked = false;
    this.#mustClose = false;
    this.#isDisturbed = false;
    this.#wasOpen = this.#seen !== undefined;
    this.#quietStep = this.#world.step;
  }

  #checkClosed(): void {
    this.#seen = undefined;
    this.#trials.clear();
    if (this.#given.size > 0 && this.isAlone) this.#broken('a failure of a wider scope opened no circuit');
    const isUnheeded = this.#firstFailures.size >= SUSPECTS_BEFORE_ANY_SUCCESS && !this.#mayHaveWorked;
    if (isUnheeded) this.#broken(`${this.#firstFailures.size} owners failed first, and no circuit is open`);
  }

  /** A trial that hangs counts as failed, and is no trial any more. */
  #endSlowTrials(): void {
    for (const [mark, sentMs] of this.#trials) {
      if (this.#world.clock.monotonicMs - sentMs >= SLOW_MS) this.#trials.delete(mark);
    }
  }

  #checkOpen({ pauses, canaries }: RegistryStats): void {
    const { wallMs, monotonicMs } = this.#world.clock;
    const { retryAtMs } = (pauses.client ?? pauses.endpoint) as { retryAtMs: number };
    const leftMs = retryAtMs - wallMs;
    const mostMs = Math.max(LONGEST_OBEYED_MS, this.#options.longestPauseMs);
    if (leftMs > mostMs + 1) this.#broken(`a circuit is open for ${leftMs} ms`);
    if (this.isAlone && this.#worked) this.#broken('a success has not closed the circuit');
    if (this.isAlone && this.#mustClose) this.#broken('an answer about the owner of a trial has not closed it');
    const before = this.#seen;
    if (!before && this.#given.size === 0) this.#checkOpened(canaries);
    this.#firstFailures.clear();
    this.#seen = {
      retryAtMs: monotonicMs + leftMs,
      mayHaveOlderTrials: before?.mayHaveOlderTrials ?? this.#mayHaveTrials(canaries),
    };
  }

  /** The circuit has opened for failures that may be anybody's. */
  #checkOpened(canaries: number): void {
    const least = this.#mayHaveWorked ? SUSPECTS : SUSPECTS_BEFORE_ANY_SUCCESS;
    // An evicted owner is a new one to the registry.
    if (this.#suspects.size < least && !this.#hasEvicted)
      this.#broken(`the circuit opened for ${this.#suspects.size} suspects`);
    const asked = canaries - this.#canariesAtSuccess;
    const isCertain = this.isAlone && this.#queued === 0 && !this.#hasEvicted && this.#owners <= MOST_CANARIES_KNOWN;
    if (!isCertain || Math.max(asked, this.#failedTrials) > 0) return;
    const busy = new Set([...this.#inFlight].map(({ owner }) => owner));
    for (const owner of this.#healthy) {
      if (!busy.has(owner)) this.#broken(`the circuit opened without a canary, and ${owner} was free`);
    }
  }

  #mayHaveTrials(canaries: number): boolean {
    return canaries > this.#canariesAtRest || [...this.#inFlight].some(({ mayBeTrial }) => mayBeTrial);
  }

  #suspect(mark: Mark): void {
    // An owner that is forgotten while it has a request is a new one to the registry afterwards.
    const suspect = this.#everForgotten.has(mark.owner) ? mark : mark.owner;
    this.#suspects.add(suspect);
    this.#newSuspects.push(suspect);
  }

  /** Returns whether it was a trial for certain. */
  #over(mark: Mark): boolean {
    this.#endSlowTrials();
    this.#inFlight.delete(mark);
    const sentMs = this.#trials.get(mark) ?? this.#formerTrials.get(mark);
    this.#formerTrials.delete(mark);
    if (sentMs === undefined) return false;
    this.#lastTrial = { owner: mark.owner, sentMs, endedMs: this.#world.clock.monotonicMs };
    return this.#trials.delete(mark);
  }
}
