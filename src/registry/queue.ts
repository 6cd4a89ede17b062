/**
 * Where each request is until it ends, and which queued one starts next.
 *
 *     lanes ──start──▶ running ──far slower than usual──▶ slow
 *       ▲                │
 *       │                └──its source waits for another replica──▶ released ──back to a lane──▶
 *       └──after 50 to 150 ms──◀ retrying
 *
 * | lane | requests |
 * |---|---|
 * | trial | canaries, and before the first success callers' trials; they start even while a circuit stops all others |
 * | known | owners that had a token |
 * | new | owners that never had one |
 * | refresh | refreshes that no caller waits for |
 * | failing | owners whose last request failed |
 *
 * The first lane that is not empty goes first. Within a lane the oldest request goes first, but once it has waited a second,
 * the newest does (adaptive LIFO): in a queue longer than callers are willing to wait, FIFO would serve nobody in time.
 */

import type { Flight, Lane, Place } from './flight.ts';

export const LANES: readonly Lane[] = ['trial', 'known', 'new', 'refresh', 'failing'];

/** Once the oldest request of a lane has waited this long, the newest goes first. */
const NEWEST_FIRST_AFTER_MS = 1_000;

/**
 * A doubly linked list: the requests hold the links.
 *
 * Not a `Map` or `Set`, which V8 rehashes into a new table that the old one references: once an old table is promoted to the
 * old generation, all later ones survive minor collections. `test/system/allocations.test.ts` bounds what is left over.
 */
interface List {
  first: Flight | undefined;
  last: Flight | undefined;
  length: number;
}

const newList = (): List => ({ first: undefined, last: undefined, length: 0 });

export class RequestQueue {
  /** Requests in the lanes. */
  waiting = 0;
  /** The requests in each place. `running` is in the order of their start. */
  readonly lists: Readonly<Record<Place, Readonly<List>>> = {
    trial: newList(),
    known: newList(),
    new: newList(),
    refresh: newList(),
    failing: newList(),
    retrying: newList(),
    running: newList(),
    slow: newList(),
    released: newList(),
  };

  /** Requests that were not sent yet, or wait for their retry. */
  get queued(): number {
    return this.waiting + this.lists.retrying.length;
  }

  get inFlight(): number {
    const { running, slow, released } = this.lists;
    return running.length + slow.length + released.length;
  }

  /** Takes the request out of its place, and adds it to the end of another; undefined: to none. */
  move(flight: Flight, to: Place | undefined): void {
    if (flight.place) this.#unlink(flight, this.lists[flight.place]);
    flight.place = to;
    if (!to) return;
    const list: List = this.lists[to];
    flight.previous = list.last;
    if (list.last) list.last.next = flight;
    else list.first = flight;
    list.last = flight;
    list.length++;
    if (to === flight.lane) this.waiting++;
  }

  /** Leaves no links in the request, because they would keep its neighbours alive. */
  #unlink(flight: Flight, list: List): void {
    const { previous, next } = flight;
    if (previous) previous.next = next;
    else list.first = next;
    if (next) next.previous = previous;
    else list.last = previous;
    flight.previous = undefined;
    flight.next = undefined;
    list.length--;
    if (flight.place === flight.lane) this.waiting--;
  }

  /** Adds the request to a lane, which may be another one than before. */
  enqueue(flight: Flight, lane: Lane): void {
    this.move(flight, undefined);
    flight.lane = lane;
    this.move(flight, lane);
  }

  /** Moves the request that starts next to `running`. @param onlyTrials while a circuit stops all others. */
  takeNext(nowMs: number, onlyTrials: boolean): Flight | undefined {
    for (const lane of LANES) {
      const { first, last } = this.lists[lane];
      const next = first && nowMs - first.queuedAtMs > NEWEST_FIRST_AFTER_MS ? last : first;
      if (next) this.move(next, 'running');
      if (next || onlyTrials) return next;
    }
    return undefined;
  }

  /** The request that has waited longest. */
  get longestWaiting(): Flight | undefined {
    let longest: Flight | undefined;
    for (const lane of LANES) {
      const { first } = this.lists[lane];
      if (first && (!longest || first.queuedAtMs < longest.queuedAtMs)) longest = first;
    }
    return longest;
  }

  /** All requests, those in flight first. The others are not copied: end each before asking for the next, or it comes again. */
  *drain(): Generator<Flight> {
    const { running, slow, released, ...waiting } = this.lists;
    yield* [running, slow, released].flatMap(flightsIn);
    for (const list of Object.values(waiting)) while (list.first) yield list.first;
  }
}

function flightsIn({ first }: Readonly<List>): Flight[] {
  const flights: Flight[] = [];
  for (let flight = first; flight; flight = flight.next) flights.push(flight);
  return flights;
}
