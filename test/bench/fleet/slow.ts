/** Services that take longer than a lease: eight replicas that need five owners at once, and then another whose leader is killed. */

import type { ReplicaPool } from '../../helpers/fleet.ts';
import type { Outcome } from '../../helpers/fleet-worker.ts';
import { startRedis } from '../../helpers/redis-server.ts';
import type { Table } from './faults.ts';
import { startService } from './service.ts';

const [REPLICAS, OWNERS] = [8, 5];
const SERVICES_MS = [100, 2_000, 6_000, 9_000, 20_000];
const LIMITS = { requestTimeoutMs: 60_000, timeoutMs: 50_000 };

/** @returns the table for the page, and how many calls failed. */
export async function slow(pool: ReplicaPool): Promise<{ table: Table; failed: number }> {
  const rows: string[][] = [];
  const all: Outcome[] = [];
  const slowest = (outcomes: Outcome[]) => {
    all.push(...outcomes);
    return `${(Math.max(...outcomes.map(({ ms }) => ms)) / 1_000).toFixed(1)} s`;
  };
  for (const serviceMs of SERVICES_MS) {
    const [redis, service] = [await startRedis(), await startService(serviceMs)];
    const credentials = { baseUrl: service.url, clientId: 'app', clientSecret: 'secret' };
    await using fleet = await pool.start(REPLICAS, {
      ...credentials,
      ...LIMITS,
      redisPort: redis.port,
      subscribe: true,
    });
    await fleet.all('get', ['warm']);
    const before = service.requests;
    const keys = Array.from({ length: OWNERS }, (_, index) => `owner-${index}`);
    const outcomes = (await fleet.all('get', keys)).flat();
    const perOwner = ((service.requests - before) / OWNERS).toFixed(1);
    const [leader, ...others] = fleet.replicas;
    const led = service.requests;
    leader?.tell('get', ['killed']).catch(() => {});
    while (service.requests === led) await new Promise((resolve) => setTimeout(resolve, 5));
    const rest = Promise.all(others.map((replica) => replica.tell('get', ['killed'])));
    await leader?.kill();
    rows.push([`${serviceMs / 1_000} s`, perOwner, slowest(outcomes), slowest((await rest).flat())]);
    console.log(rows.at(-1)?.join(' | '));
    service.close();
    await redis.kill();
  }
  const columns = ['the service takes', 'requests per owner', 'slowest call', 'slowest call if the leader is killed'];
  return { table: { columns, rows }, failed: all.filter(({ token }) => !token).length };
}
