/**
 * What is asked of a Redis client, and the two families of clients that can do it. They are the user's: never made,
 * connected, duplicated or closed here, and known by their methods alone, so any version that has these will do.
 */

import { OwnerTokenError } from '../errors.ts';
import { hasMethods } from '../option-check.ts';
import type { RecordScript } from './record-scripts.ts';

/** The two things that sharing needs of Redis. */
export interface RedisPort {
  /** Runs a script over one key and gives its answer as it came. */
  run(script: RecordScript, key: string, args: readonly string[]): Promise<unknown>;
  /** Listens to a channel, and gives what ends that. Absent: waiters look again from time to time instead. */
  subscribe?(channel: string, onMessage: (message: string) => void): Promise<() => Promise<void>>;
}

/** The part of node-redis's clients, single and cluster, that is used. */
export interface NodeRedisClient {
  evalSha(sha: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  eval(source: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
}

/** A connection of node-redis that is kept for subscriptions: `client.duplicate()`, connected. */
export interface NodeRedisSubscriber {
  subscribe(channel: string, listener: (message: string | Uint8Array) => void): Promise<unknown>;
  unsubscribe(channel: string, listener: (message: string | Uint8Array) => void): Promise<unknown>;
}

/** The part of ioredis's and iovalkey's clients, single and cluster, that is used. */
export interface IoredisClient {
  evalsha(sha: string, keys: number, ...keysAndArgs: string[]): Promise<unknown>;
  eval(source: string, keys: number, ...keysAndArgs: string[]): Promise<unknown>;
}

/** A connection of ioredis or iovalkey that is kept for subscriptions: `client.duplicate()`. */
export interface IoredisSubscriber {
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  on(event: 'message', listener: (channel: string, message: string) => void): unknown;
  off(event: 'message', listener: (channel: string, message: string) => void): unknown;
  listenerCount(event: 'message'): number;
}

/** Of node-redis: a client, a pool or a cluster. */
export function fromNodeRedis(client: NodeRedisClient, options: { subscriber?: NodeRedisSubscriber } = {}): RedisPort {
  const { subscriber } = options;
  expectMethods('fromNodeRedis', 'client', client, ['evalSha', 'eval']);
  if (subscriber) expectMethods('fromNodeRedis', 'subscriber', subscriber, ['subscribe', 'unsubscribe']);
  return {
    run: (script, key, args) => {
      const call = { keys: [key], arguments: [...args] };
      return byShaFirst(
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
  };
}

/** Of ioredis or iovalkey: a client or a cluster. */
export function fromIoredis(client: IoredisClient, options: { subscriber?: IoredisSubscriber } = {}): RedisPort {
  const { subscriber } = options;
  expectMethods('fromIoredis', 'client', client, ['evalsha', 'eval']);
  if (subscriber)
    expectMethods('fromIoredis', 'subscriber', subscriber, ['subscribe', 'unsubscribe', 'on', 'off', 'listenerCount']);
  return {
    run: (script, key, args) =>
      byShaFirst(
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
          // The connection may serve another one of these, which listens to the same channel.
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
  };
}

/** By its digest, and whole when the server does not know it: new, restarted, or its scripts flushed. */
async function byShaFirst(bySha: () => Promise<unknown>, whole: () => Promise<unknown>): Promise<unknown> {
  try {
    return await bySha();
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
    return whole();
  }
}

/** A client of the other family would fail at the first call, which would then pass for a Redis that is down. */
function expectMethods(of: string, name: string, value: unknown, methods: string[]): void {
  if (hasMethods(value, ...methods)) return;
  throw new OwnerTokenError('invalid_options', `${of}: ${name}: expected an object with ${methods.join(', ')}`);
}
