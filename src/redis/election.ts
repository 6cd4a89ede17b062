/**
 * Decides what a call does: reads its owner's record until it allows a decision. See `shared-tokens.ts` for the
 * decisions, `record-scripts.ts` for the record, `shared-circuit.ts` for the fleet's circuit breaker, and
 * `fallback-budget.ts` for how long a call waits for a Redis that does not answer in time.
 */

import { type Clock, startTimer } from '../clock.ts';
import { OwnerTokenError } from '../errors.ts';
import type { IssuedToken } from '../token.ts';
import type { FallbackBudget } from './fallback-budget.ts';
import type { KnownGenerations } from './known-generations.ts';
import type { Pacer } from './pacer.ts';
import type { SharedCall } from './shared-call.ts';
import type { SharedCircuit } from './shared-circuit.ts';
import type { Acquired, AcquireReply, SharedRecord } from './shared-record.ts';
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
  /** The monotonic time at which the call asked for the lease. */
  readonly askedAtMs: number;
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

/** The fleet's circuit breaker admits the call's request, perhaps as its trial. */
interface Admitted {
  readonly do: 'send';
  readonly trial: Trial | undefined;
}

/** What the call has learned from the owner's record so far. */
interface Findings {
  /** No token of this or an earlier generation is wanted. */
  avoid: number;
  /** The generation of a rejected token; 0 if unknown. */
  rejected: number;
  /** A stored failure that cannot be decrypted. */
  unreadable: string;
  /** The monotonic time at which the call falls back, while its record cannot be read. */
  fallBackAtMs?: number | undefined;
}

export interface ElectionOptions {
  readonly record: SharedRecord;
  readonly tokens: StoredTokens;
  readonly failures: StoredFailures;
  readonly known: KnownGenerations;
  readonly wakeups: Wakeups;
  readonly budget: FallbackBudget;
  /** Undefined if requests are not paced. */
  readonly pacer: Pacer | undefined;
  readonly clock: Clock;
  readonly random: () => number;
  readonly maxWaitMs: number;
}

/** How long a call waits after Redis replied with an error, on average, before it reads the record again. */
const AFTER_ERROR_MS = 500;

export class Election {
  readonly #options: ElectionOptions;

  constructor(options: ElectionOptions) {
    this.#options = options;
  }

