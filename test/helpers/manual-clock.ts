import type { Clock } from '../../src/clock.ts';

/**
 * A clock that moves only by calls. `advance` moves the wall and the monotonic time together and runs due timers in order;
 * `jumpWall` and `suspend` move only the wall time, like an adjusted system clock and a sleeping machine.
 */
export class ManualClock implements Clock {
  #wallMs: number;
  #monotonicMs = 0;
  #nextId = 0;
  readonly #timers = new Map<number, { dueMs: number; fn: () => void }>();

  constructor(startMs = Date.UTC(2030, 0, 1)) {
    this.#wallMs = startMs;
  }

  now(): number {
    return this.#wallMs;
  }

  monotonic(): number {
    return this.#monotonicMs;
  }

  setTimeout(fn: () => void, ms: number): () => void {
    const id = this.#nextId++;
    this.#timers.set(id, { dueMs: this.#monotonicMs + ms, fn });
    return () => this.#timers.delete(id);
  }

  /** Number of pending timers. */
  get pendingTimers(): number {
    return this.#timers.size;
  }

  /** Moves both times forward and runs each timer at its due time. Promises that timers start have not settled yet. */
  advance(ms: number): void {
    const endMs = this.#monotonicMs + ms;
    for (let next = this.#nextDue(endMs); next; next = this.#nextDue(endMs)) {
      const [id, { dueMs, fn }] = next;
      this.#timers.delete(id);
      this.#moveTo(Math.max(dueMs, this.#monotonicMs));
      fn();
    }
    this.#moveTo(endMs);
  }

  /** Sets the wall clock forward, or back, without time passing. */
  jumpWall(ms: number): void {
    this.#wallMs += ms;
  }

  /** The machine sleeps: the wall clock moves, the monotonic clock stands still. */
  suspend(ms: number): void {
    this.#wallMs += ms;
  }

  /** The event loop is blocked: both clocks move, and timers that become due run only at the next `advance`. */
  block(ms: number): void {
    this.#moveTo(this.#monotonicMs + ms);
  }

  #moveTo(monotonicMs: number): void {
    this.#wallMs += monotonicMs - this.#monotonicMs;
    this.#monotonicMs = monotonicMs;
  }

  #nextDue(endMs: number): [number, { dueMs: number; fn: () => void }] | undefined {
    let first: [number, { dueMs: number; fn: () => void }] | undefined;
    for (const entry of this.#timers) {
      if (entry[1].dueMs <= endMs && (!first || entry[1].dueMs < first[1].dueMs)) first = entry;
    }
    return first;
  }
}

/** Runs everything that is ready: microtasks, and what they queue. No time passes on any manual clock. */
export async function settle(rounds = 3): Promise<void> {
  for (let round = 0; round < rounds; round++) await new Promise((resolve) => setImmediate(resolve));
}

/**
 * Lets time pass, a step at a time, until the promise has settled.
 *
 * @param overHttp whose requests go over real connections: no time passes while one is in flight, because how many turns
 * of the event loop it takes differs from machine to machine.
 */
export async function asTimePasses<T>(
  promise: Promise<T>,
  clock: ManualClock,
  stepMs = 100,
  overHttp?: { stats(): { inFlight: number } },
): Promise<T> {
  let isOver = false;
  const over = () => {
    isOver = true;
  };
  promise.then(over, over);
  for (await settle(); !isOver; await settle()) {
    if (!overHttp || overHttp.stats().inFlight === 0) clock.advance(stepMs);
  }
  return promise;
}
