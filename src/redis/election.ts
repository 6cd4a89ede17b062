/**
 * Decides what a call does: reads its owner's record until it allows a decision. See `shared-tokens.ts` for the
 * decisions, `record-scripts.ts` for the record, `fleet-admission.ts` for the fleet's circuit breaker, and
 * `fallback-budget.ts` for how long a call waits for a Redis that does not reply in time.
 */

import { type Clock, startTimer } from '../clock.ts';
import { OwnerTokenError } from '../errors.ts';
import { type Decision, FALL_BACK } from './decision.ts';
import { type FallbackBudget, type FallbackTime, fallBackAtMs, MAX_JITTER } from './fallback-budget.ts';
import { ADMITTED, type Admitted, type FleetAdmission } from './fleet-admission.ts';
import type { KnownGenerations } from './known-generations.ts';
import type { Pacer } from './pacer.ts';
import type { SharedCall } from './shared-call.ts';
import type { Acquired, AcquireReply, SharedRecord, StoredToken } from './shared-record.ts';
import type { StoredFailures } from './stored-failure.ts';
import type { StoredTokens } from './stored-token.ts';
import type { Wakeups, Watch } from './wakeups.ts';

/** A call on its way to a decision: what it has learned from its owner's record, and what it holds. */
interface Candidate {
  readonly call: SharedCall;
  readonly watch: Watch;
  /** Monotonic deadline for waiting for Redis, other replicas and a send time. */
  readonly waitDeadlineMs: number;
  /** No token of this or an earlier generation is wanted. */
  avoid: number;
  /** The generation of a rejected token; 0 if unknown. */
  rejected: number;
  /** A stored failure that cannot be decrypted. */
  unreadable: string;
  /** Defined while its record cannot be read. */
  fallback: FallbackTime | undefined;
  /** Defined once the fleet's circuit breaker has admitted the call's request. */
  admitted: Admitted | undefined;
  /** Whether the call may take the lease before it is admitted, because the circuit's first read has no reply yet. */
  mayLeadBeforeRead: boolean;
  /** Whether the call holds the lease but may still be refused. The next `acquire` confirms the lease. */
  holdsLease: boolean;
}

export interface ElectionOptions {
  readonly record: SharedRecord;
  readonly tokens: StoredTokens;
  readonly failures: StoredFailures;
  readonly admission: FleetAdmission;
  readonly known: KnownGenerations;
  readonly wakeups: Wakeups;
  readonly budget: FallbackBudget;
  /** Undefined if requests are not paced. */
  readonly pacer: Pacer | undefined;
  readonly clock: Clock;
  readonly random: () => number;
  readonly maxWaitMs: number;
}

type LeadReply = Extract<Acquired, { what: 'lead' }>;

/** How long a call waits after Redis replied with an error, on average, before it reads the record again. */
const AFTER_ERROR_MS = 500;

/** How often a call that waits for a late reply checks whether it still may: the client or the circuit breaker may give up. */
const RECHECK_MS = 1_000;

/**
 * `maxWaitMs` is multiplied by this until the replica has had a reply. Until then a call may need four: two to connect, one
 * for the leader to acquire, one for the follower to read. At 6 s each that is 24 s, plus the leader's request. The
 * registry allows 30 s.
 */
const FIRST_REPLY_WAIT_FACTOR = 4 / 3;

export class Election {
  readonly #options: ElectionOptions;

  constructor(options: ElectionOptions) {
    this.#options = options;
  }

  async decide(call: SharedCall): Promise<Decision> {
    const candidate = this.#begin(call);
    try {
      for (;;) {
        call.request.signal.throwIfAborted();
        const decision = await this.#read(candidate);
        if (decision) return decision;
      }
    } finally {
      candidate.watch.stop();
      void this.#releaseLease(candidate);
      this.#abandonTrial(candidate);
      this.#passOnSendTime(call);
    }
  }

