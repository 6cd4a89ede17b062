import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { LOOPBACK_CERTIFICATE, LOOPBACK_KEY } from './loopback-certificate.ts';

/** A request that a {@link ResourceService} received. */
export interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** The token from the `Authorization` header. */
  readonly token: string | undefined;
}

type Handler = (received: Received, response: ServerResponse, index: number) => unknown;

/** A protected resource on loopback: the test's handler answers, and requests are recorded. */
export class ResourceService implements AsyncDisposable {
  readonly received: Received[] = [];
  readonly sockets = new Set<Socket>();
  /** Number of connections ever opened. */
  connections = 0;
  readonly origin: string;
  readonly #server: Server;

  private constructor(server: Server, scheme: string) {
    this.#server = server;
    this.origin = `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on('connection', (socket) => {
      this.connections++;
      this.sockets.add(socket);
      socket.on('close', () => this.sockets.delete(socket));
    });
  }

  /** Without a handler it answers 200 and `ok`. */
  static async start(
    handler: Handler = (_, response) => response.end('ok'),
    scheme = 'http',
  ): Promise<ResourceService> {
    const secure = { key: LOOPBACK_KEY, cert: LOOPBACK_CERTIFICATE };
    const server = scheme === 'https' ? createSecureServer(secure) : createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const service = new ResourceService(server, scheme);
    server.on('request', (request, response) => void service.#serve(handler, request, response));
    return service;
  }

  /** The token of each call so far. */
  get tokens(): (string | undefined)[] {
    return this.received.map(({ token }) => token);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await new Promise((resolve) => setImmediate(resolve));
  }

  async #serve(handler: Handler, request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = '';
    try {
      for await (const chunk of request.setEncoding('utf8')) body += chunk;
    } catch {
      return; // The client aborted.
    }
    const { method = '', url: path = '', headers } = request;
    const received = { method, path, headers, body, token: headers.authorization?.replace(/^Bearer /, '') };
    await handler(received, response, this.received.push(received) - 1);
  }
}
