/**
 * One span of time over everything that one token request does. It ends when the time is up or the caller's signal is
 * aborted; what is under way then is told by {@link Deadline.signal} and waited for no longer.
 */

import { setMaxListeners } from 'node:events';
import { type Clock, startTimer } from '../clock.ts';

export class Deadline {
  /** What ended it; undefined while it runs. */
  ended: 'time' | 'signal' | undefined;
  readonly #controller = new AbortController();
  readonly #cancelTimer: () => void;
  readonly #outer: AbortSignal | undefined;
  readonly #onAbort = (): void => this.#end('signal');

  constructor(clock: Clock | undefined, timeoutMs: number, outer: AbortSignal | undefined) {
    this.#cancelTimer = startTimer(clock, () => this.#end('time'), timeoutMs);
    this.#outer = outer;
    if (!outer) return;
    // One signal serves many requests at once, and some Node versions warn of the eleventh listener as if it leaked.
    if (outer instanceof EventTarget) setMaxListeners(0, outer);
    outer.addEventListener('abort', this.#onAbort, { once: true });
    if (outer.aborted) this.#end('signal');
  }

  /** Aborted when this ends early. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Settles as `work` does, or rejects with the signal's reason as soon as this ends. */
  over<T>(work: PromiseLike<T> | T): Promise<T> {
    return untilAborted(this.signal, work);
  }

  /** The work is done: no timer and no listener is left. */
  cancel(): void {
    this.#cancelTimer();
    this.#outer?.removeEventListener('abort', this.#onAbort);
  }

  #end(by: 'time' | 'signal'): void {
    this.ended = by;
    this.cancel();
    this.#controller.abort();
  }
}

/** Settles as `work` does, or rejects with the signal's reason as soon as it is aborted, whatever `work` does then. */
export function untilAborted<T>(signal: AbortSignal, work: PromiseLike<T> | T): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    void Promise.resolve(work)
      .then(resolve, reject)
      .finally(() => signal.removeEventListener('abort', onAbort));
  });
}
