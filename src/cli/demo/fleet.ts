/**
 * `owner-token-registry demo --fleet`: eight replicas request tokens for the same owners, first each for itself, then sharing
 * them through one Redis. The numbers are those that the service counted. `test/system/fleet.test.ts` kills real processes.
 */

import { randomBytes } from 'node:crypto';
import { OwnerTokenRegistry, TokenEndpoint, type TokenSource } from '../../index.ts';
import { type RedisPort, SharedTokens } from '../../redis/index.ts';
import { type Sandbox, startSandbox } from '../../sandbox/index.ts';
import { EXIT, type Terminal } from '../command.ts';
import { bar, drawChecks, OWNERS_A_ROW, thousands } from './picture.ts';
import { connect, type DemoRedis, findRedis, Unavailable } from './redis.ts';
import type { Check } from './run.ts';

const REPLICAS = 8;
const OWNERS = 200;
const ANSWER_MS = 40;

/** As long as the registry waits: eight replicas in one process are slow on a busy machine. */
const TIMEOUT_MS = 30_000;

interface FleetResult {
  /** Token requests that the service received, without sharing and with it. */
  readonly unshared: number;
  readonly shared: number;
  /** Calls without a token. */
  readonly failed: number;
  /** For each owner, the number of the replica that requested its token, from 1. */
  readonly requestedBy: readonly number[];
  readonly seconds: number;
}

export async function runFleetDemo(terminal: Terminal, json: boolean): Promise<number> {
  let redis: DemoRedis | undefined;
  try {
    redis = await findRedis(terminal);
    const announce = (line: string) => void (json || terminal.out.write(`${line} ...\n`));
    const result = await runFleet(redis, announce, terminal.signal);
    const checks = checksOf(result);
    const ok = checks.every((check) => check.ok);
    terminal.out.write(json ? `${JSON.stringify({ ok, ...result, checks })}\n` : `\n${drawFleet(result, checks)}\n`);
    return ok ? EXIT.ok : EXIT.failed;
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    terminal.err.write(`owner-token-registry demo --fleet: ${error.message}\n`);
    return EXIT.failed;
  } finally {
    redis?.stop();
  }
}

async function runFleet(redis: DemoRedis, announce: (line: string) => void, signal: AbortSignal): Promise<FleetResult> {
  const startedMs = performance.now();
  await using sandbox = await startSandbox({ owners: OWNERS });
  sandbox.faults.add({ kind: 'latency', ms: ANSWER_MS });
  announce(`${REPLICAS} replicas, ${OWNERS} owners, without sharing`);
  const alone = Array.from({ length: REPLICAS }, (_, index) => requestAll(sandbox, index, endpointOf(sandbox)));
  const failedAlone = sum(await Promise.all(alone));
  signal.throwIfAborted();
  const unshared = sandbox.ledger.count({ kind: 'token' });
  announce('the same, sharing through Redis');
  const { requestedBy, failed } = await requestShared(sandbox, redis, signal);
  signal.throwIfAborted();
  const shared = sandbox.ledger.count({ kind: 'token' }) - unshared;
  const seconds = (performance.now() - startedMs) / 1000;
  return { unshared, shared, failed: failedAlone + failed, requestedBy, seconds };
}

const endpointOf = ({ url: baseUrl, clientId, clientSecret }: Sandbox): TokenEndpoint =>
  new TokenEndpoint({ baseUrl, clientId, clientSecret, timeoutMs: TIMEOUT_MS });

/** Requests all tokens and returns how many calls failed. Each replica starts with different owners, as real ones do. */
async function requestAll({ accessKeys }: Sandbox, index: number, source: TokenSource): Promise<number> {
  await using registry = new OwnerTokenRegistry({ source });
  const first = index * Math.floor(accessKeys.length / REPLICAS);
  const keys = [...accessKeys.slice(first), ...accessKeys.slice(0, first)];
  const calls = await Promise.allSettled(keys.map((accessKey) => registry.getToken(accessKey)));
  return calls.filter(({ status }) => status === 'rejected').length;
}

async function requestShared(
  sandbox: Sandbox,
  { url }: DemoRedis,
  signal: AbortSignal,
): Promise<Pick<FleetResult, 'requestedBy' | 'failed'>> {
  const sealingKeys = [randomBytes(32)];
  const prefix = `otr-demo-${process.pid}`;
  const requestedBy = new Map<string, number>();
  const replica = async (index: number) => {
    const { port, close } = await connect(url, signal);
    try {
      const endpoint = endpointOf(sandbox);
      const recorder: TokenSource = {
        origin: endpoint.origin,
        identity: () => endpoint.identity(),
        requestToken: (accessKey, request) => {
          requestedBy.set(accessKey, index + 1);
          return endpoint.requestToken(accessKey, request);
        },
        close: () => endpoint.close(),
      };
      return await requestAll(sandbox, index, sharedBy(recorder, port, sealingKeys, prefix));
    } finally {
      close();
    }
  };
  const failed = sum(await Promise.all(Array.from({ length: REPLICAS }, (_, index) => replica(index))));
  return { failed, requestedBy: sandbox.accessKeys.map((accessKey) => requestedBy.get(accessKey) ?? 0) };
}

const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);

function sharedBy(source: TokenSource, redis: RedisPort, sealingKeys: Uint8Array[], prefix: string): SharedTokens {
  // Generous: all replicas share one process here, so a slow reply does not mean that Redis is slow.
  return new SharedTokens({ source, redis, sealingKeys, prefix, redisTimeoutMs: 2_000 });
}

function checksOf({ unshared, shared, failed }: FleetResult): Check[] {
  return [
    {
      name: 'without sharing, every replica requests a token for every owner',
      ok: unshared === REPLICAS * OWNERS,
      found: `${thousands(unshared)} requests`,
    },
    {
      name: 'with sharing, the fleet requests one token per owner, and at most 1 % more',
      ok: shared >= OWNERS && shared <= OWNERS * 1.01,
      found: `${thousands(shared)} requests`,
    },
    { name: 'every call got its token', ok: failed === 0, found: `${failed} failures` },
  ];
}

function drawFleet({ unshared, shared, requestedBy, seconds }: FleetResult, checks: readonly Check[]): string {
  const row = (name: string, count: number) =>
    `  ${name.padEnd(12)}${bar(count / unshared, 24, ['█', ' '])} ${thousands(count).padStart(5)}  ${count / OWNERS} per owner`;
  const rows = Array.from({ length: Math.ceil(OWNERS / OWNERS_A_ROW) }, (_, line) => {
    return `  ${requestedBy.slice(line * OWNERS_A_ROW, (line + 1) * OWNERS_A_ROW).join('')}`;
  });
  return [
    `Requests of ${REPLICAS} replicas for ${OWNERS} owners`,
    row('not shared', unshared),
    row('shared', shared),
    '',
    'The replica that requested the token, a digit per owner',
    ...rows,
    '',
    drawChecks(checks),
    '',
    `Took ${seconds.toFixed(1)} s.`,
  ].join('\n');
}
