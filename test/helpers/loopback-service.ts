/**
 * A token service on a real socket, whose every byte a test controls.
 *
 * ```ts
 * await using service = await LoopbackService.start();
 * service.next(status(503), reset(), token({ expires_in: 5 }));  // one answer per request, then the default answer
 * service.always(json(400, { error: 'invalid_grant' }));          // sets the default answer
 * service.always(silence());                                      // to answer by hand and in any order:
 * (await service.arrived(1)).answer(token());
 * ```
 *
 * By default it answers each request with a token that contains the request's number and its owner. `calls`, `countFor`,
 * `connections` and `openConnections` count what arrived.
 */

import net, { type AddressInfo, type Socket } from 'node:net';
import tls from 'node:tls';
import { LOOPBACK_CERTIFICATE, LOOPBACK_KEY } from './loopback-certificate.ts';

/** Answers one request, or leaves it unanswered. */
export type Answer = (call: ServiceCall) => void;

export class LoopbackService implements AsyncDisposable {
  /** Every complete request, in order of arrival. */
  readonly calls: ServiceCall[] = [];
  /** Number of connections ever opened, including those whose TLS handshake failed. */
  connections = 0;
  readonly #server: net.Server;
  readonly #secure: boolean;
  readonly #sockets = new Set<Socket>();
  readonly #queued: Answer[] = [];
  readonly #waiting: { count: number; resolve: () => void }[] = [];
  #usual: Answer = token();
  #onConnection: ((socket: Socket) => void) | undefined;

  private constructor(secure: boolean) {
    this.#secure = secure;
    const certificate = { key: LOOPBACK_KEY, cert: LOOPBACK_CERTIFICATE };
    const serve = (socket: Socket): void => this.#serve(socket);
    this.#server = secure ? tls.createServer(certificate, serve) : net.createServer(serve);
    this.#server.prependListener('connection', () => this.connections++);
    // Some tests use clients that do not trust the certificate.
    this.#server.on('tlsClientError', () => {});
  }

  /** Listens on a free port of 127.0.0.1. With `tls`, uses the certificate of `loopback-certificate.ts`. */
  static async start(options: { tls?: boolean } = {}): Promise<LoopbackService> {
    const service = new LoopbackService(options.tls ?? false);
    await new Promise<void>((resolve) => service.#server.listen(0, '127.0.0.1', resolve));
    return service;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** The base URL. */
  get url(): string {
    return `${this.#secure ? 'https' : 'http'}://127.0.0.1:${this.port}`;
  }

  get openConnections(): number {
    return this.#sockets.size;
  }

  countFor(accessKey: string): number {
    return this.calls.filter((call) => call.accessKey === accessKey).length;
  }

  /** Sets the answers to the next requests, one each. */
  next(...answers: Answer[]): this {
    this.#queued.push(...answers);
    return this;
  }

  /** Sets the default answer, for requests without one from `next`. */
  always(answer: Answer): this {
    this.#usual = answer;
    return this;
  }

  /** Sets what happens to a new connection before its first request, such as closing it at once. */
  onConnection(act: ((socket: Socket) => void) | undefined): this {
    this.#onConnection = act;
    return this;
  }

  /** Resolves with the request of this number, counted from 1, once it has arrived. */
  async arrived(count: number): Promise<ServiceCall> {
    if (this.calls.length < count) await new Promise<void>((resolve) => this.#waiting.push({ count, resolve }));
    return this.calls[count - 1] as ServiceCall;
  }

  /** Destroys every connection, and resolves once all are closed. */
  async dropConnections(): Promise<void> {
    await Promise.all(
      [...this.#sockets].map((socket) => {
        const gone = new Promise((resolve) => socket.once('close', resolve));
        socket.destroy();
        return gone;
      }),
    );
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    await this.dropConnections();
    await closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #serve(socket: Socket): void {
    const connection = this.connections;
    this.#sockets.add(socket);
    // With Nagle's algorithm a second write would wait for the client's ACK, and arrive after its next request.
    socket.setNoDelay(true);
    const gone = new Promise<void>((resolve) => {
      socket.on('close', () => {
        this.#sockets.delete(socket);
        resolve();
      });
    });
    socket.on('error', () => {});
    this.#onConnection?.(socket);
    let unread = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      unread = Buffer.concat([unread, chunk]);
      for (let found = readRequest(unread); found; found = readRequest(unread)) {
        unread = unread.subarray(found.bytes);
        this.#take(new ServiceCall(found, { socket, connection, gone }, this.calls.length));
      }
    });
  }

