/**
 * One POST over `node:http` or `node:https`: no retry, no redirect, no interpretation of the response. Every outcome,
 * failures included, is an {@link ExchangeResult}; nothing is thrown.
 *
 * The body is bounded after decoding, because a few kilobytes of gzip can hold gigabytes.
 */

import http from 'node:http';
import type https from 'node:https';
import type { Socket } from 'node:net';
import timers from 'node:timers';
import { urlToHttpOptions } from 'node:url';
import type { Deadline } from '../cancellation.ts';
import { proxyStatusIn } from '../http-failure.ts';

/** Captured at load, so that the fake timers of a test cannot stall a response. */
const { setImmediate } = timers;

/** Loaded when first needed: TLS and compression would account for a fifth of the import time. */
const nodeHttps = () => process.getBuiltinModule('node:https');
const nodeZlib = () => process.getBuiltinModule('node:zlib');

/** Where a request goes. */
export interface Target {
  readonly path: string;
  readonly url: URL;
  /** The parts of the URL as Node's client takes them. */
  readonly options: http.RequestOptions;
}

/** The target with this path below a base URL. */
export function targetBelow(baseUrl: URL, path: string): Target {
  // Not resolved as a relative URL, because `//elsewhere` would name another host.
  const url = new URL(`${baseUrl.origin}${baseUrl.pathname.replace(/\/+$/, '')}${path}`);
  return { path, url, options: urlToHttpOptions(url) };
}

/** One POST to make. */
export interface ExchangeRequest {
  readonly target: Target;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** The largest decoded body that is accepted, in bytes. */
  readonly maxResponseBytes: number;
  /** Opens a new connection instead of using an idle one. */
  readonly isFresh?: boolean | undefined;
  /** Ends the exchange, unless the complete response has been read; its reason becomes the result's `error`. */
  readonly deadline: Deadline;
}

/** As much of the response as was received, and what interrupted it. */
export interface ExchangeResult {
  /** Undefined if no response began, or if a `fetch` hides the status of a redirect. */
  readonly status?: number | undefined;
  /** The `Retry-After` header. */
  readonly retryAfter?: string | undefined;
  /** The `Date` header: the service's clock, or a gateway's. */
  readonly date?: string | undefined;
  /** The complete body, decoded; undefined if `error` is set. */
  readonly body?: Buffer;
  /** What interrupted the exchange; undefined if the response is complete. */
  readonly error?: unknown;
  /** Whether only the reused connection was at fault, so that the same request may be sent again over a new one. */
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

/**
 * How long idle connections are kept. Short, because middleboxes silently drop idle connections after a few minutes.
 */
const IDLE_SOCKET_MS = 30_000;

/** How long each address of a name but the last may take. In Node's quarter of a second, a distant service never connects. */
const CONNECT_ATTEMPT_MS = 2_500;

/**
 * An agent with keep-alive. Node unrefs idle sockets, so they do not keep the process running. Reads the proxy from the
 * environment if Node's global agent does (`NODE_USE_ENV_PROXY`).
 */
export function keepAliveAgent(url: URL): http.Agent {
  const { Agent, globalAgent } = url.protocol === 'https:' ? nodeHttps() : http;
  const { proxyEnv } = (globalAgent as https.Agent).options as { proxyEnv?: object };
  const options = { keepAlive: true, autoSelectFamilyAttemptTimeout: CONNECT_ATTEMPT_MS };
  // With a proxy, `timeout` is also Node's only time limit for the tunnel to it.
  if (proxyEnv) return new Agent({ ...options, timeout: IDLE_SOCKET_MS, proxyEnv } as http.AgentOptions);
  const agent: http.Agent = new Agent(options);
  // Only what keeps idle connections sees `timeout`: as an option of the agent, it would be set and copied for each request.
  agent.keepSocketAlive = agent.keepSocketAlive.bind({ ...agent, options: { timeout: IDLE_SOCKET_MS } });
  return agent;
}

/** The idle connections of an agent. */
export function idleSockets(agent: http.Agent): Socket[] {
  return Object.values(agent.freeSockets as Record<string, Socket[]>).flat();
}

/** Runs `send` while the agent seems to have no idle connections, so that it opens a new one. */
function withoutIdleSockets<T>(agent: http.Agent, send: () => T): T {
  const { freeSockets } = agent;
  const show = (value: object) =>
    Object.defineProperty(agent, 'freeSockets', { value, configurable: true, enumerable: true, writable: true });
  show(Object.create(null));
  try {
    return send();
  } finally {
    show(freeSockets);
  }
}

/**
 * Delivers the results of exchanges in batches, once the responses that have arrived are read: running the same code for a
 * whole batch keeps it in the CPU's caches. Failures are deferred too, to keep the order of completion.
 */
export class ResultBatch {
  #results: { readonly deliver: (result: ExchangeResult) => void; readonly result: ExchangeResult }[] = [];

