/**
 * What a call sends, hop by hop: one exchange, and one more for each redirect. `fetch` reads its arguments when it is
 * called, and a call for an owner may have to wait for a token first, so the first hop is made at once and shares
 * nothing with the caller that the caller may change: headers, URL and body may be used for the next call meanwhile.
 */

import { OwnerTokenError } from '../errors.ts';

type Body = NonNullable<RequestInit['body']>;

/** One exchange to make. */
export interface Hop {
  /** As text where it came as text, and not parsed before it has to be. */
  readonly url: string | URL;
  /** What is handed to `fetch`. */
  readonly target: string | URL | Request;
  readonly init: RequestInit;
  /** The caller's own headers, without a token. */
  readonly headers: Headers | undefined;
  readonly method: string;
  readonly signal: AbortSignal | null | undefined;
  /** Whether redirects are followed by us; `manual` and `error` are left to `fetch`. */
  readonly follow: boolean;
  /** The body, for another sending; null: there is none; undefined: it cannot be sent again. */
  readonly body: () => Body | null | undefined;
}

/** What the caller asked for, each part from where `fetch` would take it. On the way of every call: kept lean. */
export function firstHop(input: string | URL | Request, init?: RequestInit): Hop {
  if (init && !isPlain(init)) return firstHop(new Request(input, init));
  const request = isRequest(input) ? input : undefined;
  const url = request ? request.url : typeof input === 'string' ? input : new URL(input as URL);
  const redirect = init?.redirect ?? request?.redirect ?? 'follow';
  const body = init?.body == null ? null : copyOf(init.body);
  const own: RequestInit = init ? { ...init } : {};
  own.redirect = redirect === 'follow' ? 'manual' : redirect;
  if (body !== null) own.body = body;
  const headers = init?.headers ?? request?.headers;
  return {
    url,
    target: request ?? url,
    init: own,
    headers: headers && new Headers(headers),
    method: init?.method ?? request?.method ?? 'GET',
    signal: init?.signal === undefined ? request?.signal : init.signal,
    follow: redirect === 'follow',
    body: body === null && request?.body ? keptBody(request) : () => (isStream(body) ? undefined : body),
  };
}

/** The same exchange once more; undefined where its body cannot be sent again. */
export function sentAgain(hop: Hop): Hop | undefined {
  const body = hop.body();
  if (body === undefined) return undefined;
  return body === null ? hop : { ...hop, init: { ...hop.init, body } };
}

/**
 * Where a redirect leads, with the method, body and headers that the fetch standard gives it; undefined for any other
 * answer.
 *
 * @see {@link https://fetch.spec.whatwg.org/#http-redirect-fetch}
 */
export function nextHop(hop: Hop, response: Response): Hop | undefined {
  if (!hop.follow) return undefined;
  if (response.type === 'opaqueredirect') {
    throw new OwnerTokenError('origin_refused', 'the fetch in use does not tell where a redirect leads');
  }
  const location = REDIRECTS.includes(response.status) ? response.headers.get('location') : null;
  if (location === null) return undefined;
  if (!URL.canParse(location, String(hop.url))) throw failed('a redirect leads to no URL', response);
  const url = new URL(location, hop.url);
  const becomesGet = turnsIntoGet(response.status, hop.method.toUpperCase());
  const body = becomesGet ? null : hop.body();
  if (body === undefined) throw failed('a redirect asks for a body that cannot be sent again', response);
  const method = becomesGet ? 'GET' : hop.method;
  const headers = new Headers(hop.headers);
  if (becomesGet) for (const name of BODY_HEADERS) headers.delete(name);
  if (url.origin !== new URL(hop.url).origin) for (const name of ORIGIN_HEADERS) headers.delete(name);
  const { signal } = hop;
  const init = { ...hop.init, method, body, ...(signal && { signal }) };
  return { ...hop, url, target: url, init, headers, method, body: () => body };
}

const REDIRECTS: readonly number[] = [301, 302, 303, 307, 308];

function turnsIntoGet(status: number, method: string): boolean {
  if (status === 303) return method !== 'GET' && method !== 'HEAD';
  return (status === 301 || status === 302) && method === 'POST';
}

/** What says something of a body that is no longer sent. */
const BODY_HEADERS: readonly string[] = [
  'content-encoding',
  'content-language',
  'content-length',
  'content-location',
  'content-type',
];

/** What the caller meant for one origin only. */
const ORIGIN_HEADERS: readonly string[] = ['authorization', 'cookie', 'host', 'proxy-authorization'];

/** What `fetch` throws where it cannot go on. */
export function failed(why: string, response: Response): TypeError {
  discard(response);
  return new TypeError(`fetch failed: ${why}`);
}

const isRequest = (input: string | URL | Request): input is Request => typeof input === 'object' && 'headers' in input;

/** Whether spreading shows all that is there; a `Request` given as `init`, say, has its settings behind accessors. */
function isPlain(init: object): boolean {
  const prototype = Object.getPrototypeOf(init);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** Whether a body can be read only once. */
const isStream = (body: unknown) => typeof body === 'object' && body !== null && Symbol.asyncIterator in body;

/** A copy of what the caller may change; strings and blobs never change, and streams are the caller's only once. */
function copyOf(body: Body): Body {
  if (body instanceof URLSearchParams) return new URLSearchParams(body);
  if (body instanceof ArrayBuffer) return body.slice(0);
  if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice();
  if (!(body instanceof FormData)) return body;
  const copy = new FormData();
  for (const [name, value] of body) copy.append(name, value as string);
  return copy;
}

/** Up to here a `Request`'s body is kept for another sending. */
const MAX_KEPT_BODY_BYTES = 1_048_576;

/**
 * Keeps what a `Request` sends, as it is sent: its body is a stream even where it was made of a string. One that is
 * longer than a mebibyte, or has not come to its end when it is wanted, cannot be sent again.
 */
function keptBody(request: Request): () => Uint8Array | undefined {
  const copy = request.clone().body as AsyncIterable<Uint8Array>;
  const chunks: Uint8Array[] = [];
  let whole: Uint8Array | undefined;
  const keep = async () => {
    let length = 0;
    for await (const chunk of copy) {
      length += chunk.byteLength;
      if (length > MAX_KEPT_BODY_BYTES) return void chunks.splice(0);
      chunks.push(chunk);
    }
    whole = Buffer.concat(chunks.splice(0));
  };
  keep().catch(() => chunks.splice(0));
  return () => whole;
}

/** How much of an answer that nobody wants is read, so that its connection can be used again. */
const MAX_DISCARDED_BYTES = 65_536;

/** Reads a short answer to its end and breaks off a long one; either way its connection is let go. */
export function discard(response: Response): void {
  const read = async () => {
    let length = 0;
    for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
      length += chunk.byteLength;
      if (length > MAX_DISCARDED_BYTES) return;
    }
  };
  read().catch(() => {});
}
