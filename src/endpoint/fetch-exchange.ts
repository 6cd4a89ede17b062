/**
 * The same POST through a `fetch` that the user gave. It comes out as {@link Received} like the other, so that nobody
 * downstream can tell which of the two was used.
 *
 * A foreign `fetch` is not trusted to follow no redirect, to keep to the signal or to bound what it reads.
 */

import { untilAborted } from './deadline.ts';
import { type Exchange, isRedirect, type Received, unusableBody } from './http-exchange.ts';

const SAFELY = {
  /** Followed, a 307 would send the secrets on to wherever it points. */
  redirect: 'manual',
  /** Frameworks patch `fetch` so that it caches. */
  cache: 'no-store',
} as const;

/** Makes the POST. Nothing is sent again: what has been sent before, only the `fetch` knows. */
export async function postByFetch(exchange: Exchange, fetch: typeof globalThis.fetch): Promise<Received> {
  const { signal, maxResponseBytes } = exchange;
  let head: Received = {};
  try {
    const response = await untilAborted(signal, answerOf(exchange, fetch));
    const reader = response.body?.getReader();
    head = headOf(response);
    if (head.redirected) {
      release(reader);
      return { ...head, error: unusableBody('a redirect is not read') };
    }
    return { ...head, body: reader ? await readBody(reader, maxResponseBytes, signal) : new Uint8Array() };
  } catch (error) {
    return { ...head, error };
  }
}

async function answerOf(exchange: Exchange, fetch: typeof globalThis.fetch): Promise<Response> {
  const { url, headers, body, signal } = exchange;
  const response = await fetch(url.href, { ...SAFELY, method: 'POST', headers: { ...headers }, body, signal });
  // From a `fetch` that is deaf to the signal: nobody waits for it any more.
  if (signal.aborted) release(response.body?.getReader());
  return response;
}

/** A redirect that the `fetch` hid or followed all the same has no status of its own. */
function headOf(response: Response): Received {
  const retryAfter = response.headers.get('retry-after') ?? undefined;
  if (response.type === 'opaqueredirect' || response.redirected) return { retryAfter, redirected: true };
  return { status: response.status, retryAfter, redirected: isRedirect(response.status) };
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/** Reads a body up to its end or its cap; throws the signal's reason as soon as that is aborted. */
async function readBody(reader: Reader, maxBytes: number, signal: AbortSignal): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for (;;) {
      const { done, value } = await untilAborted(signal, reader.read());
      if (done) return Buffer.concat(chunks);
      if (!(value instanceof Uint8Array)) throw unusableBody('the body does not consist of bytes');
      bytes += value.byteLength;
      if (bytes > maxBytes) throw unusableBody('the body is over the cap');
      chunks.push(value);
    }
  } finally {
    release(reader);
  }
}

/** Lets go of a body, read or unread, so that its connection is. */
function release(reader: Reader | undefined): void {
  reader?.cancel().catch(() => {});
}
