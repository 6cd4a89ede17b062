/**
 * The permits of in-flight requests. A source that shares tokens may release its permit while it only waits for the
 * request of another process, and queues for a new permit before it makes a request of its own.
 */

import pLimit from 'p-limit';
import type { Flight } from './flight.ts';

export class Permits {
  /** p-limit has no bound and no cancellation, so a request is passed to it only when it may start. */
  readonly #limit: ReturnType<typeof pLimit>;
  readonly #onRelease: (flight: Flight) => void;

  /** @param onRelease called when a flight no longer occupies a permit. */
  constructor(concurrency: number, onRelease: (flight: Flight) => void) {
    this.#limit = pLimit(concurrency);
    this.#onRelease = onRelease;
  }

  /**
   * Gives the flight a permit: its first one, or the one that its source queued for. A release takes effect at once,
   * although p-limit notices it a few microtasks later.
   */
  occupy(flight: Flight, begin: () => void): void {
    const released = new Promise<void>((resolve) => {
      flight.releasePermit = () => {
        flight.releasePermit = undefined;
        resolve();
        this.#onRelease(flight);
      };
    });
    void this.#limit(() => {
      begin();
      return released;
    });
  }

  /**
   * Waits for another permit, unless it has one or its source has settled. `enqueue` puts it into the queue again, once
   * for all concurrent calls.
   */
  async wait(flight: Flight, enqueue: () => void): Promise<void> {
    const { state } = flight;
    if (flight.releasePermit || state.phase !== 'sent') return;
    if (!state.permit) {
      state.permit = new Promise((resolve, reject) => {
        const { signal } = state.abort;
        const leave = () => reject(signal.reason);
        signal.addEventListener('abort', leave, { once: true });
        state.resume = () => {
          state.permit = undefined;
          signal.removeEventListener('abort', leave);
          resolve();
        };
      });
      enqueue();
    }
    await state.permit;
  }
}
