/** One request to the live view and its answer, without regard to how they arrive: `node:http` or `fetch`. */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { parseUrl } from '../parse-url.ts';

export interface Received {
  readonly method: string;
  /** As the browser sees its end: with the mount path, where the framework removes that. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly header: (name: string) => string | undefined;
  /** The JSON body. Rejects if it is not JSON, or too long. */
  readonly json: () => Promise<unknown>;
  /** What the host's function gets to decide by. */
  readonly request: IncomingMessage | Request;
}

/** Whether a request has ended: its client left, or the host answered it. */
export type HasEnded = () => boolean;

/** An open page. */
export interface Viewer {
  send(bytes: string | Uint8Array): void;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** A text, or what a viewer joins; it returns how to leave. */
  readonly body: string | ((viewer: Viewer) => () => void);
}

/** Longer than any access key. */
const MAX_BODY_BYTES = 100_000;

/** What may wait for a slow viewer. One that is slower is disconnected; its page connects again. */
const MAX_WAITING_BYTES = 10_000_000;

/** Express removes the mount path from `url`, and keeps it in `originalUrl`. A body parser leaves the body in `body`. */
type HostRequest = IncomingMessage & { readonly originalUrl?: string; readonly body?: unknown };

export function receivedByNode(req: HostRequest): Received {
  const header = (name: string) => {
    const value = req.headers[name];
    return Array.isArray(value) ? value[0] : value;
  };
  const json = async () => (isParsed(req.body) ? req.body : JSON.parse(await textOf(req)));
  return { method: req.method ?? 'GET', ...addressOf(req.originalUrl ?? req.url ?? '/'), header, json, request: req };
}

const isParsed = (body: unknown): body is object => typeof body === 'object' && body !== null && !Buffer.isBuffer(body);

export function receivedByFetch(request: Request): Received {
  const header = (name: string) => request.headers.get(name) ?? undefined;
  const json = async () => JSON.parse(await textOf(request.body ?? []));
  return { method: request.method, ...addressOf(request.url), header, json, request };
}

function addressOf(url: string): Pick<Received, 'path' | 'query'> {
  const { pathname = '/', searchParams = new URLSearchParams() } = parseUrl(url, 'http://host') ?? {};
  return { path: pathname, query: searchParams };
}

async function textOf(body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of body) {
    bytes += part.byteLength;
    if (bytes > MAX_BODY_BYTES) throw new RangeError('the body is too long');
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

/**
 * Call it when the request arrives. Listens from then on, because a response that has closed emits nothing to a listener that is
 * added later, and the response of HTTP/2 has no `destroyed`.
 */
export function endByNode(res: ServerResponse & { readonly stream?: { readonly destroyed: boolean } }): HasEnded {
  let hasClosed = res.destroyed || res.stream?.destroyed === true;
  res.once('close', () => {
    hasClosed = true;
  });
  return () => hasClosed || res.headersSent;
}

export function answerByNode(
  { status, headers, body }: Answer,
  method: string | undefined,
  res: ServerResponse,
  hasEnded: HasEnded,
): void {
  if (hasEnded()) return;
  res.writeHead(status, headers);
  if (typeof body === 'string') {
    res.end(method === 'HEAD' ? undefined : body);
    return;
  }
  const leave = body({
    send: (bytes) => void (res.writableLength > MAX_WAITING_BYTES ? res.destroy() : res.write(bytes)),
  });
  res.once('close', leave);
}

/** @param signal read when the request arrived: some servers create it when it is first read, and abort only what they created. */
export function answerByFetch({ status, headers, body }: Answer, method: string, signal: AbortSignal): Response {
  if (typeof body === 'string') return new Response(method === 'HEAD' ? null : body, { status, headers });
  let leave = () => {};
  const stream = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const end = () => {
          leave();
          controller.error(new DOMException('the page is gone', 'AbortError'));
        };
        if (signal.aborted) return end();
        const send = (bytes: string | Uint8Array) => {
          if ((controller.desiredSize ?? 0) < -MAX_WAITING_BYTES) end();
          else controller.enqueue(Buffer.from(bytes as Uint8Array));
        };
        leave = body({ send });
        signal.addEventListener('abort', end, { once: true });
      },
      cancel: () => leave(),
    },
    new ByteLengthQueuingStrategy({ highWaterMark: 0 }),
  );
  return new Response(stream, { status, headers });
}
