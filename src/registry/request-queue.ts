/**
 * Which owner's request goes next. At most `concurrency` requests are under way over all owners; the rest wait here,
 * one turn an owner, in a bounded queue.
 *
 * - RequestQueue that somebody waits for go before refreshes, which nobody does. A refresh that somebody begins to wait for
 *   moves over. Within each kind it is first come, first served, so no owner passes another.
 * - Owners known to fail may be under way only in a share of the concurrency, a quarter and at least one: an owner that
 *   hangs holds its turn for a whole deadline, and a few of them would hold them all. Where fewer may be under way for a
 *   while, those known to hang begin only if one more may, but do not take that place away from others.
 * - A full queue refuses, except that a waiting caller takes the place of a refresh. Nobody waits longer than the limit:
 *   one timer serves the whole queue, for the turn that has waited longest.
 *
 * p-limit runs the turns. It has neither bound nor cancel, so it is handed one only when that one can start.
 */

import pLimit from 'p-limit';

/** One owner's wish to make a request. */
export interface QueuedRequest {
  /** Whether somebody waits for its outcome. Change it through {@link RequestQueue.raise}. */
  waitedFor: boolean;
  /** Whether the owner is known to fail. */
  readonly failing: boolean;
  /** Whether it is known to hang. */
  readonly hanging: boolean;
  /** Asked when its turn has come; false if it no longer may, which it has then told its callers. */
  admit(): boolean;
  /** Makes the request. Never rejects. */
  run(): Promise<void>;
  /** It has waited too long, or its place was needed. */
  expire(): void;
}

export interface RequestQueueOptions {
  readonly concurrency: number;
  readonly maxQueued: number;
  readonly maxQueueMs: number;
  /** How many may be under way now, where that is less than the concurrency. */
  readonly limit: () => number;
  readonly monotonic: () => number;
  readonly startTimer: (fn: () => void, ms: number) => () => void;
}

/** A queue that gives up any of its turns at once: insertion-ordered, with the time each came. */
type Lane = Map<QueuedRequest, number>;

export class RequestQueue {
  readonly #options: RequestQueueOptions;
  readonly #run: ReturnType<typeof pLimit>;
  readonly #failingShare: number;
  readonly #waiting: Lane = new Map();
  readonly #waitingFailing: Lane = new Map();
  readonly #refreshes: Lane = new Map();
  readonly #refreshesFailing: Lane = new Map();
  #underWay = 0;
  #failingUnderWay = 0;
  #hangingUnderWay = 0;
  #cancelTimer: (() => void) | undefined;

  constructor(options: RequestQueueOptions) {
    this.#options = options;
    this.#run = pLimit(options.concurrency);
    this.#failingShare = Math.max(1, Math.floor(options.concurrency / 4));
  }

  get underWay(): number {
    return this.#underWay;
  }

  get queued(): number {
    return this.#waiting.size + this.#waitingFailing.size + this.#refreshes.size + this.#refreshesFailing.size;
  }

