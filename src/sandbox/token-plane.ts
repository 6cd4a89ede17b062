import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { exchangeOf, MAX_BODY_BYTES } from './exchange.ts';
import { readBody, send } from './http-io.ts';
import type { World } from './world.ts';

/** The emulated service: its token endpoint and one protected resource, on a port of its own. */
export class TokenPlane {
  readonly #world: World;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  constructor(world: World) {
    this.#world = world;
    this.#server = createServer({ keepAliveTimeout: 60_000 }, (req, res) => this.#receive(req, res));
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
  }

  /** Starts to listen, and gives the port. */
  listen(port: number, host: string): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, host, () => {
        this.#server.off('error', reject);
        resolve((this.#server.address() as AddressInfo).port);
      });
    });
  }

  /** Stops at once: who is connected is cut off. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve());
      for (const socket of this.#sockets) socket.destroy();
    });
  }

  #receive(req: IncomingMessage, res: ServerResponse): void {
    readBody(req, MAX_BODY_BYTES, (body) => {
      if ('problem' in body && body.problem === 'aborted') return;
      const exchange = exchangeOf(this.#world, req, body);
      const entry = this.#world.ledger.open(exchange.facts);
      const { answer, outcome, facts, issued } = exchange.respond();
      res.on('close', () => {
        if (!res.writableFinished && issued) issued.delivered = false;
        entry.close(res.writableFinished ? outcome : 'aborted', facts);
      });
      send(res, answer, this.#world.clock.now());
    });
  }
}
