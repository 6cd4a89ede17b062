/**
 * Two clocks, because each fails in a way the other does not: people and NTP set the wall clock back or forward, and
 * the monotonic clock stands still while a machine is suspended. Tokens expire on a timeline made of both; pauses and
 * timers run on the monotonic clock.
 */

import timers from 'node:timers';
import { property } from './own-property.ts';

/** Node's own, captured at load: the fake timers of vitest, Jest and sinon must not stall `close` or a refusal. */
const { setImmediate } = timers;

/** Not imported from `node:process`, because the import of that module opens all standard streams. */
const { hrtime } = process;

/**
 * The port through which the library reads the time.
 *
 * @example
 * ```ts
 * let ms = 0;
 * const clock: Clock = { now: () => 1_700_000_000_000 + ms, monotonic: () => ms };
 * const source: TokenSource = { requestToken: async () => ({ token: `at-${ms}`, response: { expires_in: 3600 } }) };
 * await using tokens = new OwnerTokenRegistry({ source, clock });
 * await tokens.getToken('a');
 * ms += 3_600_000;
 * console.log((await tokens.getToken('a')).value); // → at-3600000
 * ```
 */
export interface Clock {
  /** Epoch milliseconds, as `Date.now()`. May jump either way. */
  now(): number;
  /**
   * Milliseconds since some fixed moment, as `performance.now()`. Never goes back; may stop while the machine is
   * suspended.
   */
  monotonic(): number;
  /**
   * Calls `fn` once, `ms` milliseconds (monotonic) from now, and returns a function that cancels it. Anything else that
   * it returns is cancelled by `clearTimeout`. Default: real timers.
   */
  setTimeout?(fn: () => void, ms: number): () => void;
}

/** One moment by both clocks and on the timeline of a {@link Time}. */
export interface Instant {
  readonly wallMs: number;
  readonly monotonicMs: number;
  /** Time on the timeline, by the clock that is ahead on it. */
  readonly timelineMs: number;
  /** What is added to a wall-clock time to place it on the timeline, by the clock that puts it earlier; whole milliseconds. */
  readonly offsetMs: number;
}

/** The machine's own clocks. */
export const systemClock: Clock = Object.freeze({
  now: () => Date.now(),
  monotonic: () => performance.now(),
});

/** The real `Date.now`, to recognize one that a test has faked. */
const SYSTEM_NOW = Date.now;

/** How old the sample of the system's wall clock may be when a cached token is served. */
const MAX_SAMPLE_AGE_MS = 10;

/** How far two clocks may differ only because they are rounded and not read at the same moment. */
export const MAX_READING_ERROR_MS = 20;

/** The longest delay of Node's timers, 24.8 days; a longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Milliseconds between two instants, by the clock that advanced more. */
export function elapsedMs(since: Instant, now: Instant): number {
  return now.timelineMs - since.wallMs - since.offsetMs;
}

/**
 * Time as a registry reads it: from two clocks, and on the one scale on which tokens expire, the timeline. It starts as
 * wall-clock time and advances, from reading to reading, by the larger of the two clocks' advances. So it never runs slower
 * than either clock, whichever one jumps: a token may end early, after the wall clock was set forward and back, but never
 * late.
 *
 * Each clock has an offset to the timeline. If the clocks disagree, the offset of the one behind is raised, and no
 * offset is ever lowered. Differences up to {@link MAX_READING_ERROR_MS} are ignored, because rounding causes them in
 * every reading, and they would add up. So a token's life must start at the earlier of the two times and end at the
 * later.
 */
export class Time {
  /** {@link startTimer} on this clock. */
  readonly startTimer: (fn: () => void, ms: number) => Timer;
  /** {@link startLimit} on this clock. */
  readonly startLimit: (fn: OnLimit, ms: number) => () => void;
  readonly #clock: Clock | undefined;
  /** The last instant's. */
  #wallMs = Number.NaN;
  #monotonicMs = Number.NaN;
  #wallOffsetMs = 0;
  #monotonicOffsetMs = Number.NaN;
  #second = 0;
  /** Until this time of `hrtime.bigint()`, the cheapest clock to read, `#second` is valid. */
  #validUntilNs = -1n;

  /** @param clock default: the system's clocks, in whole milliseconds. */
  constructor(clock?: Clock) {
    this.#clock = clock;
    this.startTimer = startTimer.bind(undefined, clock);
    this.startLimit = startLimit.bind(undefined, clock);
  }

