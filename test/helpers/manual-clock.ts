import type { Clock } from '../../src/clock.ts';

/** Something that happens at a time. What happens at the same time does so in the order in which it was scheduled. */
interface Event {
  readonly atMs: number;
  readonly order: number;
  readonly isTimer: boolean;
  /** Undefined once it has happened or was cancelled. */
  run: (() => void) | undefined;
}

/**
 * A clock that advances only when told to. `advance` and `passUntil` move the wall and the monotonic time together and run what
 * falls due, in order; the first at once, the second with time for promises in between, so that a simulated day takes a
 * second. `jumpWall` and `standStill` simulate clock changes and stalled processes.
 */
export class ManualClock implements Clock {
  #monotonicMs = 0;
  #wallAheadMs: number;
  #jumpedMs = 0;
  #pendingTimers = 0;
  #nextOrder = 0;
  /** A binary heap; its first event is the next one. */
  readonly #events: Event[] = [];

  constructor(startMs = Date.UTC(2030, 0, 1)) {
    this.#wallAheadMs = startMs;
  }

  get monotonicMs(): number {
    return this.#monotonicMs;
  }

  get wallMs(): number {
    return this.#wallAheadMs + this.#monotonicMs;
  }

  /** Advances with both times, and by what the wall time jumps forward. */
  get timelineMs(): number {
    return this.#jumpedMs + this.#monotonicMs;
  }

  now(): number {
    return this.wallMs;
  }

  monotonic(): number {
    return this.#monotonicMs;
  }

  setTimeout(fn: () => void, ms: number): () => void {
    return this.#add(this.#monotonicMs + ms, fn, true);
  }

  /** Number of pending timers. */
  get pendingTimers(): number {
    return this.#pendingTimers;
  }

  /** Schedules an event from outside the process. Returns a function that cancels it. @param atMs monotonic */
  at(atMs: number, fn: () => void): () => void {
    return this.#add(atMs, fn, false);
  }

  /** The monotonic time of the next timer or other event. */
  get nextDueMs(): number {
    return this.#next()?.atMs ?? Number.POSITIVE_INFINITY;
  }

  /** Runs the next event if it is due. Returns whether one was. */
  runNext(): boolean {
    if (this.nextDueMs > this.#monotonicMs) return false;
    this.#consume(takeFirst(this.#events))?.();
    return true;
  }

  /** Moves both times on to this monotonic time, without running anything. */
  moveTo(monotonicMs: number): void {
    this.#monotonicMs = Math.max(monotonicMs, this.#monotonicMs);
  }

  /** The process stalls for this long: what becomes due happens when the clock is next moved on. */
  standStill(ms: number): void {
    this.moveTo(this.#monotonicMs + ms);
  }

  /** The wall time alone moves: it is set forward or back, or the machine sleeps. */
  jumpWall(ms: number): void {
    this.#wallAheadMs += ms;
    this.#jumpedMs += Math.max(0, ms);
  }

  /** Moves both times forward and runs each event at its time. Promises that events start have not settled yet. */
  advance(ms: number): void {
    const endMs = this.#monotonicMs + ms;
    for (let dueMs = this.nextDueMs; dueMs <= endMs; dueMs = this.nextDueMs) {
      this.moveTo(dueMs);
      this.runNext();
    }
    this.moveTo(endMs);
  }

  /**
   * Runs all events up to this time. After each millisecond in which something happened, all promises settle.
   *
   * @param turnEach how often the event loop turns, too: a turn takes far longer than promises, and only work in slices
   * needs it.
   */
  async passUntil(endMs: number, turnEach = 1): Promise<void> {
    let ran = 0;
    while (this.nextDueMs <= endMs) {
      if (this.nextDueMs < this.#monotonicMs) await this.#catchUp();
      else {
        this.#runMillisecond(endMs);
        await (++ran % turnEach === 0 ? new Promise(setImmediate) : quiet());
      }
    }
    this.moveTo(endMs);
  }

  /** Runs what fell due while the process stood still: Node runs timers before it reads what has arrived. */
  async #catchUp(): Promise<void> {
    const late: Event[] = [];
    while (this.nextDueMs < this.#monotonicMs) late.push(takeFirst(this.#events));
    for (const event of late) if (event.isTimer) this.#consume(event)?.();
    await quiet();
    for (const event of late) {
      const run = this.#consume(event);
      run?.();
      if (run) await quiet();
    }
  }

  /** Runs the events of the next millisecond that has any, unless the process stands still in it. */
  #runMillisecond(endMs: number): void {
    const millisecond = Math.floor(this.nextDueMs);
    for (let dueMs = this.nextDueMs; Math.floor(dueMs) === millisecond; dueMs = this.nextDueMs) {
      if (dueMs > endMs || dueMs < this.#monotonicMs) return;
      this.moveTo(dueMs);
      this.runNext();
    }
  }

  #add(atMs: number, run: () => void, isTimer: boolean): () => void {
    const event: Event = { atMs: Math.max(atMs, this.#monotonicMs), order: this.#nextOrder++, isTimer, run };
    if (isTimer) this.#pendingTimers++;
    add(this.#events, event);
    return () => void this.#consume(event);
  }

  /** The next event that was not cancelled. */
  #next(): Event | undefined {
    while (this.#events[0] && !this.#events[0].run) takeFirst(this.#events);
    return this.#events[0];
  }

  /** Takes what the event does: it happens now, or is cancelled. */
  #consume(event: Event): (() => void) | undefined {
    const { run } = event;
    if (run && event.isTimer) this.#pendingTimers--;
    event.run = undefined;
    return run;
  }
}

const isBefore = (a: Event, b: Event) => a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);

function add(heap: Event[], event: Event): void {
  let index = heap.push(event) - 1;
  while (index > 0) {
    const parent = (index - 1) >> 1;
    if (isBefore(heap[parent] as Event, event)) break;
    heap[index] = heap[parent] as Event;
    index = parent;
  }
  heap[index] = event;
}

function takeFirst(heap: Event[]): Event {
  const first = heap[0] as Event;
  const last = heap.pop() as Event;
  if (heap.length === 0) return first;
  let index = 0;
  for (;;) {
    let child = 2 * index + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && isBefore(heap[child + 1] as Event, heap[child] as Event)) child++;
    if (isBefore(last, heap[child] as Event)) break;
    heap[index] = heap[child] as Event;
    index = child;
  }
  heap[index] = last;
  return first;
}

/** Runs everything that is ready, within this turn of the event loop: microtasks, and what they queue. */
export const quiet = () => new Promise<void>((resolve) => queueMicrotask(() => process.nextTick(resolve)));

/** The same in some turns of the event loop. No time passes on any manual clock. */
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
