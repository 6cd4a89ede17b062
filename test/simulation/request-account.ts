/**
 * The oracle's own account of one registry's requests: how many are in flight, for whom, and which owners must not be
 * requested for because they back off.
 */

import { OwnerTokenError } from '../../src/index.ts';
import type { Call, Mark, WatchedOptions, WorldView } from './observed.ts';

/** A failed request that may be sent again, with the calls that waited for it. */
interface Failed {
  readonly isRefused: boolean;
  readonly calls: readonly Call[];
}

/** How often a request that gets a 429 each time is sent again. */
const MAX_RESENDS = 10;
/** Tokens that pay for one request sent again. */
const SUCCESSES_PER_RETRY = 10;
/** A younger request is not slow. */
export const SLOW_MS = 300;

/** Requests that have a permit, and slow ones, which have none. */
export const mostInFlight = (concurrency: number) => concurrency + Math.max(32, concurrency);

export class RequestAccount {
  readonly #world: WorldView;
  readonly #options: WatchedOptions;
  readonly #broken: (what: string) => void;
  readonly #inFlightOf: number[];
  /** By owner: generations begun since its last moment without a request in flight. */
  readonly #begun: number[];
  /** By owner: the monotonic time until which its own backoff certainly lasts. */
  readonly #pausedUntilMs: (number | undefined)[];
  /** By owner: it may be known to fail; its next request certainly is one of a failing owner. */
  readonly #mayFail: boolean[];
  readonly #isFailing: boolean[];
  #inFlight = 0;
  #failingInFlight = 0;
  /** Requests in flight that hold a permit of their own from the start. */
  readonly #first = new Set<Mark>();
  /** By owner: its last requests failed, and may be sent again; several if they are of different generations. */
  readonly #failed = new Map<number, Failed[]>();
  /** By owner: how many of its requests got a token that had been rejected, and may ask for another one. */
  readonly #reissued = new Map<number, number>();
  /** By owner: how often in a row it got a 429 and was sent again. */
  readonly #resends = new Map<number, number>();
  #issuedCount = 0;
  #retries = 0;
  /** When the last requests were sent, at most as many as a second allows. */
  readonly #sentMs: number[] = [];

