/**
 * Row L2, the clients as the fleet page sets them up: connections that die silently, and exactly the documented rights,
 * on one server, on a cluster while its slots move, and behind sentinels.
 */

import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Cluster, Redis } from 'ioredis';
import { Redis as Valkey } from 'iovalkey';
import { createClient, createCluster, createSentinel } from 'redis';
import { afterEach, describe, expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import { fromIoredis, fromNodeRedis, type RedisPort, SharedTokens } from '../../src/redis/index.ts';
import { Names, namingKeyFrom } from '../../src/redis/sealing.ts';
import { AccessToken } from '../../src/token.ts';
import { denied, documentedRights, USER } from '../helpers/documented-rights.ts';
import { FleetSource, requestOf, SEALING_KEY } from '../helpers/model-fleet.ts';
import { freePort, isBefore7, noRedis, startRedis, startRedisCluster } from '../helpers/redis-server.ts';
import { TcpProxy } from '../helpers/tcp-proxy.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const sharedOver = (source: FleetSource, redis: RedisPort) =>
  new SharedTokens({ source, redis, sealingKeys: [SEALING_KEY], redisTimeoutMs: 2_000, requestsPerSecond: 500 });

/** All that replicas do for these owners: lead, follow, be woken, reject, fail, keep to a quota, leave. */
async function exercise(ports: readonly [RedisPort, RedisPort], owners: string[]): Promise<SharedTokens[]> {
  const source = new FleetSource();
  const shared = ports.map((port) => sharedOver(source, port));
  const [first, second] = shared as [SharedTokens, SharedTokens];
  const answering = (count: number) => expect.poll(() => source.calls.length, { timeout: 15_000 }).toBe(count);
  for (const [index, owner] of owners.entries()) {
    const leading = first.requestToken(owner, requestOf());
    await answering(index + 1);
    const following = second.requestToken(owner, requestOf());
    source.call(index).succeed({ response: { expires_in: 3600 } });
    expect((await leading).token).toBe((await following).token);
  }
  const [owner = ''] = owners;
  const { token } = await second.requestToken(owner, requestOf());
  const rejected = new AccessToken({
    value: token,
    tokenType: 'Bearer',
    fingerprint: '',
    issuedAtMs: 0,
    refreshAtMs: 1,
    expiresAtMs: 1,
  });
  source.script((call) =>
    call.fail(new OwnerTokenError('endpoint_unavailable', 'down', { failureScope: 'endpoint', status: 503 })),
  );
  const failing = (one: SharedTokens) => one.requestToken(owner, requestOf({ reason: 'rejected', rejected }));
  await expect(failing(first)).rejects.toMatchObject({ status: 503 });
  await expect(failing(second)).rejects.toMatchObject({ status: 503 });
  // The second one may still have met the lease of the first, and shared its failure.
  expect(source.calls).toHaveLength(owners.length + 2 - second.stats().refused);
  expect(shared.map((one) => one.stats().fallback)).toEqual([0, 0]);
  await Promise.all(shared.map((one) => one.close()));
  return shared;
}

describe.skipIf(noRedis)('L2: after a connection died silently', () => {
  /** An option's value as the fleet page gives it. */
  const documented = (option: string) => {
    const [, value = ''] = new RegExp(`${option}: ([\\d_]+)`).exec(readFileSync('docs/fleet-setup.md', 'utf8')) ?? [];
    return Number(value.replaceAll('_', ''));
  };
  const [pingInterval, socketTimeout] = [documented('pingInterval'), documented('socketTimeout')];

  const connect: Record<string, (port: number) => Promise<RedisPort>> = {
    'node-redis': async (port) => {
      const client = createClient({
        url: `redis://127.0.0.1:${port}`,
        pingInterval,
        socket: { socketTimeout, reconnectStrategy: (retries) => Math.min(100 * 2 ** retries, 2_000) },
      });
      const subscriber = client.duplicate();
      for (const each of [client, subscriber]) {
        each.on('error', () => {});
        await each.connect();
        closing.push(() => each.destroy());
      }
      return fromNodeRedis(client, { subscriber });
    },
    ioredis: async (port) => {
      const client = new Redis(port, { socketTimeout });
      const subscriber = client.duplicate();
      for (const each of [client, subscriber]) {
        each.on('error', () => {});
        closing.push(() => each.disconnect());
      }
      return fromIoredis(client, { subscriber });
    },
  };

  it.each(Object.entries(connect))(
    '%s shares again, with the documented options',
    { timeout: 60_000 },
    async (_, open) => {
      const { proxy } = await startBehindProxy();
      const source = FleetSource.answering();
      const shared = sharedOver(source, await open(proxy.port));
      await shared.requestToken('before', requestOf());
      proxy.silenceAll();
      let calls = 0;
      const shares = async () => {
        await shared.requestToken(`owner-${calls++}`, requestOf());
        return shared.stats().sharing && shared.stats().leader > 1;
      };
      await expect.poll(shares, { timeout: 30_000, interval: 250 }).toBe(true);
    },
  );

  /** A server, and a proxy before it that can fall silent. */
  async function startBehindProxy() {
    const server = await startRedis();
    const proxy = await TcpProxy.start(server.port);
    closing.push(
      () => server.kill(),
      () => proxy[Symbol.asyncDispose](),
    );
    return { server, proxy };
  }

  it('ioredis shares again on every node of a cluster', {
    timeout: 60_000,
  }, async () => {
    const cluster = await startRedisCluster();
    const proxies = await Promise.all(cluster.ports.map((port) => TcpProxy.start(port)));
    const through = proxies.map(({ port }) => ({ host: '127.0.0.1', port }));
    const natMap = Object.fromEntries(
      cluster.ports.map((port, node) => [`127.0.0.1:${port}`, through[node] as { host: string; port: number }]),
    );
    closing.push(
      () => cluster[Symbol.asyncDispose](),
      () => proxies.map((proxy) => proxy[Symbol.asyncDispose]()),
    );
    const [client, subscriber] = [0, 1].map(() => {
      const opened = new Cluster(through, { natMap, redisOptions: { socketTimeout } });
      opened.on('error', () => {});
      closing.push(() => opened.disconnect());
      return opened;
    }) as [Cluster, Cluster];
    const shared = sharedOver(FleetSource.answering(), fromIoredis(client, { subscriber }));
    await shared.requestToken('before', requestOf());
    for (const proxy of proxies) proxy.silenceAll();
    let calls = 0;
    const shares = async () => {
      const before = shared.stats().leader;
      // On each of the three nodes, with a probability of 0.999.
      await Promise.all(Array.from({ length: 20 }, () => shared.requestToken(`owner-${calls++}`, requestOf())));
      return shared.stats().leader - before === 20;
    };
    await expect.poll(shares, { timeout: 40_000, interval: 250 }).toBe(true);
  });
});

describe.skipIf(noRedis)('the documented end of a process', () => {
  it('leaves no connection open that node-redis was still making', async () => {
    const server = await startRedis();
    const admin = new Redis(server.port);
    closing.push(
      () => server.kill(),
      () => admin.disconnect(),
    );
    const [, ending = ''] = /\nfor \(const each of \[client, subscriber\]\) \{\n((?: .*\n)* .*destroy.*\n)\}\n/.exec(
      readFileSync('docs/fleet-setup.md', 'utf8'),
    ) as RegExpExecArray;
    const end = new Function('each', ending);
    const client = createClient({ url: server.url });
    client.on('error', () => {});
    const connecting = client.connect().catch(() => 'ended');
    end(client);
    expect(await connecting).toBe('ended');
    const connections = async () => Number(/connected_clients:(\d+)/.exec(await admin.info('clients'))?.[1]);
    await expect.poll(connections, { timeout: 10_000 }).toBe(1);
  });
});

describe.skipIf(noRedis)('L2: on one server', () => {
  const nodeRedis = (RESP: 2 | 3) => async (port: number) => {
    const client = createClient({ url: `redis://127.0.0.1:${port}`, RESP, ...USER });
    const subscriber = client.duplicate();
    closing.push(() => [client.destroy(), subscriber.destroy()]);
    for (const each of [client, subscriber]) await each.connect();
    return fromNodeRedis(client, { subscriber });
  };
  // ioredis and iovalkey know RESP2 only.
  const open: Record<string, (port: number) => Promise<RedisPort>> = {
    'node-redis, RESP2': nodeRedis(2),
    'node-redis, RESP3': nodeRedis(3),
    ioredis: async (port) => {
      const client = new Redis(port, USER);
      const subscriber = client.duplicate();
      closing.push(() => [client.disconnect(), subscriber.disconnect()]);
      return fromIoredis(client, { subscriber });
    },
    iovalkey: async (port) => {
      const client = new Valkey(port, USER);
      const subscriber = client.duplicate();
      closing.push(() => [client.disconnect(), subscriber.disconnect()]);
      return fromIoredis(client, { subscriber });
    },
  };
  it.each(Object.entries(open))('%s needs only the documented rights', async (_, connect) => {
    const server = await startRedis();
    const admin = new Redis(server.port);
    closing.push(
      () => server.kill(),
      () => admin.disconnect(),
    );
    await admin.call('ACL', 'SETUSER', ...documentedRights('standalone'));
    await exercise([await connect(server.port), await connect(server.port)], ['one', 'two']);
    expect(await denied(admin)).toEqual([]);
  });
});

describe.skipIf(noRedis)('L2: on a cluster whose slots move', () => {
  const open: Record<string, (ports: number[]) => Promise<RedisPort>> = {
    ioredis: async (ports) => {
      const client = ioredisCluster(ports);
      return fromIoredis(client, { subscriber: ioredisCluster(ports) });
    },
    'ioredis, sharded channels': async (ports) => {
      const client = ioredisCluster(ports);
      return fromIoredis(client, { shardedSubscriber: ioredisCluster(ports, true) });
    },
    'node-redis': async (ports) => {
      const client = await nodeRedisCluster(ports);
      return fromNodeRedis(client, { subscriber: client });
    },
    'node-redis, sharded channels': async (ports) => {
      const client = await nodeRedisCluster(ports);
      return fromNodeRedis(client, { shardedSubscriber: client });
    },
  };
  function ioredisCluster(ports: number[], shardedSubscribers = false): Cluster {
    const nodes = ports.map((port) => ({ host: '127.0.0.1', port }));
    const cluster = new Cluster(nodes, { redisOptions: USER, shardedSubscribers });
    closing.push(() => cluster.disconnect());
    return cluster;
  }
  async function nodeRedisCluster(ports: number[]) {
    const rootNodes = ports.map((port) => ({ url: `redis://127.0.0.1:${port}` }));
    const client = createCluster({ rootNodes, defaults: USER });
    await client.connect();
    closing.push(() => client.destroy());
    return client;
  }

  /** Three masters, and 20 owners whose slots are moving from the first to the second. */
  async function resharding() {
    const cluster = await startRedisCluster();
    closing.push(() => cluster[Symbol.asyncDispose]());
    const nodes = cluster.ports.map((port) => new Redis(port));
    closing.push(() => nodes.map((node) => node.disconnect()));
    for (const node of nodes) await node.call('ACL', 'SETUSER', ...documentedRights('cluster'));
    const [from, to] = nodes as [Redis, Redis];
    const [fromId, toId] = [await from.call('CLUSTER', 'MYID'), await to.call('CLUSTER', 'MYID')] as [string, string];
    const names = new Names('otr', namingKeyFrom(SEALING_KEY));
    const owners: string[] = [];
    const slots: number[] = [];
    for (let index = 0; owners.length < 20; index++) {
      const name = names.ofOwner('endpoint and client', `owner-${index}`);
      const slot = Number(await from.call('CLUSTER', 'KEYSLOT', name));
      if (slot > 5_460) continue;
      owners.push(`owner-${index}`);
      slots.push(slot);
      await to.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', fromId);
      await from.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', toId);
    }
    const finish = async () => {
      for (const slot of slots) {
        for (const node of [to, from]) await node.call('CLUSTER', 'SETSLOT', slot, 'NODE', toId);
      }
    };
    return { ports: cluster.ports, nodes, owners, finish };
  }

  it.each(Object.keys(open))('%s needs only the documented rights', { timeout: 60_000 }, async (name) => {
    if (isBefore7 && name.includes('sharded')) return;
    const { ports, nodes, owners, finish } = await resharding();
    const connect = open[name] as (ports: number[]) => Promise<RedisPort>;
    const clients = [await connect(ports), await connect(ports)] as const;
    await exercise(clients, owners);
    await finish();
    // Its clients still have the old map of the slots.
    const source = FleetSource.answering();
    const shared = clients.map((port) => sharedOver(source, port));
    for (const one of shared) for (const owner of owners.slice(1)) await one.requestToken(owner, requestOf());
    expect(source.calls).toHaveLength(0);
    expect(shared.map((one) => one.stats())).toMatchObject(Array(2).fill({ shared: 19, fallback: 0 }));
    for (const node of nodes) expect(await denied(node)).toEqual([]);
  });

  it.skipIf(isBefore7).each(['ioredis, sharded channels', 'node-redis, sharded channels'])(
    '%s: a follower listens on the channel of its record alone, and is woken on it',
    { timeout: 60_000 },
    async (name) => {
      const { ports, nodes } = await resharding();
      const connect = open[name] as (ports: number[]) => Promise<RedisPort>;
      const source = new FleetSource();
      // A lease so long that only the message can wake the follower in time.
      const shared = [await connect(ports), await connect(ports)].map(
        (redis) =>
          new SharedTokens({ source, redis, sealingKeys: [SEALING_KEY], redisTimeoutMs: 2_000, leaseMs: 60_000 }),
      );
      const channels = async (...kind: string[]) =>
        ((await Promise.all(nodes.map((node) => node.call('PUBSUB', ...kind)))) as string[][]).flat();
      const [leading] = shared.map((one) => one.requestToken('owner', requestOf()));
      await expect.poll(() => source.calls.length, { timeout: 10_000 }).toBe(1);
      const following = (shared[1] as SharedTokens).requestToken('owner', requestOf());
      const record = new Names('otr', namingKeyFrom(SEALING_KEY)).ofOwner('endpoint and client', 'owner');
      await expect.poll(() => channels('SHARDCHANNELS'), { timeout: 10_000 }).toContain(record);
      expect((await channels('CHANNELS')).filter((channel) => channel.startsWith('otr'))).toEqual([]);
      source.call(0).succeed({ response: { expires_in: 3600 } });
      expect((await following).token).toBe((await leading)?.token);
      await expect.poll(() => channels('SHARDCHANNELS'), { timeout: 10_000 }).not.toContain(record);
      await Promise.all(shared.map((one) => one.close()));
      await expect.poll(() => channels('SHARDCHANNELS'), { timeout: 10_000 }).toEqual([]);
    },
  );
});

describe.skipIf(noRedis)('L2: behind sentinels', () => {
  const open: Record<string, (sentinel: number) => Promise<RedisPort>> = {
    ioredis: async (port) => {
      const client = new Redis({
        sentinels: [{ host: '127.0.0.1', port }],
        name: 'main',
        socketTimeout: 3_000,
        ...USER,
      });
      client.on('error', () => {});
      closing.push(() => client.disconnect());
      return fromIoredis(client);
    },
    'node-redis': async (port) => {
      const client = createSentinel({
        name: 'main',
        sentinelRootNodes: [{ host: '127.0.0.1', port }],
        nodeClientOptions: USER,
        scanInterval: 500,
      });
      client.on('error', () => {});
      await client.connect();
      closing.push(() => client.destroy());
      return fromNodeRedis(client);
    },
  };

  it.each(Object.keys(open))(
    '%s needs only the documented rights, through a failover',
    { timeout: 60_000 },
    async (name) => {
      const master = await startRedis();
      const rights = documentedRights('sentinel');
      const user = ['--user', ...rights.filter((right) => right !== 'reset')];
      const replica = await startRedis({ args: ['--replicaof', '127.0.0.1', `${master.port}`, ...user] });
      const [admin, heir] = [new Redis(master.port), new Redis(replica.port)];
      closing.push(
        () => master.kill(),
        () => replica.kill(),
        () => [admin.disconnect(), heir.disconnect()],
      );
      await admin.call('ACL', 'SETUSER', ...rights);
      const port = await startSentinel(master.port);
      const source = FleetSource.answering();
      const shared = sharedOver(source, await (open[name] as (port: number) => Promise<RedisPort>)(port));
      await expect
        .poll(async () => (await shared.requestToken('warm', requestOf())) && shared.stats().leader, {
          timeout: 10_000,
        })
        .toBeGreaterThan(0);
      const watcher = new Redis(port);
      watcher.on('error', () => {});
      closing.push(() => watcher.disconnect());
      await expect
        .poll(async () => `${await watcher.call('SENTINEL', 'REPLICAS', 'main')}`, { timeout: 15_000 })
        .toContain(`${replica.port}`);
      expect(await denied(admin)).toEqual([]);
      admin.disconnect();
      await master.kill();
      let calls = 0;
      const leads = async () => {
        const before = shared.stats().leader;
        await shared.requestToken(`owner-${calls++}`, requestOf());
        return shared.stats().leader > before;
      };
      await expect.poll(leads, { timeout: 30_000, interval: 250 }).toBe(true);
      expect(await denied(heir)).toEqual([]);
    },
  );

  async function startSentinel(master: number): Promise<number> {
    const port = await freePort();
    const config = join(temporaryFolder(), 'sentinel.conf');
    const settings = [
      `port ${port}`,
      'bind 127.0.0.1',
      `sentinel monitor main 127.0.0.1 ${master} 1`,
      'sentinel down-after-milliseconds main 1000',
      'sentinel failover-timeout main 3000',
    ];
    writeFileSync(config, `${settings.join('\n')}\n`);
    const sentinel = spawn('redis-sentinel', [config], { stdio: 'ignore' });
    closing.push(() => sentinel.kill('SIGKILL'));
    return port;
  }
});
