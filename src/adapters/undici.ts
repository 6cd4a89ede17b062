/** Owner tokens for undici's own interface (`request`, `stream`, `pipeline`): an interceptor for `compose`. */

import { CREDENTIAL_HEADERS, leavesAllowedOrigins } from '../calling/leaving.ts';
import type { OwnerFetch } from '../calling/owner-fetch.ts';
import type { AccessToken } from '../token.ts';

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
  /** Path and query. Begins with a slash: a proxy would follow a complete URL in its place. */
  path: string;
  /** The headers, in any form that undici accepts. */
  headers?: unknown;
  /** The body; a stream cannot be sent again. */
  body?: unknown;
  /** Ends the call, and its wait for a token. */
  signal?: unknown;
}

interface Controller {
  readonly aborted: boolean;
  abort(reason: Error): void;
  pause(): void;
  resume(): void;
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

/** The last request of a call. */
interface Hop {
  readonly origin: string | URL;
  readonly presented: Headers;
  /** Whether a redirect has led away from the allowed origins. */
  readonly isAway: boolean;
}

/** A token, and the headers that present it. */
interface Authorization {
  readonly token: AccessToken;
  readonly presented: Headers;
}

/**
 * Makes an interceptor for `compose`. Every request gets the owner's token. After a 401 the call is made once more, with a
 * new token if one can be had, provided that its body can be sent again. If no token can be had, the call returns the 401.
 *
 * What is checked is the request's `origin`, to which an `Agent` connects whatever the path says; a `Pool` or `Client`
 * connects to its own. Place the interceptor before a `redirect` interceptor, so that each hop is checked too: one to an origin that
 * is not allowed is sent without the token, cookies and proxy credentials. A `redirect` interceptor before it follows nothing. For
 * undici 7 and later.
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
  /** What is known of calls, by their handlers. All hops of a redirect have the same one. */
  const repeated = new WeakSet<object>();
  const hops = new WeakMap<object, Hop>();
  return <O extends DispatchOptionsLike, H extends object>(dispatch: DispatchLike<O, H>) =>
    (given: O, handler: H) => {
      // A copy, because a token may have to be requested first: what was checked is what is sent.
      const options: O = { ...given, origin: given.origin ? String(given.origin) : null };

      const authorize = async (): Promise<Authorization> => {
        const presented = new Headers();
        const token = await call.authorize(originOf(options), presented, { signal: signalOf(options) });
        return { token, presented };
      };

      const send = ({ token, presented }: Authorization): void => {
        const renew = async () => {
          const renewed = await authorize();
          repeated.add(handler);
          return () => start(() => send(renewed));
        };
        hops.set(handler, { origin: originOf(options), presented, isAway: false });
        const mayRepeat = !repeated.has(handler) && canBeSentAgain(options.body);
        const answered = (status: number) => call.answered(token, status);
        const repeating = new RepeatingHandler(handler, answered, mayRepeat ? renew : undefined);
        const headers = mergedHeaders(options.headers, presented);
        // A `redirect` interceptor between this one and the network would follow redirects unchecked.
        dispatch({ ...options, headers, maxRedirections: 0 }, repeating as object as H);
      };

      /** Sends it without credentials: a redirect has led away from the allowed origins. */
      const sendAway = (before: Hop): void => {
        hops.set(handler, { ...before, origin: originOf(options), isAway: true });
        const headers = withoutCredentials(options.headers, before.presented);
        dispatch({ ...options, headers, maxRedirections: 0 }, handler);
      };

      const follow = async (before: Hop): Promise<void> => {
        const isAway = leavesAllowedOrigins(call, before.origin, originOf(options)) || before.isAway;
        if (isAway) sendAway(before);
        else send(await authorize());
      };

      const start = async (sending: () => void | Promise<void>): Promise<void> => {
        try {
          await sending();
        } catch (error) {
          (handler as Handler).onResponseError?.(NOT_STARTED, error as Error);
        }
      };

      const before = hops.get(handler);
      void start(before ? () => follow(before) : async () => send(await authorize()));
      return true;
    };
}

/** How much of an unwanted 401 is read so that its connection can be reused, and for how long. */
const MAX_DISCARDED_BYTES = 65_536;
const MAX_DISCARD_MS = 1_000;

