import type { Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

/** Delay before retrying a port that another program has taken, on the machine's clock. */
const RETRY_MS = 20;

/** Listen backlog. A cold start opens thousands of connections at once; one that finds no room waits for a second. */
const BACKLOG = 4096;

/** A server's port that can be closed, so that connections are refused, and reopened under the same number. */
export class PortGate {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #port = 0;
  #host = '';
  #retry: NodeJS.Timeout | undefined;

  /** @param unref neither the port nor its connections keep the process running */
  constructor(server: Server, unref: boolean) {
    this.#server = server;
    if (unref) server.unref();
    server.on('connection', (socket: Socket) => {
      if (unref) socket.unref();
      // One listener for each request that a client pipelines.
      socket.setMaxListeners(0);
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
  }

  get isOpen(): boolean {
    return this.#server.listening;
  }

  /** Starts listening and resolves with the port. */
  listen(port: number, host: string): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, host, BACKLOG, () => {
        this.#server.off('error', reject);
        this.#server.on('error', () => this.#openLater());
        this.#host = host;
        this.#port = (this.#server.address() as AddressInfo).port;
        resolve(this.#port);
      });
    });
  }

  open(): void {
    if (!this.#server.listening) this.#server.listen(this.#port, this.#host, BACKLOG);
  }

  /** Stops listening and resets all connections, as a crashed process would. */
  close(): void {
    clearTimeout(this.#retry);
    if (this.#server.listening) this.#server.close();
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  /** Closes permanently; resolves when every connection has ended. */
  async shut(): Promise<void> {
    clearTimeout(this.#retry);
    const gone = [...this.#sockets].map((socket) => new Promise((resolve) => socket.once('close', resolve)));
    for (const socket of this.#sockets) socket.destroy();
    if (this.#server.listening) gone.push(new Promise((resolve) => this.#server.close(resolve)));
    await Promise.all(gone);
  }

  #openLater(): void {
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.open(), RETRY_MS);
  }
}
