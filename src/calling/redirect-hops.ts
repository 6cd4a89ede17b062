/**
 * The hops of one call: the first exchange, and one more for each redirect. `fetch` reads its arguments when it is
 * called, but a call for an owner may wait for a token first. So the first hop is built at once and copies whatever the
 * caller may change in the meantime: headers, URL and body.
 */

import { types } from 'node:util';
import { OwnerTokenError } from '../errors/owner-token-error.ts';
import { property } from '../own-property.ts';
import { parseUrl } from '../parse-url.ts';
import { CREDENTIAL_HEADERS } from './leaving.ts';

type Body = NonNullable<RequestInit['body']>;

/** One exchange to make. */
export interface Hop {
  /** A string stays a string, so that it is parsed only if necessary. */
  readonly url: string | URL;
  /** First argument of `fetch`. */
  readonly target: string | URL | Request;
  readonly init: RequestInit;
  /** The caller's own headers, without a token. */
  readonly headers: Headers | undefined;
  readonly method: string;
  readonly signal: AbortSignal | null | undefined;
  /** Whether a redirect has led away from the allowed origins: no credentials are sent any more. */
  readonly isAway: boolean;
  /** Whether redirects are followed here; `manual` and `error` are left to `fetch`. */
  readonly follow: boolean;
  /** The body to send again; null if there is none, undefined if it can be read only once. */
  readonly body: () => Body | null | undefined;
}

/** The first hop, with each setting from `init` or the `Request`, as in `fetch`. On the hot path of every call. */
export function firstHop(input: string | URL | Request, init?: RequestInit): Hop {
  if (init && !isPlain(init)) return firstHop(new Request(input, init));
  const request = isRequest(input) ? input : undefined;
  const given = request ? (request.url as string | URL) : (input as string | URL);
  const url = typeof given === 'string' ? given : new URL(given);
  const redirect = init?.redirect ?? request?.redirect ?? 'follow';
  const body = init?.body == null ? null : copyOfBody(init.body);
  const own: RequestInit = init ? { ...init } : {};
  own.redirect = redirect === 'follow' ? 'manual' : redirect;
  if (body !== null) own.body = body;
  const headers = init?.headers ?? request?.headers;
  const hop = {
    url,
    target: request ?? url,
    init: own,
    headers: headers && new Headers(headers),
    method: init?.method ?? request?.method ?? 'GET',
    signal: init?.signal === undefined ? request?.signal : init.signal,
    isAway: false,
    follow: redirect === 'follow',
    body: body === null && request?.body ? bufferedBody(request) : () => (isStream(body) ? undefined : body),
  };
  return request && !isGenuine(request) ? withoutLookAlike(hop, request) : hop;
}

/**
 * The same hop with the URL as target. A look-alike, such as the `Request` of a package, could have another URL when it
 * is sent than when it is checked.
 */
function withoutLookAlike(hop: Hop, request: Request): Hop {
  const { url, method, signal = null } = hop;
  const body = hop.init.body ?? request.body;
  return { ...hop, target: url, init: { ...hop.init, method, signal, ...(body && { body, duplex: 'half' }) } };
}

/**
 * The same hop with its URL as it was checked. A string that had to be parsed for that, which no `Request` has, is sent as it was
 * parsed, because a `fetch` may find another host in it.
 */
export function withCheckedUrl(hop: Hop, url: string | URL): Hop {
  if (url === hop.url) return hop;
  return { ...hop, url, target: String(url) };
}

/** The same hop for a second attempt; undefined if its body can be read only once. */
export function retryOf(hop: Hop): Hop | undefined {
  const body = hop.body();
  return body === undefined ? undefined : { ...hop, init: { ...hop.init, body } };
}

/**
 * The hop that a redirect leads to, with the method, body and headers of the fetch standard; undefined for any other
 * response.
 *
 * @see {@link https://fetch.spec.whatwg.org/#http-redirect-fetch}
 */
export function nextHop(hop: Hop, response: Response): Hop | undefined {
  if (!hop.follow) return undefined;
  if (response.type === 'opaqueredirect') {
    throw new OwnerTokenError('origin_refused', 'this fetch hides the target of a redirect, so it cannot be checked');
  }
  const location = REDIRECTS.includes(response.status) ? response.headers.get('location') : null;
  if (location === null) return undefined;
  // `Headers` has the bytes as Latin-1. They are read as UTF-8, as `fetch` and browsers do.
  const url = parseUrl(Buffer.from(location, 'latin1').toString(), hop.url);
  if (!url) throw fetchFailed('a redirect has an invalid URL', response);
  const becomesGet = turnsIntoGet(response.status, hop.method.toUpperCase());
  const body = becomesGet ? null : hop.body();
  if (body === undefined) throw fetchFailed('a redirect needs the body again, but it can be read only once', response);
  const method = becomesGet ? 'GET' : hop.method;
  const headers = new Headers(hop.headers);
  if (becomesGet) for (const name of BODY_HEADERS) headers.delete(name);
  if (url.origin !== new URL(hop.url).origin) for (const name of ORIGIN_HEADERS) headers.delete(name);
  const init = { ...hop.init, method, body, signal: hop.signal ?? null };
  return { ...hop, url, target: url, init, headers, method, body: () => body };
}

