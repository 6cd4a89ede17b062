/**
 * What sharing needs of a Redis client, and adapters for the two families of clients. The clients are the user's: nothing
 * here creates, connects, duplicates or closes one. They are typed by their methods, so any version that has these works.
 */

import { OwnerTokenError } from '../errors/owner-token-error.ts';
import { hasMethods } from '../option-check.ts';
import type { RecordScript } from './record-scripts.ts';

type Subscribe = NonNullable<RedisPort['subscribe']>;
type Command = (channel: string) => Promise<unknown>;

/**
 * What sharing needs from Redis. `fromNodeRedis` and `fromIoredis` make one; `docs/recipes/glide.md` shows one for another client.
 *
 * @example
 * ```ts no-run
 * import { createClient } from 'redis';
 *
 * const client = await createClient({ url: 'redis://cache:6379' }).connect();
 * const port: RedisPort = {
 *   run: ({ source }, key, args) => client.eval(source, { keys: [key], arguments: [...args] }),
 * };
 * ```
 */
export interface RedisPort {
  /**
   * Runs a script over one key and returns its reply. Rejects with the server's error as the client gives it: a message
   * that starts with the error code, such as `READONLY`, is not mistaken for a lost connection.
   */
  run(script: RecordScript, key: string, args: readonly string[]): Promise<unknown>;
  /** Subscribes to a channel and returns a function that ends the subscription. Without it, followers poll. */
  subscribe?(channel: string, onMessage: (message: string) => void): Promise<() => Promise<void>>;
  /**
   * The same for a sharded channel (`SSUBSCRIBE`) of a cluster, used instead of `subscribe`. Called for each record that a
   * call waits for, so it must carry many channels at once.
   */
  subscribeSharded?(channel: string, onMessage: (message: string) => void): Promise<() => Promise<void>>;
  /**
   * Whether the client is connected. Once it has been, `false` makes calls request their own tokens at once. Without this
   * method, or while it returns undefined, a call finds out by waiting for a reply.
   */
  isReady?(): boolean | undefined;
}

/**
 * The methods of a node-redis client or cluster that sharing uses.
 *
 * @example
 * ```ts no-run
 * import { createClient } from 'redis';
 *
 * const client = await createClient({ url: 'redis://cache:6379' }).connect();
 * const used: NodeRedisClient = client;
 * ```
 */