  #take(call: ServiceCall): void {
    this.calls.push(call);
    (this.#queued.shift() ?? this.#usual)(call);
    for (const waiting of this.#waiting.filter(({ count }) => count <= this.calls.length)) waiting.resolve();
  }
}

/** One request that arrived, and the connection to answer it on. */
export class ServiceCall {
  readonly index: number;
  /** Number of the connection it came over, from 1. */
  readonly connection: number;
  readonly method: string;
  readonly path: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** For answers written byte by byte. */
  readonly socket: Socket;
  /** Resolves once the connection is closed. */
  readonly gone: Promise<void>;

  constructor(request: ParsedRequest, over: Pick<ServiceCall, 'socket' | 'connection' | 'gone'>, index: number) {
    this.index = index;
    this.connection = over.connection;
    this.socket = over.socket;
    this.gone = over.gone;
    this.method = request.method;
    this.path = request.path;
    this.headers = request.headers;
    this.body = request.body;
  }

  /** The four fields of a token request, or whatever else the JSON or the form holds. */
  get fields(): Record<string, unknown> {
    const isForm = this.headers['content-type'] === 'application/x-www-form-urlencoded';
    return isForm ? Object.fromEntries(new URLSearchParams(this.body)) : JSON.parse(this.body);
  }

  get accessKey(): unknown {
    return this.fields.appliance_owner_scope;
  }

  /** Answers now, after {@link silence} left the request unanswered. */
  answer(answer: Answer): void {
    answer(this);
  }
}

/** 200 with a token of this request's own, and with these further fields in the body. */
export function token(fields: Record<string, unknown> = {}): Answer {
  return (call) => {
    const access_token = `token-${call.index + 1}-of-${encodeURIComponent(String(call.accessKey))}`;
    json(200, { access_token, token_type: 'Bearer', expires_in: 3600, ...fields })(call);
  };
}

export function json(code: number, body: unknown, headers: Record<string, string> = {}): Answer {
  return status(code, JSON.stringify(body), { 'content-type': 'application/json', ...headers });
}

/** A complete answer with any status, body and headers. */
export function status(code: number, body: string | Buffer = '', headers: Record<string, string> = {}): Answer {
  const bytes = Buffer.from(body as string);
  return raw(head(code, { 'content-length': String(bytes.length), ...headers }), bytes);
}

/** The status line and headers of an answer, as sent over the wire. */
export function head(code: number, headers: Record<string, string> = {}): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${code} Whatever\r\n${lines.join('')}\r\n`;
}

/** These bytes in one write. The connection stays open. */
export function raw(...parts: (string | Buffer)[]): Answer {
  const bytes = Buffer.concat(parts.map((part) => Buffer.from(part as string)));
  return ({ socket }) => void socket.write(bytes);
}

/** Answers, and then closes the connection gracefully. */
export function thenEnd(answer: Answer): Answer {
  return (call) => {
    answer(call);
    call.socket.end();
  };
}

/** Answers, and resets the connection once the answer was flushed. */
export function thenReset(answer: Answer): Answer {
  return (call) => {
    answer(call);
    call.socket.write('', () => reset()(call));
  };
}

/** Closes the connection gracefully without a byte. */
export function end(): Answer {
  return thenEnd(silence());
}

/** Resets the connection without a byte. Over TLS, closes it without `close_notify`. */
export function reset(): Answer {
  return ({ socket }) => void (socket instanceof tls.TLSSocket ? socket.destroy() : socket.resetAndDestroy());
}

/** Never answers. */
export function silence(): Answer {
  return () => {};
}

/** Sends these characters or pieces one at a time, and repeats the last one until the connection closes. */
export function drip(pieces: string | readonly string[], everyMs = 1): Answer {
  return (call) => {
    let at = 0;
    const timer = setInterval(() => call.socket.write(pieces[Math.min(at++, pieces.length - 1)] ?? ''), everyMs);
    void call.gone.then(() => clearInterval(timer));
  };
}

/** Sends `start`, and then this chunk endlessly, as fast as the client reads. */
export function flood(start: string, chunk = Buffer.alloc(16_384, 0x20)): Answer {
  return ({ socket }) => {
    socket.write(start);
    const more = (): void => {
      while (!socket.destroyed && socket.write(chunk));
    };
    socket.on('drain', more);
    more();
  };
}

interface ParsedRequest {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: string;
  /** Its length on the wire. */
  bytes: number;
}

/** The first complete request in these bytes, if there is one. `Content-Length` delimits its body. */
function readRequest(bytes: Buffer): ParsedRequest | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd < 0) return undefined;
  const [first = '', ...lines] = bytes.toString('latin1', 0, headEnd).split('\r\n');
  const [method = '', path = ''] = first.split(' ');
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  );
  const start = headEnd + 4;
  const stop = start + Number(headers['content-length'] ?? 0);
  if (bytes.length < stop) return undefined;
  return { method, path, headers, body: bytes.toString('utf8', start, stop), bytes: stop };
}
