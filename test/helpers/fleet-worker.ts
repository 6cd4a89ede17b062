/**
 * One replica in a process of its own, built to a file and forked by `fleet.ts`: a registry, a shared source, the token
 * endpoint and a real client. It receives commands over IPC and replies with their results.
 */

import { createHash } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Redis as Ioredis, Cluster as IoredisCluster } from 'ioredis';
import { createClient, createCluster, createSentinel } from 'redis';
import type { Clock } from '../../src/clock.ts';
import type { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import { OwnerTokenRegistry, type RegistryStats, TokenEndpoint } from '../../src/index.ts';
import { fromIoredis, fromNodeRedis, type RedisPort, SharedTokens, type SharingStats } from '../../src/redis/index.ts';

export interface ReplicaOptions {
  baseUrl: string;
  clientId: string;
  clientSecret: string;
  /** Absent: this replica does not share. */
  redisPort?: number;
  client?: 'node-redis' | 'ioredis';
  /** What `redisPort` is the port of. Default: a server. */
  topology?: 'server' | 'sentinel' | 'cluster';
  /** So many replicas in this one process, with clients of both families in turn. */
  copies?: number;
  subscribe?: boolean;
  /** Where the connection for wake-ups goes. Default: `redisPort`. */
  subscriberPort?: number;
  /** Connects with TLS, and trusts this certificate. */
  ca?: string;
  username?: string;
  password?: string;
  /** How far its wall clock is ahead. */
  skewMs?: number;
  leaseMs?: number;
  redisTimeoutMs?: number;
  refreshWindow?: [number, number];
  concurrency?: number;
  maxQueueMs?: number;
  requestTimeoutMs?: number;
  /** The token endpoint's. */
  timeoutMs?: number;
  /** Shared by replicas whose services have different addresses. */
  identity?: string;
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
  /** The longest that its event loop was blocked since the last report. */
  readonly blockedMs: number;
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
  forget(accessKey: string): Promise<boolean>;
  /** Begins to note when the cached token is dropped or replaced; makes a call now and then meanwhile. */
  watch(accessKey: string): Promise<void>;
  /** When that was in the last of this process's replicas, by the clock of the machine. */
  droppedAt(accessKey: string): Promise<number>;
  /** Gets tokens for `perSecond` new owners a second, for `ms` milliseconds. */
  load(prefix: string, perSecond: number, ms: number): Promise<Outcome[]>;
  /** The mean CPU time of a cache hit in nanoseconds, over `count` hits: other processes take their part of any other time. */
  hits(accessKey: string, count: number): Promise<number>;
  report(): Promise<ReplicaReport>;
  stop(): Promise<void>;
}

const digest = (token: string) => createHash('sha256').update(token).digest('hex').slice(0, 12);

/** Opens a client of the family and, if wanted, a subscriber, with the options that `docs/fleet-setup.md` shows. */
async function connect(options: ReplicaOptions) {
  const { redisPort: port = 0, client: family, subscribe, subscriberPort = port, topology = 'server' } = options;
  const [client, subscriber] = (subscribe ? [port, subscriberPort] : [port]).map((to) =>
    open(family, topology, to, options),
  );
  const close = () => [client, subscriber].map((each) => each?.close());
  if (!client) throw new Error('no client');
  return { port: client.port(subscriber), close };
}

interface Opened {
  port(subscriber?: Opened): RedisPort;
  readonly client: never;
  close(): unknown;
}

const RECONNECT = { socketTimeout: 2_000, reconnectStrategy: (retries: number) => Math.min(100 * 2 ** retries, 2_000) };

function open(
  family: ReplicaOptions['client'],
  topology: NonNullable<ReplicaOptions['topology']>,
  port: number,
  { username, password, ca }: ReplicaOptions,
): Opened {
  const user = { ...(username && { username }), ...(password && { password }) };
  const node = { host: '127.0.0.1', port };
  if (family === 'ioredis') {
    const settings = { ...user, socketTimeout: 2_000, ...(ca && { tls: { ca } }) };
    const client =
      topology === 'cluster'
        ? new IoredisCluster([node], { redisOptions: settings })
        : new Ioredis(
            topology === 'server' ? { ...node, ...settings } : { ...settings, sentinels: [node], name: 'main' },
          );
    client.on('error', () => {});
    return {
      port: (subscriber) => fromIoredis(client, subscriber && { subscriber: subscriber.client }),
      client: client as never,
      close: () => client.disconnect(),
    };
  }
  const settings = { ...user, pingInterval: 1_000, socket: ca ? { ...RECONNECT, tls: true as const, ca } : RECONNECT };
  const url = `${ca ? 'rediss' : 'redis'}://127.0.0.1:${port}`;
  const client =
    topology === 'cluster'
      ? createCluster({ rootNodes: [{ url }], defaults: settings })
      : topology === 'server'
        ? createClient({ url, ...settings })
        : createSentinel({ name: 'main', sentinelRootNodes: [node], nodeClientOptions: settings, scanInterval: 500 });
  client.on('error', () => {});
  // A replica starts even if Redis is down: the client keeps reconnecting.
  void client.connect().catch(() => {});
  return {
    port: (subscriber) => fromNodeRedis(client, subscriber && { subscriber: subscriber.client }),
    client: client as never,
    close: () => client.destroy(),
  };
}

class Replica implements ReplicaCommands {
  readonly #events: unknown[] = [];
  readonly #onEvent = (message: unknown) => void this.#events.push(message);
  #options!: ReplicaOptions;
  #registry!: OwnerTokenRegistry;
  #shared: SharedTokens | undefined;
  #close: () => unknown = () => {};
  readonly #delay = monitorEventLoopDelay();
  readonly #dropped = new Map<string, Promise<number>>();
  #others: Replica[] = [];

  async start({ copies = 1, ...options }: ReplicaOptions): Promise<void> {
    this.#others = Array.from({ length: copies - 1 }, () => new Replica());
    const families = ['ioredis', 'node-redis'] as const;
    const started = this.#others.map((other, index) =>
      other.start(options.client ? { ...options, client: families[index % 2] as 'ioredis' } : options),
    );
    await Promise.all(started);
    this.#shared = undefined;
    this.#events.length = 0;
    this.#delay.enable();
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
      requestTimeoutMs,
      timeoutMs,
      identity,
      requestsPerSecond,
    } = options;
    const endpoint = new TokenEndpoint({ baseUrl, clientId, clientSecret, clock, ...(timeoutMs && { timeoutMs }) });
    if (redisPort !== undefined) {
      const redis = await connect(options);
      this.#close = redis.close;
      const sealingKeys = [Uint8Array.from({ length: 32 }, (_, index) => index)];
      this.#shared = new SharedTokens({
        source: endpoint,
        redis: redis.port,
        sealingKeys,
        ...(skewMs !== 0 && { clock }),
        ...(leaseMs && { leaseMs }),
        ...(identity && { identity }),
        ...(redisTimeoutMs && { redisTimeoutMs }),
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

  async get(accessKeys: string[]): Promise<Outcome[]> {
    const own = accessKeys.map((accessKey) => this.#get(accessKey));
    const others = this.#others.map((other) => other.get(accessKeys));
    return (await Promise.all([Promise.all(own), ...others])).flat();
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

  async forget(accessKey: string): Promise<boolean> {
    return this.#registry.forget(accessKey);
  }

  async watch(accessKey: string): Promise<void> {
    const held = this.#registry.peek(accessKey)?.value;
    const dropped = async () => {
      for (let round = 1; this.#registry.peek(accessKey)?.value === held; round++) {
        if (round % 100 === 0) void this.#get(accessKey);
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      return Date.now();
    };
    this.#dropped.set(accessKey, dropped());
    await Promise.all(this.#others.map((other) => other.watch(accessKey)));
  }

  async droppedAt(accessKey: string): Promise<number> {
    const others = this.#others.map((other) => other.droppedAt(accessKey));
    return Math.max((await this.#dropped.get(accessKey)) ?? Number.NaN, ...(await Promise.all(others)));
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
    const blockedMs = this.#delay.max / 1e6;
    this.#delay.reset();
    return { requests, pauses, events: this.#events, blockedMs, ...(sharing && { sharing }) };
  }

  async stop(): Promise<void> {
    await Promise.all(this.#others.map((other) => other.stop()));
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
