/**
 * The order in which queued requests start.
 *
 * | lane | requests |
 * |---|---|
 * | canary | canaries, and before the first success callers' trials; they start even while a circuit stops all others |
 * | known | owners that had a token |
 * | new | owners that never had one |
 * | refresh | refreshes that no caller waits for |
 * | failing | owners whose last request failed |
 *
 * The first lane that is not empty goes first. Within a lane the oldest request goes first, but once it has waited a second,
 * the newest does (adaptive LIFO): in a queue longer than callers are willing to wait, FIFO would serve nobody in time.
 */

import type { Flight, LaneName } from './flight.ts';
import { LinkedList } from './linked-list.ts';
import type { Slot } from './slot.ts';

export const LANES: readonly LaneName[] = ['canary', 'known', 'new', 'refresh', 'failing'];

/** Once the oldest request of a lane has waited this long, the newest goes first. */
const NEWEST_FIRST_AFTER_MS = 1_000;

/** The lane of a request that a caller waits for. */
export function laneOf({ held, trouble }: Slot): LaneName {
  if (trouble?.failure) return 'failing';
  return held || trouble?.issuedAtMs !== undefined ? 'known' : 'new';
}

export class Lanes {
  readonly #lanes: Readonly<Record<LaneName, LinkedList<Flight>>>;

  constructor() {
    const list = () => new LinkedList<Flight>();
    this.#lanes = { canary: list(), known: list(), new: list(), refresh: list(), failing: list() };
  }

  get length(): number {
    let length = 0;
    for (const name of LANES) length += this.#lanes[name].length;
    return length;
  }

  push(flight: Flight): void {
    this.#lanes[flight.lane].push(flight);
  }

  has(flight: Flight): boolean {
    return this.#lanes[flight.lane].has(flight);
  }

  /** The request to start next. @param onlyCanaries while a circuit stops all others. */
  next(nowMs: number, onlyCanaries: boolean): Flight | undefined {
    const names = onlyCanaries ? LANES.slice(0, 1) : LANES;
    for (const name of names) {
      const { first, last } = this.#lanes[name];
      if (first) return nowMs - first.queuedAtMs > NEWEST_FIRST_AFTER_MS ? last : first;
    }
    return undefined;
  }

  /** The oldest request of a lane. */
  oldest(name: LaneName): Flight | undefined {
    return this.#lanes[name].first;
  }

  /** The request that has waited longest. */
  get longestWaiting(): Flight | undefined {
    let longest: Flight | undefined;
    for (const name of LANES) {
      const { first } = this.#lanes[name];
      if (first && (!longest || first.queuedAtMs < longest.queuedAtMs)) longest = first;
    }
    return longest;
  }

  *[Symbol.iterator](): Generator<Flight> {
    for (const name of LANES) yield* this.#lanes[name];
  }
}
