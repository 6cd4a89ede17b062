/**
 * The time limit of one token request, from reading the secret to the last byte of the response. Aborts
 * {@link Deadline.signal} with the error to report: a timeout, or `closed` when the caller's signal aborts first.
 */

import { type Clock, startTimer } from '../clock.ts';
import { OwnerTokenError } from '../errors.ts';

export interface Deadline {
  readonly signal: AbortSignal;
  /** Removes the timer and the listener. Call it when the request is done. */
  cancel(): void;
}

/** Starts a deadline on this clock; `outer` ends it too. */
export function startDeadline(clock: Clock, timeoutMs: number, outer: AbortSignal | undefined): Deadline {
  const controller = new AbortController();
  const end = (reason: Error): void => {
    cancel();
    controller.abort(reason);
  };
  const onAbort = (): void => end(new OwnerTokenError('closed', 'the token request was aborted'));
  const cancelTimer = startTimer(clock, () => end(timeoutError()), timeoutMs);
  const cancel = (): void => {
    cancelTimer();
    outer?.removeEventListener('abort', onAbort);
  };
  outer?.addEventListener('abort', onAbort, { once: true });
  if (outer?.aborted) onAbort();
  return { signal: controller.signal, cancel };
}

/** Has the code of a system timeout, so that failures are classified by code alone. */
function timeoutError(): Error {
  return Object.assign(new Error('the deadline passed'), { name: 'TimeoutError', code: 'ETIMEDOUT' });
}

/** Settles like `work`, or rejects with the signal's reason as soon as it aborts, even if `work` ignores the signal. */
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
