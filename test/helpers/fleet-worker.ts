/**
 * One replica in a process of its own, built to a file and forked by `fleet.ts`: a registry, a shared source, the token
 * endpoint and a real client. It receives commands over IPC and replies with their results.
 */

import { createHash } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { Redis as Ioredis } from 'ioredis';
import { createClient } from 'redis';
import type { Clock } from '../../src/clock.ts';
import type { OwnerTokenError } from '../../src/errors.ts';
import { OwnerTokenRegistry, type RegistryStats, TokenEndpoint } from '../../src/index.ts';
import { fromIoredis, fromNodeRedis, SharedTokens, type SharingStats } from '../../src/redis/index.ts';

export interface ReplicaOptions {
  baseUrl: string;
  clientId: string;
  clientSecret: string;
  /** Absent: this replica does not share. */
  redisPort?: number;
  client?: 'node-redis' | 'ioredis';
  subscribe?: boolean;
  username?: string;
  password?: string;
  /** How far its wall clock is ahead. */
  skewMs?: number;
  leaseMs?: number;
  redisTimeoutMs?: number;
  refreshWindow?: [number, number];
  concurrency?: number;
  maxQueueMs?: number;
  maxWaitMs?: number;
  requestTimeoutMs?: number;
  /** The quota of all replicas together. */
  requestsPerSecond?: number;
}

/** The outcome of one call. The token is only a digest. */
export interface Outcome {
  readonly ms: number;
  /** Epoch ms by the clock of the machine. */
  readonly endedAtMs: number;
  readonly token?: string;
  /** On the clock of the machine. */
  readonly expiresAtMs?: number;
  readonly code?: string;
}

export interface ReplicaReport {
  readonly sharing?: SharingStats;
  readonly requests: number;
  readonly pauses: RegistryStats['pauses'];
  readonly events: readonly unknown[];
}

/** The commands of a replica. */
export interface ReplicaCommands {
  start(options: ReplicaOptions): Promise<void>;
  /** Gets a token for each, all at once. */
  get(accessKeys: string[]): Promise<Outcome[]>;
  /** Calls `/echo` once for each owner through `ownerFetch`; returns statuses or error codes. */
  call(accessKeys: string[]): Promise<(number | string)[]>;
  /** Rejects the cached token and gets a new one. */
  replace(accessKey: string): Promise<Outcome>;
  /** Gets tokens for `perSecond` new owners a second, for `ms` milliseconds. */
  load(prefix: string, perSecond: number, ms: number): Promise<Outcome[]>;
  /** The mean CPU time of a cache hit in nanoseconds, over `count` hits: other processes take their part of any other time. */
  hits(accessKey: string, count: number): Promise<number>;
  report(): Promise<ReplicaReport>;
  stop(): Promise<void>;
}

const digest = (token: string) => createHash('sha256').update(token).digest('hex').slice(0, 12);

async function connect(options: ReplicaOptions) {
  const { redisPort: port = 0, client: family, username, password } = options;
  if (family === 'ioredis') {
    const client = new Ioredis(port, { ...(username && { username }), ...(password && { password }) });
    const subscriber = options.subscribe ? client.duplicate() : undefined;
    for (const each of [client, subscriber]) each?.on('error', () => {});
    return {
      port: fromIoredis(client, subscriber && { subscriber }),
      close: () => [client, subscriber].map((c) => c?.disconnect()),
    };
  }
  const client = createClient({
    url: `redis://127.0.0.1:${port}`,
    ...(username && { username, password: password ?? '' }),
  });
  client.on('error', () => {});
  const subscriber = options.subscribe ? client.duplicate() : undefined;
  subscriber?.on('error', () => {});
  // A replica starts even if Redis is down: the client keeps reconnecting.
  void client.connect().catch(() => {});
  void subscriber?.connect().catch(() => {});
  return {
    port: fromNodeRedis(client, subscriber && { subscriber }),
    close: () => [client, subscriber].map((c) => c?.destroy()),
  };
}

class Replica implements ReplicaCommands {
  readonly #events: unknown[] = [];
  readonly #onEvent = (message: unknown) => void this.#events.push(message);
  #options!: ReplicaOptions;
  #registry!: OwnerTokenRegistry;
  #shared: SharedTokens | undefined;
  #close: () => unknown = () => {};