  #begin(call: SharedCall): Candidate {
    const { record, clock, wakeups, maxWaitMs } = this.#options;
    const waitMs = record.redisHasReplied ? maxWaitMs : maxWaitMs * FIRST_REPLY_WAIT_FACTOR;
    return {
      call,
      watch: wakeups.watch(call.owner),
      waitDeadlineMs: clock.monotonic() + Math.min(waitMs, call.patienceMs),
      avoid: 0,
      rejected: this.#rejectedGeneration(call),
      unreadable: '',
      fallback: undefined,
      admitted: call.circuit.mustRead ? undefined : ADMITTED,
      mayLeadBeforeRead: call.circuit.isUnread,
      holdsLease: false,
    };
  }

  /** Reads the record once and acts on the reply. Returns undefined if the record must be read again. */
  async #read(candidate: Candidate): Promise<Decision | undefined> {
    const { clock } = this.#options;
    const readAtMs = clock.monotonic();
    const askedAtMs = clock.now();
    const { inTime, late } = await this.#acquire(candidate);
    if (inTime?.what === 'lead' && candidate.admitted) return this.#lead(candidate, inTime, readAtMs);
    this.#abandonTrial(candidate);
    if (inTime?.what !== 'free') this.#passOnSendTime(candidate.call);
    const reply = inTime ?? (await this.#lateReply(candidate, late));
    if (!reply || 'do' in reply) return reply;
    switch (reply.what) {
      case 'lead':
        return this.#leadIfAdmitted(candidate, reply, readAtMs) ?? this.#prepareToLead(candidate);
      case 'free':
        return this.#prepareToLead(candidate);
      case 'wait':
        return this.#follow(candidate, reply.remainingMs, readAtMs);
      case 'failure':
        return this.#refuse(candidate, reply);
      default:
        return this.#share(candidate, reply, askedAtMs);
    }
  }

  async #acquire(candidate: Candidate): Promise<AcquireReply> {
    const { record, tokens } = this.#options;
    const { call, rejected, unreadable, mayLeadBeforeRead, admitted } = candidate;
    const { id, owner, request } = call;
    const maySend = this.#maySend(call);
    const mayLead = maySend && call.hasPermit && (mayLeadBeforeRead || admitted !== undefined);
    candidate.avoid = Math.max(candidate.avoid, tokens.avoid(request));
    // The reply will show whether the call still holds it.
    candidate.holdsLease = false;
    const wanted = { avoid: candidate.avoid, leastLifeMs: tokens.leastLifeMs(request), rejected, unreadable };
    return record.acquire(owner, { call: id, mayLead, listens: !maySend, ...wanted });
  }

  /** Passes the lease and the trial, if any, to the leader, so `decide` no longer releases them. */
  #lead(candidate: Candidate, { generation, nowUs, failure }: LeadReply, askedAtMs: number): Decision {
    const trial = candidate.admitted?.trial;
    candidate.admitted = undefined;
    candidate.call.sendTime = undefined;
    return { do: 'lead', lead: { generation, askedAtMs, nowUs, failureBefore: failure, trial } };
  }

  /**
   * Handles a lease that arrived late or before the circuit was read: leads if the call is admitted and may send, else only
   * keeps the lease.
   */
  #leadIfAdmitted(candidate: Candidate, reply: LeadReply, askedAtMs: number): Decision | undefined {
    const { call } = candidate;
    if (!call.circuit.mustRead) candidate.admitted = ADMITTED;
    if (candidate.admitted && this.#maySend(call)) return this.#lead(candidate, reply, askedAtMs);
    candidate.mayLeadBeforeRead = false;
    candidate.holdsLease = true;
    return undefined;
  }

  /** Gets what the call needs to lead: a send time, a permit and an admission. The next read then takes the lease. */
  async #prepareToLead(candidate: Candidate): Promise<Decision | undefined> {
    const { call, waitDeadlineMs } = candidate;
    if (!this.#maySend(call)) {
      // Lets another call lead meanwhile.
      await this.#releaseLease(candidate);
      if (!(await this.#waitToSend(candidate))) return undefined;
    }
    await call.takePermit();
    const admitted = candidate.admitted ?? (await this.#options.admission.admit(call, waitDeadlineMs));
    if (admitted.do !== 'send') return admitted;
    candidate.admitted = admitted;
    return undefined;
  }

  async #follow(
    { call, watch, waitDeadlineMs }: Candidate,
    leaseMs: number,
    readAtMs: number,
  ): Promise<Decision | undefined> {
    const leftMs = waitDeadlineMs - this.#options.clock.monotonic();
    if (leftMs <= 0) return FALL_BACK;
    await call.waitToReread(watch, Math.min(leaseMs, leftMs), readAtMs);
    return undefined;
  }

  #refuse(candidate: Candidate, { failure, nowUs }: Extract<Acquired, { what: 'failure' }>): Decision | undefined {
    const { owner, circuit } = candidate.call;
    const error = this.#options.failures.read(owner, failure, nowUs, candidate.avoid);
    if (error && OwnerTokenError.escalationOf(error)) circuit.suspect();
    if (error) return { do: 'refuse', error };
    candidate.unreadable = failure;
    return undefined;
  }

  #share(candidate: Candidate, stored: StoredToken, askedAtMs: number): Decision | undefined {
    const { owner, request } = candidate.call;
    const issued = this.#options.tokens.read(owner, stored, request, candidate.avoid, askedAtMs);
    if (issued) return { do: 'share', issued };
    candidate.avoid = Math.max(candidate.avoid, stored.generation);
    // The stored token may be the rejected one, whose generation was unknown until now.
    candidate.rejected = this.#rejectedGeneration(candidate.call);
    return undefined;
  }

  /**
   * Waits, without a permit, for a reply that did not come in time, until the budget lets the call fall back. After an
   * error there is none to wait for, and the call reads the record again.
   */
  async #lateReply(
    candidate: Candidate,
    late: Promise<Acquired | undefined>,
  ): Promise<Acquired | Decision | undefined> {
    const { record, clock, random } = this.#options;
    const { call } = candidate;
    const { signal } = call.request;
    let leftMs = this.#leftMs(candidate);
    while (leftMs > 0) {
      call.releasePermit();
      const outcome = await resultWithin(late, Math.min(leftMs, RECHECK_MS), clock, signal);
      if (outcome?.result) {
        candidate.fallback = undefined;
        return outcome.result;
      }
      leftMs = this.#leftMs(candidate);
      if (outcome || signal.aborted) break;
    }
    record.abandon(call.owner, call.id, late);
    if (leftMs <= 0) return FALL_BACK;
    const never = new Promise(() => {});
    await resultWithin(never, Math.min(leftMs, AFTER_ERROR_MS * (0.5 + random())), clock, signal);
    return undefined;
  }

  /** How long the call may still wait for a reply, by the limits that hold now. */
  #leftMs(candidate: Candidate): number {
    const { record, budget, clock } = this.#options;
    if (!record.available) return 0;
    // Leaves room for the jitter: calls with a short time to live must not all fall back at its end.
    const maxSilenceMs = Math.min(record.maxSilenceMs, candidate.call.patienceMs / MAX_JITTER);
    candidate.fallback ??= budget.take(maxSilenceMs);
    return Math.min(fallBackAtMs(candidate.fallback, maxSilenceMs), candidate.waitDeadlineMs) - clock.monotonic();
  }

  /** Waits, without a permit, for a send time. Returns false if a wake-up came first: the record must be read again. */
  async #waitToSend({ call, watch, waitDeadlineMs }: Candidate): Promise<boolean> {
    const { pacer, clock } = this.#options;
    call.releasePermit();
    const { signal } = call.request;
    const leaving = new AbortController();
    const leave = () => leaving.abort(signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    try {
      const taken = pacer?.take(leaving.signal, waitDeadlineMs - clock.monotonic());
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

  async #releaseLease(candidate: Candidate): Promise<void> {
    if (!candidate.holdsLease) return;
    candidate.holdsLease = false;
    await this.#options.record.release(candidate.call.owner, candidate.call.id, 'unknown');
  }

  /** Releases the trial's lease. The call must be admitted again, as the trial or as an ordinary request. */
  #abandonTrial(candidate: Candidate): void {
    if (!candidate.admitted?.trial) return;
    candidate.admitted = undefined;
    void this.#options.record.release(candidate.call.circuit.name, candidate.call.id, 'unknown');
  }

  #rejectedGeneration({ request: { reason, rejected } }: SharedCall): number {
    return reason === 'rejected' && rejected ? this.#options.known.of(rejected.value) : 0;
  }
}

interface Outcome<T> {
  readonly result: T;
}

/** The result of the work. Undefined if it does not settle in this time, or before the signal is aborted. */
function resultWithin<T>(
  work: Promise<T>,
  ms: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<Outcome<T> | undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(undefined);
    const end = (outcome?: Outcome<T>) => {
      cancel();
      signal.removeEventListener('abort', leave);
      resolve(outcome);
    };
    const leave = () => end();
    const cancel = startTimer(clock, leave, ms);
    signal.addEventListener('abort', leave, { once: true });
    void work.then((result) => end({ result }));
  });
}
