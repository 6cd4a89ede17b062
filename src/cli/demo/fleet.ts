/**
 * `owner-token-registry demo --fleet`: eight replicas request tokens for the same owners, first each for itself, then sharing
 * them through one Redis. The numbers are those that the service counted. `test/system/fleet.test.ts` kills real processes.
 */

import { randomBytes } from 'node:crypto';
import { jsonRequest, OwnerTokenRegistry, TokenEndpoint, type TokenSource } from '../../index.ts';
import { SharedTokens } from '../../redis/index.ts';
import { type Sandbox, startSandbox } from '../../sandbox/index.ts';
import { EXIT, type Terminal } from '../command.ts';
import { bar, drawChecks, thousands, type Widths, widthsFor } from './picture.ts';
import { type DemoRedis, openRedis } from './redis.ts';
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
  /** How many of the `shared` requests were made because Redis did not reply in time. */
  readonly fallback: number;
  /** Calls without a token. */
  readonly failed: number;
  /** For each owner, the number of the replica that requested its token, from 1. */
  readonly requestedBy: readonly number[];
  readonly seconds: number;
}

export async function runFleetDemo(terminal: Terminal, json: boolean): Promise<number> {
  using redis = await openRedis(terminal, REPLICAS);
  const announce = (line: string) => void (json || terminal.out.write(`${line} ...\n`));
  const result = await runFleet(redis, announce, terminal.signal);
  const checks = checksOf(result);
  const ok = checks.every((check) => check.ok);
  terminal.out.write(
    json
      ? `${JSON.stringify({ ok, ...result, checks })}\n`
      : `\n${drawFleet(result, checks, widthsFor(terminal.out.columns))}\n`,
  );
  return ok ? EXIT.ok : EXIT.failed;
}

async function runFleet(
  { ports }: DemoRedis,
  announce: (line: string) => void,
  signal: AbortSignal,
): Promise<FleetResult> {
  const startedMs = performance.now();
  await using sandbox = await startSandbox({ owners: OWNERS });
  sandbox.faults.add({ kind: 'latency', ms: ANSWER_MS });
  announce(`${REPLICAS} replicas, ${OWNERS} owners, without sharing`);
  const alone = await requestAll(
    sandbox,
    ports.map(() => endpointOf(sandbox)),
  );
  signal.throwIfAborted();
  announce('the same, sharing through Redis');
  const requestedBy = new Map<string, number>();
  const [sealingKeys, prefix] = [[randomBytes(32)], `otr-demo-${process.pid}`];
  const sharing = ports.map((redis, index) => {
    const source = endpointOf(sandbox, (accessKey) => requestedBy.set(accessKey, index + 1));
    // Generous: all replicas share one process here, so a slow reply does not mean that Redis is slow.
    return new SharedTokens({ source, redis, sealingKeys, prefix, redisTimeoutMs: 5_000 });
  });
  const together = await requestAll(sandbox, sharing);
  signal.throwIfAborted();
  return {
    unshared: alone.requests,
    shared: together.requests,
    fallback: sharing.reduce((sum, source) => sum + source.stats().fallback, 0),
    failed: alone.failed + together.failed,
    requestedBy: sandbox.accessKeys.map((accessKey) => requestedBy.get(accessKey) ?? 0),
    seconds: (performance.now() - startedMs) / 1000,
  };
}

function endpointOf(sandbox: Sandbox, onRequest: (accessKey: string) => void = () => {}): TokenEndpoint {
  const { url: baseUrl, clientId, clientSecret } = sandbox;
  const asJson = jsonRequest();
  return new TokenEndpoint({
    baseUrl,
    clientId,
    clientSecret,
    timeoutMs: TIMEOUT_MS,
    tokenRequest: (credentials) => {
      onRequest(credentials.accessKey);
      return asJson(credentials);
    },
  });
}

/** Requests every owner's token from each source, one per replica. Replicas start with different owners, as real ones do. */
async function requestAll({ accessKeys, ledger }: Sandbox, sources: readonly TokenSource[]) {
  const before = ledger.count({ kind: 'token' });
  const replica = async (source: TokenSource, index: number) => {
    await using registry = new OwnerTokenRegistry({ source });
    const first = index * Math.floor(OWNERS / REPLICAS);
    const keys = [...accessKeys.slice(first), ...accessKeys.slice(0, first)];
    return await Promise.allSettled(keys.map((accessKey) => registry.getToken(accessKey)));
  };
  const calls = (await Promise.all(sources.map(replica))).flat();
  const failed = calls.filter(({ status }) => status === 'rejected').length;
  return { requests: ledger.count({ kind: 'token' }) - before, failed };
}

function checksOf({ unshared, shared, fallback, failed }: FleetResult): Check[] {
  const late = fallback > 0 ? `, ${thousands(fallback)} because Redis replied late: is this machine busy?` : '';
  return [
    {
      name: 'without sharing, every replica requests a token for every owner',
      ok: unshared === REPLICAS * OWNERS,
      found: `${thousands(unshared)} requests`,
    },
    {
      name: 'with sharing, the fleet requests one token per owner, and at most 1 % more',
      ok: shared >= OWNERS && shared <= OWNERS * 1.01,
      found: `${thousands(shared)} requests${late}`,
    },
    { name: 'every call got its token', ok: failed === 0, found: `${failed} failures` },
  ];
}

function drawFleet(
  { unshared, shared, requestedBy, seconds }: FleetResult,
  checks: readonly Check[],
  widths: Widths,
): string {
  const { ownersARow } = widths;
  const row = (name: string, count: number) =>
    `  ${name.padEnd(12)}${bar(count / unshared, widths.bar + 4, ['█', ' '])} ${thousands(count).padStart(5)}  ${count / OWNERS} per owner`;
  const rows = Array.from({ length: Math.ceil(OWNERS / ownersARow) }, (_, line) => {
    return `  ${requestedBy.slice(line * ownersARow, (line + 1) * ownersARow).join('')}`;
  });
  return [
    `Requests of ${REPLICAS} replicas for ${OWNERS} owners`,
    row('not shared', unshared),
    row('shared', shared),
    '',
    'The replica that requested the token, a digit per owner',
    ...rows,
    '',
    drawChecks(checks, widths),
    '',
    `Took ${seconds.toFixed(1)} s.`,
  ].join('\n');
}
