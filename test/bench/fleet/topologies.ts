/** A Redis for each fault: one server, with a replica, with a sentinel, with TLS, or a cluster of three masters. */

import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import type { ReplicaOptions } from '../../helpers/fleet-worker.ts';
import { LOOPBACK_CERTIFICATE, LOOPBACK_KEY } from '../../helpers/loopback-certificate.ts';
import { freePort, type RedisServer, startRedis, startRedisCluster } from '../../helpers/redis-server.ts';
import { TcpProxy } from '../../helpers/tcp-proxy.ts';

export type Topology = 'sentinel' | 'replica' | 'tls' | 'cluster';

/** A Redis as the replicas reach it. */
export interface At {
  server: RedisServer;
  readonly proxy: TcpProxy;
  /** The way of the connections for wake-ups. */
  readonly subscribers: TcpProxy;
  readonly admin: Redis;
  /** The port of the server's replica, if it has one. */
  readonly heirPort: number;
  readonly heirAdmin?: Redis;
  readonly sentinel?: Redis;
  /** The way of the replica to its master. */
  readonly replication?: TcpProxy;
  /** Moves a slot of a cluster, and its keys, to another node. */
  moveSlots?(): void;
  timer?: ReturnType<typeof setInterval>;
  /** How the replicas connect. */
  readonly options: Partial<ReplicaOptions>;
  stop(): Promise<void>;
}

export const APP = ['app', 'on', '>pw', '~*', '&*', '+@all'] as const;
const USERS = ['--user', ...APP, '--user', 'default', 'on', 'nopass', '~*', '&*', '+@all'];

/** The names of certificates: the second one has run out. */
export const [VALID, EXPIRED] = ['valid.pem', 'expired.pem'];

export async function startTopology(topology?: Topology): Promise<At> {
  if (topology === 'cluster') return startCluster();
  const tls = topology === 'tls' ? await tlsArguments() : undefined;
  const server = await startRedis({ args: [...USERS, ...(tls?.args ?? [])] });
  const port = tls?.port ?? server.port;
  const [proxy, subscribers, replication] = await Promise.all([port, port, server.port].map(TcpProxy.start));
  if (!proxy || !subscribers || !replication) throw new Error('no proxy');
  const admin = quiet(new Redis(server.port));
  // A sentinel corrects a replica that follows another address than the master's.
  const master = topology === 'sentinel' ? server.port : topology === 'replica' ? replication.port : undefined;
  const heir = master && (await startRedis({ args: ['--replicaof', '127.0.0.1', `${master}`, ...USERS] }));
  const heirAdmin = heir && quiet(new Redis(heir.port));
  const sentinel = topology === 'sentinel' ? await startSentinel(server.port) : undefined;
  if (topology === 'replica') await sleep(2_000);
  const at: At = {
    ...{ server, proxy, subscribers, admin, replication },
    ...(heir && heirAdmin ? { heirPort: heir.port, heirAdmin } : { heirPort: 0 }),
    ...(sentinel && { sentinel: sentinel.admin }),
    options: sentinel
      ? { redisPort: sentinel.port, topology: 'sentinel' }
      : { redisPort: proxy.port, subscriberPort: subscribers.port, ...(tls && { ca: LOOPBACK_CERTIFICATE }) },
    stop: async () => {
      clearInterval(at.timer);
      sentinel?.stop();
      admin.disconnect();
      if (heirAdmin) heirAdmin.disconnect();
      await Promise.all([proxy, subscribers, replication].map((each) => each[Symbol.asyncDispose]()));
      at.server.process.kill('SIGCONT');
      await Promise.all([at.server.kill(), heir ? heir.kill() : undefined]);
    },
  };
  return at;
}

/** A sentinel that promotes the server's replica two seconds after the server's end. */
async function startSentinel(master: number) {
  const port = await freePort();
  const config = join(mkdtempSync(join(tmpdir(), 'otr-sentinel-')), 'sentinel.conf');
  const settings = [
    ...[`port ${port}`, 'bind 127.0.0.1', `sentinel monitor main 127.0.0.1 ${master} 1`],
    ...['sentinel down-after-milliseconds main 2000', 'sentinel failover-timeout main 5000'],
  ];
  writeFileSync(config, `${settings.join('\n')}\n`);
  const sentinel = spawn('redis-sentinel', [config], { stdio: 'ignore' });
  await sleep(3_000);
  const admin = quiet(new Redis(port));
  return { port, admin, stop: () => [admin.disconnect(), sentinel.kill('SIGKILL')] };
}

