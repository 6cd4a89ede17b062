/** Time that passes only from event to event, so that three days take a second and no figure depends on the machine. */

import type { Clock } from '../../src/clock.ts';
import type { Span } from './scene.ts';

interface Event {
  readonly atMs: number;
  /** Events of one moment run in the order in which they were set. */
  readonly order: number;
  readonly isTimer: boolean;
  run: (() => void) | undefined;
}

/** Epoch milliseconds at which every run starts. */
const STARTED_MS = Date.UTC(2030, 0, 1);

export class VirtualTime implements Clock {
  #nowMs = 0;
  #set = 0;
  /** A binary heap; the first event is the next one. */
  readonly #events: Event[] = [];
  readonly #standstills: readonly Span[];

  /** @param standstills when the process does not run: what falls due meanwhile happens afterwards, timers before all else. */
  constructor(standstills: readonly Span[] = []) {
    this.#standstills = standstills;
  }

  /** Milliseconds since the run started. */
  get nowMs(): number {
    return this.#nowMs;
  }

  now(): number {
    return STARTED_MS + this.#nowMs;
  }

  monotonic(): number {
    return this.#nowMs;
  }

  setTimeout(fn: () => void, ms: number): () => void {
    return this.#add(this.#nowMs + ms, fn, true);
  }

  /** Runs `fn` at this time. Returns a function that cancels it. */
  at(atMs: number, fn: () => void): () => void {
    return this.#add(atMs, fn, false);
  }

  #add(atMs: number, fn: () => void, isTimer: boolean): () => void {
    const event: Event = { atMs: Math.max(atMs, this.#nowMs), order: this.#set++, isTimer, run: fn };
    const events = this.#events;
    let index = events.push(event) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (isBefore(events[parent] as Event, event)) break;
      events[index] = events[parent] as Event;
      index = parent;
    }
    events[index] = event;
    return () => {
      event.run = undefined;
    };
  }

  /**
   * Runs all events up to this time. After each millisecond in which something happened, all promises settle.
   *
   * @param turnEach how often the event loop turns, too: a turn takes far longer than promises, and only work in slices
   * needs it.
   */
  async passUntil(endMs: number, turnEach = 1): Promise<void> {
    const events = this.#events;
    let ran = 0;
    for (let next = events[0]; next && next.atMs <= endMs; next = events[0]) {
      const standstill = this.#standstills.find(([fromMs, toMs]) => next.atMs >= fromMs && next.atMs < toMs);
      if (standstill) await this.#thaw(standstill[1]);
      else if (this.#runMillisecond(endMs)) await (++ran % turnEach === 0 ? new Promise(setImmediate) : settled());
    }
    this.#nowMs = Math.max(this.#nowMs, endMs);
  }

  /** Runs what fell due before this time, at this time: Node runs timers before it reads what has arrived. */
  async #thaw(atMs: number): Promise<void> {
    this.#nowMs = atMs;
    const late: Event[] = [];
    while (this.#events[0] && this.#events[0].atMs < atMs) late.push(this.#takeFirst());
    for (const { isTimer, run } of late) if (isTimer) run?.();
    await settled();
    for (const event of late) {
      if (event.isTimer || !event.run) continue;
      event.run();
      await settled();
    }
  }

  /** Runs the events of the next millisecond that has any. Returns whether one had not been cancelled. */
  #runMillisecond(endMs: number): boolean {
    const events = this.#events;
    const millisecond = Math.floor((events[0] as Event).atMs);
    let ran = false;
    for (let next = events[0]; next && Math.floor(next.atMs) === millisecond && next.atMs <= endMs; next = events[0]) {
      const { atMs, run } = this.#takeFirst();
      if (!run) continue;
      this.#nowMs = atMs;
      ran = true;
      run();
    }
    return ran;
  }

  #takeFirst(): Event {
    const events = this.#events;
    const first = events[0] as Event;
    const last = events.pop() as Event;
    if (events.length === 0) return first;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= events.length) break;
      if (child + 1 < events.length && isBefore(events[child + 1] as Event, events[child] as Event)) child++;
      if (isBefore(last, events[child] as Event)) break;
      events[index] = events[child] as Event;
      index = child;
    }
    events[index] = last;
    return first;
  }
}

const settled = () => new Promise<void>((resolve) => queueMicrotask(() => process.nextTick(resolve)));

const isBefore = (a: Event, b: Event) => a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
