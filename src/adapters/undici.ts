/** Owner tokens for undici's own interface (`request`, `stream`, `pipeline`): an interceptor for `compose`. */

import type { OwnerFetch } from '../calling/owner-fetch.ts';

/**
 * The part of undici's dispatch options that is used.
 *
 * @example
 * ```ts
 * const options: DispatchOptionsLike = { origin: baseUrl, path: '/echo' };
 * ```
 */
export interface DispatchOptionsLike {
  /** Where the request goes. Without it the request fails, because tokens are sent to known origins only. */
  origin?: string | URL | null;
  /** Path and query. */
  path: string;
  /** The headers, in any form that undici accepts. */
  headers?: unknown;
  /** The body; a stream cannot be sent again. */
  body?: unknown;
  /** Ends the call, and its wait for a token. */
  signal?: unknown;
}

interface Controller {
  abort(reason: Error): void;
}

/** The part of undici's handlers that receives a response. */
interface Handler {
  onRequestStart?(controller: Controller, context: unknown): void;
  onRequestUpgrade?(controller: Controller, ...rest: unknown[]): void;
  onResponseStart?(controller: Controller, status: number, ...rest: unknown[]): void;
  onResponseData?(controller: Controller, chunk: Uint8Array): void;
  onResponseEnd?(controller: Controller, trailers: unknown): void;
  onResponseError?(controller: Controller, error: Error): void;
}

/**
 * undici's `dispatch`, which an interceptor wraps.
 *
 * @example
 * ```ts
 * const refuse: DispatchLike<DispatchOptionsLike, object> = () => false;
 * ```
 */
export type DispatchLike<O, H> = (options: O, handler: H) => boolean;

/**
 * Makes an interceptor for `compose`. Every request gets the owner's token, and is retried once after a 401 if its body can be
 * sent again. Place it before a `redirect` interceptor, so that each hop is checked too. For undici 7 and later.
 *
 * @example
 * ```ts
 * import { Agent, request } from 'undici';
 *
 * const dispatcher = new Agent().compose(ownerTokenInterceptor(registry.ownerFetch(accessKey)));
 * console.log((await request(`${baseUrl}/echo`, { dispatcher })).statusCode); // → 200
 * ```
 */
export function ownerTokenInterceptor(
  call: OwnerFetch,
): <O extends DispatchOptionsLike, H extends object>(dispatch: DispatchLike<O, H>) => DispatchLike<O, H> {
  return <O extends DispatchOptionsLike, H extends object>(dispatch: DispatchLike<O, H>) =>
    (options: O, handler: H) => {
      const fail = (error: Error) => (handler as Handler).onResponseError?.(NOT_STARTED, error);
      const send = async (retries: number): Promise<void> => {
        const presented = new Headers();
        const token = await call.authorize(urlOf(options), presented, { signal: signalOf(options) });
        const retry = () => send(0).catch(fail);
        const retrying = new RetryingHandler(
          handler,
          retries > 0 && canBeSentAgain(options.body) ? retry : undefined,
          (status) => call.answered(token, status),
        );
        dispatch({ ...options, headers: mergedHeaders(options.headers, presented) }, retrying as object as H);
      };
      void send(1).catch(fail);
      return true;
    };
}

/** How much of an unwanted 401 is read so that its connection can be reused, and for how long. */
const MAX_DISCARDED_BYTES = 65_536;
const MAX_DISCARD_MS = 1_000;

/** Forwards every event, except those of a 401 that is retried. */
class RetryingHandler implements Handler {
  readonly #inner: Handler;
  readonly #retry: (() => unknown) | undefined;
  /** Returns whether the token was rejected. */
  readonly #reportStatus: (status: number) => boolean;
  #discarding = false;
  #discardedBytes = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(inner: Handler, retry: (() => unknown) | undefined, reportStatus: (status: number) => boolean) {
    this.#inner = inner;
    this.#retry = retry;
    this.#reportStatus = reportStatus;
  }

  onRequestStart(controller: Controller, context: unknown): void {
    this.#inner.onRequestStart?.(controller, context);
  }

  onRequestUpgrade(controller: Controller, ...rest: unknown[]): void {
    this.#inner.onRequestUpgrade?.(controller, ...rest);
  }

  onResponseStart(controller: Controller, status: number, ...rest: unknown[]): void {
    this.#discarding = this.#reportStatus(status) && this.#retry !== undefined;
    if (this.#discarding) this.#timer = setTimeout(() => controller.abort(DISCARDED), MAX_DISCARD_MS).unref();
    else this.#inner.onResponseStart?.(controller, status, ...rest);
  }

  onResponseData(controller: Controller, chunk: Uint8Array): void {
    if (!this.#discarding) {
      this.#inner.onResponseData?.(controller, chunk);
      return;
    }
    this.#discardedBytes += chunk.byteLength;
    if (this.#discardedBytes > MAX_DISCARDED_BYTES) controller.abort(DISCARDED);
  }

  onResponseEnd(controller: Controller, trailers: unknown): void {
    if (this.#discarding) this.#startRetry();
    else this.#inner.onResponseEnd?.(controller, trailers);
  }

  onResponseError(controller: Controller, error: Error): void {
    if (this.#discarding) this.#startRetry();
    else this.#inner.onResponseError?.(controller, error);
  }

  #startRetry(): void {
    clearTimeout(this.#timer);
    this.#retry?.();
  }
}

const DISCARDED = Object.freeze(new Error('the 401 is discarded'));

/** The controller for a request that was never sent. */
const NOT_STARTED = Object.freeze({
  paused: false,
  aborted: false,
  reason: null,
  rawHeaders: null,
  rawTrailers: null,
  pause() {},
  resume() {},
  abort() {},
});

function urlOf({ origin, path }: DispatchOptionsLike): URL {
  if (!origin) throw new TypeError('the request has no `origin`, and tokens are sent to known origins only');
  return new URL(path, origin);
}

/** undici also accepts event emitters, which take effect once the request is sent. */
function signalOf({ signal }: DispatchOptionsLike): AbortSignal | undefined {
  return signal instanceof AbortSignal ? signal : undefined;
}

/** Forms and blobs may be undici's or the platform's, so they are recognized by name. */
function canBeSentAgain(body: unknown): boolean {
  if (body === undefined || body === null || typeof body === 'string') return true;
  return body instanceof Uint8Array || /^\[object (FormData|Blob|File)\]$/.test(Object.prototype.toString.call(body));
}

/** The caller's headers, in any form that undici accepts, overridden by the presented ones. */
function mergedHeaders(given: unknown, presented: Headers): Record<string, unknown> {
  const merged: Record<string, unknown> = {};
  for (const [name, value] of entriesOf(given)) {
    if (presented.has(name)) continue;
    merged[name] = name in merged ? [merged[name], value].flat() : value;
  }
  return Object.assign(merged, Object.fromEntries(presented));
}

function entriesOf(given: unknown): Iterable<[string, unknown]> {
  if (typeof given !== 'object' || given === null) return [];
  const isFlat = Array.isArray(given) && !Array.isArray(given[0]);
  if (isFlat) return given.flatMap((name, at) => (at % 2 === 0 ? [[String(name), given[at + 1]]] : []));
  return Symbol.iterator in given ? (given as Iterable<[string, unknown]>) : Object.entries(given);
}
