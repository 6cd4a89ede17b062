/**
 * Two clocks, because each fails in a way the other does not: people and NTP set the wall clock back or forward, and
 * the monotonic clock stands still while a machine is suspended. A token expires by whichever clock reaches its expiry
 * first.
 */

/** The port through which the library reads the time. */
export interface Clock {
  /** Epoch milliseconds, as `Date.now()`. May jump either way. */
  now(): number;
  /**
   * Milliseconds since some fixed moment, as `performance.now()`. Never goes back; may stop while the machine is
   * suspended.
   */
  monotonic(): number;
  /**
   * Calls `fn` once, `ms` milliseconds (monotonic) from now, and returns a function that cancels it. Default: real
   * timers.
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

/** The real `Date.now`, to recognize one that a test has faked. */
const SYSTEM_NOW = Date.now;

/** How old the sample of the system's wall clock may be. */
const MAX_SAMPLE_AGE_MS = 10;

/** The longest delay that Node's timers take; a longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Time as the registry reads it: both clocks at one moment, and timers. */
export interface Time {
  now(): Instant;
  /** Calls `fn` once, `ms` milliseconds (monotonic) from now, and returns a function that cancels it. */
  startTimer(fn: () => void, ms: number): () => void;
}

/** Reads the given clock, or the system's if there is none. */
export function timeOf(clock: Clock | undefined): Time {
  return { now: clock ? () => instantOf(clock) : sampledNow(), startTimer: (fn, ms) => startTimer(clock, fn, ms) };
}

/** Reads both times of a user's clock on each call. */
function instantOf(clock: Clock): Instant {
  return { wallMs: clock.now(), monotonicMs: clock.monotonic() };
}

/**
 * Reads the system's monotonic clock on each call and its wall clock at most once per 10 ms, because reading a clock
 * costs as much as a cache lookup. Between two samples, the wall time advances with the monotonic clock. Calls within
 * the same millisecond get the same object. A faked `Date` is read on each call, because tests set it and expect the
 * next call to notice.
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

/**
 * Converts a monotonic time to wall-clock time; a time in the past becomes the present. Off by the difference if the
 * wall clock is set in the meantime.
 */
export function onWallClock(monotonicMs: number, now: Instant): number {
  return now.wallMs + Math.ceil(Math.max(0, monotonicMs - now.monotonicMs));
}

/**
 * Starts a timer on the given clock, or a real timer if the clock has none, and returns a function that cancels it.
 * Delays over 24.8 days are split into several timers.
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

/** Resolves in the next iteration of the event loop. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