export interface NodeRedisClient {
  /** EVALSHA. */
  evalSha(sha: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  /** EVAL. */
  eval(source: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  /** Whether it is connected. A pool does not say. */
  readonly isReady?: boolean;
}

/**
 * A node-redis connection for subscriptions: `client.duplicate()`, connected.
 *
 * @example
 * ```ts no-run
 * import { createClient } from 'redis';
 *
 * const client = await createClient({ url: 'redis://cache:6379' }).connect();
 * const subscriber: NodeRedisSubscriber = await client.duplicate().connect();
 * ```
 */
export interface NodeRedisSubscriber {
  /** SUBSCRIBE. */
  subscribe(channel: string, listener: (message: string | Uint8Array) => void): Promise<unknown>;
  /** UNSUBSCRIBE of this listener. */
  unsubscribe(channel: string, listener: (message: string | Uint8Array) => void): Promise<unknown>;
}

/**
 * A node-redis cluster that carries sharded channels: `createCluster(…)`, connected.
 *
 * @example
 * ```ts no-run
 * import { createCluster } from 'redis';
 *
 * const cluster = await createCluster({ rootNodes: [{ url: 'redis://node-1:6379' }] }).connect();
 * const shardedSubscriber: NodeRedisShardedSubscriber = cluster;
 * ```
 */
export interface NodeRedisShardedSubscriber {
  /** SSUBSCRIBE. */
  sSubscribe(channel: string, listener: (message: string | Uint8Array) => void): Promise<unknown>;
  /** SUNSUBSCRIBE of this listener. */
  sUnsubscribe(channel: string, listener: (message: string | Uint8Array) => void): Promise<unknown>;
}

/**
 * The methods of an ioredis or iovalkey client or cluster that sharing uses.
 *
 * @example
 * ```ts no-run
 * import { Redis } from 'ioredis';
 *
 * const client = new Redis('redis://cache:6379', { socketTimeout: 2_000 });
 * const used: IoredisClient = client;
 * ```
 */
export interface IoredisClient {
  /** EVALSHA. */
  evalsha(sha: string, keys: number, ...keysAndArgs: string[]): Promise<unknown>;
  /** EVAL. */
  eval(source: string, keys: number, ...keysAndArgs: string[]): Promise<unknown>;
  /** `ready` while it is connected. */
  readonly status?: string;
}

/**
 * The connection for wake-ups: at most one of them.
 *
 * @example
 * ```ts
 * import { createClient } from 'redis';
 *
 * const client = createClient({ url: 'redis://cache:6379' });
 * const subscribers: RedisSubscribers<NodeRedisSubscriber, NodeRedisShardedSubscriber> = { subscriber: client };
 * ```
 */
export interface RedisSubscribers<Common, Sharded> {
  /** For a single server, or for a cluster that sends each message to all its nodes. */
  subscriber?: Common | undefined;
  /** For a cluster of Redis 7 or Valkey: a channel for each record. */
  shardedSubscriber?: Sharded | undefined;
}

/** The listeners of a connection for subscriptions. */
interface Emitter<Event extends string> {
  /** Adds a listener for the messages of all channels. */
  on(event: Event, listener: (channel: string, message: string) => void): unknown;
  /** Removes a listener. */
  off(event: Event, listener: (channel: string, message: string) => void): unknown;
  /** How many listeners there are. */
  listenerCount(event: Event): number;
}

/**
 * An ioredis or iovalkey connection for subscriptions: `client.duplicate()`.
 *
 * @example
 * ```ts no-run
 * import { Redis } from 'ioredis';
 *
 * const client = new Redis('redis://cache:6379', { socketTimeout: 2_000 });
 * const subscriber: IoredisSubscriber = client.duplicate();
 * ```
 */
export interface IoredisSubscriber extends Emitter<'message'> {
  /** SUBSCRIBE. */
  subscribe(channel: string): Promise<unknown>;
  /** UNSUBSCRIBE. */
  unsubscribe(channel: string): Promise<unknown>;
}

/**
 * An ioredis cluster (5.6 or later) that carries sharded channels: `new Cluster(nodes, { shardedSubscribers: true })`.
 *
 * @example
 * ```ts no-run
 * import { Cluster } from 'ioredis';
 *
 * const shardedSubscriber: IoredisShardedSubscriber = new Cluster(['redis://node-1:6379'], { shardedSubscribers: true });
 * ```
 */
export interface IoredisShardedSubscriber extends Emitter<'smessage'> {
  /** SSUBSCRIBE. */
  ssubscribe(channel: string): Promise<unknown>;
  /** SUNSUBSCRIBE. */
  sunsubscribe(channel: string): Promise<unknown>;
}

/**
 * A port for a node-redis client.
 *
 * @param client of node-redis: a client, a pool or a cluster.
 * @param options the connection for wake-ups: `subscriber`, or `shardedSubscriber` on a cluster of Redis 7 or Valkey, where
 * only the node that holds a record and the replicas that wait for it handle its message. At most one of them. Without
 * either, followers poll.
 * @throws {OwnerTokenError} `invalid_options` if the client is of another family.
 *
 * @example
 * ```ts no-run
 * import { createClient } from 'redis';
 *
 * const client = await createClient({ url: 'redis://cache:6379' }).connect();
 * const subscriber = await client.duplicate().connect();
 * const redis = fromNodeRedis(client, { subscriber });
 * ```
 */
export function fromNodeRedis(
  client: NodeRedisClient,
  options: RedisSubscribers<NodeRedisSubscriber, NodeRedisShardedSubscriber> = {},
): RedisPort {
  const { subscriber: common, shardedSubscriber: sharded } = options;
  expectMethods('fromNodeRedis: client', client, 'evalSha', 'eval');
  if (common) expectMethods('fromNodeRedis: subscriber', common, 'subscribe', 'unsubscribe');
  if (sharded) expectMethods('fromNodeRedis: shardedSubscriber', sharded, 'sSubscribe', 'sUnsubscribe');
  type Begin = NodeRedisSubscriber['subscribe'];
  const listen =
    (begin: Begin, end: Begin): Subscribe =>
    async (channel, onMessage) => {
      const listener = (message: string | Uint8Array) => onMessage(String(message));
      await begin(channel, listener);
      return async () => void (await end(channel, listener));
    };
  return {
    isReady: () => client.isReady,
    run: runner(
      ({ sha }, key, args) => client.evalSha(sha, { keys: [key], arguments: [...args] }),
      ({ source }, key, args) => client.eval(source, { keys: [key], arguments: [...args] }),
    ),
    ...(common && { subscribe: listen(common.subscribe.bind(common), common.unsubscribe.bind(common)) }),
    ...(sharded && { subscribeSharded: listen(sharded.sSubscribe.bind(sharded), sharded.sUnsubscribe.bind(sharded)) }),
  };
}

/**
 * A port for an ioredis or iovalkey client.
 *
 * @param client of ioredis or iovalkey: a client or a cluster.
 * @param options the connection for wake-ups, as in {@link fromNodeRedis}. iovalkey has no sharded one.
 * @throws {OwnerTokenError} `invalid_options` if the client is of another family.
 *
 * @example
 * ```ts no-run
 * import { Redis } from 'ioredis';
 *
 * const client = new Redis('redis://cache:6379', { socketTimeout: 2_000 });
 * const redis = fromIoredis(client, { subscriber: client.duplicate() });
 * ```
 */
export function fromIoredis(
  client: IoredisClient,
  options: RedisSubscribers<IoredisSubscriber, IoredisShardedSubscriber> = {},
): RedisPort {
  const { subscriber: common, shardedSubscriber: sharded } = options;
  const events = ['on', 'off', 'listenerCount'];
  expectMethods('fromIoredis: client', client, 'evalsha', 'eval');
  if (common) expectMethods('fromIoredis: subscriber', common, 'subscribe', 'unsubscribe', ...events);
  if (sharded) expectMethods('fromIoredis: shardedSubscriber', sharded, 'ssubscribe', 'sunsubscribe', ...events);
  return {
    isReady: () => (client.status === undefined ? undefined : client.status === 'ready'),
    run: runner(
      ({ sha }, key, args) => client.evalsha(sha, 1, key, ...args),
      ({ source }, key, args) => client.eval(source, 1, key, ...args),
    ),
    ...(common && { subscribe: channels('message', common, common.subscribe, common.unsubscribe) }),
    ...(sharded && { subscribeSharded: channels('smessage', sharded, sharded.ssubscribe, sharded.sunsubscribe) }),
  };
}

/**
 * Sends the whole script until the server has run it, and from then on its digest. A digest that the server does not know
 * would cost a second round trip and a second command.
 */
function runner(bySha: RedisPort['run'], whole: RedisPort['run']): RedisPort['run'] {
  const known = new Set<RecordScript>();
  const load: RedisPort['run'] = async (script, key, args) => {
    const reply = await whole(script, key, args);
    known.add(script);
    return reply;
  };
  return (script, key, args) => {
    if (!known.has(script)) return load(script, key, args);
    return bySha(script, key, args).catch((error: unknown) => {
      if (error instanceof Error && error.message.startsWith('NOSCRIPT')) return load(script, key, args);
      throw error;
    });
  };
}

/** One listener for all channels: with one for each, Node would warn of a leak. */
function channels<E extends string>(event: E, connection: Emitter<E>, begin: Command, end: Command): Subscribe {
  const listeners = new Map<string, (message: string) => void>();
  const dispatch = (channel: string, message: string) => listeners.get(channel)?.(message);
  return async (channel, onMessage) => {
    await begin.call(connection, channel);
    if (listeners.size === 0) connection.on(event, dispatch);
    listeners.set(channel, onMessage);
    return async () => {
      if (listeners.get(channel) !== onMessage) return;
      listeners.delete(channel);
      if (listeners.size === 0) connection.off(event, dispatch);
      // Another port may listen to the same channel on this connection.
      if (connection.listenerCount(event) <= Math.min(listeners.size, 1)) await end.call(connection, channel);
    };
  };
}

/** A client of the other family would fail at its first call, as if Redis were down. */
function expectMethods(what: string, value: unknown, ...methods: string[]): void {
  if (hasMethods(value, ...methods)) return;
  const advice = 'fromNodeRedis takes a node-redis client, fromIoredis one of ioredis or iovalkey';
  throw new OwnerTokenError('invalid_options', `${what}: expected an object with ${methods.join(', ')}. ${advice}`);
}
