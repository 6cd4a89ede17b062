/**
 * Two clocks, because each fails in a way the other does not: the wall clock is set back or forward by people and
 * NTP, and the monotonic clock stands still while a machine is suspended. What must end in time ends by whichever of
 * the two gets there first.
 */

/** The port through which everything here learns the time. */
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

/** One moment, as both clocks tell it. */
export interface Instant {
  readonly wallMs: number;
  readonly monotonicMs: number;
}

/** The machine's own clocks. */
export const systemClock: Clock = Object.freeze({
  now: () => Date.now(),
  monotonic: () => performance.now(),
});

/** How old the sample of the system's wall clock may be. */
const MAX_SAMPLE_AGE_MS = 10;

/** The longest delay that Node's timers take; a longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Makes the function that tells the current {@link Instant}.
 *
 * A given clock is asked for both its times whenever it is called. Without one, the system's monotonic clock is read
 * each time and the wall clock sampled: again whenever more than 10 ms have passed, and reckoned on from there in
 * between. A clock read costs as much as a cache look-up, and most calls come in the same millisecond as the one before.
 * It is not the wall clock that is read each time, because one that stands still would hide that time passes at all.
 */
export function instantReader(clock: Clock | undefined): () => Instant {
  if (clock) return () => ({ wallMs: clock.now(), monotonicMs: clock.monotonic() });
  let last: Instant | undefined;
  let sampled: Instant = { wallMs: 0, monotonicMs: Number.NEGATIVE_INFINITY };
  return () => {
    const monotonicMs = Math.floor(performance.now());
    if (monotonicMs === last?.monotonicMs) return last;
    if (monotonicMs - sampled.monotonicMs > MAX_SAMPLE_AGE_MS) sampled = { wallMs: Date.now(), monotonicMs };
    last = { wallMs: sampled.wallMs + monotonicMs - sampled.monotonicMs, monotonicMs };
    return last;
  };
}

/** A monotonic moment to come as the wall clock will show it, unless it is set; now, if it has come. */
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

/** Waits for a promise, but no longer than this. Rejects if the promise does in time. */
export function settledWithin(clock: Clock | undefined, ms: number, promise: Promise<unknown>): Promise<void> {
  return new Promise((resolve, reject) => {
    const cancel = startTimer(clock, resolve, ms);
    promise.finally(cancel).then(() => resolve(), reject);
  });
}