  now(): Instant {
    const clock = this.#clock;
    const wallMs = clock ? clock.now() : Date.now();
    const readMs = clock ? clock.monotonic() : Math.floor(performance.now());
    if (Number.isNaN(this.#monotonicOffsetMs)) this.#monotonicOffsetMs = wallMs - readMs;
    const gapMs = wallMs + this.#wallOffsetMs - (readMs + this.#monotonicOffsetMs);
    if (gapMs > MAX_READING_ERROR_MS) this.#monotonicOffsetMs += gapMs;
    else if (gapMs < -MAX_READING_ERROR_MS) this.#wallOffsetMs -= gapMs;
    const byWallMs = wallMs + this.#wallOffsetMs;
    const byMonotonicMs = readMs + this.#monotonicOffsetMs;
    const timelineMs = Math.max(byWallMs, byMonotonicMs);
    const offsetMs = Math.floor(Math.min(byWallMs, byMonotonicMs) - wallMs);
    // While a monotonic clock that has gone back lags, it advances with the wall clock, because pauses and waits must end.
    const passedMs = Math.max(0, wallMs - this.#wallMs);
    const monotonicMs = readMs < this.#monotonicMs ? this.#monotonicMs + passedMs : readMs;
    this.#wallMs = wallMs;
    this.#monotonicMs = monotonicMs;
    return { wallMs, monotonicMs, timelineMs, offsetMs };
  }

  /**
   * Whole seconds on the timeline: all the time that a cache hit needs. Reads both times of a given clock on each call.
   * Of the system's clocks it reads one and samples the other, because reading a clock costs as much as a cache lookup.
   * A faked `Date` is read on each call, because tests set it and expect the next call to notice.
   */
  seconds(): number {
    const isSampled = this.#clock === undefined && Date.now === SYSTEM_NOW;
    if (isSampled && hrtime.bigint() < this.#validUntilNs) return this.#second;
    const sampledNs = hrtime.bigint();
    const { timelineMs } = this.now();
    this.#second = Math.floor(timelineMs / 1000);
    // One millisecond less, because the sample is rounded down.
    const validForMs = Math.min(MAX_SAMPLE_AGE_MS, (this.#second + 1) * 1000 - timelineMs) - 1;
    this.#validUntilNs = isSampled ? sampledNs + BigInt(Math.floor(validForMs)) * 1_000_000n : -1n;
    return this.#second;
  }
}

/**
 * Converts a monotonic time to wall-clock time; a time in the past becomes the present. Off by the difference if the
 * wall clock is set in the meantime.
 */
export function onWallClock(monotonicMs: number, now: Instant): number {
  return now.wallMs + Math.ceil(Math.max(0, monotonicMs - now.monotonicMs));
}

/** The same for a time in the past. */
export const pastOnWallClock = (monotonicMs: number, now: Instant): number =>
  now.wallMs - (now.monotonicMs - monotonicMs);

/** A timer of Node's, or the function by which an injected clock cancels one. */
export type Timer = NodeJS.Timeout | (() => void);

/**
 * Calls `fn` once, `ms` milliseconds (monotonic) from now, but at the latest after 24.8 days: by the given clock, or by real
 * timers if it has none.
 */
export function startTimer(clock: Clock | undefined, fn: () => void, ms: number): Timer {
  return clock && clock !== systemClock && property(clock, 'setTimeout')
    ? (clock as Required<Clock>).setTimeout(fn, ms)
    : setTimeout(fn, Math.min(ms, MAX_TIMER_MS));
}

/** The same, without keeping the process alive. */
export function startIdleTimer(clock: Clock | undefined, fn: () => void, ms: number): Timer {
  const timer = startTimer(clock, fn, ms);
  if (typeof timer !== 'function') timer.unref();
  return timer;
}

/** Cancels the timer, if there is one and it has not fired yet. */
export function stopTimer(timer: Timer | undefined): void {
  if (typeof timer === 'function') timer();
  // In JavaScript, `setTimeout: (fn, ms) => setTimeout(fn, ms)` is an easy mistake: it returns Node's timer.
  else clearTimeout(timer);
}

/** A limit is late by more than this and a tenth of itself only if the process could not run. */
const STANDSTILL_MS = 1_000;

/** Whether the process stood still while something took `tookMs` that was limited to `limitMs`. */
export function stoodStill(tookMs: number, limitMs: number): boolean {
  return tookMs - limitMs > STANDSTILL_MS + limitMs / 10;
}

/**
 * Turns of the event loop after which everything that has arrived is read: one reads, the second delivers. A late limit
 * grants more turns, because a body that `fetch` decompresses takes several, but no more time, because a flood of bytes makes
 * each turn long.
 */
const TURNS = { min: 2, late: 20, maxMs: 50 } as const;

/**
 * Called at the end of a time limit.
 *
 * @param hasStoodStill whether the process stood still: by one of its clocks, the time was up long ago.
 * @param isLate whether the limit fired late, if only by a moment: the process was busy, or got no CPU time.
 */
type OnLimit = (hasStoodStill: boolean, isLate: boolean) => void;

/**
 * Calls `fn` once the time is up, like {@link startTimer}, but only after the event loop has read what has arrived: after a busy
 * or suspended time, Node runs timers before it reads sockets.
 *
 * @returns a function that cancels it, even while the event loop reads.
 */
export function startLimit(clock: Clock = systemClock, fn: OnLimit, ms: number): () => void {
  const startedWallMs = clock.now();
  const startedMs = clock.monotonic();
  let isCancelled = false;
  const onTime = async () => {
    const firedMs = clock.monotonic();
    const tookMs = Math.max(clock.now() - startedWallMs, firedMs - startedMs);
    const isLate = tookMs - ms > MAX_READING_ERROR_MS;
    const maxTurns = isLate ? TURNS.late : TURNS.min;
    const hasTime = (turn: number) => turn < TURNS.min || clock.monotonic() - firedMs < TURNS.maxMs;
    for (let turn = 0; turn < maxTurns && hasTime(turn); turn++) await nextTurn();
    if (!isCancelled) fn(stoodStill(tookMs, ms), isLate);
  };
  const timer = startTimer(clock, () => void onTime(), ms);
  return () => {
    isCancelled = true;
    stopTimer(timer);
  };
}

/**
 * How long the event loop has been idle, in milliseconds. With a given clock, and in a runtime that does not report it
 * (workerd), it counts as always idle.
 */
const idleMs = (clock: Clock): number =>
  (clock === systemClock ? (performance as Loop).eventLoopUtilization?.().idle : undefined) ?? clock.monotonic();

/** Missing in the types of browsers, against which this file is checked too. */
interface Loop {
  eventLoopUtilization?(): { readonly idle: number };
}

/**
 * The result of work that never fails, or undefined when the time is up. If the event loop was busy for most of that time, it
 * may not have read what arrived, or not even sent the request, so the work gets the same time again. So it does if the limit
 * is late, because a loop also counts as idle while its process gets no CPU time.
 *
 * @param maxMs the total time that it may get.
 */
export function within<T>(work: Promise<T>, ms: number, clock: Clock, maxMs: number): Promise<T | undefined> {
  const idleBeforeMs = idleMs(clock);
  return new Promise((resolve) => {
    const timeOut = (_hasStoodStill: boolean, isLate: boolean) => {
      const isBusy = isLate || idleMs(clock) - idleBeforeMs < ms / 2;
      resolve(isBusy && maxMs > ms ? within(work, ms, clock, maxMs - ms) : undefined);
    };
    void work.then(resolve).then(startLimit(clock, timeOut, ms));
  });
}

/** Waits until a promise settles, but at most `ms`, which may be negative. Rejects if the promise does in time. */
export function settledWithin(time: Time, ms: number, promise: Promise<unknown>): Promise<void> {
  return new Promise((resolve, reject) => {
    // Without a timer where there is nothing to wait for: a test may have faked timers.
    if (ms <= 0) void nextTurn().then(resolve);
    const timer = ms > 0 ? time.startTimer(resolve, ms) : undefined;
    promise.finally(() => stopTimer(timer)).then(() => resolve(), reject);
  });
}

/** Resolves in the next iteration of the event loop. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** How many items are handled in one turn of the event loop. Few, because handling one may create an error. */
export const SLICE = 64;

/** Handles all items, a slice in each turn of the event loop; the first slice at once. */
export function inSlices<T>(items: Iterable<T>, handle: (item: T) => void, whenDone: () => void): void {
  const iterator = items[Symbol.iterator]();
  const nextSlice = () => {
    for (let left = SLICE; left > 0; left--) {
      const { done, value } = iterator.next();
      if (done) return whenDone();
      handle(value);
    }
    setImmediate(nextSlice);
  };
  nextSlice();
}
