/**
 * Decides what a call does: reads its owner's record until it allows a decision. See `shared-tokens.ts` for the
 * decisions, `record-scripts.ts` for the record, and `shared-circuit.ts` for the fleet's circuit breaker.
 */

import type { Clock } from '../clock.ts';
import { OwnerTokenError } from '../errors.ts';
import type { IssuedToken } from '../token.ts';
import type { KnownGenerations } from './known-generations.ts';
import type { Pacer } from './pacer.ts';
import type { SharedCall } from './shared-call.ts';
import type { Acquired, SharedRecord } from './shared-record.ts';
import type { StoredFailures } from './stored-failure.ts';
import type { StoredTokens } from './stored-token.ts';
import type { Wakeups, Watch } from './wakeups.ts';

export type Decision =
  | { readonly do: 'share'; readonly issued: IssuedToken }
  | { readonly do: 'refuse'; readonly error: OwnerTokenError }
  | { readonly do: 'lead'; readonly lead: Lead }
  | { readonly do: 'fall-back' };

/** What a leader holds. */
export interface Lead {
  readonly generation: number;
  /** The server's time when the lease was acquired. */
  readonly nowUs: number;
  /** The owner's ended failure, sealed; empty if none. */
  readonly failureBefore: string;
  /** Defined if the request is the fleet's trial. */
  readonly trial: Trial | undefined;
}

/** The lease of the circuit's record, and the ended failure that it holds. */
export interface Trial {
  readonly failureBefore: string;
}

/** The fleet's circuit lets the call pass, perhaps as its trial. */
interface Passage {
  readonly do: 'pass';
  readonly trial: Trial | undefined;
}

/** What the call has learned from the owner's record so far. */
interface Findings {
  /** No token of this or an earlier generation is wanted. */
  avoid: number;
  /** The generation of a rejected token; 0 if unknown. */
  rejected: number;
  /** A stored failure that does not open. */
  unreadable: string;
}

export interface ElectionOptions {
  readonly record: SharedRecord;
  readonly tokens: StoredTokens;
  readonly failures: StoredFailures;
  readonly known: KnownGenerations;
  readonly wakeups: Wakeups;
  /** Undefined if requests are not paced. */
  readonly pacer: Pacer | undefined;
  readonly clock: Clock;
  readonly maxWaitMs: number;
}

export class Election {
  readonly #options: ElectionOptions;

  constructor(options: ElectionOptions) {
    this.#options = options;
  }

