/**
 * One POST over `node:http` or `node:https`: no retry, no redirect, no interpretation of the response. Every outcome,
 * failures included, is an {@link ExchangeResult}; nothing is thrown.
 *
 * The body is bounded after decoding, because a few kilobytes of gzip can hold gigabytes.
 */

import http from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import zlib from 'node:zlib';

/** One POST to make. */
export interface Exchange {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** The largest decoded body that is accepted, in bytes. */
  readonly maxResponseBytes: number;
  /** Ends the exchange at once; its reason becomes the result's `error`. */
  readonly signal: AbortSignal;
}

/** As much of the response as was received, and what interrupted it. */
export interface ExchangeResult {
  /** Undefined if no response began, or if a `fetch` hides the status of a redirect. */
  readonly status?: number | undefined;
  /** The `Retry-After` header. */
  readonly retryAfter?: string | undefined;
  /** The complete body, decoded; undefined if `error` is set. */
  readonly body?: Uint8Array;
  /** What interrupted the exchange; undefined if the response is complete. */
  readonly error?: unknown;
  /** No connection (with TLS: no secure one) was ever established, so no part of the request can have arrived. */
  readonly unreached?: boolean;
  /** A reused connection turned out to be closed, so the same request may be sent again over a new one. */
  readonly stale?: boolean;
}

/** The error of an exchange whose response cannot be used. */
export function unusableBody(message: string): Error {
  return Object.assign(new Error(message), { code: 'ERR_UNUSABLE_BODY' });
}

/** The error of a redirected exchange. Redirects are not followed, because that would forward the secrets. */
export function redirected(): Error {
  return Object.assign(new Error('the response is a redirect'), { code: 'ERR_REDIRECTED' });
}

/** Every 3xx counts, even 304, which refers to a cached response: there is none. */
export function isRedirect(status: number): boolean {
  return status >= 300 && status < 400;
}

/**
 * How long idle connections are kept. Short, because middleboxes silently drop idle connections after a few minutes.
 */
const IDLE_SOCKET_MS = 30_000;

/**
 * An agent with keep-alive. Node unrefs idle sockets, so they do not keep the process running. Reads the proxy from the
 * environment if Node's global agent does (`NODE_USE_ENV_PROXY`).
 */
export function keepAliveAgent(url: URL): http.Agent {
  const { proxyEnv } = https.globalAgent.options as { proxyEnv?: object };
  const options = { keepAlive: true, timeout: IDLE_SOCKET_MS, proxyEnv };
  return url.protocol === 'https:' ? new https.Agent(options) : new http.Agent(options);
}

/** Closes the idle connections of an agent and leaves those in use alone. */
export function dropIdleSockets(agent: http.Agent): void {
  const idle = Object.values(agent.freeSockets as Record<string, Socket[]>).flat();
  for (const socket of idle) socket.destroy();
}

export async function postOverHttp(exchange: Exchange, agent: http.Agent): Promise<ExchangeResult> {
  // An already aborted signal does not notify new listeners.
  if (exchange.signal.aborted) return { error: exchange.signal.reason };
  // A user's agent may throw.
  return post(exchange, agent).catch((error: unknown) => ({ error, unreached: true }));
}

/** Settles once, with the complete response or the first error. */
function post(exchange: Exchange, agent: http.Agent): Promise<ExchangeResult> {
  const { url, headers, body, signal } = exchange;
  const secure = url.protocol === 'https:';
  return new Promise((resolve) => {
    let head: Pick<ExchangeResult, 'status' | 'retryAfter'> = {};
    const settle = (result: ExchangeResult): void => {
      signal.removeEventListener('abort', onAbort);
      resolve({ ...head, ...result });
    };
    const fail = (error: unknown): void => {
      settle({ error, unreached: !connection.established(), stale: isStale(error, connection) });
      request.destroy();
    };
    const onAbort = (): void => fail(signal.reason);

    const request = (secure ? https : http).request(url, { method: 'POST', headers, agent });
    const connection = watchConnection(request, secure);
    signal.addEventListener('abort', onAbort);
    // Never removed: a destroyed request, or one with a malformed response, emits a second error.
    request.on('error', fail);
    request.on('upgrade', () => fail(unusableBody('the response switches protocols')));
    request.on('response', (response) => {
      const status = response.statusCode as number;
      head = { status, retryAfter: response.headers['retry-after'] };
      response.on('error', fail);
      if (isRedirect(status)) fail(redirected());
      else readBody(response, exchange.maxResponseBytes, settle, fail);
    });
    request.end(body);
  });
}

/** Reads the body up to its end or the limit. */
function readBody(
  response: http.IncomingMessage,
  maxBytes: number,
  settle: (result: ExchangeResult) => void,
  fail: (error: unknown) => void,
): void {
  const decode = decoderFor(response.headers['content-encoding']);
  const maxRawBytes = decode ? maxBytes + ENCODING_OVERHEAD_BYTES : maxBytes;
  const chunks: Buffer[] = [];
  let bytes = 0;
  response.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > maxRawBytes) fail(unusableBody('the body exceeds maxResponseBytes'));
    else chunks.push(chunk);
  });
  response.on('end', () => {
    const body = Buffer.concat(chunks);
    try {
      settle({ body: decode ? decode(body, { maxOutputLength: maxBytes }) : body });
    } catch (error) {
      settle({ error });
    }
  });
}

/** The most that an encoding adds to an incompressible body: its frame, and a few bytes per 16 KiB. */
const ENCODING_OVERHEAD_BYTES = 1_024;

type Decode = (body: Buffer, options: { maxOutputLength: number }) => Buffer;

/**
 * The decoder of a content coding; undefined if none is needed. The request asks for no coding, but some services
 * compress all the same.
 */
function decoderFor(contentEncoding: string | undefined): Decode | undefined {
  switch (contentEncoding?.trim().toLowerCase() ?? '') {
    case '':
    case 'identity':
      return undefined;
    case 'gzip':
    case 'x-gzip':
      return zlib.gunzipSync;
    case 'deflate':
      return inflate;
    case 'br':
      return zlib.brotliDecompressSync;
    default:
      return () => {
        throw unusableBody('the content coding is unknown');
      };
  }
}

/**
 * `deflate` means the zlib format; many servers send a raw stream instead, so both are accepted.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc9110#section-8.4.1.2 RFC 9110 §8.4.1.2}
 */
const inflate: Decode = (body, options) => {
  const start = body.length < 2 ? 0 : body.readUInt16BE(0);
  const isZlib = (start & 0x0f00) === 0x0800 && start % 31 === 0;
  return isZlib ? zlib.inflateSync(body, options) : zlib.inflateRawSync(body, options);
};

interface ConnectionWatch {
  /** Whether the connection was ever established. */
  established(): boolean;
  /** Whether the connection served another request before, and has received nothing since. */
  reusedAndSilent(): boolean;
}

function watchConnection(request: http.ClientRequest, secure: boolean): ConnectionWatch {
  let established = false;
  let socket: Socket | undefined;
  let bytesBefore = 0;
  request.once('socket', (assigned) => {
    socket = assigned;
    bytesBefore = assigned.bytesRead;
    established = !assigned.connecting;
    if (established) return;
    assigned.once(secure ? 'secureConnect' : 'connect', () => {
      established = true;
    });
  });
  return {
    established: () => established,
    reusedAndSilent: () => request.reusedSocket && socket?.bytesRead === bytesBefore,
  };
}

/** Whether the other side had closed the connection while it was idle. */
function isStale(error: unknown, connection: ConnectionWatch): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return (code === 'ECONNRESET' || code === 'EPIPE') && connection.reusedAndSilent();
}
