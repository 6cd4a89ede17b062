/**
 * A token source that makes one request per owner over all replicas. Redis saves requests; it never makes a call wait more
 * than a second longer than without it, and no call fails because of it. `shared-call.ts` follows one call.
 *
 * It caches nothing (the registry does), retries nothing, and creates, connects or closes no Redis client.
 */

import { randomBytes } from 'node:crypto';
import { systemClock } from '../clock.ts';
import { property } from '../own-property.ts';
import type { IssuedToken, SourceNews, TokenRequest, TokenSource } from '../token-source.ts';
import { SharingDiagnostics } from './diagnostics.ts';
import { Forgettings } from './forgettings.ts';
import { digestOf, KnownTokens } from './known-tokens.ts';
import { checkSharedTokensOptions, type SharedTokensOptions } from './options.ts';
import { QuotaPacer } from './pace.ts';
import { RedisLink } from './redis-link.ts';
import { Replicas } from './replicas.ts';
import { Names, namingKeyFrom, Sealer } from './sealing.ts';
import { SharedCall, type SharedCallDeps } from './shared-call.ts';
import { Wakeups } from './wakeups.ts';

/** How long after its token request was sent a report of a recovery is accepted: twice the default `requestTimeoutMs`. */
const RECOVERY_MS = 60_000;

/**
 * How a replica shares tokens: counts since construction, unless stated otherwise, as plain data.
 *
 * @example
 * ```ts
 * const perOwner = ({ leader, fallback }: SharingStats, owners: number) => (leader + fallback) / owners;
 * ```
 */
export interface SharingStats {
  /** Whether tokens are shared: Redis was available in the last few seconds, and the last call's identity was known. */
  readonly sharing: boolean;
  /** Calls answered with another replica's token. */
  readonly shared: number;
  /** Requests made for all replicas. */
  readonly leader: number;
  /** Requests made for this replica alone. */
  readonly fallback: number;
  /** Calls that failed because the other replica's request that they waited for failed. */
  readonly refused: number;
  /** Stored values that could not be decrypted. */
  readonly unreadable: number;
  /** Replicas with the same prefix at the last count, this one included. 0 before the first count. */
  readonly replicas: number;
  /** The name of this replica, as in {@link SharedTokens.members}. */
  readonly replica: string;
  /** How many replicas have another naming key. */
  readonly mismatched: number;
  /** Calls that were not shared because the source's `identity()` failed. Also counted in `fallback`. */
  readonly unidentified: number;
}

/**
 * Who was in the fleet at the last count, which covers the last few minutes.
 *
 * @example
 * ```ts
 * const title = ({ name, names, count }: FleetMembers) => `${names.indexOf(name) + 1} of ${count}: ${name}`;
 * ```
 */
export interface FleetMembers {
  /** This replica: the option `replica` and a random suffix. */
  readonly name: string;
  /** All replicas that have announced themselves, in order; the first hundred of a larger fleet. Empty before the first count. */
  readonly names: readonly string[];
  /** How many there are. 0 before the first count. */
  readonly count: number;
}

interface Parts {
  readonly deps: SharedCallDeps;
  readonly replicas: Replicas;
  readonly forgettings: Forgettings;
}

/**
 * A {@link TokenSource} that shares the tokens of another one between replicas.
 *
 * @example
 * ```ts no-run
 * import { Redis } from 'ioredis';
 *
 * const client = new Redis('redis://cache:6379', { socketTimeout: 2_000 });
 * const source = new SharedTokens({
 *   source: new TokenEndpoint({ baseUrl, clientId, clientSecret }),
 *   redis: fromIoredis(client, { subscriber: client.duplicate() }),
 *   sealingKeys: [Buffer.from(process.env.SEALING_KEY ?? '', 'hex')], // openssl rand -hex 32
 * });
 * const tokens = new OwnerTokenRegistry({ source });
 * ```
 */
export class SharedTokens implements TokenSource {
  /** Where the shared source's tokens may be sent. */
  readonly origin?: string | undefined;
  readonly #options: SharedTokensOptions;
  /** What the others call this replica. Unique, even if two were given the same name. */
  readonly #name: string;
  #parts: Parts;
  /** Whether something was sent. */
  #isInUse = false;
  #news: SourceNews | undefined;
  #isIdentified = true;

  /** @throws {OwnerTokenError} `invalid_options`, listing every problem. */
  constructor(given: SharedTokensOptions) {
    this.#options = checkSharedTokensOptions(given);
    const { source, replica = 'replica' } = this.#options;
    this.#name = `${replica}-${randomBytes(5).toString('hex')}`;
    this.#parts = this.#assemble();
    const origin = property(source, 'origin');
    if (typeof origin === 'string') this.origin = origin;
  }

