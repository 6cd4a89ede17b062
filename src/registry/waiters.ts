/**
 * Callers that wait with a signal. When it aborts, the caller leaves at once; other callers of the request still wait.
 */

import type { AccessToken } from '../token.ts';
import type { Flight, Waiter } from './flight.ts';

/** The callers that share one signal, each with the request it waits for. */
interface Sharing {
  readonly flights: Map<Waiter, Flight>;
  readonly onAbort: () => void;
}

/**
 * Adds one listener per signal, no matter how many calls share it: adding a listener takes time linear in the existing
 * ones, and Node warns about the eleventh.
 */
export class Waiters {
  readonly #bySignal = new Map<AbortSignal, Sharing>();
  readonly #left: (flight: Flight) => void;

  /** @param left called for each caller that left its request. */
  constructor(left: (flight: Flight) => void) {
    this.#left = left;
  }

  wait(flight: Flight, signal: AbortSignal): Promise<AccessToken> {
    return new Promise((resolve, reject) => {
      const waiter = { signal, resolve, reject };
      flight.waiters.add(waiter);
      this.#sharing(signal).flights.set(waiter, flight);
    });
  }

  /** The request has settled: removes its callers and their listeners. */
  settled({ waiters }: Flight): void {
    for (const waiter of waiters) {
      const { signal } = waiter;
      const sharing = this.#bySignal.get(signal);
      sharing?.flights.delete(waiter);
      if (sharing?.flights.size !== 0) continue;
      this.#bySignal.delete(signal);
      signal.removeEventListener('abort', sharing.onAbort);
    }
    waiters.clear();
  }

  #sharing(signal: AbortSignal): Sharing {
    let sharing = this.#bySignal.get(signal);
    if (!sharing) {
      const flights = new Map<Waiter, Flight>();
      sharing = { flights, onAbort: () => this.#aborted(signal, flights) };
      this.#bySignal.set(signal, sharing);
      signal.addEventListener('abort', sharing.onAbort, { once: true });
    }
    return sharing;
  }

  #aborted(signal: AbortSignal, flights: Sharing['flights']): void {
    this.#bySignal.delete(signal);
    for (const [waiter, flight] of flights) {
      flight.waiters.delete(waiter);
      waiter.reject(signal.reason);
      this.#left(flight);
    }
  }
}
