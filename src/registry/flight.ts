/** One token request on its way, and those who wait for it. All of them share its outcome, success or failure. */

import { setMaxListeners } from 'node:events';
import type { AccessToken } from '../token.ts';

export class Flight {
  /** Settles when the request does. Callers without a signal are handed this very promise. */
  readonly outcome: Promise<AccessToken>;
  resolve!: (token: AccessToken) => void;
  reject!: (error: unknown) => void;
  readonly #abandoned: () => void;
  #waiting = 0;

  /** @param abandoned called when the last who waited has left. */
  constructor(abandoned: () => void) {
    this.#abandoned = abandoned;
    this.outcome = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    // A refresh has nobody waiting for it, and its failure is told by the diagnostics.
    this.outcome.catch(() => {});
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Waits for the outcome. A caller's signal detaches that caller alone, at once. */
  wait(signal: AbortSignal | undefined): Promise<AccessToken> {
    this.#waiting++;
    if (!signal) return this.outcome;
    // One signal may be given with many calls, and some Node versions warn of the eleventh listener as if it leaked.
    if (signal instanceof EventTarget) setMaxListeners(0, signal);
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting--;
        reject(signal.reason);
        if (this.#waiting === 0) this.#abandoned();
      };
      signal.addEventListener('abort', leave, { once: true });
      const stay = () => signal.removeEventListener('abort', leave);
      this.outcome.then(
        (token) => {
          stay();
          resolve(token);
        },
        (error) => {
          stay();
          reject(error);
        },
      );
    });
  }
}
