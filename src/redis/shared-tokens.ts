/**
 * One request per owner over a whole fleet: a token source around a token source. Redis serves efficiency, never
 * correctness. Whatever becomes of it, a call ends as it would have without it, at most {@link
 * SharedTokensOptions.redisTimeoutMs} later; and the registry in front of this keeps its own single call throughout.
 *
 * A request goes like this, and each step is one operation on one record (see `record-scripts.ts`):
 *
 * 1. *Acquire.* A good token that another replica obtained, and that this one did not just refuse: adopt it. A failure
 *    that still stands: fail alike. Another's lease: wait to be woken, then acquire again. Else lead.
 * 2. *Lead.* If the endpoint or the client is failing for the whole fleet: fail alike, unless this is the probe. Ask the
 *    source, and keep the lease meanwhile. Publish the token, or the failure.
 * 3. *Alone.* Redis is of no help, or the wait was too long: ask the source at once, and offer the token to those who
 *    have none.
 *
 * Left out on purpose: nothing is cached here (the registry does that), nothing is retried (the next caller does that),
 * and no client of Redis is made, connected or closed.
 */

import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { type Clock, startTimer, systemClock } from '../clock.ts';
import { OwnerTokenError } from '../errors.ts';
import { type IssuedToken, problemOfIssued, type TokenRequest, type TokenSource } from '../token.ts';
import { SharingDiagnostics } from './diagnostics.ts';
import { KnownGenerations } from './known-generations.ts';
import { Names, namingKeyFrom } from './names.ts';
import { checkSharedTokensOptions, type SharedTokensOptions } from './options.ts';
import { RedisLink } from './redis-link.ts';
import { Sealer } from './sealing.ts';
import { echoOf, errorFrom, REJECTED_IN_A_ROW, reportOf, withFleetPause } from './shared-failures.ts';
import { type Acquired, type EndpointSign, SharedRecord } from './shared-record.ts';
import { type SharedCall, StoredTokens } from './stored-token.ts';
import { Wakeups } from './wakeups.ts';

/** Counted since it was made; plain data. */
export interface SharingStats {
  /** Whether Redis is of help now. */
  readonly sharing: boolean;
  /** Requests answered by another replica's token. */
  readonly shared: number;
  /** Requests that this replica made for the fleet. */
  readonly leader: number;
  /** Requests that this replica made for itself. */
  readonly fallback: number;
  /** Requests refused because of a failure that the fleet knows of. */
  readonly refused: number;
  /** Stored values that did not open. */
  readonly unreadable: number;
}

type Decision =
  | { readonly do: 'share'; readonly issued: IssuedToken }
  | { readonly do: 'refuse'; readonly error: OwnerTokenError }
  | { readonly do: 'lead'; readonly generation: number; readonly nowUs: number }
  | { readonly do: 'fall-back' };

/** A token that is rejected so soon counts as fresh, as in the registry. */
const FRESH = { share: 0.1, mostMs: 10_000 } as const;

/** A {@link TokenSource} that asks the one inside it once for a whole fleet. */
export class SharedTokens implements TokenSource {
  readonly origin?: string;
  readonly #source: TokenSource;
  readonly #clock: Clock;
  readonly #leaseMs: number;
  readonly #maxWaitMs: number;
  readonly #names: Names;
  readonly #stored: StoredTokens;
  readonly #link: RedisLink;
  readonly #record: SharedRecord;
  readonly #wakeups: Wakeups;
  readonly #known: KnownGenerations;
  readonly #diagnostics: SharingDiagnostics;
  readonly #counts = { shared: 0, leader: 0, fallback: 0, refused: 0 };

