import { type Instant, Time } from '../../src/clock.ts';

/**
 * Instants of one machine, by its monotonic clock. Its wall clock is a million milliseconds ahead, and may have jumped
 * since. Ask for them in the order of time.
 */
export function machine(): (monotonicMs: number, jumpedMs?: number) => Instant {
  const reading = { wallMs: 1_000_000, monotonicMs: 0 };
  const time = new Time({ now: () => reading.wallMs, monotonic: () => reading.monotonicMs });
  time.now();
  return (monotonicMs, jumpedMs = 0) => {
    Object.assign(reading, { wallMs: 1_000_000 + monotonicMs + jumpedMs, monotonicMs });
    return time.now();
  };
}

/** An instant of a machine whose wall clock never jumps. */
export const at = (monotonicMs: number): Instant => machine()(monotonicMs);
