/**
 * One request per owner over a whole fleet: a token source around a token source. Redis serves efficiency, never
 * correctness. Whatever becomes of it, a call ends as it would have without it, at most {@link
 * SharedTokensOptions.redisTimeoutMs} later; and the registry in front of this keeps its own single flight throughout.
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
import { SharingEvents } from './diagnostics.ts';
import { KnownGenerations } from './known-generations.ts';
import { Names, namingKeyFrom } from './names.ts';
import { checkSharedTokensOptions, type SharedTokensOptions } from './options.ts';
import { RedisLink } from './redis-link.ts';
import { Sealer } from './sealing.ts';
import { echoOf, errorFrom, REJECTED_IN_A_ROW, reportOf, withFleetPause } from './shared-failures.ts';
import { type Acquired, SharedRecord, type Verdict } from './shared-record.ts';
import { type Flight, Handover } from './stored-token.ts';
import { Wakeups } from './wakeups.ts';

/** Counted since it was made; plain data. */
export interface SharingStats {
  /** Whether Redis is of help now. */
  readonly sharing: boolean;
  /** Requests answered by another replica's token. */
  readonly adopted: number;
  /** Requests that this replica made for the fleet. */
  readonly led: number;
  /** Requests that this replica made for itself. */
  readonly alone: number;
  /** Requests refused because of a failure that the fleet knows of. */
  readonly refused: number;
  /** Stored values that did not open. */
  readonly unreadable: number;
}

