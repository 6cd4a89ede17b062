import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { OpenEntry } from '../state/ledger/ledger.ts';
import type { LedgerEntry, LedgerKind, Outcome } from '../state/ledger/ledger-entry.ts';
import type { FaultDecision } from '../state/world/faults.ts';
import type { World } from '../state/world/world.ts';
import type { Exchange, Respond, Response } from './exchange.ts';
import { onceEnded, send } from './http-io.ts';

/** A request that a fault applies to: what an effect can do with it, and how its outcome reaches the ledger. */
export class FaultedExchange {
  readonly kind: LedgerKind;
  readonly res: ServerResponse;
  readonly socket: Socket;
  readonly decision: FaultDecision;
  readonly #clock: World['clock'];
  readonly #exchange: Exchange;
  readonly #entry: OpenEntry;
  readonly #timers = new Set<() => void>();
  #response: Response | undefined;
  #ending: { outcome: Outcome; facts: Partial<LedgerEntry> } | undefined;
  #spoiled = false;

  constructor(
    clock: World['clock'],
    res: ServerResponse,
    exchange: Exchange,
    entry: OpenEntry,
    decision: FaultDecision,
  ) {
    this.kind = exchange.facts.kind;
    this.res = res;
    this.socket = res.req.socket;
    this.decision = decision;
    this.#clock = clock;
    this.#exchange = exchange;
    this.#entry = entry;
    entry.note({ fault: decision.id, faultKind: decision.effect?.kind ?? 'latency' });
    onceEnded(res, () => this.#end());
  }

  nowMs(): number {
    return this.#clock.now();
  }

  /** Carries the request out and returns the correct answer. */
  respond(how?: Parameters<Respond>[0]): Response {
    this.#response = this.#exchange.respond(how);
    return this.#response;
  }

  /** Records that a 401 told the client to drop its token. */
  refuseToken(): void {
    this.#exchange.tokenRefused?.();
  }

  /** Calls `fn`. If it throws, the client gets a 500, or a reset if the answer has begun, and the console one line. */
  attempt(fn: () => void): void {
    try {
      fn();
    } catch (error) {
      process.emitWarning(`sandbox: the fault ${this.decision.id} cannot be carried out: ${String(error)}`);
      this.spoiled('server_error', { status: 500 });
      if (this.res.headersSent) this.socket.resetAndDestroy();
      else send(this.res, { status: 500, headers: {}, body: '' }, this.nowMs());
    }
  }

  /** Calls `fn` after a delay on the sandbox's clock, unless the connection closes first. */
  later(ms: number, fn: () => void): void {
    const cancel = this.#clock.setTimeout(() => {
      this.#timers.delete(cancel);
      this.attempt(fn);
    }, ms);
    this.#timers.add(cancel);
  }

  /** Sets the outcome for an answer that is sent completely; otherwise the request ends as `aborted`. */
  endsAs(outcome: Outcome, facts: Partial<LedgerEntry> = {}): void {
    this.#ending = { outcome, facts };
  }

  /** Records the outcome now; the connection may stay open. */
  spoiled(outcome: Outcome, facts: Partial<LedgerEntry> = {}): void {
    this.#ending = { outcome, facts };
    this.#spoiled = true;
    this.#tokenLost();
    this.#entry.note({ ...facts, outcome });
  }

  #tokenLost(): void {
    if (this.#response?.issued) this.#response.issued.delivered = false;
  }

  #end(): void {
    for (const cancel of this.#timers) cancel();
    const whole = this.res.writableFinished;
    if (!whole) this.#tokenLost();
    const ending = this.#ending && (this.#spoiled || whole) ? this.#ending.outcome : 'aborted';
    this.#entry.close(ending, this.#ending?.facts);
  }
}
