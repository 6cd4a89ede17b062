/**
 * What sharing needs of a Redis client, and adapters for the two families of clients. The clients are the user's: nothing
 * here creates, connects, duplicates or closes one. They are typed by their methods, so any version with these will do.
 */

import { OwnerTokenError } from '../errors.ts';
import { hasMethods } from '../option-check.ts';
import type { RecordScript } from './record-scripts.ts';
import { ScriptRunner } from './script-runner.ts';

/**
 * What sharing needs of Redis. `fromNodeRedis` and `fromIoredis` make one; `docs/fleet.md` shows one for another client.
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
  /** Subscribes to a channel and returns what ends the subscription. Without it, followers poll. */
  subscribe?(channel: string, onMessage: (message: string) => void): Promise<() => Promise<void>>;
  /**
   * The same for a sharded channel (`SSUBSCRIBE`) of a cluster, used instead of `subscribe`. Called for each record that a
   * call waits for, so it must carry many channels at once.
   */
  subscribeSharded?(channel: string, onMessage: (message: string) => void): Promise<() => Promise<void>>;
  /**
   * Whether an attempt to connect has failed. Read only until the first reply: if true, the replica allows Redis 8 s
   * instead of 18 s.
   */
  hasFailedToConnect?(): boolean;
}

/**
 * The methods used of node-redis clients, single and cluster.
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
  /** Adds a listener: called once for each client that has it, to notice a failed attempt to connect. */
  on?(event: 'reconnecting', listener: () => void): unknown;
  /** The listeners, among which a further port over the client finds that one. */
  listeners?(event: 'reconnecting'): readonly unknown[];
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
 * The methods used of ioredis and iovalkey clients, single and cluster.
 *
 * @example
 * ```ts no-run
 * import { Redis } from 'ioredis';
 *
 * const client = new Redis('redis://cache:6379', { socketTimeout: 3_000 });
 * const used: IoredisClient = client;
 * ```
 */
export interface IoredisClient {
  /** EVALSHA. */
  evalsha(sha: string, keys: number, ...keysAndArgs: string[]): Promise<unknown>;
  /** EVAL. */
  eval(source: string, keys: number, ...keysAndArgs: string[]): Promise<unknown>;
  /** Adds a listener: called once for each client that has it, to notice a failed attempt to connect. */
  on?(event: 'reconnecting', listener: () => void): unknown;
  /** The listeners, among which a further port over the client finds that one. */
  listeners?(event: 'reconnecting'): readonly unknown[];
}

/**
 * An ioredis or iovalkey connection for subscriptions: `client.duplicate()`.
 *
 * @example
 * ```ts no-run
 * import { Redis } from 'ioredis';
 *
 * const client = new Redis('redis://cache:6379', { socketTimeout: 3_000 });
 * const subscriber: IoredisSubscriber = client.duplicate();
 * ```
 */
