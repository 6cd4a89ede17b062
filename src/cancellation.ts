/**
 * How a token request ends early: the registry cancels it, or the token endpoint's time limit passes. A source gets a
 * genuine `AbortSignal`, created only when the source reads it: creating one and listening to it costs as much as the rest
 * of the registry's work on a request. The sources of this package listen to the {@link Cancellation} itself.
 */

import { type Clock, startLimit } from './clock.ts';
import { STOOD_STILL } from './errors/inconclusive.ts';
import { OwnerTokenError } from './errors/owner-token-error.ts';

/** The part of an `AbortSignal` that is enough to listen to it. */
export interface Cancellable {
  readonly aborted: boolean;
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

const CANCELLATION = Symbol('cancellation');

/** One function for all requests, because V8 stores an object with a unique accessor as a dictionary. */
const SIGNAL = {
  enumerable: true,
  get(this: { [CANCELLATION]: Cancellation }): AbortSignal {
    return this[CANCELLATION].signal;
  },
};

export class Cancellation implements Cancellable {
  aborted = false;
  reason: unknown;
  #request: object | undefined;
  #controller: AbortController | undefined;
  #listeners: readonly (() => void)[] = [];

  /** What to listen to for the end of this request. */
  static of(request: { readonly signal?: AbortSignal; [CANCELLATION]?: Cancellation }): Cancellable | undefined {
    const cancellation = request[CANCELLATION];
    // A copy of a request, or a proxy, may have another signal.
    return cancellation && cancellation.#request === request ? cancellation : request.signal;
  }

  /** Adds the `signal`, an own property, so that copies of the request have it too. */
  addTo<T extends object>(request: T): T & { readonly signal: AbortSignal } {
    this.#request = request;
    Object.defineProperty(request, CANCELLATION, { value: this });
    return Object.defineProperty(request, 'signal', SIGNAL) as T & { readonly signal: AbortSignal };
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.aborted) this.#controller.abort(this.reason);
    }
    return this.#controller.signal;
  }

  /** Only the first time counts, as with an `AbortController`. */
  abort(reason: unknown = new DOMException('This operation was aborted', 'AbortError')): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    for (const listener of this.#listeners) listener();
    this.#controller?.abort(reason);
  }

  throwIfAborted(): void {
    if (this.aborted) throw this.reason;
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    // A copy, because a listener may be added while the others are called. A spread would allocate 16 elements too many.
    this.#listeners = this.#listeners.concat(listener);
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    const at = this.#listeners.indexOf(listener);
    if (at >= 0) this.#listeners = this.#listeners.toSpliced(at, 1);
  }
}

/**
 * The time limit of one request to the token endpoint, from reading the secret to the last byte of the response. Not an
 * `AbortSignal` either: the steps of a request follow one another, so one listener is enough.
 */
export class Deadline {
  /** Why the request must end: a timeout, or `closed` if the caller's signal aborts first. Undefined while it may run. */
  reason: Error | undefined;
  /** Set by the step that is running. Called at most once, with the reason. */
  onEnd: ((reason: Error) => void) | undefined;
  readonly #outer: Cancellable | undefined;
  readonly #onAbort = (): void => this.#end(new OwnerTokenError('closed', 'the token request was aborted'));
  readonly #stop: () => void;

  /** Starts at once; `outer` ends it too. */
  constructor(clock: Clock, timeoutMs: number, outer: Cancellable | undefined) {
    this.#outer = outer;
    this.#stop = startLimit(clock, (hasStoodStill) => this.#end(timeoutError(hasStoodStill)), timeoutMs);
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
    this.#stop();
    this.#outer?.removeEventListener('abort', this.#onAbort);
  }

  #end(reason: Error): void {
    this.cancel();
    this.reason = reason;
    this.onEnd?.(reason);
  }
}

/** Has the code of a system timeout, so that failures are classified by code alone, or that of a standstill. */
function timeoutError(hasStoodStill: boolean): Error {
  const code = hasStoodStill ? STOOD_STILL : 'ETIMEDOUT';
  return Object.assign(new Error('the deadline passed'), { name: 'TimeoutError', code });
}
