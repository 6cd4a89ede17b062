/**
 * Where each unsettled request is: in a lane, or in one of four lists.
 *
 *     lanes ──start──▶ running ──far slower than usual──▶ slow
 *       ▲                │
 *       │                └──its source waits for another replica──▶ away ──back to a lane──▶
 *       └──to be sent again──◀ resting
 */

import type { Flight, LaneName } from './flight.ts';
import { Lanes } from './lanes.ts';
import { LinkedList } from './linked-list.ts';

export class Places {
  readonly lanes = new Lanes();
  /** In start order. */
  readonly running = new LinkedList<Flight>();
  readonly slow = new LinkedList<Flight>();
  readonly away = new LinkedList<Flight>();
  readonly resting = new LinkedList<Flight>();

  /** Requests that were not sent, or are to be sent again. */
  get queued(): number {
    return this.lanes.length + this.resting.length;
  }

  get inFlight(): number {
    return this.running.length + this.slow.length + this.away.length;
  }

  /** How many requests count against a limit. As many slow ones do not; any more do. */
  counted(limit: number): number {
    return this.running.length + Math.max(0, this.slow.length - limit);
  }

  /** Whether the request is with the service, and does not wait for another replica. */
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
    for (const list of [this.lanes, this.resting, this.running, this.slow, this.away]) yield* list;
  }
}