  /** Takes a place in the queue. False if there is none; the turn is then forgotten. */
  enqueue(turn: QueuedRequest): boolean {
    // Where one more may start now, the queue is as long as before once that one has.
    const hasPlace = this.queued < this.#options.maxQueued || this.#hasFreeTurn(turn.failing);
    if (!hasPlace && !(turn.waitedFor && this.#displaceRefresh())) return false;
    this.#laneOf(turn).set(turn, this.#options.monotonic());
    this.dispatch();
    return true;
  }

  /** Somebody now waits for this turn: if it is still queued as a refresh, it moves to the others that are waited for. */
  raise(turn: QueuedRequest): void {
    if (turn.waitedFor) return;
    const wasQueued = this.#laneOf(turn).delete(turn);
    turn.waitedFor = true;
    if (!wasQueued) return;
    this.#laneOf(turn).set(turn, this.#options.monotonic());
    this.dispatch();
  }

  /** Leaves the queue. False if it was no longer in it: its request is under way. */
  withdraw(turn: QueuedRequest): boolean {
    const wasQueued = this.#laneOf(turn).delete(turn);
    this.#watchOldest();
    return wasQueued;
  }

  /** Takes those out of the queue of which this is true. */
  remove(isOver: (turn: QueuedRequest) => boolean): void {
    for (const lane of this.#lanes()) for (const turn of [...lane.keys()]) if (isOver(turn)) lane.delete(turn);
    if (this.queued === 0) this.#stopTimer();
  }

  /** Starts as many turns as may start now. */
  dispatch(): void {
    for (let turn = this.#next(); turn; turn = this.#next()) {
      this.#laneOf(turn).delete(turn);
      // Counted before it is asked: what it tells its callers or a log may lead back here.
      this.#count(turn, +1);
      if (turn.admit()) this.#start(turn);
      else this.#count(turn, -1);
    }
    this.#watchOldest();
  }

  #start(turn: QueuedRequest): void {
    const over = () => {
      this.#count(turn, -1);
      this.dispatch();
    };
    void this.#run(() => turn.run()).then(over, over);
  }

  #count(turn: QueuedRequest, by: 1 | -1): void {
    this.#underWay += by;
    if (turn.failing) this.#failingUnderWay += by;
    if (turn.hanging) this.#hangingUnderWay += by;
  }

  /** The turn to start next, if one may start: of those waited for the one that came first, else of the refreshes. */
  #next(): QueuedRequest | undefined {
    if (!this.#hasFreeTurn(false)) return undefined;
    const failingMay = this.#hasFreeTurn(true);
    return (
      firstOf(this.#waiting, failingMay ? this.#waitingFailing : undefined) ??
      firstOf(this.#refreshes, failingMay ? this.#refreshesFailing : undefined)
    );
  }

  #hasFreeTurn(failing: boolean): boolean {
    const { concurrency, limit } = this.#options;
    if (this.#underWay >= concurrency) return false;
    if (failing) return this.#failingUnderWay < this.#failingShare && this.#underWay < limit();
    return this.#underWay - this.#hangingUnderWay < limit();
  }

  #laneOf(turn: QueuedRequest): Lane {
    if (turn.waitedFor) return turn.failing ? this.#waitingFailing : this.#waiting;
    return turn.failing ? this.#refreshesFailing : this.#refreshes;
  }

  #lanes(): Lane[] {
    return [this.#waiting, this.#waitingFailing, this.#refreshes, this.#refreshesFailing];
  }

  /** Gives up the refresh that has waited longest, where there is one. */
  #displaceRefresh(): boolean {
    const first = firstOf(this.#refreshes, this.#refreshesFailing);
    if (!first) return false;
    this.#laneOf(first).delete(first);
    first.expire();
    return true;
  }

  /** Sees to it that a timer runs while anything is queued, set for the turn that has waited longest. */
  #watchOldest(): void {
    if (this.queued === 0) this.#stopTimer();
    // RequestQueue only leave or come later, so a timer once set is never too late for those that are left.
    else this.#cancelTimer ??= this.#options.startTimer(() => this.#expireOverdue(), this.#untilOverdueMs());
  }

  /** How long the turn that has waited longest may still wait. */
  #untilOverdueMs(): number {
    const cameAtMs = Math.min(...this.#lanes().map((lane) => lane.values().next().value ?? Number.POSITIVE_INFINITY));
    // In whole milliseconds: what is lost in sums of fractions would make the timer early, again and again.
    return Math.max(0, Math.ceil(cameAtMs + this.#options.maxQueueMs - this.#options.monotonic()));
  }

  #stopTimer(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }

  #expireOverdue(): void {
    this.#cancelTimer = undefined;
    const nowMs = this.#options.monotonic();
    for (const lane of this.#lanes()) {
      for (const [turn, cameAtMs] of lane) {
        if (cameAtMs + this.#options.maxQueueMs > nowMs) break;
        lane.delete(turn);
        turn.expire();
      }
    }
    this.#watchOldest();
  }
}

/** Of the first turns of two lanes the one that came first. */
function firstOf(lane: Lane, other: Lane | undefined): QueuedRequest | undefined {
  const a = lane.entries().next().value;
  const b = other?.entries().next().value;
  if (!a || !b) return (a ?? b)?.[0];
  return a[1] <= b[1] ? a[0] : b[0];
}
