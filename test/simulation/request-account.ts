/**
 * The oracle's own account of one registry's requests: how many are in flight, for whom, how often they are sent again, and
 * which owners must not be requested for because they back off.
 */

import type { Call, Mark, WatchedOptions, WorldView } from './observed.ts';

/** How often a request is sent again. */
const MAX_RESENDS = 5;
/** Tokens that pay for one request sent again, and how many are saved. */
const TOKENS_PER_RETRY = 10;
const MOST_SAVED = 100;
/** The ramp at the start. */
const ROOM_AT_START = 16;
const MS_PER_PLACE = 10;
/** A younger request is not slow. */
export const SLOW_MS = 1_000;

export class RequestAccount {
  readonly #world: WorldView;
  readonly #options: WatchedOptions;
  readonly #broken: (what: string) => void;
  readonly #inFlightOf: number[];
  /** By owner: generations begun since its last moment without a request in flight. */
  readonly #begun: number[];
  /** By owner: the monotonic time until which its own backoff certainly lasts. */
  readonly #pausedUntilMs: (number | undefined)[];
  /** By owner: how long it had a request in flight in all, and since when it has one. */
  readonly #busyMs: number[];
  readonly #busySinceMs: number[];
  #inFlight = 0;
  /** When the concurrency was last fully used. */
  #lastFullMs = Number.NEGATIVE_INFINITY;
  #firstSentMs: number | undefined;
  readonly #current = new Set<Mark>();
  /** By owner: the calls that waited for its last request when it failed, and how many tokens had been issued by then. */
  readonly #failed = new Map<number, { readonly calls: readonly Call[]; readonly issuedBefore: number }>();
  /** By owner: how many requests have ended that may be sent again. */
  readonly #ended = new Map<number, number>();
  /** Owners whose last request said nothing, and those whose request was sent again because of that. */
  readonly #saysNothing = new Set<number>();
  readonly #askedAgain = new Set<number>();
  /** Owners whose last request may have been a trial. */
  readonly #trialEnded = new Set<number>();
  /** By owner: how often in a row its request was sent again. */
  readonly #resends = new Map<number, number>();
  #issuedCount = 0;
  /** Whether any request in flight may be slow. */
  #mayBeSlow = false;
  #savedTokens = 0;
  /** Tokens that could not be saved, because the most were: the count of issued tokens at each. */
  readonly #unsaved: number[] = [];
  /** When the last requests were sent, at most as many as a second allows. */
  readonly #sentMs: number[] = [];