/** Forwards every event, except those of a 401 after which the call is repeated. */
class RepeatingHandler implements Handler {
  readonly #inner: Handler;
  /** Returns whether the token was rejected. */
  readonly #answered: (status: number) => boolean;
  /** Obtains another token; resolves to what makes the call again. */
  readonly #renew: (() => Promise<() => unknown>) | undefined;
  /** The further events of a 401, until it is known whether the call is repeated. */
  #held: (() => void)[] | undefined;
  #repeat: (() => unknown) | undefined;
  #discardedBytes = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(inner: Handler, answered: (status: number) => boolean, renew?: () => Promise<() => unknown>) {
    this.#inner = inner;
    this.#answered = answered;
    this.#renew = renew;
  }

  onRequestStart(controller: Controller, context: unknown): void {
    this.#inner.onRequestStart?.(controller, context);
  }

  onRequestUpgrade(controller: Controller, ...rest: unknown[]): void {
    this.#inner.onRequestUpgrade?.(controller, ...rest);
  }

  onResponseStart(controller: Controller, status: number, ...rest: unknown[]): void {
    const forward = () => this.#inner.onResponseStart?.(controller, status, ...rest);
    if (!this.#answered(status) || !this.#renew) forward();
    else this.#decide(controller, this.#renew(), forward).catch((error) => controller.abort(error));
  }

  onResponseData(controller: Controller, chunk: Uint8Array): void {
    if (this.#held) this.#held.push(() => this.onResponseData(controller, chunk));
    else if (!this.#repeat) this.#inner.onResponseData?.(controller, chunk);
    else {
      this.#discardedBytes += chunk.byteLength;
      if (this.#discardedBytes > MAX_DISCARDED_BYTES) controller.abort(DISCARDED);
    }
  }

  onResponseEnd(controller: Controller, trailers: unknown): void {
    if (this.#held) this.#held.push(() => this.onResponseEnd(controller, trailers));
    else if (this.#repeat) this.#startRepeat();
    else this.#inner.onResponseEnd?.(controller, trailers);
  }

  onResponseError(controller: Controller, error: Error): void {
    if (this.#held && !controller.aborted) this.#held.push(() => this.onResponseError(controller, error));
    else if (this.#repeat) this.#startRepeat();
    else {
      this.#held = undefined;
      this.#inner.onResponseError?.(controller, error);
    }
  }

  /** Pauses the 401 until there is another token, and then repeats the call, or forwards the 401 if there is none. */
  async #decide(controller: Controller, renewal: Promise<() => unknown>, forward: () => void): Promise<void> {
    const held: (() => void)[] = [];
    this.#held = held;
    controller.pause();
    const repeat = await renewal.catch(() => undefined);
    // The caller has ended the call in the meantime.
    if (this.#held !== held) return;
    this.#held = undefined;
    this.#repeat = repeat;
    if (repeat) this.#timer = setTimeout(() => controller.abort(DISCARDED), MAX_DISCARD_MS).unref();
    else forward();
    for (const event of held) event();
    controller.resume();
  }

  #startRepeat(): void {
    clearTimeout(this.#timer);
    // undici makes the connection available again in the next turn of the event loop.
    if (this.#repeat) setImmediate(setImmediate, this.#repeat);
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

/** The origin that undici connects to. The path has no say in it. */
function originOf({ origin, path }: DispatchOptionsLike): string | URL {
  if (!origin) throw new TypeError('the request has no `origin`, and tokens are sent to known origins only');
  if (!path.startsWith('/')) throw new TypeError('the `path` of a request with a token has to begin with a slash');
  return origin;
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

/** The caller's headers, without those that presented the token, and those for one origin alone. */
function withoutCredentials(given: unknown, presented: Headers): Record<string, unknown> {
  const headers = mergedHeaders(given, presented);
  const isOut = (name: string) => presented.has(name) || CREDENTIAL_HEADERS.includes(name.toLowerCase());
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !isOut(name)));
}

function entriesOf(given: unknown): Iterable<[string, unknown]> {
  if (typeof given !== 'object' || given === null) return [];
  const isFlat = Array.isArray(given) && !Array.isArray(given[0]);
  if (isFlat) return given.flatMap((name, at) => (at % 2 === 0 ? [[String(name), given[at + 1]]] : []));
  return Symbol.iterator in given ? (given as Iterable<[string, unknown]>) : Object.entries(given);
}
