/**
 * One call of a shared source. It reads its owner's record until it can decide:
 *
 * | the record says | the call is | it |
 * |---|---|---|
 * | a token, newer than the one that was rejected or is to be replaced | shared | returns it |
 * | another call holds the lease | a follower | yields its place, waits for a wake-up, and reads the record again |
 * | the lease that it waited for ended with a failure | refused | fails with it |
 * | nobody holds the lease | the leader | takes it, requests a token, and publishes that or the failure |
 * | nothing in time, a lease held past its end or for most of the call's time, or twice a token that this replica cannot use | a fallback | requests a token by itself and offers it to the others |
 *
 * A lease is not renewed: its leader may be alone in hanging. When it lapses, a follower leads as well, with a lease twice as
 * long, and a leader goes on reading the record, because whoever answers first serves all.
 */

import { randomBytes } from 'node:crypto';
import { type Clock, startTimer, stopTimer } from '../clock.ts';
import { provesNothing } from '../errors/inconclusive.ts';
import { OwnerTokenError } from '../errors/owner-token-error.ts';
import { type IssuedToken, readIssued, type TokenRequest, type TokenSource } from '../token-source.ts';
import type { SharingDiagnostics } from './diagnostics.ts';
import { type KnownTokens, unwanted } from './known-tokens.ts';
import type { Permit, QuotaPacer } from './pace.ts';
import { ACQUIRE, MAX_AHEAD_MS, PUBLISH, RELEASE } from './record-scripts.ts';
import { type Operation, type RedisLink, type Reply, SILENCE_MS } from './redis-link.ts';
import { type Names, type Sealer, sealContext } from './sealing.ts';
import { openFailure, sealFailure } from './stored-failure.ts';
import { issuedTokenFrom, openToken, sealToken } from './stored-token.ts';
import type { Wakeups, Watch } from './wakeups.ts';

/** What the calls of a replica share. */
export interface SharedCallDeps {
  readonly source: TokenSource;
  /** Rejects if it cannot be told. */
  identity(): string | Promise<string>;
  readonly link: RedisLink;
  readonly wakeups: Wakeups;
  readonly names: Names;
  readonly sealer: Sealer;
  readonly known: KnownTokens;
  /** Undefined without a quota. */
  readonly pacer: QuotaPacer | undefined;
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly random: () => number;
  readonly counts: { shared: number; leader: number; fallback: number; refused: number };
  readonly diagnostics: SharingDiagnostics;
  /** The monotonic time since which Redis has replied to no call in time. */
  stoppedAtMs?: number | undefined;
}

/** Redis costs no call more than this: the time without a reply, and the jitter before its own request. */
const MAX_DELAY_MS = 1_000;

/** A call follows others for this part of the time that the registry gives it. In the rest it requests its own token. */
const FOLLOW_SHARE = 5 / 6;

/** How far the clocks of the server and of a replica may drift apart during a lease. */
const MAX_DRIFT_MS = 100;

/** After this many tokens that this replica cannot use, those of others will not help: it has other keys, or another policy. */
const MAX_UNUSABLE = 2;

/** Under a quota, a call waits for its send time for at most this part of the time that the registry gives it. */
const QUOTA_SHARE = 2 / 3;
const QUOTA_USED_UP =
  'the quota of the fleet allowed no request in time: raise requestsPerSecond of SharedTokens if the service allows it';
const DEFAULT_TIMEOUT_MS = 30_000;

/** The generation of a lease, and the server's time at which it began. */
type Lease = { readonly generation: number; readonly serverUs: number };

