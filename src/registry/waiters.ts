/** Callers that wait. One whose signal aborts leaves at once; the other callers of its request still wait. */

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
  /** How many callers wait, with a signal or without. */
  count = 0;
  readonly #bySignal = new Map<AbortSignal, Sharing>();
  readonly #onAbort: (leaving: Iterable<[Waiter, Flight]>) => void;

  /** @param onAbort called with the callers whose signal has aborted, and their requests. */
  constructor(onAbort: (leaving: Iterable<[Waiter, Flight]>) => void) {
    this.#onAbort = onAbort;
  }

  wait(flight: Flight, signal: AbortSignal | undefined): Promise<AccessToken> {
    this.count++;
    if (!signal) return flight.wait();
    return new Promise((resolve, reject) => {
      const waiter = { signal, resolve, reject };
      flight.waiters ??= new Set();
      flight.waiters.add(waiter);
      this.#sharing(signal).flights.set(waiter, flight);
    });
  }

  /** The request has settled: removes its callers and their listeners. */
  settled(flight: Flight): void {
    this.count -= flight.waiting;
    for (const waiter of flight.waiters ?? []) {
      const { signal } = waiter;
      const sharing = this.#bySignal.get(signal);
      sharing?.flights.delete(waiter);
      if (sharing?.flights.size !== 0) continue;
      this.#bySignal.delete(signal);
      signal.removeEventListener('abort', sharing.onAbort);
    }
    flight.settled();
  }

  #sharing(signal: AbortSignal): Sharing {
    let sharing = this.#bySignal.get(signal);
    if (!sharing) {
      const flights = new Map<Waiter, Flight>();
      const onAbort = () => {
        this.#bySignal.delete(signal);
        this.#onAbort(flights);
      };
      sharing = { flights, onAbort };
      this.#bySignal.set(signal, sharing);
      signal.addEventListener('abort', sharing.onAbort, { once: true });
    }
    return sharing;
  }

  /** Rejects a caller whose signal has aborted. False if its request has settled in the meantime. */
  leave(waiter: Waiter, flight: Flight): boolean {
    if (!flight.waiters?.delete(waiter)) return false;
    this.count--;
    waiter.reject(waiter.signal.reason);
    return true;
  }
}
