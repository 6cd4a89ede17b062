/**
 * What the fleet demo runs: all processes without sharing, the same with sharing, and one process killed while the others
 * wait for its requests. The numbers are those that the service counted.
 */

import { randomBytes } from 'node:crypto';
import { type Sandbox, startSandbox } from '../../sandbox/index.ts';
import type { ReplicaStart } from './fleet-replica.ts';
import type { DemoRedis } from './redis.ts';
import { ReplicaProcess } from './replica-process.ts';

export const FLEET = { processes: 8, owners: 200, newOwners: 40, leaseMs: 3_000 } as const;
const ANSWER_MS = 40;
const SLOW_ANSWER_MS = 500;

export interface FleetResult {
  /** Token requests that the service received, without sharing and with it. */
  readonly unshared: number;
  readonly shared: number;
  /** For each owner, the number of the process that requested its token, from 1. */
  readonly requestedBy: readonly number[];
  readonly killed: {
    /** Requests of the killed process that were in flight. */
    readonly inFlight: number;
    readonly requests: number;
    readonly calls: number;
    readonly served: number;
    readonly slowestMs: number;
  };
  readonly seconds: number;
}

export async function runFleet(
  redis: DemoRedis,
  replicas: ReplicaProcess[],
  announce: (line: string) => void,
  signal: AbortSignal,
): Promise<FleetResult> {
  const startedMs = performance.now();
  await using sandbox = await startSandbox({ owners: FLEET.owners });
  sandbox.faults.add({ id: 'answer', kind: 'latency', ms: ANSWER_MS });
  const keys = [...sandbox.accessKeys];
  const { url: baseUrl, clientId, clientSecret } = sandbox;
  const start: ReplicaStart = {
    ...{ baseUrl, clientId, clientSecret },
    ...(redis.pid !== undefined && { redisPid: redis.pid }),
  };

  announce(`${FLEET.processes} processes, ${FLEET.owners} owners, without sharing`);
  for (let index = 0; index < FLEET.processes; index++) replicas.push(new ReplicaProcess(signal));
  await Promise.all(replicas.map((each) => each.start(start)));
  await Promise.all(replicas.map((each) => each.get(keys)));
  const unshared = tokenRequests(sandbox);

  announce('the same, sharing through Redis');
  const sealingKey = randomBytes(32).toString('base64');
  const sharing = { redisUrl: redis.url, sealingKey, prefix: `otr-demo-${process.pid}`, leaseMs: FLEET.leaseMs };
  await Promise.all(replicas.map((each) => each.start({ ...start, sharing })));
  // Each process starts with different owners, as real replicas do.
  const orders = replicas.map((_, index) => rotated(keys, index * Math.floor(keys.length / FLEET.processes)));
  const rounds = await Promise.all(replicas.map((each, index) => each.get(orders[index] ?? [])));
  const shared = tokenRequests(sandbox) - unshared;
  const requested = rounds.map((round, index) => new Set(round.requested.map((at) => orders[index]?.[at])));
  const requestedBy = keys.map((key) => requested.findIndex((each) => each.has(key)) + 1);

  announce('one process is killed while the others wait for its requests');
  const killed = await killOne(sandbox, replicas, signal);
  return { unshared, shared, requestedBy, killed, seconds: (performance.now() - startedMs) / 1000 };
}

/** Adds owners, slows the service down, and kills a process that has requests in flight. */
async function killOne(
  sandbox: Sandbox,
  replicas: readonly ReplicaProcess[],
  signal: AbortSignal,
): Promise<FleetResult['killed']> {
  const keys = Array.from({ length: FLEET.newOwners }, () => sandbox.addOwner().accessKey);
  sandbox.faults.add({ kind: 'latency', ms: SLOW_ANSWER_MS });
  const before = tokenRequests(sandbox);
  const [victim, ...others] = replicas as [ReplicaProcess, ...ReplicaProcess[]];
  let isRunning = true;
  const ended = victim
    .get(keys)
    .catch(() => {})
    .finally(() => {
      isRunning = false;
    });
  while (isRunning && tokenRequests(sandbox) - before < 10) {
    signal.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  victim.kill();
  await ended;
  // Requests that the process sent just before its end are still on their way.
  await new Promise((resolve) => setTimeout(resolve, 100));
  const inFlight = tokenRequests(sandbox) - before;
  const waitsMs = (await Promise.all(others.map((each) => each.get(keys)))).flatMap((round) => round.waitsMs);
  return {
    inFlight,
    requests: tokenRequests(sandbox) - before,
    calls: waitsMs.length,
    served: waitsMs.filter((ms) => ms >= 0).length,
    slowestMs: Math.round(Math.max(...waitsMs)),
  };
}

const tokenRequests = (sandbox: Sandbox) => sandbox.ledger.count({ kind: 'token' });

const rotated = (keys: readonly string[], by: number): string[] => [...keys.slice(by), ...keys.slice(0, by)];
