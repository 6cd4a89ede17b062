/**
 * The same POST through a user's `fetch`. The result is the {@link ExchangeResult} of http-exchange, so callers do not
 * depend on the transport.
 *
 * A user's `fetch` may follow redirects, ignore the signal or return an endless body: none of that is trusted. Nor need it
 * return a standard `Response`: node-fetch, cross-fetch and make-fetch-happen have streams of Node, and mocks have no body but
 * `text()` or `json()`.
 */

import type { Deadline } from '../cancellation.ts';
import { proxyStatusIn } from '../http-failure.ts';
import { property } from '../own-property.ts';
import { type ExchangeRequest, type ExchangeResult, redirected, unusableBody } from './http-exchange.ts';

const SAFE_INIT = {
  /** Following a 307 would forward the secrets. */
  redirect: 'manual',
  /** Some frameworks patch `fetch` to cache responses. */
  cache: 'no-store',
} as const;

/** What all of them return. */
type AnyResponse = Pick<Response, 'status'> &
  Partial<Pick<Response, 'type' | 'redirected' | 'text' | 'json'>> & {
    readonly headers?: unknown;
    readonly body?: unknown;
  };

/** Makes the POST only once, because only the `fetch` knows whether a failed request may be sent again. */
export async function postByFetch(
  { target, headers, body, maxResponseBytes, deadline }: ExchangeRequest,
  fetch: typeof globalThis.fetch,
): Promise<ExchangeResult> {
  const abort = new AbortController();
  let head: ExchangeResult = {};
  let reader: Reader | undefined;
  try {
    const init = { ...SAFE_INIT, method: 'POST', headers: { ...headers }, body, signal: abort.signal };
    const response = await deadline.race(call(() => fetch(target.url.href, init), deadline));
    const { status } = response;
    // A redirect that the `fetch` hides has the status 0; one that it followed has the status of the final response.
    const wasRedirected = response.type === 'opaqueredirect' || response.redirected;
    head = {
      status: wasRedirected ? undefined : status,
      retryAfter: headerOf(response, 'retry-after'),
      date: headerOf(response, 'date'),
    };
    reader = readerOf(response, maxResponseBytes);
    if (wasRedirected || (status >= 300 && status <= 399)) throw redirected();
    return { ...head, body: await readBody(reader, maxResponseBytes, deadline) };
  } catch (error) {
    abort.abort(error);
    void release(reader);
    return { ...head, status: head.status ?? proxyStatusIn(error), error };
  }
}

async function call(send: () => Promise<AnyResponse>, deadline: Deadline): Promise<AnyResponse> {
  const response = await send();
  // This `fetch` ignores the signal, and the caller has stopped waiting.
  if (deadline.reason) void release(readerOf(response, 0));
  return response;
}

/** Also from a plain object, as a mock may have it. */
function headerOf({ headers }: AnyResponse, name: string): string | undefined {
  const value = has<Headers>(headers, 'get')
    ? headers.get(name)
    : Object.entries(headers ?? {}).find(([each]) => each.toLowerCase() === name)?.[1];
  return value === undefined || value === null ? undefined : String(value);
}

const has = <T extends object>(from: unknown, method: keyof T & string): from is T =>
  typeof property(from, method) === 'function';

interface Reader {
  read(): Promise<{ readonly done?: boolean | undefined; readonly value?: unknown }>;
  /** Releases the connection. */
  cancel(): unknown;
}

/** Reads the body as a web stream, or else as an async iterable, by `text()` or by `json()`. */
function readerOf(response: AnyResponse, maxBytes: number): Reader {
  const { body } = response;
  if (has<ReadableStream>(body, 'getReader')) return body.getReader();
  const isIterable = typeof (body as Partial<AsyncIterable<unknown>> | null)?.[Symbol.asyncIterator] === 'function';
  const pieces = (isIterable ? (body as AsyncIterable<unknown>) : whole(response, maxBytes))[Symbol.asyncIterator]();
  return {
    read: () => pieces.next(),
    // The iterator of a Node stream that has not begun does not end the stream.
    cancel: () => (has<{ destroy(): void }>(body, 'destroy') ? body.destroy() : pieces.return?.()),
  };
}

/** The body in one piece, unless its stated length exceeds the limit. */
async function* whole(response: AnyResponse, maxBytes: number): AsyncIterable<Buffer> {
  if (Number(headerOf(response, 'content-length')) > maxBytes) throw tooLong();
  if (has<Response>(response, 'text')) yield Buffer.from(String(await response.text()));
  else if (has<Response>(response, 'json')) yield Buffer.from(String(JSON.stringify(await response.json())));
}

/** Reads the body up to its end or the limit; throws the reason as soon as the deadline ends. */
async function readBody(reader: Reader, maxBytes: number, deadline: Deadline): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for (;;) {
    const { done, value } = await deadline.race(reader.read());
    if (done) return Buffer.concat(chunks);
    if (!(value instanceof Uint8Array)) throw unusableBody('the body does not consist of bytes');
    bytes += value.byteLength;
    if (bytes > maxBytes) throw tooLong();
    chunks.push(value);
  }
}

const tooLong = () => unusableBody('the body exceeds maxResponseBytes');

async function release(reader: Reader | undefined): Promise<void> {
  try {
    await reader?.cancel();
  } catch {
    // It has failed already.
  }
}
