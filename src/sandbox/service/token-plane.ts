import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { OpenEntry } from '../state/ledger/ledger.ts';
import type { World } from '../state/world/world.ts';
import { type Exchange, exchangeOf, MAX_BODY_BYTES } from './exchange.ts';
import { applyFault } from './fault-effects.ts';
import { FaultedExchange } from './faulted-exchange.ts';
import { onceEnded, readBody, send } from './http-io.ts';
import { PortGate } from './port-gate.ts';

/** The emulated service on its own port: the token endpoint and one protected resource. */
export class TokenPlane {
  readonly #world: World;
  readonly #server: Server;
  readonly #gate: PortGate;
  #cancelGateTimer: (() => void) | undefined;
  #closed = false;

  constructor(world: World, unref: boolean) {
    this.#world = world;
    this.#server = createServer({ keepAliveTimeout: 60_000 }, (req, res) => this.#receive(req, res));
    this.#gate = new PortGate(this.#server, unref);
  }

  /** Starts listening and resolves with the port. */
  listen(port: number, host: string): Promise<number> {
    return this.#gate.listen(port, host);
  }

  get listening(): boolean {
    return this.#gate.isOpen;
  }

  /** Opens or closes the port as the fault rules demand, now and at each change. Call it when the rules change. */
  obeyFaults(): void {
    this.#cancelGateTimer?.();
    if (this.#closed) return;
    const { closed, changesInMs } = this.#world.faults.portClosed();
    if (closed) this.#gate.close();
    else this.#gate.open();
    if (changesInMs === Number.POSITIVE_INFINITY) return;
    this.#cancelGateTimer = this.#world.clock.setTimeout(() => this.obeyFaults(), changesInMs);
  }

  /** Closes the port and all connections. */
  close(): Promise<void> {
    this.#closed = true;
    this.#cancelGateTimer?.();
    return this.#gate.shut();
  }

  #receive(req: IncomingMessage, res: ServerResponse): void {
    readBody(req, MAX_BODY_BYTES, (body) => {
      if ('problem' in body && body.problem === 'aborted') return;
      const exchange = exchangeOf(this.#world, req, body);
      const entry = this.#world.ledger.open(exchange.facts);
      const decision = this.#world.faults.decide(exchange.facts);
      if (decision) applyFault(new FaultedExchange(this.#world.clock, res, exchange, entry, decision));
      else this.#answer(res, exchange, entry);
    });
  }

  #answer(res: ServerResponse, exchange: Exchange, entry: OpenEntry): void {
    const { answer, outcome, facts, issued } = exchange.respond();
    onceEnded(res, () => {
      if (!res.writableFinished && issued) issued.delivered = false;
      entry.close(res.writableFinished ? outcome : 'aborted', facts);
    });
    send(res, answer, this.#world.clock.now());
  }
}