  async start(options: ReplicaOptions): Promise<void> {
    this.#shared = undefined;
    this.#events.length = 0;
    subscribe('owner-token-registry:sharing', this.#onEvent);
    this.#options = options;
    const skewMs = options.skewMs ?? 0;
    const clock: Clock = { now: () => Date.now() + skewMs, monotonic: () => performance.now() };
    const {
      baseUrl,
      clientId,
      clientSecret,
      redisPort,
      leaseMs,
      redisTimeoutMs,
      refreshWindow,
      concurrency,
      maxQueueMs,
      maxWaitMs,
      requestTimeoutMs,
      requestsPerSecond,
    } = options;
    const endpoint = new TokenEndpoint({ baseUrl, clientId, clientSecret, clock });
    if (redisPort !== undefined) {
      const redis = await connect(options);
      this.#close = redis.close;
      const sealingKeys = [Uint8Array.from({ length: 32 }, (_, index) => index)];
      this.#shared = new SharedTokens({
        source: endpoint,
        redis: redis.port,
        sealingKeys,
        clock,
        ...(leaseMs && { leaseMs }),
        ...(redisTimeoutMs && { redisTimeoutMs }),
        ...(maxWaitMs && { maxWaitMs }),
        ...(requestsPerSecond && { requestsPerSecond }),
      });
    }
    this.#registry = new OwnerTokenRegistry({
      source: this.#shared ?? endpoint,
      ...(skewMs !== 0 && { clock }),
      ...(refreshWindow && { refreshWindow }),
      ...(concurrency && { concurrency }),
      ...(maxQueueMs && { maxQueueMs }),
      ...(requestTimeoutMs && { requestTimeoutMs }),
    });
  }

  get(accessKeys: string[]): Promise<Outcome[]> {
    return Promise.all(accessKeys.map((accessKey) => this.#get(accessKey)));
  }

  async call(accessKeys: string[]): Promise<(number | string)[]> {
    const one = async (accessKey: string) => {
      try {
        const answer = await this.#registry.ownerFetch(accessKey)(`${this.#options.baseUrl}/echo`);
        await answer.arrayBuffer();
        return answer.status;
      } catch (error) {
        return (error as OwnerTokenError).code ?? 'thrown';
      }
    };
    return Promise.all(accessKeys.map(one));
  }

  async replace(accessKey: string): Promise<Outcome> {
    const held = this.#registry.peek(accessKey);
    if (held) this.#registry.reject(accessKey, held);
    return this.#get(accessKey);
  }

  async load(prefix: string, perSecond: number, ms: number): Promise<Outcome[]> {
    const outcomes: Promise<Outcome>[] = [];
    const startedMs = performance.now();
    for (let elapsedMs = 0; elapsedMs < ms; elapsedMs = performance.now() - startedMs) {
      while (outcomes.length < (elapsedMs / 1000) * perSecond) outcomes.push(this.#get(`${prefix}${outcomes.length}`));
      await new Promise((resolve) => setTimeout(resolve, 4));
    }
    return Promise.all(outcomes);
  }

  async hits(accessKey: string, count: number): Promise<number> {
    await this.#registry.getToken(accessKey);
    const before = process.cpuUsage();
    for (let hit = 0; hit < count; hit++) await this.#registry.getToken(accessKey);
    const { user, system } = process.cpuUsage(before);
    return ((user + system) / count) * 1e3;
  }

  async report(): Promise<ReplicaReport> {
    const sharing = this.#shared?.stats();
    const { requests, pauses } = this.#registry.stats();
    return { requests, pauses, events: this.#events, ...(sharing && { sharing }) };
  }

  async stop(): Promise<void> {
    await this.#registry.close({ timeoutMs: 100 });
    this.#close();
    unsubscribe('owner-token-registry:sharing', this.#onEvent);
  }

  async #get(accessKey: string): Promise<Outcome> {
    const startedMs = performance.now();
    const ended = () => ({ ms: performance.now() - startedMs, endedAtMs: Date.now() });
    try {
      const token = await this.#registry.getToken(accessKey);
      const expiresAtMs = token.expiresAtMs - (this.#options.skewMs ?? 0);
      return { ...ended(), token: digest(token.value), expiresAtMs };
    } catch (error) {
      return { ...ended(), code: (error as OwnerTokenError).code ?? 'thrown' };
    }
  }
}

const replica = new Replica();
process.on('message', ({ id, command, args }: { id: number; command: keyof ReplicaCommands; args: never[] }) => {
  const carriedOut = (replica[command] as (...all: never[]) => Promise<unknown>)(...args);
  void carriedOut
    .then(
      (value) => ({ value }),
      (error: unknown) => ({ error: String(error) }),
    )
    .then((answer) => process.connected && process.send?.({ id, ...answer }));
});
process.send?.({ ready: true });
