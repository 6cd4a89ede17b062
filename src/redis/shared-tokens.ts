/**
 * A token source that makes one request per owner over all replicas. Redis serves efficiency, never correctness: whatever
 * happens to it, a call ends as it would have without sharing, and the registry in front keeps its own single-flight.
 *
 * A call is decided by its owner's record (see `record-scripts.ts`):
 *
 * - *Shared*: another replica's token, newer than the one this replica rejected or wants to replace.
 * - *Refused*: the request of another replica failed, and the recorded end of that failure has not come.
 * - *Follower*: another call holds the lease. It releases its permit, waits for a wake-up, and reads the record again.
 * - *Leader*: it holds the lease, renews it while the source answers, and publishes the token or the failure. Where a
 *   failure of the endpoint is suspected, it first passes the fleet's circuit breaker (see `shared-circuit.ts`).
 * - *Fallback*: it requests a token by itself and offers it to the others, because Redis is unavailable, or answers late
 *   and the budget has a request for it (see `fallback-budget.ts`), or because it has waited too long.
 *
 * It caches nothing (the registry does), retries nothing, and creates, connects or closes no Redis client.
 */

import { type Clock, systemClock } from '../clock.ts';
import { type FailureScope, OwnerTokenError } from '../errors.ts';
import { property } from '../own-property.ts';
import { type IssuedToken, problemOfIssued, type TokenRequest, type TokenSource } from '../token.ts';
import type { Lead, Trial } from './decision.ts';
import { SharingDiagnostics } from './diagnostics.ts';
import { Election } from './election.ts';
import { FallbackBudget } from './fallback-budget.ts';
import { FleetAdmission } from './fleet-admission.ts';
import { KnownGenerations } from './known-generations.ts';
import { keepLeases } from './lease.ts';
import { Names, namingKeyFrom } from './names.ts';
import { checkSharedTokensOptions, type SharedTokensOptions } from './options.ts';
import { Pacer } from './pacer.ts';
import { RedisLink } from './redis-link.ts';
import { ReplicaCounter } from './replica-count.ts';
import { Sealer } from './sealing.ts';
import { SharedCall } from './shared-call.ts';
import { SharedCircuit } from './shared-circuit.ts';
import { SharedRecord } from './shared-record.ts';
import { StoredFailures, withFleetPause } from './stored-failure.ts';
import { StoredTokens } from './stored-token.ts';
import { Wakeups } from './wakeups.ts';

/**
 * What a replica shared: counts since construction, unless stated otherwise, as plain data.
 *
 * @example
 * ```ts
 * const perOwner = ({ leader, fallback }: SharingStats, owners: number) => (leader + fallback) / owners;
 * ```
 */
export interface SharingStats {
  /** Whether Redis is available. */
  readonly sharing: boolean;
  /** Calls answered with another replica's token. */
  readonly shared: number;
  /** Requests made for all replicas. */
  readonly leader: number;
  /** Requests made for this replica alone. */
  readonly fallback: number;
  /** Calls refused because of another replica's failure. */
  readonly refused: number;
  /** Stored values that could not be decrypted. */
  readonly unreadable: number;
  /** Replicas with the same prefix at the last count, this one included. 10 until the first count. */
  readonly replicas: number;
  /** How many of them have another naming key. */
  readonly mismatched: number;
}

/** Bounds the circuits, since each rotated secret leaves one behind. */
const MAX_CIRCUITS = 8;

/**
 * A {@link TokenSource} that shares the tokens and failures of another one between replicas.
 *
 * @example
 * ```ts no-run
 * import { Redis } from 'ioredis';
 *
 * const client = new Redis('redis://cache:6379', { socketTimeout: 3_000 });
 * const source = new SharedTokens({
 *   source: new TokenEndpoint({ baseUrl, clientId, clientSecret }),
 *   redis: fromIoredis(client, { subscriber: client.duplicate() }),
 *   sealingKeys: [Buffer.from(process.env.SEALING_KEY ?? '', 'hex')], // openssl rand -hex 32
 * });
 * const tokens = new OwnerTokenRegistry({ source });
 * ```
 */
