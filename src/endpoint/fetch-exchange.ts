/**
 * The same POST through a user's `fetch`. The result is the {@link ExchangeResult} of http-exchange, so callers do not
 * depend on the transport.
 *
 * A user's `fetch` may follow redirects, ignore the signal or return an endless body: none of that is trusted.
 */

import { type Exchange, type ExchangeResult, type ResultBatch, redirected, unusableBody } from './http-exchange.ts';

/**
 * Settles once, with the complete response or the first error. Makes the POST only once, because only the `fetch` knows
 * whether a failed request may be sent again.
 */
export function postByFetch(
  { target, headers, body, maxResponseBytes, deadline }: Exchange,
  fetch: typeof globalThis.fetch,
  batch: ResultBatch,
): Promise<ExchangeResult> {
  return new Promise((resolve) => {
    if (deadline.reason) return resolve({ error: deadline.reason });
    const abort = new AbortController();
    let head: ExchangeResult = {};
    let reader: Reader | undefined;
    const exchange = async (): Promise<Buffer> => {
      const init = {
        method: 'POST',
        // Following a 307 would forward the secrets.
        redirect: 'manual' as const,
        // Some frameworks patch `fetch` to cache responses.
        cache: 'no-store',
        headers: { ...headers },
        body,
        signal: abort.signal,
      };
      const response = await fetch(target.url.href, init);
      reader = response.body?.getReader();
      // This `fetch` ignores the signal.
      if (deadline.reason) throw deadline.reason;
      const { status } = response;
      // A redirect that the `fetch` hides has the status 0; one that it followed has the status of the final response.
      const wasRedirected = response.type === 'opaqueredirect' || response.redirected;
      const retryAfter = response.headers.get('retry-after') ?? undefined;
      head = { status: wasRedirected ? undefined : status, retryAfter };
      if (wasRedirected || (status >= 300 && status <= 399)) throw redirected();
      return reader ? await readBody(reader, maxResponseBytes) : Buffer.alloc(0);
    };
    // May be called again: the batch keeps the order of results, and the first one counts.
    const fail = (error: unknown): void => {
      batch.add(resolve, { ...head, status: head.status ?? proxyStatusIn(error), error });
      abort.abort(error);
      // A `fetch` may ignore the signal.
      void release(reader);
    };
    deadline.onEnd = fail;
    exchange().then((body) => batch.add(resolve, { ...head, body }), fail);
  });
}

/** undici's `ProxyAgent` says only in a message that its proxy requires authentication. */
function proxyStatusIn(error: unknown, depth = 0): 407 | undefined {
  try {
    if (!(error instanceof Error) || depth > 4) return undefined;
    return String(error.message).startsWith('Proxy response (407)') ? 407 : proxyStatusIn(error.cause, depth + 1);
  } catch {
    // An accessor of the error threw.
    return undefined;
  }
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/** Cancels a body, which releases its connection. Never rejects. */
async function release(reader: Reader | undefined): Promise<void> {
  try {
    await reader?.cancel();
  } catch {
    // The body has failed already, or cannot be cancelled. The request has its result either way.
  }
}

/** Reads the body up to its end or the limit. */
async function readBody(reader: Reader, maxBytes: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return Buffer.concat(chunks);
    if (!(value instanceof Uint8Array)) throw unusableBody('the body does not consist of bytes');
    bytes += value.byteLength;
    if (bytes > maxBytes) throw unusableBody('the body exceeds maxResponseBytes');
    chunks.push(value);
  }
}
