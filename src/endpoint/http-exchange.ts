/**
 * One POST over `node:http` or `node:https`, and what came of it: no retry, no redirect, no reading of what the answer
 * says. Whatever happens is a value of type {@link Received}; nothing is thrown.
 *
 * Of an answer at most the cap is kept. Its body counts decoded: a few kilobytes of gzip can hold gigabytes.
 */

import http from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import zlib from 'node:zlib';

/** One POST to be made. */
export interface Exchange {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** The most bytes of the decoded body that are taken. */
  readonly maxResponseBytes: number;
  /** Ends the exchange at once when it is aborted. */
  readonly signal: AbortSignal;
}

/** As much of an answer as came, and what broke it off. */
export interface Received {
  /** Undefined: no answer began. */
  readonly status?: number | undefined;
  readonly retryAfter?: string | undefined;
  /** The whole body, decoded. Absent when it did not come whole, and of a redirect, which nobody reads. */
  readonly body?: Uint8Array;
  /** The answer is a redirect, or was come by over one. */
  readonly redirected?: boolean;
  /** What broke it off; absent when it came whole. */
  readonly error?: unknown;
  /** There never was a connection (with TLS: a secure one), so nothing of the request can have arrived. */
  readonly unreached?: boolean;
  /** An idle connection turned out to be closed: the same may be sent again over a new one. */
  readonly stale?: boolean;
}

/** What an exchange is broken off with when the body is beyond use. */
export function unusableBody(why: string): Error {
  return Object.assign(new Error(why), { code: 'ERR_UNUSABLE_BODY' });
}

/** Whether a status sends the request elsewhere, or says that we have the answer already, which we never do. */
export function isRedirect(status: number): boolean {
  return status >= 300 && status < 400;
}

/** How long an unused connection is kept. Middleboxes forget idle connections silently, after minutes as a rule. */
const IDLE_SOCKET_MS = 30_000;

/** An agent that keeps connections. Node sees to it that unused ones do not keep the process alive. */
export function keepAliveAgent(url: URL): http.Agent {
  const options = { keepAlive: true, timeout: IDLE_SOCKET_MS };
  return url.protocol === 'https:' ? new https.Agent(options) : new http.Agent(options);
}

/** Closes the connections that nobody uses at the moment; those in use go on. */
export function dropIdleSockets(agent: http.Agent): void {
  const idle = Object.values(agent.freeSockets as Record<string, Socket[]>).flat();
  for (const socket of idle) socket.destroy();
}

/** Makes the POST. */
export async function postOverHttp(exchange: Exchange, agent: http.Agent): Promise<Received> {
  // No signal tells those who come to listen afterwards.
  if (exchange.signal.aborted) return { error: exchange.signal.reason };
  // What is caught: an agent of the user's that throws.
  return post(exchange, agent).catch((error: unknown) => ({ error, unreached: true }));
}

/** Settles once: with the whole answer, or with the first thing that breaks it off. */
function post(exchange: Exchange, agent: http.Agent): Promise<Received> {
  const { url, headers, body, signal } = exchange;
  const secure = url.protocol === 'https:';
  return new Promise((resolve) => {
    let head: Pick<Received, 'status' | 'retryAfter' | 'redirected'> | undefined;
    const settle = (received: Received): void => {
      signal.removeEventListener('abort', onAbort);
      resolve({ ...head, ...received });
    };
    const breakOff = (error: unknown): void => {
      settle({ error, unreached: !connection.stood(), stale: isStale(error, connection) });
      request.destroy();
    };
    const onAbort = (): void => breakOff(signal.reason);

    const request = (secure ? https : http).request(url, { method: 'POST', headers, agent });
    const connection = watchConnection(request, secure);
    signal.addEventListener('abort', onAbort);
    // Stays for good: a request that was destroyed, or whose answer ends garbled, errs once more.
    request.on('error', breakOff);
    request.on('upgrade', () => breakOff(unusableBody('the answer switches protocols')));
    request.on('response', (response) => {
      const status = response.statusCode as number;
      head = { status, retryAfter: response.headers['retry-after'], redirected: isRedirect(status) };
      response.on('error', breakOff);
      if (head.redirected) breakOff(unusableBody('a redirect is not read'));
      else readBody(response, exchange.maxResponseBytes, settle, breakOff);
    });
    request.end(body);
  });
}

/** Reads a body up to its end or its cap. */
function readBody(
  response: http.IncomingMessage,
  maxBytes: number,
  settle: (received: Received) => void,
  breakOff: (error: unknown) => void,
): void {
  const decode = decoderOf(response.headers['content-encoding']);
  const maxRawBytes = decode ? maxBytes + ENCODING_OVERHEAD_BYTES : maxBytes;
  const chunks: Buffer[] = [];
  let bytes = 0;
  response.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > maxRawBytes) breakOff(unusableBody('the body is over the cap'));
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

/** What an encoding may add to a body that it cannot shrink: some bytes for each 16 KiB, and its frame. */
const ENCODING_OVERHEAD_BYTES = 1_024;

type Decode = (body: Buffer, options: { maxOutputLength: number }) => Buffer;

/** What undoes a content coding; undefined where there is nothing to undo. None was asked for, but services err. */
function decoderOf(contentEncoding: string | undefined): Decode | undefined {
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

/** `deflate` is the zlib format by its definition (RFC 9110 §8.4.1.2), and a raw stream by widespread mistake. */
const inflate: Decode = (body, options) => {
  const start = body.length < 2 ? 0 : body.readUInt16BE(0);
  const isZlib = (start & 0x0f00) === 0x0800 && start % 31 === 0;
  return isZlib ? zlib.inflateSync(body, options) : zlib.inflateRawSync(body, options);
};

interface ConnectionWatch {
  /** Whether a connection ever stood. */
  stood(): boolean;
  /** Whether it had served another request before, and nothing has come over it since. */
  reusedAndSilent(): boolean;
}

function watchConnection(request: http.ClientRequest, secure: boolean): ConnectionWatch {
  let stood = false;
  let socket: Socket | undefined;
  let bytesBefore = 0;
  request.once('socket', (given) => {
    socket = given;
    bytesBefore = given.bytesRead;
    stood = !given.connecting;
    if (stood) return;
    given.once(secure ? 'secureConnect' : 'connect', () => {
      stood = true;
    });
  });
  return {
    stood: () => stood,
    reusedAndSilent: () => request.reusedSocket && socket?.bytesRead === bytesBefore,
  };
}

/** Whether it fails as a connection does that the other side had closed while it was idle. */
function isStale(error: unknown, connection: ConnectionWatch): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return (code === 'ECONNRESET' || code === 'EPIPE') && connection.reusedAndSilent();
}
