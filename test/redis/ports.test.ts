/** Each real client, on one server and on a cluster of three, with and without a connection for subscriptions. */

import { Cluster as Cluster6, Redis as Redis6 } from 'ioredis';
import { Cluster as Cluster5, Redis as Redis5 } from 'ioredis5';
import { Redis as Valkey, Cluster as ValkeyCluster } from 'iovalkey';
import { createClient, createCluster } from 'redis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { fromIoredis, fromNodeRedis, type RedisPort } from '../../src/redis/ports.ts';
import { ACQUIRE, RELEASE } from '../../src/redis/record-scripts.ts';
import { SharedTokens } from '../../src/redis/shared-tokens.ts';
import { FleetSource, requestOf, SEALING_KEY } from '../helpers/model-fleet.ts';
import { isBefore7, noRedis, type RedisServer, startRedis, startRedisCluster } from '../helpers/redis-server.ts';

interface Connection {
  /** The types of each client are accepted as they are: no cast below. */
  readonly port: RedisPort;
  readonly flushScripts?: () => Promise<unknown>;
  close(): unknown;
}
type Connect = (ports: number[], subscribe: boolean) => Promise<Connection>;

const nodeOf = (port: number) => ({ host: '127.0.0.1', port });
const urlOf = (port = 0) => `redis://127.0.0.1:${port}`;

const CLIENTS: Record<string, Connect> = {
  'node-redis': async ([port], subscribe) => {
    const client = createClient({ url: urlOf(port) });
    await client.connect();
    const subscriber = subscribe ? await client.duplicate().connect() : undefined;
    return {
      port: fromNodeRedis(client, subscriber && { subscriber }),
      flushScripts: () => client.scriptFlush(),
      close: () => [client.destroy(), subscriber?.destroy()],
    };
  },
  'node-redis, cluster': async (ports, subscribe) => {
    const cluster = createCluster({ rootNodes: ports.map((port) => ({ url: urlOf(port) })) });
    await cluster.connect();
    return { port: fromNodeRedis(cluster, subscribe ? { subscriber: cluster } : {}), close: () => cluster.destroy() };
  },
  'ioredis 6': async ([port = 0], subscribe) => {
    const client = new Redis6(port);
    const subscriber = subscribe ? client.duplicate() : undefined;
    return {
      port: fromIoredis(client, subscriber && { subscriber }),
      flushScripts: () => client.script('FLUSH'),
      close: () => [client.disconnect(), subscriber?.disconnect()],
    };
  },
  'ioredis 6, cluster': async (ports, subscribe) => {
    const cluster = new Cluster6(ports.map(nodeOf));
    const subscriber = subscribe ? new Cluster6(ports.map(nodeOf)) : undefined;
    return {
      port: fromIoredis(cluster, subscriber && { subscriber }),
      close: () => [cluster.disconnect(), subscriber?.disconnect()],
    };
  },
  'ioredis 5': async ([port = 0], subscribe) => {
    const client = new Redis5(port);
    const subscriber = subscribe ? client.duplicate() : undefined;
    return {
      port: fromIoredis(client, subscriber && { subscriber }),
      flushScripts: () => client.script('FLUSH'),
      close: () => [client.disconnect(), subscriber?.disconnect()],
    };
  },
  'ioredis 5, cluster': async (ports, subscribe) => {
    const cluster = new Cluster5(ports.map(nodeOf));
    const subscriber = subscribe ? new Cluster5(ports.map(nodeOf)) : undefined;
    return {
      port: fromIoredis(cluster, subscriber && { subscriber }),
      close: () => [cluster.disconnect(), subscriber?.disconnect()],
    };
  },
  'ioredis 6, cluster, sharded channels': async (ports) => {
    const cluster = new Cluster6(ports.map(nodeOf));
    const shardedSubscriber = new Cluster6(ports.map(nodeOf), { shardedSubscribers: true });
    return {
      port: fromIoredis(cluster, { shardedSubscriber }),
      close: () => [cluster.disconnect(), shardedSubscriber.disconnect()],
    };
  },
  'ioredis 5, cluster, sharded channels': async (ports) => {
    const cluster = new Cluster5(ports.map(nodeOf));
    const shardedSubscriber = new Cluster5(ports.map(nodeOf), { shardedSubscribers: true });
    return {
      port: fromIoredis(cluster, { shardedSubscriber }),
      close: () => [cluster.disconnect(), shardedSubscriber.disconnect()],
    };
  },
  'node-redis, cluster, sharded channels': async (ports) => {
    const cluster = createCluster({ rootNodes: ports.map((port) => ({ url: urlOf(port) })) });
    await cluster.connect();
    return { port: fromNodeRedis(cluster, { shardedSubscriber: cluster }), close: () => cluster.destroy() };
  },
  iovalkey: async ([port = 0], subscribe) => {
    const client = new Valkey(port);
    const subscriber = subscribe ? client.duplicate() : undefined;
    return {
      port: fromIoredis(client, subscriber && { subscriber }),
      flushScripts: () => client.script('FLUSH'),
      close: () => [client.disconnect(), subscriber?.disconnect()],
    };
  },
  'iovalkey, cluster': async (ports, subscribe) => {
    const cluster = new ValkeyCluster(ports.map(nodeOf));
    const subscriber = subscribe ? new ValkeyCluster(ports.map(nodeOf)) : undefined;
    return {
      port: fromIoredis(cluster, subscriber && { subscriber }),
      close: () => [cluster.disconnect(), subscriber?.disconnect()],
    };
  },
};

