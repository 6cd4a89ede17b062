/**
 * How the registry ends a token request. A source sees a genuine `AbortSignal`, but one that is created only when it is
 * read: creating it and listening to it costs as much as the rest of the registry's work on a request. Sources of this
 * package listen to the {@link Cancellation} itself.
 */

/** The part of an `AbortSignal` that is enough to listen to it. */
export interface Cancellable {
  readonly aborted: boolean;
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

const CANCELLATION = Symbol('cancellation');

/** One function for all requests, because V8 stores an object whose accessor is its own as a dictionary. */
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
    this.#listeners = [...this.#listeners, listener];
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    const at = this.#listeners.indexOf(listener);
    if (at >= 0) this.#listeners = this.#listeners.toSpliced(at, 1);
  }
}
