import type { Clock } from '../../src/clock.ts';

interface Timer {
  readonly dueMs: number;
  readonly fn: () => void;
}

/** After a standstill, what was under way is asked for again. */
const AFTER_STANDSTILL_MS = 40_000;

/** The two clocks of a simulated machine. Time passes only when told to, and stops at every timer that falls due. */
export class WorldClock implements Clock {
  wallMs: number;
  monotonicMs = 0;
  /** Advances with both clocks, and by what the wall clock jumps forward: no token need end later. */
  timelineMs = 0;
  /** How much longer than usual a caller may wait in all, because the process stood still. */
  excusedMs = 0;
  readonly #timers = new Set<Timer>();

  constructor(startMs = Date.UTC(2030, 0, 1)) {
    this.wallMs = startMs;
  }

  now(): number {
    return this.wallMs;
  }

  monotonic(): number {
    return this.monotonicMs;
  }

  setTimeout(fn: () => void, ms: number): () => void {
    const timer = { dueMs: this.monotonicMs + Math.max(0, ms), fn };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  get pendingTimers(): number {
    return this.#timers.size;
  }

  /** When the next timer falls due, on the monotonic clock. */
  get nextDueMs(): number {
    let first = Number.POSITIVE_INFINITY;
    for (const { dueMs } of this.#timers) if (dueMs < first) first = dueMs;
    return first;
  }

  /** Runs one timer that is due. False if none is. */
  runNext(): boolean {
    let first: Timer | undefined;
    for (const timer of this.#timers) {
      if (timer.dueMs <= this.monotonicMs && (!first || timer.dueMs < first.dueMs)) first = timer;
    }
    if (!first) return false;
    this.#timers.delete(first);
    first.fn();
    return true;
  }

  /** Moves both clocks on to this monotonic moment, without running anything. */
  moveTo(monotonicMs: number): void {
    this.wallMs += monotonicMs - this.monotonicMs;
    this.timelineMs += monotonicMs - this.monotonicMs;
    this.monotonicMs = monotonicMs;
  }

  /** The process does not run for so long: its timers fire late. */
  standStill(ms: number): void {
    this.moveTo(this.monotonicMs + ms);
    this.excusedMs += ms + AFTER_STANDSTILL_MS;
  }

  /** The wall clock alone moves: it is set, or the machine sleeps. */
  shiftWall(ms: number): void {
    this.wallMs += ms;
    this.timelineMs += Math.max(0, ms);
  }
}
