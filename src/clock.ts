/**
 * Two clocks, because each fails in a way the other does not: people and NTP set the wall clock back or forward, and the
 * monotonic clock stands still while a machine is suspended. A token ends by whichever of the two gets there first.
 */

/** The port through which the library reads the time. */
export interface Clock {
  /** Epoch milliseconds, as `Date.now()`. May jump either way. */
  now(): number;
  /** Milliseconds since some fixed moment, as `performance.now()`. Never goes back; may stand still in suspension. */
  monotonic(): number;
  /**
   * Calls `fn` once, `ms` milliseconds (monotonic) from now, and returns what cancels it. When absent, real timers are
   * used.
   */
  setTimeout?(fn: () => void, ms: number): () => void;
}

/** One moment by both clocks. */
export interface Instant {
  readonly wallMs: number;
  readonly monotonicMs: number;
}

/** The machine's own clocks. */
export const systemClock: Clock = Object.freeze({
  now: () => Date.now(),
  monotonic: () => performance.now(),
});

/** What `Date.now` is unless a test fakes it. */
const SYSTEM_NOW = Date.now;

/** How old the sample of the system's wall clock may be. */
const MAX_SAMPLE_AGE_MS = 10;

/** The longest delay that Node's timers take; a longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Time as the registry reads it: both clocks at one moment, and timers. */
export interface Time {
  now(): Instant;
  /** Calls `fn` once, `ms` milliseconds (monotonic) from now, and returns what cancels it. */
  startTimer(fn: () => void, ms: number): () => void;
}

/** The time of a given clock, else of the system's. */
export function timeOf(clock: Clock | undefined): Time {
  return { now: clock ? () => instantOf(clock) : sampledNow(), startTimer: (fn, ms) => startTimer(clock, fn, ms) };
}

/** A given clock is asked for both its times at each reading. */
function instantOf(clock: Clock): Instant {
  return { wallMs: clock.now(), monotonicMs: clock.monotonic() };
}

/**
 * Reads the system's monotonic clock at each call and its wall clock at most once in 10 ms, since a clock read costs as
 * much as a cache look-up. The monotonic clock is the one read each time because a wall clock that stands still would
 * hide that time passes at all. Within a millisecond it returns the same object. A faked `Date` is read at each call:
 * tests set it and expect the next call to notice.
 */
function sampledNow(): () => Instant {
  let last: Instant | undefined;
  let sampled: Instant = { wallMs: 0, monotonicMs: Number.NEGATIVE_INFINITY };
  return () => {
    const monotonicMs = Math.floor(performance.now());
    if (Date.now !== SYSTEM_NOW) return { wallMs: Date.now(), monotonicMs };
    if (monotonicMs === last?.monotonicMs) return last;
    if (monotonicMs - sampled.monotonicMs > MAX_SAMPLE_AGE_MS) sampled = { wallMs: Date.now(), monotonicMs };
    last = { wallMs: sampled.wallMs + monotonicMs - sampled.monotonicMs, monotonicMs };
    return last;
  };
}

/** A monotonic time as the wall clock will show it, unless that is set meanwhile; the present for a time in the past. */
export function onWallClock(monotonicMs: number, now: Instant): number {
  return now.wallMs + Math.ceil(Math.max(0, monotonicMs - now.monotonicMs));
}

/**
 * Starts a timer on the given clock, or on real timers where the clock has none, and returns what cancels it. Delays
 * over 24.8 days are waited for in parts.
 */
export function startTimer(clock: Clock | undefined, fn: () => void, ms: number): () => void {
  if (clock?.setTimeout) return clock.setTimeout(fn, ms);
  const part = Math.min(ms, MAX_TIMER_MS);
  let timer = setTimeout(
    function elapsed(leftMs: number) {
      if (leftMs <= 0) return fn();
      const next = Math.min(leftMs, MAX_TIMER_MS);
      timer = setTimeout(elapsed, next, leftMs - next);
    },
    part,
    ms - part,
  );
  return () => clearTimeout(timer);
}

/** Waits until a promise settles, but at most `ms`. Rejects if the promise does in time. */
export function settledWithin(time: Time, ms: number, promise: Promise<unknown>): Promise<void> {
  return new Promise((resolve, reject) => {
    const cancel = time.startTimer(resolve, ms);
    promise.finally(cancel).then(() => resolve(), reject);
  });
}

/** Lets the event loop turn once. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