  constructor(world: WorldView, owners: number, options: WatchedOptions, broken: (what: string) => void) {
    this.#world = world;
    this.#options = options;
    this.#broken = broken;
    this.#inFlightOf = Array(owners).fill(0);
    this.#begun = Array(owners).fill(0);
    this.#pausedUntilMs = Array(owners).fill(undefined);
    this.#mayFail = Array(owners).fill(false);
    this.#isFailing = Array(owners).fill(false);
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** A request is sent. `mayTrust` is false after an eviction, which may have made the registry forget the owner. */
  sent(owner: number, isSecond: boolean, mayTrust: boolean): Mark {
    const sentMs = this.#world.clock.monotonicMs;
    const mark = {
      ...{ step: this.#world.step, sentMs, isSecond },
      mayFail: this.#mayFail[owner] === true,
      isFailing: this.#isFailing[owner] === true && mayTrust,
    };
    this.#isFailing[owner] = false;
    this.#inFlight++;
    this.#inFlightOf[owner] = (this.#inFlightOf[owner] as number) + 1;
    if (mark.isFailing) this.#failingInFlight++;
    this.#checkSent(owner, isSecond);
    if (!isSecond) {
      this.#first.add(mark);
      this.#checkYoung(sentMs);
      this.#checkPace(sentMs);
      this.#checkResend(owner);
    }
    this.#isOver(owner);
    return mark;
  }

  /** A request failed. `calls` wait for it. */
  failed(owner: number, error: unknown, calls: readonly Call[]): void {
    this.#isOver(owner);
    if (!(error instanceof OwnerTokenError)) return;
    const isRefused = error.code === 'rate_limited';
    if (!isRefused && error.code !== 'endpoint_unavailable') return;
    this.#failed.set(owner, [...(this.#failed.get(owner) ?? []), { isRefused, calls }]);
  }

  /** Failed requests of which the registry may not have told anybody yet. */
  get mayBeSentAgain(): number {
    let count = 0;
    for (const failed of this.#failed.values()) count += failed.length;
    return count;
  }

  /**
   * Requests that were sent and may be queued once more, even if the queue is full: those that may be sent again, and
   * those that had lost their permit when they were given a rejected token, and need another one to ask again.
   */
  get mayQueueAgain(): number {
    let count = this.mayBeSentAgain;
    for (const reissued of this.#reissued.values()) count += reissued;
    return count;
  }

  ended(owner: number, mark: Mark): void {
    this.#inFlight--;
    this.#first.delete(mark);
    if (mark.isFailing) this.#failingInFlight--;
    // Its result may count as a failure until it is seen to be a success.
    this.#mayFail[owner] = true;
    this.#inFlightOf[owner] = (this.#inFlightOf[owner] as number) - 1;
  }

  /** A token of the current generation was given: the owner is no longer known to fail. */
  succeeded(owner: number): void {
    this.#mayFail[owner] = false;
  }

  mayFail(owner: number): boolean {
    return this.#mayFail[owner] === true;
  }

  /** A few new tokens rejected in a row make an owner one that is known to fail. */
  rejected(owner: number): void {
    this.#mayFail[owner] = true;
  }

  beginGeneration(owner: number): void {
    this.#begun[owner] = (this.#begun[owner] as number) + 1;
  }

  /** Whether the owner's next request certainly is one of a failing owner. */
  nextIsFailing(owner: number, isFailing: boolean): void {
    this.#isFailing[owner] = isFailing;
  }

  paused(owner: number, untilMs: number): void {
    this.#pausedUntilMs[owner] = untilMs;
  }

  resumed(owner: number): void {
    this.#pausedUntilMs[owner] = undefined;
    this.#isFailing[owner] = false;
  }

  /** An issued token ends the owner's backoff. */
  issued(owner: number, mark: Mark, wasRejected: boolean): void {
    this.#issuedCount++;
    this.#isOver(owner);
    if (wasRejected && !mark.isSecond) this.#reissued.set(owner, (this.#reissued.get(owner) ?? 0) + 1);
    this.#resends.delete(owner);
    this.#pausedUntilMs[owner] = undefined;
  }

  /** After an eviction, or for every owner resumed, nothing is certain any more. */
  trustNothing(): void {
    this.#pausedUntilMs.fill(undefined);
    this.#isFailing.fill(false);
  }

  /** Nothing is queued: an owner without a request in flight has none of an earlier generation left. */
  nothingQueued(): void {
    this.#reissued.clear();
    for (const owner of this.#begun.keys()) {
      if (this.#inFlightOf[owner] !== 0 || this.#begun[owner] === 0) continue;
      this.#begun[owner] = 0;
      this.#failed.delete(owner);
    }
  }

  #checkSent(owner: number, isSecond: boolean): void {
    const { concurrency } = this.#options;
    if (this.#inFlight > mostInFlight(concurrency))
      this.#broken(`${this.#inFlight} in flight with a concurrency of ${concurrency}`);
    if (this.#failingInFlight > Math.max(1, Math.floor(concurrency / 4))) {
      this.#broken(`${this.#failingInFlight} owners known to fail are in flight`);
    }
    const begun = this.#begun[owner] as number;
    if ((this.#inFlightOf[owner] as number) > 1 + begun) {
      this.#broken(`owner ${owner} has two requests of one generation in flight`);
    }
    const untilMs = this.#pausedUntilMs[owner];
    const isPaused = untilMs !== undefined && this.#world.clock.monotonicMs < untilMs - 1.5;
    if (!isSecond && isPaused && begun === 0) this.#broken(`owner ${owner} was requested for within its own pause`);
  }

  /** Requests that cannot be slow yet hold a permit each. */
  #checkYoung(nowMs: number): void {
    const young = [...this.#first].filter(({ sentMs }) => nowMs - sentMs < SLOW_MS).length;
    const { concurrency } = this.#options;
    if (young > concurrency) this.#broken(`${young} permits with a concurrency of ${concurrency}`);
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
    this.#reissued.delete(owner);
  }

  #checkResend(owner: number): void {
    const failed = this.#failed.get(owner)?.at(-1);
    const isResend = failed?.calls.some(({ over }) => !over) && this.#begun[owner] === 0;
    if (!failed || !isResend) {
      this.#resends.delete(owner);
    } else if (failed.isRefused) {
      const resends = (this.#resends.get(owner) ?? 0) + 1;
      this.#resends.set(owner, resends);
      if (resends > MAX_RESENDS) this.#broken(`a request was sent again ${resends} times`);
    } else if (++this.#retries * SUCCESSES_PER_RETRY > this.#issuedCount) {
      this.#broken(`${this.#retries} retries with ${this.#issuedCount} tokens issued`);
    }
  }
}
