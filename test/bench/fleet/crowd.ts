/** Fleets on a busy machine with a healthy Redis: requests, scripts and bytes of an owner, and how long calls take. */

import type { ReplicaPool } from '../../helpers/fleet.ts';
import { startRedis } from '../../helpers/redis-server.ts';
import { meter } from './redis-readings.ts';
import { startService } from './service.ts';

/** @param copies registries in each of the processes. */
export async function crowd(pool: ReplicaPool, processes: number, copies: number, owners: number): Promise<void> {
  await using redis = await startRedis();
  const service = await startService(50);
  const credentials = { baseUrl: service.url, clientId: 'app', clientSecret: 'secret' };
  const options = {
    ...credentials,
    redisPort: redis.port,
    subscribe: true,
    maxQueueMs: 600_000,
    requestTimeoutMs: 300_000,
  };
  {
    await using metered = await meter(redis);
    await using fleet = await pool.start(processes, { ...options, copies }, (index) => ({
      client: index % 2 ? 'ioredis' : 'node-redis',
    }));
    await fleet.all('get', ['warm']);
    await metered.since(1);
    const [before, startedMs] = [service.requests, performance.now()];
    const keys = Array.from({ length: owners }, (_, index) => `owner-${index}`);
    const outcomes = (await fleet.all('get', keys)).flat();
    const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1);
    const times = outcomes.map(({ ms }) => ms).sort((a, b) => a - b);
    const p99 = ((times.at(Math.floor(times.length * 0.99)) ?? 0) / 1_000).toFixed(1);
    const failed = outcomes.filter(({ token }) => !token).length;
    const perOwner = ((service.requests - before) / owners).toFixed(3);
    const size = `${processes} × ${copies} registries, ${owners} owners`;
    console.log(`| ${size} | ${perOwner} | ${await metered.since(owners)} | ${p99} s | ${failed} | ${seconds} s |`);
  }
  service.close();
}
