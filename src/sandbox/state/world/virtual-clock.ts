import type { Clock } from '../../../clock.ts';

/** The longest delay that Node's timers take; a longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The last time that a `Date` can hold. */
const LAST_DATE_MS = 8.64e15;

export type ClockChange = { kind: 'advanced'; fromMs: number; toMs: number } | { kind: 'frozen' | 'resumed' };

/**
 * The one clock that everything in a sandbox obeys. Give it to the registry, and both sides jump together.
 *
 * @example
 * ```ts
 * const clock: SandboxClock = sandbox.clock;
 * await using tokens = new OwnerTokenRegistry({
 *   source: new TokenEndpoint({ baseUrl, clientId, clientSecret, clock }),
 *   clock,
 * });
 * await tokens.getToken(accessKey);
 * clock.advance(3_600_000);
 * console.log(tokens.describe(accessKey).phase); // → expired
 * ```
 */
export interface SandboxClock extends Clock {
  /** Whether it stands still. */
  readonly frozen: boolean;
  /** Calls `fn` once, `ms` milliseconds from now by this clock. Returns a function that cancels it. */
  setTimeout(fn: () => void, ms: number): () => void;
  /**
   * Advances time, running or frozen, and runs the timers that fall due, each at its own moment. Throws when called by a
   * timer that runs within another `advance`.
   *
   * @param ms milliseconds, 0 or more.
   */
  advance(ms: number): void;
  /** Stops it, so that only `advance` moves it. */
  freeze(): void;
  /** Lets it run again from where it stands. */
  resume(): void;
}

interface Timer {
  readonly dueMs: number;
  readonly fn: () => void;
}

/**
 * The clock of token lifetimes, fault schedules, delays and the `Date` header. It follows the machine's clocks until it is
 * advanced or frozen.
 */
export class VirtualClock implements SandboxClock {
  #wallOffsetMs = 0;
  #monotonicOffsetMs = 0;
  #heldMs: { wall: number; monotonic: number } | undefined;
  #advancing = false;
  #nextId = 0;
  #alarm: NodeJS.Timeout | undefined;
  #alarmDueMs = Number.POSITIVE_INFINITY;
  readonly #timers = new Map<number, Timer>();
  readonly #onChange: (change: ClockChange) => void;

  /** @param onChange called after the clock was advanced, frozen or resumed. */
  constructor(onChange: (change: ClockChange) => void = () => {}) {
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

  advance(ms: number): void {
    if (!(ms >= 0 && this.now() + ms <= LAST_DATE_MS))
      throw new RangeError('advance(ms): ms must be a number >= 0, within the range of Date');
    if (this.#advancing) throw new Error('advance: the clock is being advanced already');
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
    this.#onChange({ kind: 'advanced', fromMs: wall, toMs: wall + ms });
  }

  freeze(): void {
    this.#hold();
    this.#wind();
    this.#onChange({ kind: 'frozen' });
  }

  resume(): void {
    if (this.#heldMs) this.#release();
    this.#wind();
    this.#onChange({ kind: 'resumed' });
  }

  #hold(): { wall: number; monotonic: number } {
    // Whole milliseconds, so that manual advances add up exactly.
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
   * Sets the single real timer to the earliest virtual one; none while frozen. Cancelling a virtual timer leaves the
   * real one, which then fires in vain, unless it was the last: nothing may keep the process alive then.
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

  /** Removes and returns the timer that is due first; of several, the oldest. */
  #takeDue(byMs: number): Timer | undefined {
    let first: [number, Timer] | undefined;
    for (const entry of this.#timers) {
      if (entry[1].dueMs <= byMs && (!first || entry[1].dueMs < first[1].dueMs)) first = entry;
    }
    if (first) this.#timers.delete(first[0]);
    return first?.[1];
  }
}