const OWNERS = Array.from({ length: 12 }, (_, index) => `owner-${index}`);

describe.skipIf(noRedis)('with real clients', () => {
  let server: RedisServer;
  let cluster: Awaited<ReturnType<typeof startRedisCluster>>;
  const opened: Connection[] = [];
  beforeAll(async () => {
    [server, cluster] = await Promise.all([startRedis(), startRedisCluster()]);
  });
  afterEach(() => {
    for (const connection of opened.splice(0)) connection.close();
  });
  afterAll(async () => {
    await server?.kill();
    await cluster?.[Symbol.asyncDispose]();
  });

  const isSharded = (name: string) => name.includes('sharded');
  const names = Object.keys(CLIENTS).filter((name) => !isBefore7 || !isSharded(name));
  const cases = names.flatMap((name) =>
    (isSharded(name) ? [true] : [true, false]).map((each) => [name, each] as const),
  );
  it.each(cases)('replicas on %s (subscriber: %s) share requests, and wake followers', async (name, subscribe) => {
    const ports = name.includes('cluster') ? cluster.ports : [server.port];
    const open = async () => {
      const connection = await (CLIENTS[name] as Connect)(ports, subscribe);
      opened.push(connection);
      return connection;
    };
    const [first, second] = await Promise.all([open(), open()]);
    expect((first.port.subscribe ?? first.port.subscribeSharded) !== undefined).toBe(subscribe);
    const source = new FleetSource();
    const shared = [first, second].map(({ port }) => {
      return new SharedTokens({
        source,
        redis: port,
        sealingKeys: [SEALING_KEY],
        // A cluster client connects to each node with its first command.
        redisTimeoutMs: 2_000,
        prefix: `${name}${subscribe}`.replace(/\W/g, ''),
      });
    });
    const wanted = shared.map((one) => Promise.all(OWNERS.map((owner) => one.requestToken(owner, requestOf()))));
    await expect.poll(() => source.calls.length, { timeout: 10_000 }).toBe(OWNERS.length);
    // All the others wait by now.
    await first.flushScripts?.();
    for (const call of source.calls) call.succeed({ response: { expires_in: 3600 } });
    const [mine, theirs] = await Promise.all(wanted);
    expect(mine?.map(({ token }) => token)).toEqual(theirs?.map(({ token }) => token));
    expect(source.calls).toHaveLength(OWNERS.length);
    const stats = shared.map((one) => one.stats());
    expect(stats.map(({ sharing, fallback }) => ({ sharing, fallback }))).toEqual(
      Array(2).fill({ sharing: true, fallback: 0 }),
    );
    await Promise.all(shared.map((one) => one.close()));
  });

  it('ports say whether their client is connected', async () => {
    const gone = await startRedis();
    const node = createClient({ url: urlOf(gone.port) });
    const clients = [new Redis6(gone.port), new Redis5(gone.port), new Valkey(gone.port)] as const;
    node.on('error', () => {});
    for (const client of clients) client.on('error', () => {});
    await node.connect();
    const ports = [fromNodeRedis(node), ...clients.map((client) => fromIoredis(client))];
    opened.push({
      port: ports[0] as RedisPort,
      close: () => [node.destroy(), ...clients.map((client) => client.disconnect())],
    });
    const states = () => ports.map((port) => port.isReady?.());
    await expect.poll(states, { timeout: 10_000 }).toEqual([true, true, true, true]);
    await gone.kill();
    await expect.poll(states, { timeout: 10_000 }).toEqual([false, false, false, false]);
    const back = await startRedis({ port: gone.port });
    await expect.poll(states, { timeout: 10_000 }).toEqual([true, true, true, true]);
    await back.kill();
  });

  it('buffers in a reply of Redis are read like text', async () => {
    const connection = await (CLIENTS['node-redis'] as Connect)([server.port], false);
    opened.push(connection);
    const asBuffers: RedisPort = {
      run: async (...call) => ((await connection.port.run(...call)) as string[]).map((word) => Buffer.from(word)),
    };
    const source = FleetSource.answering();
    const shared = new SharedTokens({ source, redis: asBuffers, sealingKeys: [SEALING_KEY], prefix: 'buffers' });
    for (let call = 0; call < 2; call++) await shared.requestToken('owner', requestOf());
    expect(source.calls).toHaveLength(1);
  });

  it('a subscriber with two listeners keeps serving one when the other stops', async () => {
    const client = new Redis6(server.port);
    const subscriber = client.duplicate();
    opened.push({ port: fromIoredis(client), close: () => [client.disconnect(), subscriber.disconnect()] });
    const port = fromIoredis(client, { subscriber });
    const heard: string[] = [];
    const stop = await port.subscribe?.('channel', (message) => heard.push(`one ${message}`));
    const stopOther = await port.subscribe?.('channel', (message) => heard.push(`two ${message}`));
    await stop?.();
    await client.publish('channel', 'hello');
    await expect.poll(() => heard, { timeout: 10_000 }).toEqual(['two hello']);
    await stopOther?.();
    expect(await client.pubsub('NUMSUB', 'channel')).toEqual(['channel', 0]);
  });
});

