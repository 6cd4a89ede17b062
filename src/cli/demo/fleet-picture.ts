/** The checks of the fleet demo, and its picture in plain characters. */

import { FLEET, type FleetResult } from './fleet-run.ts';
import { bar, thousands } from './picture.ts';
import type { Check } from './run.ts';

const OWNERS_PER_ROW = 50;

/** An interrupted request costs its waiters the rest of its lease and a new request; two leases bound both. */
const SLOWEST_CALL_MS = 2 * FLEET.leaseMs;

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;

export function checksOf({ unshared, shared, killed }: FleetResult): Check[] {
  const { processes, owners } = FLEET;
  const repeated = killed.requests - FLEET.newOwners;
  return [
    {
      name: 'without sharing, every process requests a token for every owner',
      ok: unshared === processes * owners,
      found: `${thousands(unshared)} requests`,
    },
    {
      name: 'with sharing, the fleet requests one token per owner, and at most 1 % more',
      ok: shared >= owners && shared <= owners * 1.01,
      found: `${thousands(shared)} requests`,
    },
    {
      name: 'killing a process fails no call of the others',
      ok: killed.served === killed.calls,
      found: `${killed.served} of ${killed.calls} calls served`,
    },
    {
      name: 'each request in flight is repeated at most once',
      ok: repeated <= killed.inFlight,
      found: `${repeated} repeated, ${killed.inFlight} in flight`,
    },
    {
      name: `no call takes longer than two leases (${seconds(SLOWEST_CALL_MS)})`,
      ok: killed.slowestMs <= SLOWEST_CALL_MS,
      found: `the slowest took ${seconds(killed.slowestMs)}`,
    },
  ];
}

export function drawFleet(result: FleetResult, checks: readonly Check[]): string {
  const { processes, owners, newOwners } = FLEET;
  const row = (name: string, count: number) =>
    `  ${name.padEnd(14)}${bar(count / result.unshared, 44, ['█', ' '])} ${thousands(count).padStart(6)}  ${count / owners} per owner`;
  const requestedBy = Array.from({ length: Math.ceil(owners / OWNERS_PER_ROW) }, (_, line) => {
    return `  ${result.requestedBy.slice(line * OWNERS_PER_ROW, (line + 1) * OWNERS_PER_ROW).join('')}`;
  });
  const { inFlight, requests, calls } = result.killed;
  return [
    `Requests that the service received: ${processes} processes, each needing a token for each of ${owners} owners`,
    row('not shared', result.unshared),
    row('shared', result.shared),
    '',
    'The process that requested the token, one digit per owner',
    ...requestedBy,
    '',
    `Process 1 is killed with ${inFlight} requests in flight, while the other ${processes - 1} wait for the same ${newOwners} new owners`,
    `  ${requests} requests: one per owner and ${requests - newOwners} repeated. ${calls} calls, the slowest took ${seconds(result.killed.slowestMs)}`,
    '',
    'Checks, against what the service counted',
    ...checks.map(({ ok, name, found }) => `  ${ok ? '✓' : '✗'} ${name}: ${found}`),
    '',
    `Took ${result.seconds.toFixed(1)} s.`,
  ].join('\n');
}
