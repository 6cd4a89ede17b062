/**
 * The oracle's own account of one registry's requests: how many are in flight, for whom, and which owners must not be
 * requested for because they back off.
 */

import type { Mark, WatchedOptions, WorldView } from './observed.ts';

export class RequestAccount {
  readonly #world: WorldView;
  readonly #concurrency: number;
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

  constructor(world: WorldView, owners: number, options: WatchedOptions, broken: (what: string) => void) {
    this.#world = world;
    this.#concurrency = options.concurrency;
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
    const mark = {
      ...{ step: this.#world.step, isSecond },
      mayFail: this.#mayFail[owner] === true,
      isFailing: this.#isFailing[owner] === true && mayTrust,
    };
    this.#isFailing[owner] = false;
    this.#inFlight++;
    this.#inFlightOf[owner] = (this.#inFlightOf[owner] as number) + 1;
    if (mark.isFailing) this.#failingInFlight++;
    this.#checkSent(owner, isSecond);
    return mark;
  }

  ended(owner: number, { isFailing }: Mark): void {
    this.#inFlight--;
    if (isFailing) this.#failingInFlight--;
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
  issued(owner: number): void {
    this.#pausedUntilMs[owner] = undefined;
  }

  /** After an eviction, or for every owner resumed, nothing is certain any more. */
  trustNothing(): void {
    this.#pausedUntilMs.fill(undefined);
    this.#isFailing.fill(false);
  }

  /** Nothing is queued: an owner without a request in flight has none of an earlier generation left. */
  nothingQueued(): void {
    for (const owner of this.#begun.keys()) if (this.#inFlightOf[owner] === 0) this.#begun[owner] = 0;
  }

  #checkSent(owner: number, isSecond: boolean): void {
    if (this.#inFlight > this.#concurrency)
      this.#broken(`${this.#inFlight} in flight with a concurrency of ${this.#concurrency}`);
    if (this.#failingInFlight > Math.max(1, Math.floor(this.#concurrency / 4))) {
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
}