  constructor(world: WorldView, owners: number, options: WatchedOptions, broken: (what: string) => void) {
    this.#world = world;
    this.#options = options;
    this.#broken = broken;
    this.#inFlightOf = Array(owners).fill(0);
    this.#begun = Array(owners).fill(0);
    this.#pausedUntilMs = Array(owners).fill(undefined);
    this.#busyMs = Array(owners).fill(0);
    this.#busySinceMs = Array(owners).fill(0);
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  inFlightOf(owner: number): number {
    return this.#inFlightOf[owner] as number;
  }

  /** How long the owner had a request in flight, in all. */
  busyMs(owner: number): number {
    const now = this.#world.clock.monotonicMs;
    const current = this.#inFlightOf[owner] === 0 ? 0 : now - (this.#busySinceMs[owner] as number);
    return (this.#busyMs[owner] as number) + current;
  }

  /** Whether a request may since have waited for a free place rather than for the rate limit. */
  wasFullSince(sinceMs: number): boolean {
    return this.#inFlight >= this.#options.concurrency || this.#lastFullMs >= sinceMs;
  }

  /** Whether no request of an earlier generation can be in flight. */
  isOfOneGeneration(owner: number): boolean {
    return this.#begun[owner] === 0;
  }

  /** Whether a request in flight may be the second try after an outcome that said nothing, or belong to an earlier generation. */
  mayBeSecond(mark: Mark): boolean {
    return !this.#current.has(mark) || !this.isOfOneGeneration(mark.owner);
  }

  /** A request is sent. */
  sent(mark: Mark): void {
    const { owner, sentMs, mayBeTrial } = mark;
    const isAtOnce = this.#busySinceMs[owner] === sentMs;
    if (this.#inFlightOf[owner] === 0) this.#busySinceMs[owner] = sentMs;
    this.#inFlight++;
    this.#inFlightOf[owner] = (this.#inFlightOf[owner] as number) + 1;
    this.#firstSentMs ??= sentMs;
    this.#checkSent(mark);
    // One that is sent again at once, because its outcome said nothing, keeps its place, which may be that of a slow one.
    if (!isAtOnce) this.#current.add(mark);
    this.#checkYoung(sentMs);
    // A trial that is sent again at once is one still.
    if (!mayBeTrial && !(isAtOnce && this.#trialEnded.has(owner))) this.#checkPace(sentMs);
    this.#checkResend(owner, isAtOnce);
    this.#isOver(owner);
  }

  /** A request failed. `calls` wait for it. @param saysNothing it is sent again once at no cost. */
  failed(owner: number, calls: readonly Call[], saysNothing: boolean): void {
    this.#failed.set(owner, { calls, issuedBefore: this.#issuedCount });
    if (saysNothing) this.#saysNothing.add(owner);
    else this.#saysNothing.delete(owner);
  }

  /** Whether the last request said nothing and is sent again because of that. */
  isAskedAgain(owner: number): boolean {
    return this.#saysNothing.has(owner) && !this.#askedAgain.has(owner);
  }

  /** Requests that were sent and may be queued once more, even if the queue is full. */
  get mayQueueAgain(): number {
    let count = 0;
    for (const ended of this.#ended.values()) count += ended;
    return count;
  }

  ended(owner: number, mark: Mark): void {
    this.#busyMs[owner] = this.busyMs(owner);
    this.#busySinceMs[owner] = this.#world.clock.monotonicMs;
    if (this.#inFlight >= this.#options.concurrency) this.#lastFullMs = this.#world.clock.monotonicMs;
    this.#inFlight--;
    this.#current.delete(mark);
    if (mark.mayBeTrial) this.#trialEnded.add(owner);
    else this.#trialEnded.delete(owner);
    this.#inFlightOf[owner] = (this.#inFlightOf[owner] as number) - 1;
    this.#ended.set(owner, (this.#ended.get(owner) ?? 0) + 1);
  }

  /** A token of the current generation was given. */
  succeeded(owner: number): void {
    this.#isOver(owner);
  }

  beginGeneration(owner: number): void {
    this.#begun[owner] = (this.#begun[owner] as number) + 1;
  }

  paused(owner: number, untilMs: number): void {
    this.#pausedUntilMs[owner] = untilMs;
  }

  resumed(owner: number): void {
    this.#pausedUntilMs[owner] = undefined;
  }

  /** An issued token ends the owner's backoff. */
  issued(owner: number): void {
    this.#issuedCount++;
    if (this.#savedTokens < MOST_SAVED) this.#savedTokens++;
    else this.#unsaved.push(this.#issuedCount);
    this.#failed.delete(owner);
    this.#resends.delete(owner);
    this.#pausedUntilMs[owner] = undefined;
  }

  /** All owners were resumed, or a circuit has closed: the next request may start at once. */
  paceRestarted(): void {
    this.#sentMs.length = 0;
  }

  /** After an eviction, or for every owner resumed, nothing is certain any more. */
  trustNothing(): void {
    this.#pausedUntilMs.fill(undefined);
  }

  /** Nothing is queued: an owner without a request in flight has none of an earlier generation left. */
  nothingQueued(): void {
    this.#ended.clear();
    for (const owner of this.#begun.keys()) {
      if (this.#inFlightOf[owner] !== 0 || this.#begun[owner] === 0) continue;
      this.#begun[owner] = 0;
      this.#failed.delete(owner);
    }
  }

  #checkSent({ owner, mayBeTrial }: Mark): void {
    const { concurrency } = this.#options;
    // Before any latency is known, a request is slow only if a circuit was open while it ran.
    this.#mayBeSlow ||= mayBeTrial || this.#issuedCount > 0;
    const most = this.#mayBeSlow ? 2 * concurrency : concurrency;
    if (this.#inFlight > most) this.#broken(`${this.#inFlight} in flight with a concurrency of ${concurrency}`);
    const begun = this.#begun[owner] as number;
    if ((this.#inFlightOf[owner] as number) > 1 + begun) {
      this.#broken(`owner ${owner} has two requests of one generation in flight`);
    }
    const untilMs = this.#pausedUntilMs[owner];
    const isPaused = untilMs !== undefined && this.#world.clock.monotonicMs < untilMs - 1.5;
    if (isPaused && begun === 0) this.#broken(`owner ${owner} was requested for within its own pause`);
  }

  /** Requests that cannot be slow yet hold a place each. */
  #checkYoung(nowMs: number): void {
    const young = [...this.#current].filter(({ sentMs }) => nowMs - sentMs < SLOW_MS).length;
    const grownBy = Math.floor((nowMs - (this.#firstSentMs as number)) / MS_PER_PLACE);
    const room = Math.min(this.#options.concurrency, ROOM_AT_START + this.#issuedCount + grownBy);
    if (young > room) this.#broken(`${young} requests where there is room for ${room}`);
  }

  #checkPace(nowMs: number): void {
    const { requestsPerSecond } = this.#options;
    if (requestsPerSecond === undefined) return;
    this.#sentMs.push(nowMs);
    // As many more as a timer that fires late may make up for.
    const most = Math.ceil(1.01 * requestsPerSecond) + 1;
    const before = this.#sentMs.length > most ? (this.#sentMs.shift() as number) : Number.NEGATIVE_INFINITY;
    if (nowMs - before < 1_000) this.#broken(`over ${requestsPerSecond} requests a second`);
  }

  /** The owner's last request was sent again, or has told its callers, unless there are several of them. */
  #isOver(owner: number): void {
    if (this.#begun[owner] !== 0) return;
    this.#failed.delete(owner);
    this.#ended.delete(owner);
  }

  #checkResend(owner: number, isAtOnce: boolean): void {
    const failure = this.#failed.get(owner);
    // What is sent again at no cost may have no caller left.
    const isSame = (isAtOnce && this.isAskedAgain(owner)) || failure?.calls.some(({ over }) => !over);
    if (!isSame || this.#begun[owner] !== 0) {
      this.#resends.delete(owner);
      this.#askedAgain.delete(owner);
      return;
    }
    const isFirst = !this.#askedAgain.has(owner);
    if (this.#saysNothing.has(owner) && isFirst) {
      this.#askedAgain.add(owner);
      return;
    }
    const resends = (this.#resends.get(owner) ?? 0) + 1;
    this.#resends.set(owner, resends);
    if (resends > MAX_RESENDS) this.#broken(`a request was sent again ${resends} times`);
    this.#pay(failure?.issuedBefore ?? this.#issuedCount);
    if (this.#savedTokens < 0) this.#broken('a request was sent again that no tokens paid for');
  }

  /**
   * Pays for a retry as of the failure before it, which is when the registry pays. Only now is it certain that there is a
   * retry. Tokens that could not be saved since then are saved after all, in the place of those paid.
   */
  #pay(issuedBefore: number): void {
    const since = this.#unsaved.findIndex((count) => count > issuedBefore);
    const saved = since < 0 ? 0 : this.#unsaved.splice(since, TOKENS_PER_RETRY).length;
    this.#savedTokens += saved - TOKENS_PER_RETRY;
  }
}