type Turn =
  | { readonly do: 'adopt'; readonly grant: IssuedToken }
  | { readonly do: 'refuse'; readonly error: OwnerTokenError }
  | { readonly do: 'lead'; readonly generation: number; readonly nowUs: number }
  | { readonly do: 'alone' };

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
  readonly #handover: Handover;
  readonly #link: RedisLink;
  readonly #record: SharedRecord;
  readonly #wakeups: Wakeups;
  readonly #known: KnownGenerations;
  readonly #events: SharingEvents;
  readonly #counts = { adopted: 0, led: 0, alone: 0, refused: 0 };

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
    this.#events = new SharingEvents(logger);
    const { channel } = this.#names;
    this.#link = new RedisLink({ port, deadlineMs: redisTimeoutMs, clock, events: this.#events });
    this.#record = new SharedRecord(this.#link, { channel, leaseMs, maxHoldMs });
    this.#wakeups = new Wakeups({ port, channel, clock, random, onDeaf: () => this.#events.deaf() });
    this.#known = new KnownGenerations((monotonicMs) => this.#link.serverTimeUs(monotonicMs));
    const onUnreadable = () => this.#events.unreadable();
    this.#handover = new Handover(new Sealer(sealingKeys), this.#known, clock, onUnreadable);
  }

  async requestToken(accessKey: string, request: TokenRequest): Promise<IssuedToken> {
    const flight = await this.#begin(accessKey, request);
    // Whoever cannot say who it is will fail by itself in its own words, or work without sharing.
    if (!flight) return this.#source.requestToken(accessKey, request);
    const turn = await this.#turnOf(flight);
    switch (turn.do) {
      case 'adopt':
        this.#counts.adopted++;
        return turn.grant;
      case 'refuse':
        this.#counts.refused++;
        throw turn.error;
      case 'lead':
        return this.#lead(flight, turn);
      case 'alone':
        return this.#alone(flight);
    }
  }

  identity(): string | Promise<string> {
    return this.#source.identity?.() ?? '';
  }

  stats(): SharingStats {
    return { sharing: this.#link.helps, ...this.#counts, unreadable: this.#events.unreadableCount };
  }

  /** Closes the source inside. The Redis client is its user's to close, after this. */
  async close(): Promise<void> {
    await this.#wakeups.close();
    await this.#source.close?.();
  }

  async #begin(accessKey: string, request: TokenRequest): Promise<Flight | undefined> {
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
  async #turnOf(flight: Flight): Promise<Turn> {
    const { signal } = flight.request;
    const endsAtMs = this.#clock.monotonic() + this.#maxWaitMs;
    const watch = this.#wakeups.watch(flight.owner);
    this.#renounce(flight);
    try {
      for (;;) {
        signal.throwIfAborted();
        this.#handover.raiseAvoid(flight);
        const askedAtMs = this.#clock.now();
        const answer = await this.#record.acquire(
          flight.owner,
          flight.id,
          flight.avoid,
          this.#handover.leastLifeMs(flight),
        );
        const turn = answer ? this.#decide(flight, answer, askedAtMs) : ALONE;
        if (turn) return turn;
        const leftMs = endsAtMs - this.#clock.monotonic();
        if (leftMs <= 0) return ALONE;
        if (answer?.what === 'wait') await watch.next(Math.min(answer.remainingMs, leftMs), signal);
      }
    } finally {
      watch.stop();
    }
  }

  /** Undefined: acquire again, after a wait or with more to avoid. */
  #decide(flight: Flight, answer: Acquired, askedAtMs: number): Turn | undefined {
    switch (answer.what) {
      case 'token':
      case 'superseded': {
        const grant = this.#handover.receive(flight, answer, askedAtMs);
        if (grant) return { do: 'adopt', grant };
        this.#renounce(flight);
        flight.avoid = Math.max(flight.avoid, answer.generation);
        return undefined;
      }
      case 'failure': {
        const error = errorFrom(answer.payload, answer.remainingMs);
        return error ? { do: 'refuse', error } : ALONE;
      }
      case 'wait':
        return undefined;
      case 'lead':
        return { do: 'lead', generation: answer.generation, nowUs: answer.nowUs };
    }
  }

  async #lead(flight: Flight, { generation, nowUs }: Extract<Turn, { do: 'lead' }>): Promise<IssuedToken> {
    const entered = await this.#record.enter(flight.endpoint, flight.id);
    if (entered?.what === 'failure') {
      const { payload, remainingMs } = entered;
      const error = errorFrom(payload, remainingMs);
      if (error) {
        this.#counts.refused++;
        void this.#record.fail(flight.owner, flight.id, echoOf(payload, remainingMs));
        throw error;
      }
    }
    this.#counts.led++;
    const letGo = this.#keepLease(flight, entered?.what === 'probe');
    const enteredUs = entered?.nowUs ?? nowUs;
    try {
      const grant = await this.#source.requestToken(flight.accessKey, flight.request);
      return await this.#publish(flight, grant, { generation, requestedAtUs: nowUs, enteredUs });
    } catch (thrown) {
      throw await this.#failed(flight, thrown, enteredUs);
    } finally {
      letGo();
    }
  }

  /** Whatever becomes of publishing, the caller is served: with the newer token if there is one, else with its own. */
  async #publish(
    flight: Flight,
    grant: IssuedToken,
    lead: { generation: number; requestedAtUs: number; enteredUs: number },
  ): Promise<IssuedToken> {
    if (problemOfIssued(grant)) {
      const error = new OwnerTokenError('invalid_response', 'the source gave no usable token');
      void this.#failed(flight, error, lead.enteredUs);
      return grant;
    }
    void this.#record.settle(flight.endpoint, flight.id, lead.enteredUs, flight.owner, { outcome: 'passed' });
    this.#known.remember(grant.token, { generation: lead.generation });
    const token = this.#handover.give(flight, grant, lead.generation, lead.requestedAtUs);
    if (!token) {
      void this.#record.fail(flight.owner, flight.id);
      return grant;
    }
    const askedAtMs = this.#clock.now();
    const newer = await this.#record.publish(flight.owner, flight.id, token);
    return (newer && this.#handover.receive(flight, newer, askedAtMs)) ?? grant;
  }

  async #alone(flight: Flight): Promise<IssuedToken> {
    this.#counts.alone++;
    const requestedAtMonotonicMs = this.#clock.monotonic();
    let grant: IssuedToken;
    try {
      grant = await this.#source.requestToken(flight.accessKey, flight.request);
    } catch (error) {
      // The acquire may have been received and its answer lost.
      void this.#record.fail(flight.owner, flight.id);
      throw error;
    }
    if (problemOfIssued(grant)) return grant;
    this.#known.remember(grant.token, { requestedAtMonotonicMs });
    const requestedAtUs = this.#link.serverTimeUs(requestedAtMonotonicMs);
    const token = requestedAtUs && this.#handover.give(flight, grant, requestedAtUs, requestedAtUs);
    if (token) void this.#record.offer(flight.owner, flight.id, token);
    return grant;
  }

  /** Tells the fleet of a failure, and gives the error that callers get. */
  async #failed(flight: Flight, thrown: unknown, enteredUs: number): Promise<unknown> {
    const closing = flight.request.signal.aborted;
    const { owner, endpoint } = closing ? { owner: undefined, endpoint: RELEASED } : reportOf(thrown);
    void this.#record.fail(flight.owner, flight.id, owner);
    const settled = this.#record.settle(flight.endpoint, flight.id, enteredUs, flight.owner, endpoint);
    if (!endpoint.scope || !(thrown instanceof OwnerTokenError)) return thrown;
    const remainingMs = await settled;
    return remainingMs > 0 ? withFleetPause(thrown, endpoint.scope, remainingMs) : thrown;
  }

  /** The fleet is not to be given the token that was refused here; unless that was replaced long ago. */
  #renounce({ request, owner }: Flight): void {
    const { rejected } = request;
    const generation = rejected && request.reason === 'rejected' ? this.#known.of(rejected.value) : 0;
    if (!rejected || generation === 0) return;
    const lifeMs = rejected.expiresAtMs - rejected.issuedAtMs;
    const freshMs = Math.min(lifeMs * FRESH.share, FRESH.mostMs);
    void this.#record.reject(owner, generation, freshMs, REJECTED_IN_A_ROW);
  }

  /** Renews the lease at a third of its length, and the probe's, until told to stop or it is another's. */
  #keepLease(flight: Flight, isProbe: boolean): () => void {
    const records = isProbe ? [flight.owner, flight.endpoint] : [flight.owner];
    let stopped = false;
    let cancel = () => {};
    const renew = async () => {
      const held = await Promise.all(records.map((name) => this.#record.renew(name, flight.id)));
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

const ALONE: Turn = Object.freeze({ do: 'alone' });
const RELEASED: Verdict = Object.freeze({ outcome: 'released' });