/** The certificates differ only in their end. */
async function tlsArguments() {
  const folder = mkdtempSync(join(tmpdir(), 'otr-tls-'));
  const at = (name: string) => join(folder, name);
  writeFileSync(at('key.pem'), LOOPBACK_KEY);
  writeFileSync(at(VALID), LOOPBACK_CERTIFICATE);
  writeFileSync(at('names'), 'subjectAltName=IP:127.0.0.1');
  const openssl = (text: string) => execFileSync('openssl', text.split(' '), { cwd: folder, stdio: 'pipe' });
  openssl('req -new -key key.pem -subj /CN=redis -out request.pem');
  openssl(`x509 -req -in request.pem -CA ${VALID} -CAkey key.pem -set_serial 2 -days 0 -extfile names -out ${EXPIRED}`);
  const port = await freePort();
  const files = ['--tls-cert-file', at(VALID), '--tls-key-file', at('key.pem'), '--tls-ca-cert-file', at(VALID)];
  return { port, args: ['--tls-port', `${port}`, '--tls-auth-clients', 'no', ...files] };
}

/** Open connections stay as they are. */
export async function withCertificate({ admin }: At, name: string): Promise<void> {
  const [, file = ''] = (await admin.config('GET', 'tls-cert-file')) as string[];
  await admin.config('SET', 'tls-cert-file', file.replace(/[^/]+$/, name));
}

async function startCluster(): Promise<At> {
  const cluster = await startRedisCluster();
  const nodes = cluster.ports.map((port) => quiet(new Redis(port)));
  const ids = await Promise.all(nodes.map((node) => node.call('CLUSTER', 'MYID') as Promise<string>));
  const ownerOf = (slot: number) => (slot < 5_461 ? 0 : slot < 10_923 ? 1 : 2);
  const next = new Map<number, number>();
  let [slot, moving] = [0, false];
  const move = async () => {
    const from = next.get(slot) ?? ownerOf(slot);
    const to = (from + 1) % 3;
    next.set(slot, to);
    const on = (index: number, ...rest: (string | number)[]) => nodes[index]?.call('CLUSTER', 'SETSLOT', slot, ...rest);
    await on(to, 'IMPORTING', ids[from] as string);
    await on(from, 'MIGRATING', ids[to] as string);
    await sleep(100); // Calls meet the slot while it is in neither place.
    const keys = (await nodes[from]?.call('CLUSTER', 'GETKEYSINSLOT', slot, 100)) as string[];
    if (keys.length > 0)
      await nodes[from]?.call('MIGRATE', '127.0.0.1', `${cluster.ports[to]}`, '', 0, 1_000, 'KEYS', ...keys);
    for (const index of [to, from, 3 - to - from]) await on(index, 'NODE', ids[to] as string);
  };
  const proxies = await Promise.all([0, 0].map(TcpProxy.start));
  const at = {
    server: undefined as never,
    ...{ proxy: proxies[0] as TcpProxy, subscribers: proxies[1] as TcpProxy, admin: nodes[0] as Redis, heirPort: 0 },
    /** The slots of the records in turn, so that each move meets records. */
    moveSlots: () => {
      if (moving) return;
      moving = true;
      void slotWithKeys(nodes)
        .then((found) => {
          slot = found;
          return move();
        })
        .finally(() => {
          moving = false;
        });
    },
    options: { redisPort: cluster.ports[0] as number, topology: 'cluster' as const, username: '', password: '' },
    stop: async () => {
      clearInterval((at as At).timer);
      while (moving) await sleep(10);
      for (const node of nodes) node.disconnect();
      await Promise.all(proxies.map((each) => each[Symbol.asyncDispose]()));
      await cluster[Symbol.asyncDispose]();
    },
  };
  return at;
}

async function slotWithKeys(nodes: readonly Redis[]): Promise<number> {
  const node = nodes[Math.floor(Math.random() * nodes.length)] as Redis;
  const key = await node.randomkey();
  return key === null ? Math.floor(Math.random() * 16_384) : Number(await node.call('CLUSTER', 'KEYSLOT', key));
}

function quiet(client: Redis): Redis {
  client.on('error', () => {});
  return client;
}

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
