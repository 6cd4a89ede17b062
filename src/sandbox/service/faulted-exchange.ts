import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../../clock.ts';
import type { FaultDecision } from '../state/faults.ts';
import type { LedgerEntry, LedgerKind, OpenEntry, Outcome } from '../state/ledger.ts';
import type { Exchange, Respond, Response } from './exchange.ts';

/** A request that a fault applies to: what an effect can do with it, and how its outcome reaches the ledger. */
export class FaultedExchange {
  readonly kind: LedgerKind;
  readonly res: ServerResponse;
  readonly socket: Socket;
  readonly decision: FaultDecision;
  readonly #clock: Required<Clock>;
  readonly #exchange: Exchange;
  readonly #entry: OpenEntry;
  readonly #timers = new Set<() => void>();
  #response: Response | undefined;
  #ending: { outcome: Outcome; facts: Partial<LedgerEntry> } | undefined;
  #spoiled = false;

  constructor(
    clock: Required<Clock>,
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
    res.on('close', () => this.#end());
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

  /** Calls `fn` after a delay on the sandbox's clock, unless the connection closes first. */
  later(ms: number, fn: () => void): void {
    const cancel = this.#clock.setTimeout(() => {
      this.#timers.delete(cancel);
      fn();
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
    if (this.#response?.issued) this.#response.issued.delivered = false;
    this.#entry.note({ ...facts, outcome });
  }

  #end(): void {
    for (const cancel of this.#timers) cancel();
    const whole = this.res.writableFinished;
    if (!whole && this.#response?.issued) this.#response.issued.delivered = false;
    const ending = this.#ending && (this.#spoiled || whole) ? this.#ending.outcome : 'aborted';
    this.#entry.close(ending, this.#ending?.facts);
  }
}
