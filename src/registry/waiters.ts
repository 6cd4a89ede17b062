/** Lets callers wait for a request. One whose signal aborts leaves at once; the others still wait. */

import type { AccessToken } from '../token.ts';
import type { Caller, Callers, Flight, Waiter } from './flight.ts';

/** The callers that share one signal, each with the request it waits for. */
interface SignalSharers {
  readonly flights: Map<Waiter, Flight>;
  readonly onAbort: () => void;
}

/**
 * The callers of all requests. Adds one listener per signal, no matter how many calls share it: adding a listener takes time
 * linear in the existing ones, and Node warns about the eleventh.
 */
export class Waiters {
  /** How many callers wait, with a signal or without. */
  count = 0;
  readonly #bySignal = new Map<AbortSignal, SignalSharers>();
  readonly #onAbort: (leaving: Iterable<[Waiter, Flight]>) => void;

  /** @param onAbort called with the callers whose signal has aborted, and their requests. */
  constructor(onAbort: (leaving: Iterable<[Waiter, Flight]>) => void) {
    this.#onAbort = onAbort;
  }

  /** Callers that are not demanding and have no signal all get the same promise. */
  wait(flight: Flight, { signal, isDemanding }: Caller): Promise<AccessToken> {
    const { callers } = flight;
    this.count++;
    if (!signal && !isDemanding) {
      callers.together++;
      return callers.outcome;
    }
    return new Promise((resolve, reject) => {
      const waiter = { signal, isDemanding, resolve, reject };
      callers.apart ??= new Set();
      callers.apart.add(waiter);
      if (signal) this.#sharersOf(signal).flights.set(waiter, flight);
    });
  }

  /** All callers get the token, except those whose signal has aborted. */
  resolve({ callers }: Flight, token: AccessToken): void {
    callers.resolve(token);
    for (const waiter of this.#release(callers)) {
      // Of many callers that share a signal, not all may have left yet.
      if (waiter.signal?.aborted) waiter.reject(waiter.signal.reason);
      else waiter.resolve(token);
    }
  }

  /** All callers except demanding ones get this token; later ones wait for the request's own. */
  giveMeanwhile(flight: Flight, token: AccessToken): void {
    const { callers } = flight;
    const demanding = new Set([...(callers.apart ?? [])].filter(({ isDemanding }) => isDemanding));
    for (const waiter of demanding) callers.apart?.delete(waiter);
    this.resolve(flight, token);
    if (demanding.size > 0) callers.apart = demanding;
    callers.renewOutcome();
  }

  /** All callers get the error. */
  reject({ callers }: Flight, error: unknown): void {
    // Marks the promise as handled: a refresh has no caller. Diagnostics report the failure.
    callers.outcome.catch(() => {});
    callers.reject(error);
    for (const waiter of this.#release(callers)) waiter.reject(error);
  }

  /** Rejects a caller whose signal has aborted. False if its request has ended in the meantime. */
  leave(waiter: Waiter, { callers }: Flight): boolean {
    if (!callers.apart?.delete(waiter)) return false;
    this.count--;
    waiter.reject(waiter.signal?.reason);
    return true;
  }

  /** Removes all callers. Returns those with promises of their own. */
  #release(callers: Callers): Iterable<Waiter> {
    const { apart = [] } = callers;
    this.count -= callers.count;
    callers.together = 0;
    callers.apart = undefined;
    for (const waiter of apart) {
      const { signal } = waiter;
      if (!signal) continue;
      const sharers = this.#bySignal.get(signal);
      sharers?.flights.delete(waiter);
      if (sharers?.flights.size !== 0) continue;
      this.#bySignal.delete(signal);
      signal.removeEventListener('abort', sharers.onAbort);
    }
    return apart;
  }

  #sharersOf(signal: AbortSignal): SignalSharers {
    let sharers = this.#bySignal.get(signal);
    if (!sharers) {
      const flights = new Map<Waiter, Flight>();
      const onAbort = () => {
        this.#bySignal.delete(signal);
        this.#onAbort(flights);
      };
      sharers = { flights, onAbort };
      this.#bySignal.set(signal, sharers);
      signal.addEventListener('abort', sharers.onAbort, { once: true });
    }
    return sharers;
  }
}