/** The same hop without credentials: neither the caller's, nor what presented the token in the previous hop. */
export function withoutCredentials(
  hop: Hop,
  before: Hop,
  { headers: sent, token }: { headers: Headers; token: string },
): Hop {
  const headers = new Headers(hop.headers);
  for (const [name, value] of sent) {
    const isPresented = value !== before.headers?.get(name) || value.includes(token);
    if (isPresented || CREDENTIAL_HEADERS.includes(name)) headers.delete(name);
  }
  return { ...hop, headers, isAway: true };
}

const REDIRECTS: readonly number[] = [301, 302, 303, 307, 308];

function turnsIntoGet(status: number, method: string): boolean {
  if (status === 303) return method !== 'GET' && method !== 'HEAD';
  return (status === 301 || status === 302) && method === 'POST';
}

/** Headers that describe a body, removed when a redirect drops it. */
const BODY_HEADERS: readonly string[] = [
  'content-encoding',
  'content-language',
  'content-length',
  'content-location',
  'content-type',
];

/** Headers meant for one origin, removed when a redirect leaves it. */
const ORIGIN_HEADERS: readonly string[] = [...CREDENTIAL_HEADERS, 'host'];

/** The error that `fetch` throws when it cannot follow a redirect. */
export function fetchFailed(why: string, response: Response): TypeError {
  discard(response);
  return new TypeError(`fetch failed: ${why}`);
}

const isRequest = (input: string | URL | Request): input is Request =>
  typeof input === 'object' && property(input, 'headers') !== undefined;

/** Whether this is a `Request` of the platform, whose URL cannot change. */
const isGenuine = (request: Request): boolean =>
  Object.getPrototypeOf(request) === Request.prototype && !Object.hasOwn(request, 'url') && !types.isProxy(request);

/** Whether spreading copies every setting; a `Request` given as `init`, for example, has accessors instead. */
function isPlain(init: object): boolean {
  const prototype = Object.getPrototypeOf(init);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** Whether a body can be read only once. */
const isStream = (body: unknown) => typeof body === 'object' && body !== null && Symbol.asyncIterator in body;

/** A copy of a mutable body. Strings and blobs are immutable; a stream cannot be copied. */
function copyOfBody(body: Body): Body {
  if (body instanceof URLSearchParams) return new URLSearchParams(body);
  if (body instanceof ArrayBuffer) return body.slice(0);
  if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice();
  if (!(body instanceof FormData)) return body;
  const copy = new FormData();
  for (const [name, value] of body) copy.append(name, value as string);
  return copy;
}

/** The largest body of a `Request` that is buffered for a second attempt. */
const MAX_BUFFERED_BODY_BYTES = 1_048_576;

/**
 * Buffers the body of a `Request` while it is sent, because it is a stream even if it was created from a string. A body
 * over 1 MiB, or one that is not completely sent when it is needed again, cannot be sent again.
 */
function bufferedBody(request: Request): () => Uint8Array<ArrayBuffer> | undefined {
  const copy = request.clone().body as AsyncIterable<Uint8Array>;
  let whole: Uint8Array<ArrayBuffer> | undefined;
  const buffer = async () => {
    const chunks: Uint8Array[] = [];
    let length = 0;
    for await (const chunk of copy) {
      length += chunk.byteLength;
      if (length > MAX_BUFFERED_BODY_BYTES) return;
      chunks.push(chunk);
    }
    whole = Buffer.concat(chunks);
  };
  buffer().catch(() => {});
  return () => whole;
}

/** How much of an unwanted response is read so that its connection can be reused, and for how long. */
const MAX_DISCARDED_BYTES = 65_536;
const MAX_DISCARD_MS = 1_000;

/** Reads a short response to its end and cancels a long or slow one, so that its connection is released either way. */
export function discard(response: Response): void {
  // A user's fetch may return a Node stream as body.
  const body = response.body as (ReadableStream<Uint8Array> & { destroy?(): void }) | null;
  if (body?.destroy) body.destroy();
  else void body?.pipeTo?.(boundedSink(), { signal: AbortSignal.timeout(MAX_DISCARD_MS) }).catch(() => {});
}

/** Accepts a short body and fails for a longer one, so that `pipeTo` cancels it. */
function boundedSink(): WritableStream<Uint8Array> {
  let left = MAX_DISCARDED_BYTES;
  return new WritableStream({
    write({ byteLength }, controller) {
      left -= byteLength;
      if (left < 0) controller.error();
    },
  });
}

/** Cancels a body stream that will not be sent, as the global `fetch` does when it is aborted. */
export function cancelBody({ init }: Hop, reason: unknown): void {
  if (init.body instanceof ReadableStream && !init.body.locked) init.body.cancel(reason).catch(() => {});
}
