import { type Instant, Timeline } from '../../src/clock.ts';

/**
 * Instants of one machine, by its monotonic clock. Its wall clock is a million milliseconds ahead, and may have jumped
 * since. Ask for them in the order of time.
 */
export function machine(): (monotonicMs: number, jumpedMs?: number) => Instant {
  const timeline = new Timeline();
  timeline.at(1_000_000, 0);
  return (monotonicMs, jumpedMs = 0) => timeline.at(1_000_000 + monotonicMs + jumpedMs, monotonicMs);
}

/** An instant of a machine whose wall clock never jumps. */
export const at = (monotonicMs: number): Instant => machine()(monotonicMs);
