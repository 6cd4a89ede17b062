/** Scenes with a Redis that is slow or silent: how often 20 replicas fall back, and how long their callers wait. */

import type { ReplicaPool } from '../../helpers/fleet.ts';
import type { ReplicaOptions } from '../../helpers/fleet-worker.ts';
import { type RedisServer, startRedis } from '../../helpers/redis-server.ts';
import { TcpProxy } from '../../helpers/tcp-proxy.ts';
import { limitScripts } from './script-limit.ts';
import { type Service, startService } from './service.ts';

const PROCESSES = 20;
const OWNERS = 100;

interface Trouble {
  readonly what: string;
  /** Whether the replicas have counted each other before the trouble begins. */
  readonly isWarm: boolean;
  /** The requests per owner that are allowed. */
  readonly limit: number;
  /** The client of every replica; by default they alternate. */
  readonly client?: 'ioredis';
  /** Returns the port for the replicas, what begins the trouble, and what ends the scene. */
  prepare(redis: RedisServer): Promise<{ port: number; begin: () => unknown; end: () => unknown }>;
}

const late = (ms: number) => async (redis: RedisServer) => {
  const proxy = await TcpProxy.start(redis.port);
  return { port: proxy.port, begin: () => proxy.become('pass', ms), end: () => proxy[Symbol.asyncDispose]() };
};
const limited = async (redis: RedisServer) => {
  const { limit, begin } = await limitScripts(redis.port, 250);
  return { port: limit.port, begin, end: limit.close };
};
const hung = async (redis: RedisServer) => ({
  port: redis.port,
  begin: () => redis.process.kill('SIGSTOP'),
  end: () => redis.process.kill('SIGCONT'),
});
const killed = async (redis: RedisServer) => ({ port: redis.port, begin: () => redis.kill(), end: () => {} });

const TROUBLES: Record<string, Trouble> = {
  'late-5.6s': { what: 'every reply 5.6 s late', isWarm: true, limit: 1.5, prepare: late(5_600) },
  'late-2.5s-start': { what: 'every reply 2.5 s late from the start', isWarm: false, limit: 2, prepare: late(2_500) },
  'late-5.6s-start': {
    what: 'every reply 5.6 s late from the start',
    isWarm: false,
    limit: 3,
    prepare: late(5_600),
  },
  'late-5.6s-start-ioredis': {
    what: 'every reply 5.6 s late from the start, all with ioredis',
    isWarm: false,
    limit: 3,
    client: 'ioredis',
    prepare: late(5_600),
  },
  limited: { what: 'at most 250 scripts a second', isWarm: true, limit: 1.5, prepare: limited },
  'limited-start': {
    what: 'at most 250 scripts a second from the start',
    isWarm: false,
    limit: 2,
    prepare: limited,
  },
  'hung-start': { what: 'hung from the start', isWarm: false, limit: PROCESSES, prepare: hung },
  'killed-start': { what: 'killed before the start', isWarm: false, limit: PROCESSES, prepare: killed },
  hung: { what: 'hung', isWarm: true, limit: PROCESSES, prepare: hung },
  killed: { what: 'killed', isWarm: true, limit: PROCESSES, prepare: killed },
};

/** Gets the tokens of 100 owners in each of 20 processes at once. Returns what missed its limit. */
export async function overload(pool: ReplicaPool, only: string[], sleep: (ms: number) => Promise<unknown>) {
  const missed: string[] = [];
  for (const [name, trouble] of Object.entries(TROUBLES)) {
    if (only.length > 0 && !only.includes(name)) continue;
    const [redis, service] = [await startRedis(), await startService(20)];
    const { port, begin, end } = await trouble.prepare(redis);
    try {
      const options = {
        baseUrl: service.url,
        clientId: 'app',
        clientSecret: 'secret',
        redisPort: port,
        subscribe: true,
      };
      if (!(await scene(pool, trouble, options, service, begin, sleep))) missed.push(name);
    } finally {
      await end();
      service.close();
      await redis.kill();
    }
  }
  return missed;
}

async function scene(
  pool: ReplicaPool,
  { what, isWarm, limit, client }: Trouble,
  options: ReplicaOptions,
  service: Service,
  begin: () => unknown,
  sleep: (ms: number) => Promise<unknown>,
): Promise<boolean> {
  if (!isWarm) await begin();
  await using fleet = await pool.start(PROCESSES, options, (index) => ({
    client: client ?? (index % 2 ? 'ioredis' : 'node-redis'),
  }));
  if (isWarm) {
    await fleet.all('get', ['warm']);
    await sleep(5_500);
    // The second announcement of each counts all.
    await fleet.all('get', ['warm-2']);
    await sleep(1_000);
    await begin();
  }
  const before = service.requests;
  const owners = Array.from({ length: OWNERS }, (_, index) => `owner-${index}`);
  const outcomes = (await fleet.all('get', owners)).flat();
  const perOwner = (service.requests - before) / OWNERS;
  const waits = outcomes.map(({ ms }) => ms / 1_000).sort((a, b) => a - b);
  const wait = (share: number) => (waits[Math.min(waits.length - 1, Math.floor(waits.length * share))] ?? 0).toFixed(1);
  const lost = outcomes.filter(({ token }) => !token);
  const holds = perOwner <= limit && lost.length === 0;
  const sharing = (await fleet.all('report')).map((report) => report.sharing);
  const sum = (of: 'leader' | 'fallback' | 'shared') => sharing.reduce((all, each) => all + (each?.[of] ?? 0), 0);
  console.log(
    `${holds ? '' : 'MISSED: '}Redis ${what}: ${perOwner.toFixed(2)} requests per owner; ${lost.length} calls failed` +
      `${lost.length > 0 ? ` (${[...new Set(lost.map(({ code }) => code))]})` : ''}; waits p50 ${wait(0.5)}, p99 ${wait(0.99)}, ` +
      `at most ${wait(1)} s; leader ${sum('leader')}, fallback ${sum('fallback')}, shared ${sum('shared')}`,
  );
  return holds;
}
