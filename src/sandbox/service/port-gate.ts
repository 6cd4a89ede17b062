import type { Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

/** How long to wait before a port that somebody else has taken meanwhile is tried again, by the machine's clock. */
const RETRY_MS = 20;

/** Connections that may wait to be accepted: a cold start makes thousands at once, and who finds no room waits a second. */
const BACKLOG = 4096;

/** A server's port, which can be closed, so that connecting is refused, and opened again as the same one. */
export class PortGate {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #port = 0;
  #host = '';
  #retry: NodeJS.Timeout | undefined;

  constructor(server: Server) {
    this.#server = server;
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
  }

  get isOpen(): boolean {
    return this.#server.listening;
  }

  /** Starts to listen, and gives the port. */
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

  /** Stops listening, and cuts off who is connected: with a reset, as a process that has died does. */
  close(): void {
    clearTimeout(this.#retry);
    if (this.#server.listening) this.#server.close();
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  /** Closes for good, once every connection has gone. */
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
