/**
 * The same POST through a user's `fetch`. The result is the {@link ExchangeResult} of http-exchange, so callers do not
 * depend on the transport.
 *
 * A user's `fetch` may follow redirects, ignore the signal or return an endless body: none of that is trusted.
 */

import type { Deadline } from '../cancellation.ts';
import { proxyStatusIn } from '../http-failure.ts';
import { type ExchangeRequest, type ExchangeResult, redirected, unusableBody } from './http-exchange.ts';

const SAFE_INIT = {
  /** Following a 307 would forward the secrets. */
  redirect: 'manual',
  /** Some frameworks patch `fetch` to cache responses. */
  cache: 'no-store',
} as const;

/** Makes the POST only once, because only the `fetch` knows whether a failed request may be sent again. */
export async function postByFetch(
  { target, headers, body, maxResponseBytes, deadline }: ExchangeRequest,
  fetch: typeof globalThis.fetch,
): Promise<ExchangeResult> {
  const abort = new AbortController();
  let head: ExchangeResult = {};
  try {
    const init = { ...SAFE_INIT, method: 'POST', headers: { ...headers }, body, signal: abort.signal };
    const response = await deadline.race(call(() => fetch(target.url.href, init), deadline));
    const reader = response.body?.getReader();
    const { status } = response;
    // A redirect that the `fetch` hides has the status 0; one that it followed has the status of the final response.
    const wasRedirected = response.type === 'opaqueredirect' || response.redirected;
    head = {
      status: wasRedirected ? undefined : status,
      retryAfter: response.headers.get('retry-after') ?? undefined,
      date: response.headers.get('date') ?? undefined,
    };
    if (wasRedirected || (status >= 300 && status <= 399)) {
      release(reader);
      return { ...head, error: redirected() };
    }
    return { ...head, body: reader ? await readBody(reader, maxResponseBytes, deadline) : Buffer.alloc(0) };
  } catch (error) {
    abort.abort(error);
    return { ...head, status: head.status ?? proxyStatusIn(error), error };
  }
}

async function call(send: () => Promise<Response>, deadline: Deadline): Promise<Response> {
  const response = await send();
  // This `fetch` ignores the signal, and the caller has stopped waiting.
  if (deadline.reason) release(response.body?.getReader());
  return response;
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/** Reads the body up to its end or the limit; throws the reason as soon as the deadline ends. */
async function readBody(reader: Reader, maxBytes: number, deadline: Deadline): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for (;;) {
      const { done, value } = await deadline.race(reader.read());
      if (done) return Buffer.concat(chunks);
      if (!(value instanceof Uint8Array)) throw unusableBody('the body does not consist of bytes');
      bytes += value.byteLength;
      if (bytes > maxBytes) throw unusableBody('the body exceeds maxResponseBytes');
      chunks.push(value);
    }
  } finally {
    release(reader);
  }
}

/** Releases the connection of a body, whether it was read or not. */
function release(reader: Reader | undefined): void {
  reader?.cancel().catch(() => {});
}