export class SharedCall {
  /** Holds the lease. A replica may have several calls for one owner, of different generations. */
  readonly #id = randomBytes(12).toString('base64url');
  readonly #deps: SharedCallDeps;
  /** The name of the owner's record. */
  readonly #name: string;
  readonly #accessKey: string;
  readonly #request: TokenRequest;
  /** The request's, which is created when it is first read. */
  readonly #signal: AbortSignal;
  readonly #watch: Watch;
  readonly #startedMs: number;
  /** No token of this or an earlier generation is wanted. */
  #avoid = 0;
  /** The generation of the lease that the call waited for last; 0 for none. */
  #followed = 0;
  /** When Redis last replied; at first, when the call began (monotonic). */
  #heardMs: number;
  /** When that lease has surely ended (monotonic). */
  #leaseUntilMs = Infinity;
  /** Tokens in the record that this replica could not use. */
  #unusable = 0;
  #permit: Permit | undefined;
  /** Its own request goes on if it has ended with another leader's token. */
  #hasEnded = false;

  constructor(deps: SharedCallDeps, name: string, accessKey: string, request: TokenRequest) {
    this.#deps = deps;
    this.#name = name;
    this.#accessKey = accessKey;
    this.#request = request;
    this.#signal = request.signal;
    this.#watch = deps.wakeups.watch(name, this.#signal);
    this.#startedMs = deps.clock.monotonic();
    this.#heardMs = this.#startedMs;
    deps.known.meet(name, accessKey, deps.link.time.onServer(this.#startedMs));
  }

  /** @param mayShare false while the record has a token that is not wanted any more. */
  async obtain(mayShare: boolean): Promise<IssuedToken> {
    try {
      // A rejection between the read and the subscription would be missed. The first calls of a replica wait for the
      // subscription.
      if (this.#watch.ready) await this.#watch.ready;
      if (!mayShare) return await this.#send();
      for (;;) {
        this.#signal.throwIfAborted();
        const issued = await this.#read();
        if (issued) return issued;
      }
    } finally {
      this.#hasEnded = true;
      this.#watch.stop();
      this.#leaveLine();
    }
  }

  /** Returns undefined if the record must be read again. */
  async #read(): Promise<IssuedToken | undefined> {
    const { clock, link, counts, sealer, pacer, leaseMs } = this.#deps;
    const [readAtMs, askedAtMs] = [clock.monotonic(), clock.now()];
    // A follower joins the line only once nobody holds the lease.
    if (this.#followed === 0) this.#permit ??= pacer?.enter();
    const mayLead = pacer === undefined || this.#permit?.isGranted === true;
    const [what, now, first = '', second = ''] = (await this.#acquire(mayLead ? leaseMs : 0)) ?? [];
    if (what !== undefined) {
      this.#heardMs = link.heardAtMs;
      this.#deps.stoppedAtMs = undefined;
    }
    switch (what) {
      case 'token': {
        const issued = this.#share(Number(now), Number(first), second, askedAtMs);
        return issued || ++this.#unusable < MAX_UNUSABLE ? issued : this.#send();
      }
      case 'wait':
        return this.#follow(Number(first) / 1000, Number(second), readAtMs);
      case 'failure': {
        const error = openFailure(sealer, sealContext('failure', this.#name, this.#followed), first);
        this.#followed = 0;
        if (!error) return undefined;
        counts.refused++;
        throw error;
      }
      case 'free':
        return void (await this.#prepareToSend(true));
      case 'lead':
        return this.#lead({ generation: Number(first), serverUs: Number(now) });
      default:
        await this.#spread();
        return this.#send();
    }
  }

  /** @param leaseMs the length of the lease that is asked for; 0 only reads the record. */
  #acquire(leaseMs: number) {
    const { link, wakeups, names, known } = this.#deps;
    const [name, { reason, rejected: refused, timeoutMs = DEFAULT_TIMEOUT_MS }] = [this.#name, this.#request];
    this.#avoid = Math.max(this.#avoid, known.avoid(name, this.#request));
    const rejected = reason === 'rejected' ? known.generationOf(name, refused?.value) : 0;
    const longestMs = Math.min(timeoutMs, MAX_AHEAD_MS.lease);
    const args = [this.#id, leaseMs, this.#avoid, rejected, this.#followed, wakeups.mode, longestMs];
    if (rejected > 0) args.push(names.channel, name, names.proofOf('rejected', name, rejected));
    // Nobody waits for a refresh. A lease that is granted too late would have no leader.
    const giveBack = ([what]: Reply) => (what === 'lead' ? this.#release() : undefined);
    return link.run([ACQUIRE, name, args], reason === 'refresh' ? SILENCE_MS : undefined, giveBack);
  }

  /**
   * The stored token as this replica's registry is to receive it. Undefined if it cannot be decrypted, was rejected
   * in the meantime, is the one to replace, or has no life left for this replica.
   *
   * @param askedAtMs this replica's wall clock before it read the record.
   */
  #share(nowUs: number, generation: number, sealed: string, askedAtMs: number): IssuedToken | undefined {
    const { sealer, known, link, clock, counts, diagnostics } = this.#deps;
    const name = this.#name;
    this.#avoid = Math.max(this.#avoid, generation);
    const shared = openToken(sealer, sealContext('token', name, generation), sealed);
    if (!shared) return void diagnostics.count('unreadable');
    const { token, requestedAtUs } = shared;
    const knownAs = known.generationOf(name, token);
    const isRejected = known.remember(name, this.#accessKey, token, generation);
    // The service may have answered another replica's request with the same token, and would do the same for ours.
    const isReissued = knownAs > 0 && knownAs < generation;
    const isToReplace = token === unwanted(this.#request)?.value && !isReissued;
    if (isToReplace || isRejected) return undefined;
    const ageMs = (Math.max(nowUs, link.time.at(clock.monotonic())) - requestedAtUs) / 1000;
    try {
      const at = { ageMs, askedAtMs, nowMs: clock.now() };
      const issued = issuedTokenFrom(shared, at, (form) => this.#request.lifetimeMs(form));
      if (issued) counts.shared++;
      return issued;
    } catch (error) {
      // The registry itself repeats a request that brought another owner's token.
      if (error instanceof OwnerTokenError && provesNothing(error)) throw error;
      // A policy that throws does so for this replica's own token too, where the registry reports it.
      return undefined;
    }
  }

  async #follow(remainingMs: number, generation: number, readAtMs: number): Promise<IssuedToken | undefined> {
    const { timeoutMs = DEFAULT_TIMEOUT_MS } = this.#request;
    this.#leaveLine();
    if (generation !== this.#followed) {
      this.#followed = generation;
      this.#leaseUntilMs = this.#deps.clock.monotonic() + remainingMs + MAX_DRIFT_MS;
    }
    // A busy replica may read a reply after the lease in it has ended, so the time of its question counts.
    const untilMs = Math.min(this.#leaseUntilMs, this.#startedMs + timeoutMs * FOLLOW_SHARE);
    if (readAtMs >= untilMs) return this.#send();
    this.#request.yieldPlace?.();
    return void (await this.#watch.next(remainingMs, readAtMs));
  }

  /** As the leader: requests a token, and takes one that another leader, before or after it, publishes sooner. */
  #lead(lease: Lease): Promise<IssuedToken> {
    const { clock, leaseMs } = this.#deps;
    // Nobody else leads before the lease ends, unless it was taken over from one that may still answer.
    const watchAfterMs = this.#followed > 0 ? 0 : leaseMs;
    this.#followed = 0;
    const own = this.#send(lease);
    return new Promise((resolve, reject) => {
      const watch = () => void this.#othersToken().then((issued) => issued && resolve(issued), reject);
      const timer = startTimer(clock, watch, watchAfterMs);
      void own.then(resolve, reject).then(() => stopTimer(timer));
    });
  }

  /** Undefined if the call ends without it. */
  async #othersToken(): Promise<IssuedToken | undefined> {
    const { clock } = this.#deps;
    while (!this.#hasEnded && !this.#signal.aborted) {
      const [readAtMs, askedAtMs] = [clock.monotonic(), clock.now()];
      const [what, now, generation, sealed = ''] = (await this.#acquire(0)) ?? [];
      const isToken = what === 'token' && !this.#hasEnded;
      const issued = isToken && this.#share(Number(now), Number(generation), sealed, askedAtMs);
      if (issued) return issued;
      if (!this.#hasEnded) await this.#watch.next(Infinity, readAtMs);
    }
    return undefined;
  }

  /** Requests a token: as the leader with its lease, or as a fallback. */
  async #send(lease?: Lease): Promise<IssuedToken> {
    const { source, link, names, sealer, known, clock, counts, leaseMs } = this.#deps;
    const name = this.#name;
    counts[lease ? 'leader' : 'fallback']++;
    let sentAtMs = Infinity;
    try {
      if (!lease) await this.#prepareToSend();
      this.#permit = undefined;
      sentAtMs = clock.monotonic();
      const serverUs = lease?.serverUs ?? link.time.onServer(sentAtMs);
      const requestedAtUs = link.time.since(serverUs, sentAtMs);
      const issued = readIssued(await source.requestToken(this.#accessKey, this.#request));
      if (issued.token === undefined) throw new OwnerTokenError('invalid_response', issued.problem);
      // Generations are times, so one can stand in for the other. 0: Redis has never replied, and refuses the token.
      const generation = lease?.generation ?? serverUs;
      if (!this.#hasEnded) known.remember(name, this.#accessKey, issued.token, generation);
      const context = sealContext('token', name, generation);
      const shared = sealToken(sealer, context, issued, this.#request, { requestedAtUs, serverUs });
      // Not awaited, because the caller has its token already.
      const stored = shared && [generation, shared.sealed, shared.usableUntilUs, lease ? 0 : 1];
      const args = stored && [this.#id, names.channel, name, ...stored, names.proofOf('recovered', name, generation)];
      void link.run(args ? [PUBLISH, name, args] : this.#release());
      return issued;
    } catch (thrown) {
      // A closing registry concerns no other replica.
      const context = lease && !this.#signal.aborted && sealContext('failure', name, lease.generation);
      // Without a lease too: the acquire may have taken effect although its reply was lost.
      const isOverdue = clock.monotonic() - sentAtMs >= leaseMs;
      void link.run(this.#release(context ? sealFailure(sealer, context, thrown, isOverdue) : ''));
      throw thrown;
    }
  }

  #release(failure = ''): Operation {
    return [RELEASE, this.#name, [this.#id, this.#deps.names.channel, this.#name, failure]];
  }

  /**
   * Waits until the call may send its own request: for its send time, if there is a quota.
   *
   * @param canRead returns earlier when the record may have changed.
   */
  async #prepareToSend(canRead = false): Promise<void> {
    const { pacer, clock } = this.#deps;
    const { timeoutMs = DEFAULT_TIMEOUT_MS } = this.#request;
    this.#permit ??= pacer?.enter();
    while (this.#permit && !this.#permit.isGranted) {
      const nowMs = clock.monotonic();
      const leftMs = this.#startedMs + timeoutMs * QUOTA_SHARE - nowMs;
      if (leftMs <= 0) throw new OwnerTokenError('queue_timeout', QUOTA_USED_UP);
      this.#request.yieldPlace?.();
      this.#permit.onGrant = this.#watch.wake;
      await this.#watch.next(leftMs, nowMs);
      this.#signal.throwIfAborted();
      if (canRead && !this.#permit.isGranted) return;
    }
  }

  #leaveLine(): void {
    if (this.#permit) this.#deps.pacer?.leave(this.#permit);
    this.#permit = undefined;
  }

  /**
   * Sharing has stopped: the first call requests its own token at once, the others of a burst at random within the next
   * second. All replicas of the fleet get here at the same moment.
   */
  async #spread(): Promise<void> {
    const { clock, random, stoppedAtMs } = this.#deps;
    const nowMs = clock.monotonic();
    this.#deps.stoppedAtMs ??= nowMs;
    const leftMs = Math.min(stoppedAtMs ?? 0, this.#heardMs) + MAX_DELAY_MS - nowMs;
    if (stoppedAtMs !== undefined && leftMs > 0) await this.#watch.sleep(random() * leftMs);
  }
}