  add(deliver: (result: ExchangeResult) => void, result: ExchangeResult): void {
    if (this.#results.push({ deliver, result }) > 1) return;
    setImmediate(() => {
      const results = this.#results;
      this.#results = [];
      for (const { deliver, result } of results) deliver(result);
    });
  }
}

/** Settles once, with the complete response or the first error. */
export function postOverHttp(
  { target, headers, body, maxResponseBytes, isFresh, deadline }: ExchangeRequest,
  agent: http.Agent,
  batch: ResultBatch,
): Promise<ExchangeResult> {
  return new Promise((resolve) => {
    if (deadline.reason) return resolve({ error: deadline.reason });
    const { protocol, hostname, port, path } = target.options;
    let request: http.ClientRequest;
    try {
      const client = protocol === 'https:' ? nodeHttps() : http;
      // With `protocol`, by which the agents of proxies find their connections again.
      const send = () => client.request({ method: 'POST', protocol, hostname, port, path, headers, agent });
      request = isFresh ? withoutIdleSockets(agent, send) : send();
    } catch (error) {
      // A user's agent may throw.
      return resolve({ error });
    }
    let head: ExchangeResult = {};
    let bytesBefore: number | undefined;
    // Either may be called again: the batch keeps the order of results, and only the first one counts.
    const isOver = () => request.reusedSocket && CONNECTION_STATUSES.includes(head.status);
    const end = (body: Buffer): void => {
      const { status, retryAfter, date } = head;
      batch.add(resolve, { status, retryAfter, date, body, stale: isOver() });
    };
    const fail = (error: unknown): void => {
      const isClosed = isReset(error) && request.reusedSocket && request.socket?.bytesRead === bytesBefore;
      const status = head.status ?? proxyStatusIn(error);
      batch.add(resolve, { ...head, status, error, stale: isClosed || isOver() });
      request.destroy();
    };
    deadline.onEnd = fail;
    // Never removed: a destroyed request, or one with a malformed response, emits a second error.
    request.on('error', fail);
    request.on('upgrade', () => fail(unusableBody('the response switches protocols')));
    request.on('socket', (socket) => {
      bytesBefore = socket.bytesRead;
    });
    request.on('response', (response) => {
      const status = response.statusCode as number;
      const { 'retry-after': retryAfter, date } = response.headers;
      head = { status, retryAfter, date };
      response.on('error', fail);
      if (status >= 300 && status <= 399) fail(redirected());
      else readBody(response, maxResponseBytes, end, fail);
    });
    request.end(body);
  });
}

/**
 * Request Timeout and Misdirected Request concern the connection: the request was not processed.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc9110#section-15.5.9 RFC 9110 §15.5.9 and §15.5.20}
 */
const CONNECTION_STATUSES: readonly unknown[] = [408, 421];

/** Whether the other side closed the connection. */
function isReset(error: unknown): boolean {
  return ['ECONNRESET', 'EPIPE'].includes((error as { readonly code: string }).code);
}

/** Reads the body up to its end or the limit, and decodes it. */
function readBody(
  response: http.IncomingMessage,
  maxBytes: number,
  end: (body: Buffer) => void,
  fail: (error: unknown) => void,
): void {
  const codings = response.headers['content-encoding'];
  const decoders = codings === undefined ? [] : decodersFor(codings);
  if (decoders.length > MAX_CODINGS) {
    fail(unusableBody(`the body has more than ${MAX_CODINGS} content codings`));
    return;
  }
  const maxRawBytes = maxBytes + decoders.length * ENCODING_OVERHEAD_BYTES;
  const chunks: Buffer[] = [];
  let bytes = 0;
  response.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > maxRawBytes) fail(unusableBody('the body exceeds maxResponseBytes'));
    else chunks.push(chunk);
  });
  response.on('end', () => {
    const body = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
    const decoded = (encoded: Buffer, decode: Decode, left: number) =>
      decode(encoded, { maxOutputLength: maxBytes + left * ENCODING_OVERHEAD_BYTES });
    try {
      end(decoders.reduceRight(decoded, body));
    } catch (error) {
      fail(error);
    }
  });
}

/** The most that an encoding adds to an incompressible body: its frame, and a few bytes per 16 KiB. */
const ENCODING_OVERHEAD_BYTES = 1_024;

/** As in `fetch`. Few, because decoding blocks the event loop. */
const MAX_CODINGS = 5;

type Decode = (body: Buffer, options: { maxOutputLength: number }) => Buffer;

/** One for each coding of a list; none if one is unknown, as in `fetch`. */
function decodersFor(codings: string): readonly Decode[] {
  const names = codings.toLowerCase().match(/[^\s,]+/g) ?? [];
  const decoders = names.filter((name) => name !== 'identity').map(decoderFor);
  return decoders.every((decode) => decode !== undefined) ? decoders : [];
}

/** The request asks for no coding, but some services compress all the same. As in `fetch`, a compressed body may lack its end. */
function decoderFor(name: string): Decode | undefined {
  const zlib = nodeZlib();
  const finishFlush = zlib.constants.Z_SYNC_FLUSH;
  if (name === 'br') return zlib.brotliDecompressSync;
  if (!/^(x-gzip|gzip|deflate)$/.test(name)) return undefined;
  // Some services leave out the header of `deflate`, which begins with 8. That of gzip begins with 31.
  const isRaw = (body: Buffer) => body.length > 0 && (body.readUInt8() & 15) !== 8 && body.readUInt8() !== 31;
  return (body, options) => (isRaw(body) ? zlib.inflateRawSync : zlib.unzipSync)(body, { ...options, finishFlush });
}
