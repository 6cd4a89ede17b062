import type { Clock } from '../../src/clock.ts';

/**
 * A clock that only moves when told to. `advance` moves both its times together and runs what falls due, in order;
 * `jumpWall` and `suspend` move one without the other, as a corrected system clock and a sleeping machine do.
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

  /** How many timers are waiting. */
  get pendingTimers(): number {
    return this.#timers.size;
  }

  /** Moves both times on, running each timer at its own moment. What it starts asynchronously has not settled yet. */
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

  /** Sets the wall clock on (or back) without time passing. */
  jumpWall(ms: number): void {
    this.#wallMs += ms;
  }

  /** The machine sleeps: the wall clock goes on, the monotonic one stands still. */
  suspend(ms: number): void {
    this.#wallMs += ms;
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

/** Lets everything that is ready to run, run: microtasks, and what they queue. No time passes on any manual clock. */
export async function settle(): Promise<void> {
  for (let round = 0; round < 3; round++) await new Promise((resolve) => setImmediate(resolve));
}
