/** Row L, and F7 with a fleet: forked processes, a real Redis, the token endpoint, and a service that counts. */

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Sandbox, startSandbox } from '../../src/sandbox/index.ts';
import { buildReplica, ReplicaPool } from '../helpers/fleet.ts';
import type { Outcome, ReplicaOptions } from '../helpers/fleet-worker.ts';
import { noRedis, type RedisServer, startRedis } from '../helpers/redis-server.ts';

/**
 * More processes than cores, on a machine that may be busy: what is slow then is not Redis, and a leader that gets no CPU
 * time for seconds is not dead.
 */
const CROWDED = { redisTimeoutMs: 5_000, leaseMs: 30_000, maxQueueMs: 120_000, requestTimeoutMs: 120_000 };
const LEASE_MS = 3_000;

// The limit of a test is far beyond what any takes; on a busy machine processes start slowly.
describe.skipIf(noRedis)('in a fleet', { timeout: 120_000 }, () => {
  let pool: ReplicaPool;
  let redis: RedisServer;
  let sandbox: Sandbox;
  beforeAll(async () => {
    pool = new ReplicaPool(await buildReplica());
  });
  afterAll(() => pool[Symbol.asyncDispose]());
  beforeEach(async () => {
    redis = await startRedis();
    sandbox = await startSandbox({ owners: 200, seed: 1 });
  });
  afterEach(async () => {
    await sandbox.close();
    await redis.kill();
  });

  const start = (count: number, changes: Partial<ReplicaOptions> = {}, each?: (index: number) => object) => {
    const { url: baseUrl, clientId, clientSecret } = sandbox;
    const common = { baseUrl, clientId, clientSecret, redisPort: redis.port, subscribe: true, ...CROWDED, ...changes };
    return pool.start(count, common, each);
  };
  const requests = () => sandbox.ledger.entries({ kind: 'token' }).length;
  const tokensOf = (outcomes: Outcome[]) => outcomes.map(({ token, code }) => token ?? code);
  const key = (index: number) => sandbox.accessKeys[index] as string;

  it('L1: 20 processes, 200 owners, cold: 200 requests, at most 1 % over', async () => {
    await using fleet = await start(20, {}, (index) => ({ client: index % 2 ? 'ioredis' : 'node-redis' }));
    const outcomes = await fleet.all('get', sandbox.accessKeys);
    expect(new Set(outcomes.map((each) => tokensOf(each).join())).size).toBe(1);
    expect(new Set(tokensOf(outcomes[0] as Outcome[])).size).toBe(200);
    expect(requests()).toBeLessThanOrEqual(202);
  });

  /** A fleet of four with one replica's request on its way, which takes that long, and three that wait for it. */
  async function waiting(requestMs: number) {
    sandbox.faults.add({ kind: 'latency', ms: requestMs, when: { next: 1 } });
    const fleet = await start(4, { leaseMs: LEASE_MS });
    const leader = fleet.at(0);
    const first = leader.tell('get', [key(0)]).catch(() => []);
    await expect.poll(requests, { timeout: 30_000 }).toBe(1);
    const rest = Promise.all(fleet.replicas.slice(1).map((replica) => replica.tell('get', [key(0)])));
    return { fleet, leader, first, rest };
  }

  it('L2: the leader is killed: one request more, and the others are served by it', async () => {
    const { fleet, leader, rest } = await waiting(8_000);
    await using _ = fleet;
    await leader.kill();
    const outcomes = (await rest).flat();
    expect(new Set(tokensOf(outcomes)).size).toBe(1);
    expect(outcomes[0]?.token).toMatch(/^\w{12}$/);
    expect(requests()).toBe(2);
  });

  it('L2: the leader is frozen: one request more, and its late token replaces nothing', async () => {
    const { fleet, leader, first, rest } = await waiting(4_000);
    await using _ = fleet;
    leader.process.kill('SIGSTOP');
    const outcomes = (await rest).flat();
    leader.process.kill('SIGCONT');
    const [successors = ''] = new Set(tokensOf(outcomes));
    expect(successors).toMatch(/^\w{12}$/);
    expect((await first)[0]?.token).toMatch(/^\w{12}$/);
    // A replica that starts now gets the successor's.
    await using late = await start(1);
    expect(tokensOf(await late.at(0).tell('get', [key(0)]))).toEqual([successors]);
    expect(requests()).toBe(2);
  });

  it('L4: a replica that rejects an old generation costs no request', async () => {
    await using fleet = await start(3);
    await fleet.all('get', [key(0)]);
    const renewed = [];
    for (const replica of fleet.replicas) renewed.push(await replica.tell('replace', key(0)));
    expect(new Set(tokensOf(renewed)).size).toBe(1);
    expect(requests()).toBe(2);
  });

  it('L5: clocks minutes apart: one token, and one moment at which it ends', async () => {
    const skews = [0, 240_000, -240_000];
    await using fleet = await start(3, {}, (index) => ({ skewMs: skews[index] }));
    const ends = [];
    for (const replica of fleet.replicas) ends.push(await replica.tell('get', [key(0)]));
    const [first, ...others] = ends.flat();
    for (const other of others) {
      expect(other.token).toBe(first?.token);
      expect(other.expiresAtMs).toBeLessThanOrEqual((first?.expiresAtMs ?? 0) + 5);
      expect(other.expiresAtMs).toBeGreaterThan((first?.expiresAtMs ?? 0) - 3_000);
    }
    expect(requests()).toBe(1);
  });

  it('L6: an outage costs the fleet no more than as many single processes, and ends for all at once', async () => {
    await using fleet = await start(4, { concurrency: 2 });
    sandbox.faults.add({ kind: 'status', status: 503 });
    const load = fleet.replicas.map((replica, index) => replica.tell('load', `${index}-`, 150, 2_000));
    const outcomes = (await Promise.all(load)).flat();
    expect(outcomes.length).toBeGreaterThan(1_000);
    expect(outcomes.every(({ code }) => code !== undefined)).toBe(true);
    // A tenth of what they would send without protection.
    expect(requests()).toBeLessThanOrEqual(outcomes.length / 10);
    sandbox.faults.clear();
    const recovered = async () => tokensOf((await fleet.all('get', [key(0)])).flat());
    await expect.poll(recovered, { timeout: 15_000, interval: 250 }).not.toContain('endpoint_unavailable');
  });

  it('L6: an isolated 503 costs one more request for all processes, and is over for all of them', async () => {
    await using fleet = await start(4);
    // Ten tokens pay for one retry.
    await fleet.all('get', sandbox.accessKeys.slice(0, 20));
    sandbox.faults.add({ kind: 'status', status: 503, when: { next: 1 } });
    await fleet.all('get', [key(20)]);
    const again = async () => [...new Set(tokensOf((await fleet.all('get', [key(20)])).flat()))];
    await expect.poll(again, { timeout: 10_000 }).toEqual([expect.stringMatching(/^\w{12}$/)]);
    expect(requests()).toBe(20 + 2);
  });

  it('F7: a service that revokes the old token with each new one: no call is lost, the fleet settles', async () => {
    // Refreshes are at least a second apart, far longer than a call and its repetition take.
    const [lifeMs, soonest, runMs] = [10_000, 0.1, 4_000];
    sandbox.setProfile({ revokePrevious: true, lifetimeSeconds: lifeMs / 1_000 });
    await using fleet = await start(2, { refreshWindow: [soonest, 0.15] });
    const keys = sandbox.accessKeys.slice(0, 3);
    const startedMs = performance.now();
    const statuses = await Promise.all(
      fleet.replicas.map(async (replica) => {
        const seen: (number | string)[] = [];
        while (performance.now() - startedMs < runMs) seen.push(...(await replica.tell('call', keys)));
        return seen;
      }),
    );
    expect(new Set(statuses.flat())).toEqual(new Set([200]));
    // At most one for each owner in each shortest time to a refresh, and one at the start.
    const rounds = (performance.now() - startedMs) / (lifeMs * soonest);
    expect(requests()).toBeLessThanOrEqual(keys.length * (Math.ceil(rounds) + 1));
  });
});