  /** @param defaults those of the registry. */
  #assemble(defaults: SourceNews['defaults'] = { name: 'default' }): Parts {
    const { source, redis: port, sealingKeys, prefix = 'otr', ...options } = this.#options;
    const { leaseMs = 3_000, redisTimeoutMs = 250, requestsPerSecond } = options;
    const clock = options.clock ?? defaults.clock ?? systemClock;
    const random = options.random ?? defaults.random ?? Math.random;
    const diagnostics = new SharingDiagnostics(options.name ?? defaults.name, options.logger ?? defaults.logger);
    const names = new Names(prefix, options.namingKey ?? namingKeyFrom(sealingKeys.at(-1) as Uint8Array));
    const common = { port, names, clock, random, diagnostics, deadlineMs: redisTimeoutMs };
    const replicas = new Replicas(common, this.#name);
    const wakeups = new Wakeups({ ...common, onOther: (message) => this.#onMessage(message) });
    const link = new RedisLink({
      ...common,
      probe: replicas,
      onChange: (failure) => {
        diagnostics.report(failure ? 'suspended' : 'resumed', failure);
        if (!failure) void forgettings.flush();
      },
      onBehind: (behindMs) => {
        diagnostics.report('clock_behind', { behindMs });
        replicas.announce(true);
      },
    });
    replicas.link = link;
    const intervalMs = () => (replicas.assumed * 1_000) / (requestsPerSecond ?? Infinity);
    const pacer = requestsPerSecond === undefined ? undefined : new QuotaPacer(clock, intervalMs);
    const identity = () => this.identity();
    const [sealer, known] = [new Sealer(sealingKeys), new KnownTokens()];
    const counts = { shared: 0, leader: 0, fallback: 0, refused: 0 };
    const deps = { ...common, source, identity, link, wakeups, sealer, known, pacer, leaseMs, counts };
    const forgettings = new Forgettings(deps);
    return { deps, replicas, forgettings };
  }

  /** Returns another replica's token of this owner, or requests one for all replicas. */
  async requestToken(accessKey: string, request: TokenRequest): Promise<IssuedToken> {
    this.#isInUse = true;
    const { deps, replicas, forgettings } = this.#parts;
    let name: string;
    try {
      name = deps.names.ofOwner(await this.identity(), accessKey);
      this.#isIdentified = true;
    } catch {
      this.#isIdentified = false;
      deps.counts.fallback++;
      deps.diagnostics.count('unidentified');
      return deps.source.requestToken(accessKey, request);
    }
    replicas.announce();
    const mayShare = forgettings.kept.size === 0 || (await forgettings.isRecorded(accessKey));
    return new SharedCall(deps, name, accessKey, request).obtain(mayShare);
  }

  /**
   * For the registry: takes the owner's token out of the shared record, and tells the other replicas that have a connected
   * `subscriber`. What was requested before is no longer shared. While Redis is unavailable, up to 10,000 owners are kept and
   * sent when it is back.
   */
  forget(accessKey: string): void {
    this.#isInUse = true;
    void this.#parts.forgettings.add(accessKey);
    this.#options.source.forget?.(accessKey);
  }

  /** The option `identity`, or else that of the shared source: keeps different clients apart. */
  identity(): string | Promise<string> {
    const { identity: own, source } = this.#options;
    return typeof own === 'function' ? own() : (own ?? source.identity?.() ?? '');
  }

  /** Who is in the fleet, as this replica knows it. */
  members(): FleetMembers {
    const { listed: names, count } = this.#parts.replicas;
    return { name: this.#name, names, count };
  }

  /**
   * For the registry: passes on rejections, recoveries and forgettings of other replicas, and takes the registry's name, logger,
   * clock and random for those that were not given. Needs a `subscriber`; a `shardedSubscriber` does not get them. A second
   * registry changes nothing.
   */
  listen(news: SourceNews): void {
    if (this.#news) {
      this.#parts.deps.diagnostics.report('second_registry');
      return;
    }
    this.#news = news;
    if (!this.#isInUse) this.#parts = this.#assemble(news.defaults);
    this.#parts.deps.known.isKept = (accessKey) => news.isKept(accessKey);
  }

  /** Returns plain numbers, without secrets. Takes the same time however many owners there are. */
  stats(): SharingStats {
    const { deps, replicas } = this.#parts;
    const sharing = deps.link.isAvailable && this.#isIdentified;
    return { sharing, ...deps.counts, ...deps.diagnostics.counts, replicas: replicas.count, replica: this.#name };
  }

  /**
   * Sends the forgettings that are kept, releases the leases that are still held, and closes the source. Close the Redis client yourself, after this
   * has settled. Sends one command for each subscribed channel; with `subscribeSharded`, each owner with a waiting call
   * has one.
   */
  async close(): Promise<void> {
    const { deps, replicas, forgettings } = this.#parts;
    await forgettings.close();
    await deps.wakeups.close();
    replicas.leave();
    await deps.link.idle();
    await deps.source.close?.();
  }

  /** A message that is not a wake-up: news of an owner. Ignores messages of replicas with another naming key. */
  #onMessage(message: string): void {
    const { names, known, link, clock, source } = this.#parts.deps;
    const [name = '', news, generationText, proof] = message.split(' ');
    const generation = Number(generationText);
    const owner = known.get(name);
    if (!owner || (news !== 'rejected' && news !== 'recovered' && news !== 'forgotten')) return;
    if (proof !== names.proofOf(news, name, generation) || !known.hear(news, name, generation)) return;
    const { accessKey, generation: newest, digest } = owner;
    if (news === 'rejected' && newest === generation) {
      this.#news?.rejected(accessKey, (token) => digestOf(token) === digest);
    } else if (news === 'recovered') {
      const isRecent = generation > link.time.onServer(clock.monotonic()) - RECOVERY_MS * 1000;
      if (isRecent) this.#news?.recovered(accessKey);
    } else if (news === 'forgotten' && newest < generation) {
      this.#news?.forgotten?.(accessKey);
      // What it throws must not reach the Redis client.
      void (async () => source.forget?.(accessKey))().catch(() => {});
    }
  }
}
