/** One request to the live view and its answer, without regard to how they arrive: `node:http` or `fetch`. */

import type { IncomingMessage, ServerResponse } from 'node:http';

export interface Received {
  readonly method: string;
  /** As the browser sees its end: with the mount path, where the framework removes that. */
  readonly path: string;
  readonly header: (name: string) => string | undefined;
  /** The JSON body. Rejects if it is not JSON, or too long. */
  readonly json: () => Promise<unknown>;
  /** What the host's function gets to decide by. */
  readonly request: IncomingMessage | Request;
}

/** An open page. */
export interface Viewer {
  send(text: string): void;
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
const MAX_WAITING_BYTES = 4_000_000;

/** Express removes the mount path from `url`, and keeps it in `originalUrl`. A body parser leaves the body in `body`. */
type HostRequest = IncomingMessage & { readonly originalUrl?: string; readonly body?: unknown };

export function receivedByNode(req: HostRequest): Received {
  const header = (name: string) => {
    const value = req.headers[name];
    return Array.isArray(value) ? value[0] : value;
  };
  const json = async () => (isParsed(req.body) ? req.body : JSON.parse(await textOf(req)));
  const path = pathOf(req.originalUrl ?? req.url ?? '/');
  return { method: req.method ?? 'GET', path, header, json, request: req };
}

const isParsed = (body: unknown): body is object => typeof body === 'object' && body !== null && !Buffer.isBuffer(body);

export function receivedByFetch(request: Request): Received {
  const header = (name: string) => request.headers.get(name) ?? undefined;
  const json = async () => JSON.parse(await textOf(request.body ?? []));
  return { method: request.method, path: pathOf(request.url), header, json, request };
}

const pathOf = (url: string): string => (URL.canParse(url, 'http://host') ? new URL(url, 'http://host').pathname : '/');

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

export function answerByNode({ status, headers, body }: Answer, method: string | undefined, res: ServerResponse): void {
  res.writeHead(status, headers);
  if (typeof body === 'string') {
    res.end(method === 'HEAD' ? undefined : body);
    return;
  }
  const leave = body({
    send: (text) => void (res.writableLength > MAX_WAITING_BYTES ? res.destroy() : res.write(text)),
  });
  if (res.destroyed) leave();
  else res.on('close', leave);
}

export function answerByFetch({ status, headers, body }: Answer, { method, signal }: Request): Response {
  if (typeof body === 'string') return new Response(method === 'HEAD' ? null : body, { status, headers });
  let leave = () => {};
  const stream = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const end = () => {
          leave();
          controller.error(new DOMException('the page is gone', 'AbortError'));
        };
        const send = (text: string) => {
          if ((controller.desiredSize ?? 0) < -MAX_WAITING_BYTES) end();
          else controller.enqueue(Buffer.from(text));
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
