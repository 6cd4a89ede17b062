/**
 * The time limit of one token request, from reading the secret to the last byte of the response. It is not an
 * `AbortSignal`, because creating one and listening to it costs a tenth of a request, and the steps of a request follow
 * one another: one listener is enough.
 */

import type { Cancellable } from '../cancellation.ts';
import { type Clock, startTimer } from '../clock.ts';
import { OwnerTokenError } from '../errors.ts';

export class Deadline {
  /** Why the request must end: a timeout, or `closed` if the caller's signal aborts first. Undefined while it may run. */
  reason: Error | undefined;
  /** Set by the step that is running. Called at most once, with the reason. */
  onEnd: ((reason: Error) => void) | undefined;
  readonly #outer: Cancellable | undefined;
  readonly #onAbort = (): void => this.#end(new OwnerTokenError('closed', 'the token request was aborted'));
  readonly #cancelTimer: () => void;

  /** Starts at once; `outer` ends it too. */
  constructor(clock: Clock, timeoutMs: number, outer: Cancellable | undefined) {
    this.#outer = outer;
    this.#cancelTimer = startTimer(clock, () => this.#end(timeoutError()), timeoutMs);
    outer?.addEventListener('abort', this.#onAbort);
    // An already aborted signal does not notify new listeners.
    if (outer?.aborted) this.#onAbort();
  }

  /** Settles like `work`, or rejects with the reason as soon as the deadline ends, even if `work` never settles. */
  race<T>(work: PromiseLike<T> | T): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.reason) reject(this.reason);
      this.onEnd = reject;
      Promise.resolve(work).then(resolve, reject);
    });
  }

  /** Removes the timer and the listener. Must be called when the request is done. */
  cancel(): void {
    this.#cancelTimer();
    this.#outer?.removeEventListener('abort', this.#onAbort);
  }

  #end(reason: Error): void {
    this.cancel();
    this.reason = reason;
    this.onEnd?.(reason);
  }
}

/** Has the code of a system timeout, so that failures are classified by code alone. */
function timeoutError(): Error {
  return Object.assign(new Error('the deadline passed'), { name: 'TimeoutError', code: 'ETIMEDOUT' });
}