  constructor(options: SharedTokensOptions) {
    checkSharedTokensOptions(options);
    const { source, redis: port, sealingKeys, prefix = 'otr', leaseMs = 3_000, maxHoldMs = 15_000 } = options;
    const { clock = systemClock, random = Math.random, maxWaitMs = 20_000, redisTimeoutMs = 250, logger } = options;
    const namingKey = options.namingKey ?? namingKeyFrom(sealingKeys.at(-1) as Uint8Array);
    this.#source = source;
    if (source.origin !== undefined) this.origin = source.origin;
    this.#clock = clock;
    this.#leaseMs = leaseMs;
    this.#maxWaitMs = maxWaitMs;
    this.#names = new Names(prefix, namingKey);
    this.#diagnostics = new SharingDiagnostics(logger);
    const { channel } = this.#names;
    this.#link = new RedisLink({ port, deadlineMs: redisTimeoutMs, clock, random, diagnostics: this.#diagnostics });
    this.#record = new SharedRecord(this.#link, { channel, leaseMs, maxHoldMs });
    this.#wakeups = new Wakeups({
      port,
      channel,
      clock,
      random,
      onSubscribeFailed: () => this.#diagnostics.subscribeFailed(),
    });
    this.#known = new KnownGenerations((monotonicMs) => this.#link.serverTimeUs(monotonicMs));
    const onUnreadable = () => this.#diagnostics.unreadable();
    this.#stored = new StoredTokens(new Sealer(sealingKeys), this.#known, clock, onUnreadable);
  }

  async requestToken(accessKey: string, request: TokenRequest): Promise<IssuedToken> {
    const call = await this.#begin(accessKey, request);
    // Whoever cannot say who it is will fail by itself in its own words, or work without sharing.
    if (!call) return this.#source.requestToken(accessKey, request);
    const decision = await this.#decision(call);
    switch (decision.do) {
      case 'share':
        this.#counts.shared++;
        return decision.issued;
      case 'refuse':
        this.#counts.refused++;
        throw decision.error;
      case 'lead':
        return this.#lead(call, decision);
      case 'fall-back':
        return this.#fallBack(call);
    }
  }

  identity(): string | Promise<string> {
    return this.#source.identity?.() ?? '';
  }

  stats(): SharingStats {
    return { sharing: this.#link.available, ...this.#counts, unreadable: this.#diagnostics.unreadableCount };
  }

  /** Closes the source inside. The Redis client is its user's to close, after this. */
  async close(): Promise<void> {
    await this.#wakeups.close();
    await this.#source.close?.();
  }

  async #begin(accessKey: string, request: TokenRequest): Promise<SharedCall | undefined> {
    let identity: string;
    try {
      identity = await this.identity();
    } catch {
      return undefined;
    }
    // One signal serves all requests of a registry.
    setMaxListeners(0, request.signal);
    const owner = this.#names.ofOwner(identity, accessKey);
    return { id: randomUUID(), accessKey, request, owner, endpoint: this.#names.ofEndpoint(identity), avoid: 0 };
  }

  /** Acquires until it is clear what to do. A waiter whose time is up takes part in the next election. */
  async #decision(call: SharedCall): Promise<Decision> {
    const { signal } = call.request;
    const endsAtMs = this.#clock.monotonic() + this.#maxWaitMs;
    const watch = this.#wakeups.watch(call.owner);
    this.#renounce(call);
    try {
      for (;;) {
        signal.throwIfAborted();
        this.#stored.raiseAvoid(call);
        const askedAtMs = this.#clock.now();
        const answer = await this.#record.acquire(call.owner, call.id, call.avoid, this.#stored.leastLifeMs(call));
        const decision = answer ? this.#decide(call, answer, askedAtMs) : FALL_BACK;
        if (decision) return decision;
        const leftMs = endsAtMs - this.#clock.monotonic();
        if (leftMs <= 0) return FALL_BACK;
        if (answer?.what === 'wait') await watch.next(Math.min(answer.remainingMs, leftMs), signal);
      }
    } finally {
      watch.stop();
    }
  }

  /** Undefined: acquire again, after a wait or with more to avoid. */
  #decide(call: SharedCall, answer: Acquired, askedAtMs: number): Decision | undefined {
    switch (answer.what) {
      case 'token':
      case 'superseded': {
        const issued = this.#stored.receive(call, answer, askedAtMs);
        if (issued) return { do: 'share', issued };
        this.#renounce(call);
        call.avoid = Math.max(call.avoid, answer.generation);
        return undefined;
      }
      case 'failure': {
        const error = errorFrom(answer.payload, answer.remainingMs);
        return error ? { do: 'refuse', error } : FALL_BACK;
      }
      case 'wait':
        return undefined;
      case 'lead':
        return { do: 'lead', generation: answer.generation, nowUs: answer.nowUs };
    }
  }

  async #lead(call: SharedCall, { generation, nowUs }: Extract<Decision, { do: 'lead' }>): Promise<IssuedToken> {
    const entered = await this.#record.enter(call.endpoint, call.id);
    if (entered?.what === 'failure') {
      const { payload, remainingMs } = entered;
      const error = errorFrom(payload, remainingMs);
      if (error) {
        this.#counts.refused++;
        void this.#record.fail(call.owner, call.id, echoOf(payload, remainingMs));
        throw error;
      }
    }
    this.#counts.leader++;
    const letGo = this.#keepLease(call, entered?.what === 'probe');
    const enteredUs = entered?.nowUs ?? nowUs;
    try {
      const issued = await this.#source.requestToken(call.accessKey, call.request);
      return await this.#publish(call, issued, { generation, requestedAtUs: nowUs, enteredUs });
    } catch (thrown) {
      throw await this.#failed(call, thrown, enteredUs);
    } finally {
      letGo();
    }
  }

  /** Whatever becomes of publishing, the caller is served: with the newer token if there is one, else with its own. */
  async #publish(
    call: SharedCall,
    issued: IssuedToken,
    lead: { generation: number; requestedAtUs: number; enteredUs: number },
  ): Promise<IssuedToken> {
    if (problemOfIssued(issued)) {
      const error = new OwnerTokenError('invalid_response', 'the source gave no usable token');
      void this.#failed(call, error, lead.enteredUs);
      return issued;
    }
    void this.#record.settle(call.endpoint, call.id, lead.enteredUs, call.owner, { outcome: 'passed' });
    this.#known.remember(issued.token, { generation: lead.generation });
    const token = this.#stored.give(call, issued, lead.generation, lead.requestedAtUs);
    if (!token) {
      void this.#record.fail(call.owner, call.id);
      return issued;
    }
    const askedAtMs = this.#clock.now();
    const newer = await this.#record.publish(call.owner, call.id, token);
    return (newer && this.#stored.receive(call, newer, askedAtMs)) ?? issued;
  }

  async #fallBack(call: SharedCall): Promise<IssuedToken> {
    this.#counts.fallback++;
    const requestedAtMonotonicMs = this.#clock.monotonic();
    let issued: IssuedToken;
    try {
      issued = await this.#source.requestToken(call.accessKey, call.request);
    } catch (error) {
      // The acquire may have been received and its answer lost.
      void this.#record.fail(call.owner, call.id);
      throw error;
    }
    if (problemOfIssued(issued)) return issued;
    this.#known.remember(issued.token, { requestedAtMonotonicMs });
    const requestedAtUs = this.#link.serverTimeUs(requestedAtMonotonicMs);
    const token = requestedAtUs && this.#stored.give(call, issued, requestedAtUs, requestedAtUs);
    if (token) void this.#record.offer(call.owner, call.id, token);
    return issued;
  }

  /** Tells the fleet of a failure, and gives the error that callers get. */
  async #failed(call: SharedCall, thrown: unknown, enteredUs: number): Promise<unknown> {
    const closing = call.request.signal.aborted;
    const { owner, endpoint } = closing ? { owner: undefined, endpoint: RELEASED } : reportOf(thrown);
    void this.#record.fail(call.owner, call.id, owner);
    const settled = this.#record.settle(call.endpoint, call.id, enteredUs, call.owner, endpoint);
    if (!endpoint.scope || !(thrown instanceof OwnerTokenError)) return thrown;
    const remainingMs = await settled;
    return remainingMs > 0 ? withFleetPause(thrown, endpoint.scope, remainingMs) : thrown;
  }

  /** The fleet is not to be given the token that was refused here; unless that was replaced long ago. */
  #renounce({ request, owner }: SharedCall): void {
    const { rejected } = request;
    const generation = rejected && request.reason === 'rejected' ? this.#known.of(rejected.value) : 0;
    if (!rejected || generation === 0) return;
    const lifeMs = rejected.expiresAtMs - rejected.issuedAtMs;
    const freshMs = Math.min(lifeMs * FRESH.share, FRESH.mostMs);
    void this.#record.reject(owner, generation, freshMs, REJECTED_IN_A_ROW);
  }

  /** Renews the lease at a third of its length, and the probe's, until told to stop or it is another's. */
  #keepLease(call: SharedCall, isProbe: boolean): () => void {
    const records = isProbe ? [call.owner, call.endpoint] : [call.owner];
    let stopped = false;
    let cancel = () => {};
    const renew = async () => {
      const held = await Promise.all(records.map((name) => this.#record.renew(name, call.id)));
      if (!stopped && !held.includes(false)) wait();
    };
    const wait = () => {
      cancel = startTimer(this.#clock, () => void renew(), this.#leaseMs / 3);
    };
    wait();
    return () => {
      stopped = true;
      cancel();
    };
  }
}

const FALL_BACK: Decision = Object.freeze({ do: 'fall-back' });
const RELEASED: EndpointSign = Object.freeze({ outcome: 'released' });
