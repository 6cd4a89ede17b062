import { Sealer, sealContext } from '../../../src/redis/sealing.ts';
import { type Replica, ReplicaPool } from '../../helpers/fleet.ts';
import type { Outcome, ReplicaOptions } from '../../helpers/fleet-worker.ts';
import { noRedis, type RedisServer, startRedis } from '../../helpers/redis-server.ts';
import { seeded } from '../../helpers/seeded.mjs';
import { crowd } from './crowd.ts';
import { faults, type Table } from './faults.ts';
import { forget } from './forget.ts';
import { memory } from './memory.ts';
import { clockStep, deadLeaders } from './protocol.ts';
import { meter } from './redis-readings.ts';
import { type Service, startService } from './service.ts';
import { slow } from './slow.ts';

const failed: string[] = [];
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const keysOf = (count: number, prefix = 'owner') => Array.from({ length: count }, (_, index) => `${prefix}-${index}`);

function print(name: string, value: string, limit: string, holds: boolean): void {
  console.log(`${name.padEnd(72)}${value.padStart(12)}   ${holds ? '' : 'MISSED: '}${limit}`);
  if (!holds) failed.push(name);
}

function quantile(values: number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** Runs one figure with a Redis and a service of its own. */
async function scene(
  delayMs: number,
  run: (at: { redis: RedisServer; service: Service; options: ReplicaOptions }) => Promise<void>,
) {
  const [redis, service] = [await startRedis(), await startService(delayMs)];
  const credentials = { baseUrl: service.url, clientId: 'app', clientSecret: 'secret' };
  try {
    await run({ redis, service, options: { ...credentials, redisPort: redis.port, subscribe: true } });
  } finally {
    redis.process.kill('SIGCONT');
    service.close();
    await redis.kill();
  }
}

async function cold(pool: ReplicaPool, processes: number, owners: number): Promise<void> {
  for (const shares of [true, false]) {
    await scene(50, async ({ service, options }) => {
      // Processes outnumber cores by far here: what is slow then is neither Redis nor the queue.
      const { redisPort, ...without } = { ...options, redisTimeoutMs: 5_000, maxQueueMs: 600_000 };
      await using fleet = await pool.start(processes, { ...without, ...(shares && redisPort && { redisPort }) });
      const startedMs = performance.now();
      const outcomes = (await fleet.all('get', keysOf(owners))).flat();
      const seconds = (performance.now() - startedMs) / 1000;
      const name = `${processes} processes, ${owners} owners, cold, ${shares ? 'shared' : 'each alone'}`;
      const perOwner = service.requests / owners;
      const served = outcomes.filter(({ token }) => token).length;
      const remark = `${seconds.toFixed(1)} s, ${served} of ${outcomes.length} calls served`;
      if (shares)
        print(`${name}: requests per owner`, perOwner.toFixed(3), `at most 1.010; ${remark}`, perOwner <= 1.01);
      else print(`${name}: requests per owner`, perOwner.toFixed(3), remark, true);
    });
  }
}

async function wakes(pool: ReplicaPool): Promise<void> {
  for (const subscribe of [true, false]) {
    await scene(150, async ({ options }) => {
      await using fleet = await pool.start(4, { ...options, subscribe, redisTimeoutMs: 2_000 });
      await fleet.all('get', keysOf(64, 'warm'));
      const after: number[] = [];
      for (let round = 0; round < 10; round++) {
        const outcomes = await fleet.all('get', keysOf(8, `round-${round}`));
        for (let owner = 0; owner < 8; owner++) {
          const [first = 0, ...others] = outcomes.map((each) => each[owner]?.endedAtMs ?? 0).sort((a, b) => a - b);
          after.push(...others.map((at) => at - first));
        }
      }
      const p50 = quantile(after, 0.5);
      const name = `followers served after the publish, ${subscribe ? 'subscribed' : 'polling'}: p50 (p99)`;
      const value = `${p50.toFixed(0)} (${quantile(after, 0.99).toFixed(0)}) ms`;
      print(name, value, subscribe ? 'p50 at most 20 ms' : '', !subscribe || p50 <= 20);
    });
  }
}

async function hits(pool: ReplicaPool): Promise<void> {
  await scene(5, async ({ redis, options }) => {
    await using fleet = await pool.start(1, options);
    const replica = fleet.at(0);
    await replica.tell('hits', 'owner', 1_000_000);
    const least: Record<'healthy' | 'hung', number> = { healthy: Infinity, hung: Infinity };
    for (let round = 0; round < 40; round++) {
      const state = round % 2 ? 'hung' : 'healthy';
      redis.process.kill(state === 'hung' ? 'SIGSTOP' : 'SIGCONT');
      // With calls for new owners meanwhile, so that the breaker has something to do.
      await replica.tell('load', `during-${round}`, 20, 100);
      least[state] = Math.min(least[state], await replica.tell('hits', 'owner', 300_000));
    }
    const ratio = least.hung / least.healthy;
    const value = `${least.hung.toFixed(0)} ns`;
    print(
      'a hit while Redis hangs (least of 20 runs)',
      value,
      `CPU time; ${ratio.toFixed(2)} of healthy; at most 1.05`,
      ratio <= 1.05,
    );
  });
}

async function killed(pool: ReplicaPool): Promise<void> {
  await scene(300, async ({ service, options }) => {
    const waits: number[] = [];
    let extra = 0;
    for (let round = 0; round < 5; round++) {
      await using fleet = await pool.start(4, { ...options, redisTimeoutMs: 2_000 });
      const owner = `killed-${round}`;
      const before = service.requests;
      fleet
        .at(0)
        .tell('get', [owner])
        .catch(() => {});
      while (service.requests === before) await sleep(2);
      const rest = Promise.all(fleet.replicas.slice(1).map((replica) => replica.tell('get', [owner])));
      await fleet.at(0).kill();
      waits.push(...(await rest).flat().map(({ ms }: Outcome) => ms));
      extra = Math.max(extra, service.requests - before - 1);
    }
    print('the leader is killed, five times: requests more, at most', `${extra}`, 'at most 1', extra <= 1);
    const slowestMs = quantile(waits, 1);
    print(
      '… others served after, at most',
      `${slowestMs.toFixed(0)} ms`,
      'one lease (3,000), a poll (40), the request (300)',
      slowestMs <= 3_600,
    );
  });
}

/** What an owner costs Redis: cold, at a rejection, and after a restart. */
async function cost(pool: ReplicaPool, processes: number): Promise<void> {
  const owners = keysOf(100);
  await scene(50, async ({ redis, options }) => {
    await using metered = await meter(redis);
    const patient = { ...options, redisTimeoutMs: 5_000, maxQueueMs: 600_000 };
    const report = async (what: string, calls: number) =>
      print(`${processes} processes, ${what}: for each`, '', await metered.since(calls), true);
    {
      await using fleet = await pool.start(processes, patient);
      for (const replica of fleet.replicas) await replica.tell('get', [`warm-${fleet.replicas.indexOf(replica)}`]);
      await metered.since(1);
      await fleet.at(0).tell('get', keysOf(100, 'led'));
      await report('cold owner, asked for by one replica', 100);
      await fleet.all('get', owners);
      await report('cold owner, asked for by all at once', owners.length);
      for (const owner of owners) await fleet.at(0).tell('replace', owner);
      await report('rejection by the first replica, one after another', owners.length);
      if (processes > 1) {
        for (const replica of fleet.replicas.slice(1, 3)) {
          for (const owner of owners) await replica.tell('replace', owner);
        }
        await report('rejection by each other replica, one after another', owners.length * Math.min(2, processes - 1));
      }
    }
    {
      await using restarted = await pool.start(processes, patient);
      await restarted.all('get', ['warm-0']);
      await metered.since(1);
      await restarted.all('get', owners);
      await report('owner and replica after a restart', owners.length * processes);
    }
  });
}

/** What a refresh costs Redis: if all replicas need it at the same moment, and if one does before the others. */
async function refresh(pool: ReplicaPool, processes: number): Promise<void> {
  await scene(50, async ({ redis, service, options }) => {
    service.expiresIn = 200;
    const patient = {
      ...options,
      redisTimeoutMs: 5_000,
      maxQueueMs: 600_000,
      refreshWindow: [0.05, 0.05] as [number, number],
    };
    await using metered = await meter(redis);
    await using fleet = await pool.start(processes, patient);
    const owners = keysOf(100, 'refreshed');
    const report = async (how: string, ask: () => Promise<unknown>) => {
      // The refresh point of every token passes.
      await sleep(11_000);
      await metered.since(1);
      const before = service.requests;
      await ask();
      // The other replicas share what the leaders publish.
      await sleep(3_000);
      const perOwner = ((service.requests - before) / owners.length).toFixed(2);
      const name = `${processes} processes, refresh by ${how}: for each`;
      print(name, '', `${await metered.since(owners.length)}, ${perOwner} requests`, true);
    };
    const all = async (replicas: readonly Replica[]) => {
      const before = service.requests;
      await Promise.all(replicas.map((replica) => replica.tell('get', owners)));
      return before;
    };
    await all(fleet.replicas);
    const refreshed = async (before: number) => {
      while (service.requests < before + owners.length) await sleep(100);
    };
    await report('all at once', async () => refreshed(await all(fleet.replicas)));
    if (processes === 1) return;
    await report('one, then by all others', async () => {
      await refreshed(await all(fleet.replicas.slice(0, 1)));
      await sleep(1_000);
      await all(fleet.replicas.slice(1));
    });
  });
}

function fuzz(): void {
  const sealer = new Sealer([Uint8Array.from({ length: 32 }, (_, index) => index)]);
  const shared = { token: 'token', response: { access_token: 'token' } };
  const context = (name: string) => sealContext('token', name, 1);
  const [mine, theirs] = ['mine', 'theirs'].map((name) =>
    Buffer.from(sealer.seal(shared, context(name)) ?? '', 'base64url'),
  );
  let [opened, thrown] = [0, 0];
  const next = seeded(1);
  const random = (below: number) => Math.floor(next() * below);
  for (let round = 0; round < 1_000_000; round++) {
    let value = Buffer.from((round % 7 === 0 ? theirs : mine) as Buffer);
    for (let change = random(4); change >= 0; change--) {
      const at = random(value.length);
      const kind = random(4);
      if (kind === 0) value = value.subarray(0, at);
      else if (kind === 1) value = Buffer.concat([value.subarray(0, at), value.subarray(random(value.length + 1))]);
      else if (value.length > 0) value[at] = (value[at] ?? 0) ^ (1 + random(255));
    }
    const unchanged = value.equals(mine as Buffer);
    try {
      if (sealer.open(value.toString('base64url'), context('mine')) && !unchanged) opened++;
    } catch {
      thrown++;
    }
  }
  print('1,000,000 fuzzed values: opened wrongly, thrown', `${opened}, ${thrown}`, '0, 0', opened + thrown === 0);
}

/** @param only the figures to measure; all but the large one when empty. */
export async function main(
  file: string,
  only: string[],
): Promise<{ status: number; tables: Readonly<Record<string, Table>> }> {
  if (noRedis) {
    console.log('there is no redis-server here (Debian: apt install redis-server): nothing was measured');
    return { status: 1 };
  }
  const wanted = (name: string) => only.length === 0 || only.includes(name);
  await using pool = new ReplicaPool(file);
  if (wanted('fuzz')) fuzz();
  if (wanted('hits')) await hits(pool);
  if (wanted('wakes')) await wakes(pool);
  if (wanted('killed')) await killed(pool);
  for (const processes of [1, 8, 20]) {
    if (wanted('cost') || only.includes(`cost${processes}`)) await cost(pool, processes);
    if (wanted('refresh') || only.includes(`refresh${processes}`)) await refresh(pool, processes);
  }
  if (wanted('cold')) await cold(pool, 20, 200);
  const named = only.filter((name) => name.startsWith('fault-')).map((name) => name.slice(6));
  const ofFaults = wanted('faults') || named.length > 0 ? await faults(pool, named) : undefined;
  failed.push(...(ofFaults?.missed ?? []));
  if (only.includes('large')) await cold(pool, 50, 1_000);
  if (only.includes('leaders')) await deadLeaders();
  if (only.includes('clock')) await clockStep();
  if (only.includes('crowd')) {
    for (const owners of [100, 1_000]) await crowd(pool, 20, 1, owners);
    await crowd(pool, 20, 10, 2_000);
  }
  const ofSlow = only.includes('slow') ? await slow(pool) : undefined;
  if (ofSlow && ofSlow.failed > 0) failed.push('slow services');
  const isWhole = named.length === 0;
  const tables = {
    ...(ofFaults && isWhole && { faults: ofFaults.table }),
    ...(ofSlow && { slow: ofSlow.table }),
    ...(only.includes('memory') && { memory: await memory() }),
    ...(only.includes('forget') && { forget: await forget(pool) }),
  };
  return { status: failed.length > 0 ? 1 : 0, tables };
}
