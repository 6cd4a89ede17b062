/**
 * Where each unsettled request is: in a lane, or in one of four lists.
 *
 *     lanes ──start──▶ running ──far slower than usual──▶ slow
 *       ▲                │
 *       │                └──its source waits for another replica──▶ released ──back to a lane──▶
 *       └──after 50 to 150 ms──◀ retrying
 */

import type { Flight, LaneName } from './flight.ts';
import { Lanes } from './lanes.ts';
import { LinkedList } from './linked-list.ts';

export class Places {
  readonly lanes = new Lanes();
  /** In the order of their start. */
  readonly running = new LinkedList<Flight>();
  readonly slow = new LinkedList<Flight>();
  readonly released = new LinkedList<Flight>();
  readonly retrying = new LinkedList<Flight>();

  /** Requests that were not sent yet, or wait for their retry. */
  get queued(): number {
    return this.lanes.length + this.retrying.length;
  }

  get inFlight(): number {
    return this.running.length + this.slow.length + this.released.length;
  }

  /** How many requests count against the limit. Slow ones beyond as many as the limit count too. */
  counted(limit: number): number {
    return this.running.length + Math.max(0, this.slow.length - limit);
  }

  /** Whether the request holds a permit: it is at the service, and does not wait for another replica. */
  isSent(flight: Flight): boolean {
    return this.running.has(flight) || this.slow.has(flight);
  }

  queue(flight: Flight, lane: LaneName): void {
    this.take(flight);
    flight.lane = lane;
    this.lanes.push(flight);
  }

  move(flight: Flight, to: LinkedList<Flight>): void {
    this.take(flight);
    to.push(flight);
  }

  /** Takes the request out of its list. */
  take(flight: Flight): void {
    flight.list?.remove(flight);
  }

  *[Symbol.iterator](): Generator<Flight> {
    for (const list of [this.lanes, this.retrying, this.running, this.slow, this.released]) yield* list;
  }
}