  async decide(call: SharedCall): Promise<Decision> {
    const { record, clock, wakeups, maxWaitMs } = this.#options;
    const endsAtMs = clock.monotonic() + maxWaitMs;
    const watch = wakeups.watch(call.owner);
    const findings: Findings = { avoid: 0, rejected: this.#rejectedGeneration(call), unreadable: '' };
    let admitted = call.circuit.mustRead ? undefined : ADMITTED;
    let { isUnread } = call.circuit;
    // Set while the call holds a lease and the fleet's circuit breaker may still refuse it; the next `acquire` confirms it.
    let mustReleaseLease = false;
    try {
      for (;;) {
        call.request.signal.throwIfAborted();
        const readAtMs = clock.monotonic();
        const askedAtMs = clock.now();
        const { answer: inTime, late } = await this.#acquire(call, findings, isUnread || admitted !== undefined);
        mustReleaseLease = false;
        if (inTime?.what === 'lead' && admitted) {
          const { trial } = admitted;
          admitted = undefined;
          call.sendTime = undefined;
          return leadOf(inTime, readAtMs, trial);
        }
        if (admitted?.trial) admitted = this.#abandonTrial(call);
        if (inTime?.what !== 'free') this.#passOnSendTime(call);
        const answer = inTime ?? (await this.#lateAnswer(call, findings, late, endsAtMs));
        if (answer === 'fall-back') return FALL_BACK;
        if (answer === 'again') continue;
        if (answer.what === 'lead') {
          if (!call.circuit.mustRead) admitted = ADMITTED;
          if (admitted && this.#maySend(call)) return leadOf(answer, readAtMs, undefined);
          isUnread = false;
          mustReleaseLease = this.#maySend(call);
          if (!mustReleaseLease) await record.release(call.owner, call.id, 'unknown');
        }
        if (answer.what === 'wait') {
          if (!(await this.#wait(call, watch, answer.remainingMs, readAtMs, endsAtMs))) return FALL_BACK;
        } else if (answer.what === 'free' || answer.what === 'lead') {
          if (!(await this.#waitToSend(call, watch, endsAtMs))) continue;
          await call.takePermit();
          const passed = admitted ?? (await this.#admit(call, endsAtMs));
          if (passed.do !== 'send') return passed;
          admitted = passed;
        } else {
          const decision = this.#read(call, findings, answer, askedAtMs);
          if (decision) return decision;
        }
      }
    } finally {
      watch.stop();
      if (mustReleaseLease) void record.release(call.owner, call.id, 'unknown');
      if (admitted?.trial) this.#abandonTrial(call);
      this.#passOnSendTime(call);
    }
  }

  /** The first read of the circuit's record. */
  async readCircuit(circuit: SharedCircuit): Promise<void> {
    const { answer, late } = await this.#options.record.acquire(circuit.name, { call: '', mayLead: false });
    const found = answer ?? (await late);
    if (!circuit.isUnread) return;
    if (found?.what === 'free' && found.failure === '') circuit.foundClosed();
    else circuit.suspect();
  }

  /**
   * Waits, without a permit, for a reply that did not come in time, until the budget lets the call fall back. After an
   * error there is none to wait for, and the call reads the record again.
   */
  async #lateAnswer(
    call: SharedCall,
    findings: Findings,
    late: Promise<Acquired | undefined>,
    endsAtMs: number,
  ): Promise<Acquired | 'again' | 'fall-back'> {
    const { record, budget, clock, random } = this.#options;
    const { signal } = call.request;
    if (record.available) findings.fallBackAtMs ??= clock.monotonic() + budget.delayMs(record.maxSilenceMs);
    const untilMs = record.available ? Math.min(findings.fallBackAtMs as number, endsAtMs) : 0;
    const leftMs = () => untilMs - clock.monotonic();
    if (leftMs() > 0) {
      call.releasePermit();
      const answer = await settledWithin(late, leftMs(), clock, signal);
      if (answer) {
        findings.fallBackAtMs = undefined;
        return answer;
      }
    }
    record.abandon(call.owner, call.id, late);
    if (leftMs() <= 0) return 'fall-back';
    const never = new Promise(() => {});
    await settledWithin(never, Math.min(leftMs(), AFTER_ERROR_MS * (0.5 + random())), clock, signal);
    return 'again';
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
    answer: Exclude<Acquired, { what: 'lead' | 'wait' | 'free' }>,
    askedAtMs: number,
  ): Decision | undefined {
    const { tokens, failures, known } = this.#options;
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

  async #acquire(call: SharedCall, findings: Findings, isAdmitted: boolean): Promise<AcquireReply> {
    const { record, tokens } = this.#options;
    const mayLead = isAdmitted && call.hasPermit && this.#maySend(call);
    const listens = !this.#maySend(call);
    const { id, owner, request } = call;
    findings.avoid = Math.max(findings.avoid, tokens.avoid(request));
    return record.acquire(owner, { call: id, mayLead, listens, leastLifeMs: tokens.leastLifeMs(request), ...findings });
  }

  /** Admits the call past the fleet's circuit breaker, perhaps as its trial, or returns the refusal. */
  async #admit(call: SharedCall, endsAtMs: number): Promise<Admitted | Decision> {
    const { record, failures, wakeups, clock } = this.#options;
    const { id, circuit, request } = call;
    if (!circuit.mustRead) return ADMITTED;
    const watch = wakeups.watch(circuit.name);
    let mayLead = false;
    let unreadable = '';
    try {
      for (;;) {
        request.signal.throwIfAborted();
        const readAtMs = clock.monotonic();
        const { answer, late } = await record.acquire(circuit.name, { call: id, mayLead, unreadable });
        switch (answer?.what) {
          case 'lead':
            return { do: 'send', trial: { failureBefore: answer.failure } };
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
            return ADMITTED;
          case 'wait':
            if (!(await this.#wait(call, watch, answer.remainingMs, readAtMs, endsAtMs))) return FALL_BACK;
            await call.takePermit();
            break;
          default:
            record.abandon(circuit.name, id, late);
            return ADMITTED;
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

function leadOf(answer: Extract<Acquired, { what: 'lead' }>, askedAtMs: number, trial: Trial | undefined): Decision {
  const { generation, nowUs, failure: failureBefore } = answer;
  return { do: 'lead', lead: { generation, askedAtMs, nowUs, failureBefore, trial } };
}

/** The result of the work. Undefined if it does not settle in this time, or before the signal is aborted. */
function settledWithin<T>(work: Promise<T>, ms: number, clock: Clock, signal: AbortSignal): Promise<T | undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(undefined);
    const end = (result?: T) => {
      cancel();
      signal.removeEventListener('abort', leave);
      resolve(result);
    };
    const leave = () => end();
    const cancel = startTimer(clock, leave, ms);
    signal.addEventListener('abort', leave, { once: true });
    void work.then(end);
  });
}

const ADMITTED: Admitted = Object.freeze({ do: 'send', trial: undefined });
export const FALL_BACK: Decision = Object.freeze({ do: 'fall-back' });
