/** Services that take longer than a lease, and replicas that die or hang while they lead. */

import type { Fleet, ReplicaPool } from '../../helpers/fleet.ts';
import type { Outcome, ReplicaOptions } from '../../helpers/fleet-worker.ts';
import { startRedis } from '../../helpers/redis-server.ts';
import type { Table } from './faults.ts';
import { startService } from './service.ts';

const SERVICES_MS = [100, 2_000, 6_000, 9_000, 20_000];
const NEVER_MS = 2 ** 31 - 1;
const COLUMNS = [
  'the service takes',
  'requests per owner, 20 replicas',
  'p99',
  'slowest call if the leader is killed',
  'if it hangs alone',
  'if three of ten hang',
];

/** Service, and limits that a slow one needs. */
type At = { readonly options: ReplicaOptions; readonly counted: { requests: number } };

/** @returns the table for the page, and how many calls failed of replicas that neither died nor hung. */
export async function slow(pool: ReplicaPool): Promise<{ table: Table; failed: number }> {
  const rows: string[][] = [];
  let failed = 0;
  const slowest = (outcomes: Outcome[], share = 1) => {
    failed += outcomes.filter(({ token }) => !token).length;
    const sorted = outcomes.map(({ ms }) => ms).sort((a, b) => a - b);
    return `${((sorted.at(Math.ceil(sorted.length * share) - 1) ?? 0) / 1_000).toFixed(1)} s`;
  };
  for (const serviceMs of SERVICES_MS) {
    const [redis, counted, hanging] = [await startRedis(), await startService(serviceMs), await startService(NEVER_MS)];
    const credentials = { baseUrl: counted.url, clientId: 'app', clientSecret: 'secret', identity: 'the service' };
    // More replicas than cores: a slow reply of Redis is the machine's doing.
    const limits = { requestTimeoutMs: 60_000, timeoutMs: 50_000, maxQueueMs: 60_000, redisTimeoutMs: 5_000 };
    const at: At = { options: { ...credentials, ...limits, redisPort: redis.port, subscribe: true }, counted };
    const stuck: At = { options: { ...at.options, baseUrl: hanging.url }, counted: hanging };
    const { perOwner, outcomes } = await healthy(pool, at);
    const cells = [`${serviceMs / 1_000} s`, perOwner, slowest(outcomes, 0.99), slowest(await leaderDies(pool, at))];
    rows.push([...cells, slowest(await someHang(pool, at, stuck, 1)), slowest(await someHang(pool, at, stuck, 3))]);
    console.log(rows.at(-1)?.join(' | '), `| ${failed} failed so far`);
    for (const service of [counted, hanging]) service.close();
    await redis.kill();
  }
  return { table: { columns: COLUMNS, rows }, failed };
}

async function healthy(pool: ReplicaPool, { options, counted }: At) {
  await using fleet = await pool.start(4, { ...options, copies: 5 });
  await fleet.all('get', ['warm']);
  const before = counted.requests;
  const outcomes = (await fleet.all('get', keysOf('owner'))).flat();
  return { perOwner: ((counted.requests - before) / keysOf('owner').length).toFixed(1), outcomes };
}

async function leaderDies(pool: ReplicaPool, { options, counted }: At): Promise<Outcome[]> {
  await using fleet = await pool.start(2, options, (index) => ({ copies: index === 0 ? 1 : 9 }));
  await fleet.all('get', ['warm']);
  return await ofOthers(fleet, counted, ['killed'], () => fleet.at(0).kill());
}

/** One that hangs leads; three ask at the same moment as the others. */
async function someHang(pool: ReplicaPool, at: At, stuck: At, count: number): Promise<Outcome[]> {
  const each = (index: number) => (index === 0 ? { ...stuck.options, copies: count } : { copies: 10 - count });
  const fleet = await pool.start(2, at.options, each);
  for (const replica of [fleet.at(1), fleet.at(0)]) await replica.tell('get', [`warm-${count}`]);
  const keys = count === 1 ? ['hangs'] : keysOf('hang');
  const outcomes = await ofOthers(fleet, count === 1 ? stuck.counted : undefined, keys);
  // Its requests never end.
  await fleet.at(0).kill();
  await fleet[Symbol.asyncDispose]();
  return outcomes;
}

/** What the second process gets: at once, or after the first has sent a request, and then perhaps died. */
async function ofOthers(fleet: Fleet, awaited: At['counted'] | undefined, keys: string[], then?: () => Promise<void>) {
  const led = awaited?.requests;
  fleet
    .at(0)
    .tell('get', keys)
    .catch(() => {});
  while (awaited && awaited.requests === led) await new Promise((resolve) => setTimeout(resolve, 5));
  const outcomes = fleet.at(1).tell('get', keys);
  await then?.();
  return outcomes;
}

const keysOf = (prefix: string) => Array.from({ length: 100 }, (_, index) => `${prefix}-${index}`);