describe('ports', () => {
  it('refuse a client of the other family, which would look like a Redis that is down', () => {
    expect(() => fromNodeRedis({ evalsha: () => {}, eval: () => {} } as never)).toThrow(/evalSha/);
    expect(() => fromIoredis({ evalSha: () => {}, eval: () => {} } as never)).toThrow(/evalsha/);
    expect(() => fromIoredis({ evalsha: () => {}, eval: () => {} } as never, { subscriber: {} as never })).toThrow(
      /subscriber/,
    );
  });

  it('send the whole script until the server has run it, and again when the server has lost it', async () => {
    const calls: string[] = [];
    let known = true;
    const port = fromNodeRedis({
      evalSha: async (sha) => {
        calls.push(sha);
        if (!known) throw new Error('NOSCRIPT No matching script.');
      },
      eval: async (source) => void calls.push(source),
    });
    // None of those that start together waits for the first.
    await Promise.all([port.run(ACQUIRE, 'k', []), port.run(ACQUIRE, 'k', [])]);
    await port.run(ACQUIRE, 'k', []);
    known = false;
    await port.run(ACQUIRE, 'k', []);
    await port.run(RELEASE, 'k', []);
    const { sha, source } = ACQUIRE;
    expect(calls).toEqual([source, source, sha, sha, source, RELEASE.source]);
  });
});