export class SharedTokens implements TokenSource {
  /** The source's. */
  readonly origin?: string | undefined;
  readonly #source: TokenSource;
  readonly #clock: Clock;
  readonly #leaseMs: number;
  readonly #names: Names;
  readonly #link: RedisLink;
  readonly #record: SharedRecord;
  readonly #tokens: StoredTokens;
  readonly #failures: StoredFailures;
  readonly #wakeups: Wakeups;
  readonly #admission: FleetAdmission;
  readonly #election: Election;
  readonly #known: KnownGenerations;
  readonly #budget: FallbackBudget;
  readonly #pacer: Pacer | undefined;
  readonly #maxWaitMs: number;
  readonly #counter: ReplicaCounter;
  readonly #diagnostics: SharingDiagnostics;
  readonly #circuits = new Map<string, SharedCircuit>();
  readonly #counts = { shared: 0, leader: 0, fallback: 0, refused: 0 };

  /** @throws {OwnerTokenError} `invalid_options`, listing every problem. */
  constructor(given: SharedTokensOptions) {
    const options = checkSharedTokensOptions(given);
    const { source, redis: port, sealingKeys, prefix = 'otr', leaseMs = 3_000, maxHoldMs = 15_000 } = options;
    const { clock = systemClock, random = Math.random, maxWaitMs = 20_000, redisTimeoutMs = 250 } = options;
    const diagnostics = new SharingDiagnostics(options.name ?? 'default', options.logger);
    const sealer = new Sealer(sealingKeys);
    const onUnreadable = () => diagnostics.unreadable();
    this.#source = source;
    const origin = property(source, 'origin');
    if (typeof origin === 'string') this.origin = origin;
    this.#clock = clock;
    this.#leaseMs = leaseMs;
    this.#diagnostics = diagnostics;
    this.#names = new Names(prefix, options.namingKey ?? namingKeyFrom(sealingKeys.at(-1) as Uint8Array));
    const { channel } = this.#names;
    this.#link = new RedisLink({ port, deadlineMs: redisTimeoutMs, clock, random, diagnostics });
    const onMessage = (name: string) => this.#circuits.get(name)?.suspect();
    const onSubscribeFailed = () => diagnostics.subscribeFailed();
    this.#wakeups = new Wakeups({ port, channel, clock, random, onMessage, onSubscribeFailed });
    this.#record = new SharedRecord(this.#link, { channel, mode: this.#wakeups.mode, leaseMs, maxHoldMs });
    this.#known = new KnownGenerations((monotonicMs) => this.#link.serverTimeUs(monotonicMs));
    const serverTimeUs = () => this.#link.serverTimeUs(clock.monotonic());
    this.#tokens = new StoredTokens({ sealer, known: this.#known, clock, serverTimeUs, onUnreadable });
    this.#failures = new StoredFailures(sealer, random, onUnreadable);
    this.#budget = new FallbackBudget(clock, random);
    this.#counter = new ReplicaCounter(this.#record, this.#names, clock, ({ replicas, mismatched }) => {
      this.#budget.replicas = replicas;
      diagnostics.keyMismatch(mismatched);
    });
    this.#maxWaitMs = maxWaitMs;
    this.#pacer = this.#newPacer(options, clock, random);
    const common = { record: this.#record, failures: this.#failures, wakeups: this.#wakeups, clock };
    this.#admission = new FleetAdmission(common);
    this.#election = new Election({
      ...{ ...common, admission: this.#admission, tokens: this.#tokens, known: this.#known },
      ...{ budget: this.#budget, pacer: this.#pacer, random, maxWaitMs },
    });
  }

  /** The owner's token: another replica's, or a new one for all. */
  async requestToken(accessKey: string, request: TokenRequest): Promise<IssuedToken> {
    const call = await this.#begin(accessKey, request);
    // Without an identity there is no sharing; the source answers for itself.
    if (!call) return this.#source.requestToken(accessKey, request);
    this.#counter.announce();
    const decision = await this.#election.decide(call);
    switch (decision.do) {
      case 'share':
        this.#counts.shared++;
        return decision.issued;
      case 'refuse':
        this.#counts.refused++;
        throw decision.error;
      case 'lead':
        return this.#lead(call, decision.lead);
      case 'fall-back':
        return this.#fallBack(call);
    }
  }

  /** The source's. */
  identity(): string | Promise<string> {
    return this.#source.identity?.() ?? '';
  }

  /** Plain numbers, no secrets. Takes the same time however many owners there are. */
  stats(): SharingStats {
    const { unreadableCount: unreadable, mismatched } = this.#diagnostics;
    const { replicas } = this.#budget;
    return { sharing: this.#link.available, ...this.#counts, unreadable, replicas, mismatched };
  }

  /**
   * Gives back the leases that are still held, and closes the source. The Redis client is the user's to close, after this
   * has settled. Sends one command for each subscribed channel; with `subscribeSharded`, each owner with a waiting call
   * has one.
   */
  async close(): Promise<void> {
    await this.#wakeups.close();
    this.#counter.leave();
    await this.#link.idle();
    await this.#source.close?.();
  }

  #newPacer({ requestsPerSecond }: SharedTokensOptions, clock: Clock, random: () => number): Pacer | undefined {
    if (requestsPerSecond === undefined) return undefined;
    const name = this.#names.ofPacing(this.#source.origin ?? '');
    const reserve = (count: number, intervalMs: number) => this.#record.reserve(name, count, intervalMs);
    return new Pacer({ requestsPerSecond, clock, random, reserve, replicas: () => this.#budget.replicas });
  }

  async #begin(accessKey: string, request: TokenRequest): Promise<SharedCall | undefined> {
    let identity: string;
    try {
      identity = await this.identity();
    } catch {
      return undefined;
    }
    const owner = this.#names.ofOwner(identity, accessKey);
    const circuit = this.#circuitOf(this.#names.ofEndpoint(identity));
    return new SharedCall(accessKey, request, owner, circuit);
  }

  async #lead(call: SharedCall, lead: Lead): Promise<IssuedToken> {
    this.#counts.leader++;
    const { id, owner, circuit, accessKey, request } = call;
    const names = lead.trial ? [owner, circuit.name] : [owner];
    // Renew at once if ACQUIRE did not get the server's time: it then granted the longest lease. Else count from when the
    // call asked, because the reply may have come much later.
    const knewServerTime = this.#link.hadReplyBefore(lead.askedAtMs);
    const firstRenewalAtMs = knewServerTime ? lead.askedAtMs + this.#leaseMs / 3 : this.#clock.monotonic();
    const stop = keepLeases(this.#record, this.#clock, this.#leaseMs, id, names, firstRenewalAtMs);
    try {
      await call.takePermit();
      const issued = await this.#source.requestToken(accessKey, request);
      return await this.#publish(call, lead, issued);
    } catch (thrown) {
      throw this.#failed(call, lead, thrown);
    } finally {
      stop();
    }
  }

  /** Serves the caller even if publishing fails: with the newer token if there is one, else with its own. */
  async #publish(call: SharedCall, lead: Lead, issued: IssuedToken): Promise<IssuedToken> {
    const { id, owner, circuit, request } = call;
    if (problemOfIssued(issued)) {
      this.#failed(call, lead, new OwnerTokenError('invalid_response', 'the source gave no usable token'));
      return issued;
    }
    if (lead.trial) void this.#record.release(circuit.name, id, 'passed', true);
    this.#known.remember(issued.token, { generation: lead.generation });
    const at = { generation: lead.generation, requestedAtUs: lead.nowUs };
    const sealed = this.#tokens.seal(owner, issued, request, at);
    if (!sealed) {
      void this.#record.release(owner, id, 'unknown');
      return issued;
    }
    const askedAtMs = this.#clock.now();
    const newer = await this.#record.publish(owner, id, sealed);
    return (newer && this.#tokens.read(owner, newer, request, 0, askedAtMs)) ?? issued;
  }

  async #fallBack(call: SharedCall): Promise<IssuedToken> {
    this.#counts.fallback++;
    const { id, accessKey, owner, request } = call;
    try {
      if (this.#pacer) {
        call.releasePermit();
        await this.#pacer.take(request.signal, this.#maxWaitMs);
      }
      await call.takePermit();
      const sentAtMs = this.#clock.monotonic();
      const issued = await this.#source.requestToken(accessKey, request);
      if (problemOfIssued(issued)) return issued;
      this.#known.remember(issued.token, { requestedAtMonotonicMs: sentAtMs });
      const requestedAtUs = this.#link.serverTimeUs(sentAtMs);
      const at = requestedAtUs && { generation: requestedAtUs, requestedAtUs };
      const sealed = at && this.#tokens.seal(owner, issued, request, at);
      if (sealed) void this.#record.publish(owner, id, sealed, true);
      return issued;
    } catch (error) {
      // The acquire may have taken effect although its reply was lost.
      void this.#record.release(owner, id, 'unknown');
      throw error;
    }
  }

  /** Stores a leader's failure, and returns the error for its caller. */
  #failed(call: SharedCall, lead: Lead, thrown: unknown): unknown {
    const { id, owner, circuit, request } = call;
    const { generation, trial, failureBefore } = lead;
    const error =
      thrown instanceof OwnerTokenError ? thrown : new OwnerTokenError('source_failed', 'the source failed');
    // A closing registry, a full queue, invalid options, a failed request that is sent again: nothing that concerns
    // another replica.
    const attributed = request.signal.aborted ? undefined : scopeFor(request, error);
    const answeredAtUs = this.#link.serverTimeUs(this.#clock.monotonic()) ?? lead.nowUs;
    const scope = attributed && circuit.judge(error, attributed);
    const context = { scope, generation, answeredAtUs };
    const ofAll =
      scope && this.#failures.seal(error, { ...context, name: circuit.name, before: trial?.failureBefore ?? '' });
    if (ofAll) void this.#record.release(circuit.name, id, ofAll, true);
    else if (trial) void this.#record.release(circuit.name, id, this.#outcomeOfTrial(circuit.name, trial, error), true);
    // The owner's record repeats the fleet-wide failure until that ends.
    const end = ofAll && { endsAtUs: ofAll.endsAtUs };
    const ofOwner =
      attributed && this.#failures.seal(error, { ...context, ...end, name: owner, before: failureBefore });
    void this.#record.release(owner, id, ofOwner ?? 'unknown');
    return end && scope ? withFleetPause(error, scope, Math.max(0, (end.endsAtUs - answeredAtUs) / 1000)) : thrown;
  }

  /** An answer that refuses the owner alone proves that the failure of the endpoint or client is over. */
  #outcomeOfTrial(name: string, trial: Trial, error: OwnerTokenError): 'passed' | 'unknown' {
    if (error.code !== 'owner_refused' || error.failureScope !== 'owner') return 'unknown';
    const proves =
      this.#failures.scopeOf(name, trial.failureBefore) !== 'client' || !OwnerTokenError.escalationOf(error);
    return proves ? 'passed' : 'unknown';
  }

  #circuitOf(name: string): SharedCircuit {
    const found = this.#circuits.get(name);
    if (found) return found;
    const circuit = new SharedCircuit(name, this.#clock, () => this.#wakeups.isSubscribed(name));
    this.#wakeups.listen(name);
    this.#circuits.set(name, circuit);
    void this.#admission.readFirst(circuit);
    const [oldest = name] = this.#circuits.keys();
    if (this.#circuits.size > MAX_CIRCUITS) this.#circuits.delete(oldest);
    return circuit;
  }
}

/** Undefined for a failure that concerns no other replica. */
function scopeFor(request: TokenRequest, error: OwnerTokenError): FailureScope | undefined {
  return error.failureScope && request.scopeOf ? request.scopeOf(error) : error.failureScope;
}