  async decide(call: SharedCall): Promise<Decision> {
    const { clock, wakeups, maxWaitMs } = this.#options;
    const endsAtMs = clock.monotonic() + maxWaitMs;
    const watch = wakeups.watch(call.owner);
    const findings: Findings = { avoid: 0, rejected: this.#rejectedGeneration(call), unreadable: '' };
    let passage = call.circuit.mustRead ? undefined : PASS;
    try {
      for (;;) {
        call.request.signal.throwIfAborted();
        const readAtMs = clock.monotonic();
        const askedAtMs = clock.now();
        const answer = await this.#acquire(call, findings, passage !== undefined);
        if (answer?.what === 'lead') {
          const trial = passage?.trial;
          passage = undefined;
          call.sendTime = undefined;
          return leadOf(answer, trial);
        }
        if (passage?.trial) passage = this.#abandonTrial(call);
        if (answer?.what !== 'free') this.#passOnSendTime(call);
        if (answer?.what === 'wait') {
          if (!(await this.#wait(call, watch, answer.remainingMs, readAtMs, endsAtMs))) return FALL_BACK;
        } else if (answer?.what === 'free') {
          if (!(await this.#waitToSend(call, watch, endsAtMs))) continue;
          await call.takePermit();
          const passed = passage ?? (await this.#pass(call, endsAtMs));
          if (passed.do !== 'pass') return passed;
          passage = passed;
        } else {
          const decision = this.#read(call, findings, answer, askedAtMs);
          if (decision) return decision;
        }
      }
    } finally {
      watch.stop();
      if (passage?.trial) this.#abandonTrial(call);
      this.#passOnSendTime(call);
    }
  }

  /** Waits, without a permit, for a send time. Returns false if a wake-up came first: the record must be read again. */
  async #waitToSend(call: SharedCall, watch: Watch, endsAtMs: number): Promise<boolean> {
    const { pacer, clock } = this.#options;
    if (!pacer || this.#maySend(call)) return true;
    call.releasePermit();
    const { signal } = call.request;
    const leaving = new AbortController();
    const leave = () => leaving.abort(signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    try {
      const taken = pacer.take(leaving.signal, endsAtMs - clock.monotonic());
      call.sendTime = await Promise.race([taken, watch.woken(leaving.signal).then(() => undefined)]);
      signal.throwIfAborted();
      return call.sendTime !== undefined;
    } finally {
      signal.removeEventListener('abort', leave);
      leaving.abort();
    }
  }

  #maySend({ sendTime }: SharedCall): boolean {
    const { pacer } = this.#options;
    return !pacer || (sendTime !== undefined && pacer.isUsable(sendTime));
  }

  #passOnSendTime(call: SharedCall): void {
    if (call.sendTime) this.#options.pacer?.passOn(call.sendTime);
    call.sendTime = undefined;
  }

  /** Returns undefined if the record must be read again with the updated findings. */
  #read(
    { owner, request, circuit }: SharedCall,
    findings: Findings,
    answer: Exclude<Acquired, { what: 'lead' | 'wait' | 'free' }> | undefined,
    askedAtMs: number,
  ): Decision | undefined {
    const { tokens, failures, known } = this.#options;
    if (!answer) return FALL_BACK;
    if (answer.what === 'failure') {
      const error = failures.read(owner, answer.failure, answer.nowUs, findings.avoid);
      if (error && OwnerTokenError.escalationOf(error)) circuit.suspect();
      if (error) return { do: 'refuse', error };
      findings.unreadable = answer.failure;
      return undefined;
    }
    const issued = tokens.read(owner, answer, request, findings.avoid, askedAtMs);
    if (issued) return { do: 'share', issued };
    findings.avoid = Math.max(findings.avoid, answer.generation);
    // The stored token may be the rejected one, whose generation was unknown until now.
    if (request.reason === 'rejected' && request.rejected) findings.rejected = known.of(request.rejected.value);
    return undefined;
  }

  async #acquire(call: SharedCall, findings: Findings, isPassed: boolean): Promise<Acquired | undefined> {
    const { record, tokens } = this.#options;
    const mayLead = isPassed && call.hasPermit && this.#maySend(call);
    const listens = !this.#maySend(call);
    const { id, owner, request } = call;
    findings.avoid = Math.max(findings.avoid, tokens.avoid(request));
    return record.acquire(owner, { call: id, mayLead, listens, leastLifeMs: tokens.leastLifeMs(request), ...findings });
  }

  /** Admits the call past the fleet's circuit breaker, perhaps as its trial, or returns the refusal. */
  async #pass(call: SharedCall, endsAtMs: number): Promise<Passage | Decision> {
    const { record, failures, wakeups, clock } = this.#options;
    const { id, circuit, request } = call;
    if (!circuit.mustRead) return PASS;
    const watch = wakeups.watch(circuit.name);
    let mayLead = false;
    let unreadable = '';
    try {
      for (;;) {
        request.signal.throwIfAborted();
        const readAtMs = clock.monotonic();
        const answer = await record.acquire(circuit.name, { call: id, mayLead, unreadable });
        switch (answer?.what) {
          case 'lead':
            return { do: 'pass', trial: { failureBefore: answer.failure } };
          case 'failure': {
            const error = failures.read(circuit.name, answer.failure, answer.nowUs, 0);
            if (error) return { do: 'refuse', error };
            unreadable = answer.failure;
            break;
          }
          case 'free':
            mayLead = answer.failure !== '';
            if (mayLead) break;
            circuit.foundClosed();
            return PASS;
          case 'wait':
            if (!(await this.#wait(call, watch, answer.remainingMs, readAtMs, endsAtMs))) return FALL_BACK;
            await call.takePermit();
            break;
          default:
            return PASS;
        }
      }
    } finally {
      watch.stop();
    }
  }

  /** Waits, without a permit, until the record should be read again. Returns false after `maxWaitMs` in all. */
  async #wait(call: SharedCall, watch: Watch, leaseMs: number, readAtMs: number, endsAtMs: number): Promise<boolean> {
    const leftMs = endsAtMs - this.#options.clock.monotonic();
    if (leftMs <= 0) return false;
    call.releasePermit();
    await watch.next(Math.min(leaseMs, leftMs), readAtMs, call.request.signal);
    return true;
  }

  #abandonTrial(call: SharedCall): undefined {
    void this.#options.record.release(call.circuit.name, call.id, 'unknown');
  }

  #rejectedGeneration({ request: { reason, rejected } }: SharedCall): number {
    return reason === 'rejected' && rejected ? this.#options.known.of(rejected.value) : 0;
  }
}

function leadOf(answer: Extract<Acquired, { what: 'lead' }>, trial: Trial | undefined): Decision {
  const { generation, nowUs, failure: failureBefore } = answer;
  return { do: 'lead', lead: { generation, nowUs, failureBefore, trial } };
}

const PASS: Passage = Object.freeze({ do: 'pass', trial: undefined });
export const FALL_BACK: Decision = Object.freeze({ do: 'fall-back' });
