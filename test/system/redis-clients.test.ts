/**
 * Row L2, the clients as the fleet page sets them up: connections that die silently, and exactly the documented rights,
 * on a cluster while its slots move and behind sentinels.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Cluster, Redis } from 'ioredis';
import { createClient, createCluster } from 'redis';
import { afterEach, describe, expect, it } from 'vitest';
import { fromIoredis, fromNodeRedis, type RedisPort, SharedTokens } from '../../src/redis/index.ts';
import { Names, namingKeyFrom } from '../../src/redis/names.ts';
import { FleetSource, requestOf, SEALING_KEY } from '../helpers/model-fleet.ts';
import { freePort, noRedis, startRedis, startRedisCluster } from '../helpers/redis-server.ts';
import { TcpProxy } from '../helpers/tcp-proxy.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** The rights that the fleet page names for a topology. */
function documentedRights(topology: string): string[] {
  const page = readFileSync('docs/fleet.md', 'utf8');
  const [, line = ''] = /^ACL SETUSER otr (.*)$/m.exec(page) ?? [];
  const [row = ''] = page.split('\n').filter((each) => each.startsWith(`- ${topology}: `));
  return ['otr', 'reset', ...line.split(' '), ...[...row.matchAll(/\+[a-z|-]+/g)].map(([right]) => right)];
}

const USER = { username: 'otr', password: 'password' };
const sharedOver = (source: FleetSource, redis: RedisPort) =>
  new SharedTokens({ source, redis, sealingKeys: [SEALING_KEY], redisTimeoutMs: 2_000 });

describe.skipIf(noRedis)('L2: a connection that dies silently', () => {
  const connect: Record<string, (port: number) => Promise<RedisPort>> = {
    'node-redis': async (port) => {
      const client = createClient({
        url: `redis://127.0.0.1:${port}`,
        pingInterval: 1_000,
        socket: { socketTimeout: 3_000, reconnectStrategy: (retries) => Math.min(100 * 2 ** retries, 2_000) },
      });
      client.on('error', () => {});
      await client.connect();
      closing.push(() => client.destroy());
      return fromNodeRedis(client);
    },
    ioredis: async (port) => {
      const client = new Redis(port, { socketTimeout: 3_000 });
      client.on('error', () => {});
      closing.push(() => client.disconnect());
      return fromIoredis(client);
    },
  };

  it.each(['node-redis', 'ioredis'])(
    '%s shares again with the documented options',
    { timeout: 60_000 },
    async (name) => {
      const server = await startRedis();
      const proxy = await TcpProxy.start(server.port);
      closing.push(
        () => server.kill(),
        () => proxy[Symbol.asyncDispose](),
      );
      const source = FleetSource.answering();
      const shared = sharedOver(source, await (connect[name] as (port: number) => Promise<RedisPort>)(proxy.port));
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
});

describe.skipIf(noRedis)('L2: the documented rights', () => {
  it.each(['ioredis', 'node-redis'])(
    '%s: are enough on a cluster whose slots move',
    { timeout: 60_000 },
    async (name) => {
      const cluster = await startRedisCluster();
      closing.push(() => cluster[Symbol.asyncDispose]());
      const nodes = cluster.ports.map((port) => new Redis(port));
      closing.push(() => nodes.map((node) => node.disconnect()));
      for (const node of nodes) await node.call('ACL', 'SETUSER', ...documentedRights('cluster'));
      const [from, to] = nodes as [Redis, Redis];
      const [fromId, toId] = [await from.call('CLUSTER', 'MYID'), await to.call('CLUSTER', 'MYID')] as [string, string];
      const names = new Names('otr', namingKeyFrom(SEALING_KEY));
      const owners: string[] = [];
      for (let index = 0; owners.length < 20; index++) {
        const slot = Number(
          await from.call('CLUSTER', 'KEYSLOT', names.ofOwner('endpoint and client', `owner-${index}`)),
        );
        if (slot > 5_460) continue;
        owners.push(`owner-${index}`);
        await to.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', fromId);
        await from.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', toId);
      }
      const open = async (): Promise<RedisPort> => {
        if (name === 'node-redis') {
          const rootNodes = cluster.ports.map((port) => ({ url: `redis://127.0.0.1:${port}` }));
          const client = createCluster({ rootNodes, defaults: USER });
          await client.connect();
          closing.push(() => client.destroy());
          return fromNodeRedis(client);
        }
        const client = new Cluster(
          cluster.ports.map((port) => ({ host: '127.0.0.1', port })),
          { redisOptions: USER },
        );
        closing.push(() => client.disconnect());
        return fromIoredis(client);
      };
      const source = FleetSource.answering();
      const shared = [sharedOver(source, await open()), sharedOver(source, await open())];
      for (const one of shared) for (const owner of owners) await one.requestToken(owner, requestOf());
      expect(source.calls).toHaveLength(owners.length);
      expect(shared.map((one) => one.stats().fallback)).toEqual([0, 0]);
      for (const node of nodes) expect(await node.call('ACL', 'LOG')).toEqual([]);
    },
  );

  it('are enough behind sentinels, through a failover', { timeout: 60_000 }, async () => {
    const master = await startRedis();
    const rights = ['--user', ...documentedRights('sentinel').filter((right) => right !== 'reset')];
    const replica = await startRedis({ args: ['--replicaof', '127.0.0.1', `${master.port}`, ...rights] });
    closing.push(
      () => master.kill(),
      () => replica.kill(),
    );
    const admin = new Redis(master.port);
    closing.push(() => admin.disconnect());
    await admin.call('ACL', 'SETUSER', ...documentedRights('sentinel'));
    const port = await freePort();
    const config = join(mkdtempSync(join(tmpdir(), 'otr-sentinel-')), 'sentinel.conf');
    writeFileSync(
      config,
      `port ${port}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 ${master.port} 1\nsentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 3000\n`,
    );
    const sentinel: ChildProcess = spawn('redis-sentinel', [config], { stdio: 'ignore' });
    closing.push(() => sentinel.kill('SIGKILL'));
    const client = new Redis({ sentinels: [{ host: '127.0.0.1', port }], name: 'main', ...USER, socketTimeout: 3_000 });
    client.on('error', () => {});
    closing.push(() => client.disconnect());
    const source = FleetSource.answering();
    const shared = sharedOver(source, fromIoredis(client));
    await expect
      .poll(async () => (await shared.requestToken('warm', requestOf())) && shared.stats().leader, { timeout: 10_000 })
      .toBeGreaterThan(0);
    const watcher = new Redis(port);
    watcher.on('error', () => {});
    closing.push(() => watcher.disconnect());
    await expect
      .poll(async () => `${await watcher.call('SENTINEL', 'REPLICAS', 'main')}`, { timeout: 15_000 })
      .toContain(`${replica.port}`);
    admin.disconnect();
    await master.kill();
    let calls = 0;
    const leads = async () => {
      const before = shared.stats().leader;
      await shared.requestToken(`owner-${calls++}`, requestOf());
      return shared.stats().leader > before;
    };
    await expect.poll(leads, { timeout: 30_000, interval: 250 }).toBe(true);
  });
});
