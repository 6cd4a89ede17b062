import type { Clock } from '../../clock.ts';

/** The longest delay that Node's timers take; a longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** What a `Date` can tell ends here. */
const LAST_DATE_MS = 8.64e15;

interface Timer {
  readonly dueMs: number;
  readonly fn: () => void;
}

/**
 * The one clock that everything in a sandbox obeys: token lifetimes, fault schedules, delays, the `Date` header.
 *
 * It runs with the machine's clocks until told otherwise. `advance` moves both its times on and runs the timers that
 * fall due, each at its own moment; `freeze` holds it still, so that only `advance` moves it; `resume` lets it run on
 * from where it stands. Handed to a registry, it makes both sides jump together.
 */
export class VirtualClock implements Clock {
  #wallOffsetMs = 0;
  #monotonicOffsetMs = 0;
  #heldMs: { wall: number; monotonic: number } | undefined;
  #advancing = false;
  #nextId = 0;
  #alarm: NodeJS.Timeout | undefined;
  #alarmDueMs = Number.POSITIVE_INFINITY;
  readonly #timers = new Map<number, Timer>();
  readonly #onChange: () => void;

  /** @param onChange called after the clock was moved, frozen or resumed. */
  constructor(onChange: () => void = () => {}) {
    this.#onChange = onChange;
  }

  get frozen(): boolean {
    return this.#heldMs !== undefined;
  }

  now(): number {
    return this.#heldMs ? this.#heldMs.wall : Math.round(Date.now() + this.#wallOffsetMs);
  }

  monotonic(): number {
    return this.#heldMs ? this.#heldMs.monotonic : performance.now() + this.#monotonicOffsetMs;
  }

  setTimeout(fn: () => void, ms: number): () => void {
    const id = this.#nextId++;
    const dueMs = this.monotonic() + Math.max(0, ms);
    this.#timers.set(id, { dueMs, fn });
    if (dueMs < this.#alarmDueMs) this.#wind();
    return () => {
      if (this.#timers.delete(id) && this.#timers.size === 0) this.#wind();
    };
  }

  /** Moves time on, running or frozen. Not while timers of another `advance` run: they are part of that one. */
  advance(ms: number): void {
    if (!(ms >= 0 && this.now() + ms <= LAST_DATE_MS))
      throw new RangeError('advance: expected milliseconds, 0 or more');
    if (this.#advancing) throw new Error('advance: time is being advanced already');
    const wasFrozen = this.frozen;
    const { wall, monotonic } = this.#hold();
    this.#advancing = true;
    try {
      for (let timer = this.#takeDue(monotonic + ms); timer; timer = this.#takeDue(monotonic + ms)) {
        const dueMs = Math.max(timer.dueMs, this.monotonic());
        this.#heldMs = { wall: wall + dueMs - monotonic, monotonic: dueMs };
        timer.fn();
      }
    } finally {
      this.#advancing = false;
      this.#heldMs = { wall: wall + ms, monotonic: monotonic + ms };
      if (!wasFrozen) this.#release();
      this.#wind();
    }
    this.#onChange();
  }

  freeze(): void {
    this.#hold();
    this.#wind();
    this.#onChange();
  }

  resume(): void {
    if (this.#heldMs) this.#release();
    this.#wind();
    this.#onChange();
  }

  #hold(): { wall: number; monotonic: number } {
    // Whole milliseconds, so that what is advanced by hand adds up exactly.
    this.#heldMs ??= { wall: this.now(), monotonic: Math.ceil(this.monotonic()) };
    return this.#heldMs;
  }

  #release(): void {
    if (!this.#heldMs) return;
    this.#wallOffsetMs = this.#heldMs.wall - Date.now();
    this.#monotonicOffsetMs = this.#heldMs.monotonic - performance.now();
    this.#heldMs = undefined;
  }

  /**
   * Sets the one real timer to the earliest of ours; none while time stands still. When a timer is cancelled the real one
   * stays, rings in vain and is set anew, unless it was the last: then nothing may keep the process alive.
   */
  #wind(): void {
    clearTimeout(this.#alarm);
    this.#alarm = undefined;
    this.#alarmDueMs = Number.POSITIVE_INFINITY;
    if (this.#heldMs || this.#timers.size === 0) return;
    for (const timer of this.#timers.values()) this.#alarmDueMs = Math.min(this.#alarmDueMs, timer.dueMs);
    const delayMs = Math.min(MAX_TIMER_MS, Math.max(0, Math.ceil(this.#alarmDueMs - this.monotonic())));
    this.#alarm = setTimeout(() => this.#ring(), delayMs);
  }

  #ring(): void {
    try {
      for (let timer = this.#takeDue(this.monotonic()); timer; timer = this.#takeDue(this.monotonic())) timer.fn();
    } finally {
      this.#wind();
    }
  }

  /** Takes out the timer that is due first, the oldest of several. */
  #takeDue(byMs: number): Timer | undefined {
    let first: [number, Timer] | undefined;
    for (const entry of this.#timers) {
      if (entry[1].dueMs <= byMs && (!first || entry[1].dueMs < first[1].dueMs)) first = entry;
    }
    if (first) this.#timers.delete(first[0]);
    return first?.[1];
  }
}
