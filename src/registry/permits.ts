/**
 * The permits of requests in flight. A source that shares with other processes may release its permit while it only waits
 * for another's request, and queues for a new one before it makes its own.
 */

import pLimit from 'p-limit';
import type { Flight } from './flight.ts';

export class Permits {
  /** It has neither bound nor cancel, so it gets a request only when that one may start. */
  readonly #limit: ReturnType<typeof pLimit>;
  readonly #onRelease: (flight: Flight) => void;

  /** @param onRelease called when a flight no longer occupies a permit. */
  constructor(concurrency: number, onRelease: (flight: Flight) => void) {
    this.#limit = pLimit(concurrency);
    this.#onRelease = onRelease;
  }

  /**
   * Gives the flight a permit: its first one, with which it begins, or the one that its source queued for. Its release
   * takes effect at once, although p-limit notices a few microtasks later.
   */
  occupy(flight: Flight, begin: () => void): void {
    const released = new Promise<void>((resolve) => {
      flight.releasePermit = () => {
        flight.releasePermit = () => {};
        resolve();
        this.#onRelease(flight);
      };
    });
    void this.#limit(() => {
      begin();
      return released;
    });
  }

  /** Waits for another permit. `enqueue` puts the flight into the queue again. */
  async wait(flight: Flight, enqueue: () => void): Promise<void> {
    const { state } = flight;
    if (state.phase !== 'sent') return;
    const { signal } = state.abort;
    signal.throwIfAborted();
    await new Promise<void>((resolve, reject) => {
      const leave = () => reject(signal.reason);
      signal.addEventListener('abort', leave, { once: true });
      state.resume = () => {
        signal.removeEventListener('abort', leave);
        resolve();
      };
      enqueue();
    });
  }
}