export interface IoredisSubscriber {
  /** SUBSCRIBE. */
  subscribe(channel: string): Promise<unknown>;
  /** UNSUBSCRIBE. */
  unsubscribe(channel: string): Promise<unknown>;
  /** Adds a listener for the messages of all channels. */
  on(event: 'message', listener: (channel: string, message: string) => void): unknown;
  /** Removes a listener. */
  off(event: 'message', listener: (channel: string, message: string) => void): unknown;
  /** How many listeners there are. */
  listenerCount(event: 'message'): number;
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
export interface IoredisShardedSubscriber {
  /** SSUBSCRIBE. */
  ssubscribe(channel: string): Promise<unknown>;
  /** SUNSUBSCRIBE. */
  sunsubscribe(channel: string): Promise<unknown>;
  /** Adds a listener for the messages of all sharded channels. */
  on(event: 'smessage', listener: (channel: string, message: string) => void): unknown;
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
  options: {
    subscriber?: NodeRedisSubscriber | undefined;
    shardedSubscriber?: NodeRedisShardedSubscriber | undefined;
  } = {},
): RedisPort {
  const { subscriber, shardedSubscriber } = options;
  expectMethods('fromNodeRedis', 'client', client, ['evalSha', 'eval']);
  if (subscriber) expectMethods('fromNodeRedis', 'subscriber', subscriber, ['subscribe', 'unsubscribe']);
  if (shardedSubscriber)
    expectMethods('fromNodeRedis', 'shardedSubscriber', shardedSubscriber, ['sSubscribe', 'sUnsubscribe']);
  const scripts = new ScriptRunner(client);
  return {
    hasFailedToConnect: () => scripts.hasFailedToConnect,
    run: (script, key, args) => {
      const call = { keys: [key], arguments: [...args] };
      return scripts.run(
        script,
        () => client.evalSha(script.sha, call),
        () => client.eval(script.source, call),
      );
    },
    ...(subscriber && {
      subscribe: async (channel, onMessage) => {
        const listener = (message: string | Uint8Array) => onMessage(String(message));
        await subscriber.subscribe(channel, listener);
        return async () => void (await subscriber.unsubscribe(channel, listener));
      },
    }),
    ...(shardedSubscriber && {
      subscribeSharded: async (channel, onMessage) => {
        const listener = (message: string | Uint8Array) => onMessage(String(message));
        await shardedSubscriber.sSubscribe(channel, listener);
        return async () => void (await shardedSubscriber.sUnsubscribe(channel, listener));
      },
    }),
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
 * const client = new Redis('redis://cache:6379', { socketTimeout: 3_000 });
 * const redis = fromIoredis(client, { subscriber: client.duplicate() });
 * ```
 */
export function fromIoredis(
  client: IoredisClient,
  options: {
    subscriber?: IoredisSubscriber | undefined;
    shardedSubscriber?: IoredisShardedSubscriber | undefined;
  } = {},
): RedisPort {
  const { subscriber, shardedSubscriber } = options;
  expectMethods('fromIoredis', 'client', client, ['evalsha', 'eval']);
  if (subscriber)
    expectMethods('fromIoredis', 'subscriber', subscriber, ['subscribe', 'unsubscribe', 'on', 'off', 'listenerCount']);
  if (shardedSubscriber)
    expectMethods('fromIoredis', 'shardedSubscriber', shardedSubscriber, ['ssubscribe', 'sunsubscribe', 'on']);
  const scripts = new ScriptRunner(client);
  return {
    hasFailedToConnect: () => scripts.hasFailedToConnect,
    run: (script, key, args) =>
      scripts.run(
        script,
        () => client.evalsha(script.sha, 1, key, ...args),
        () => client.eval(script.source, 1, key, ...args),
      ),
    ...(subscriber && {
      subscribe: async (channel, onMessage) => {
        const listener = (from: string, message: string) => {
          if (from === channel) onMessage(message);
        };
        const stop = async () => {
          subscriber.off('message', listener);
          // Another SharedTokens may listen to the same channel on this connection.
          if (subscriber.listenerCount('message') === 0) await subscriber.unsubscribe(channel);
        };
        subscriber.on('message', listener);
        await subscriber.subscribe(channel).catch((error) => {
          subscriber.off('message', listener);
          throw error;
        });
        return stop;
      },
    }),
    ...(shardedSubscriber && { subscribeSharded: shardedChannels(shardedSubscriber) }),
  };
}

/** One listener for all channels: with one for each, Node would warn of a leak. */
function shardedChannels(subscriber: IoredisShardedSubscriber): NonNullable<RedisPort['subscribeSharded']> {
  const listeners = new Map<string, Set<(message: string) => void>>();
  let isListening = false;
  return async (channel, onMessage) => {
    if (!isListening) {
      subscriber.on('smessage', (from, message) => {
        for (const listener of listeners.get(from) ?? []) listener(message);
      });
      isListening = true;
    }
    const here = listeners.get(channel) ?? new Set();
    listeners.set(channel, here.add(onMessage));
    const stop = async () => {
      here.delete(onMessage);
      if (here.size > 0 || listeners.get(channel) !== here) return;
      listeners.delete(channel);
      await subscriber.sunsubscribe(channel);
    };
    await subscriber.ssubscribe(channel).catch(async (error) => {
      await stop().catch(() => {});
      throw error;
    });
    return stop;
  };
}

/** A client of the other family would fail at its first call, as if Redis were down. */
function expectMethods(of: string, name: string, value: unknown, methods: string[]): void {
  if (hasMethods(value, ...methods)) return;
  throw new OwnerTokenError('invalid_options', `${of}: ${name}: expected an object with ${methods.join(', ')}`);
}
