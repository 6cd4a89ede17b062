/** How fast the counters of a registry grow. */

import type { RegistryStats } from '../registry/stats.ts';
import type { Rates } from './frames.ts';

/** The statistics of all registries at one time. */
export interface Sample {
  readonly nowMs: number;
  readonly stats: ReadonlyMap<string, RegistryStats>;
}

/** Between the first and the last sample. */
export function ratesOf(samples: readonly Sample[], name: string): Rates | undefined {
  const [first, last] = [samples[0], samples.at(-1)];
  const [then, now] = [first?.stats.get(name), last?.stats.get(name)];
  if (!first || !last || !then || !now || last.nowMs <= first.nowMs) return undefined;
  const rate = (count: (stats: RegistryStats) => number) =>
    ((count(now) - count(then)) * 1000) / (last.nowMs - first.nowMs);
  const calls = rate(callsOf);
  return {
    calls,
    failed: {
      request: rate(({ failedCalls }) => failedCalls.request),
      refused: rate(({ failedCalls }) => failedCalls.refused),
      queue: rate(({ failedCalls }) => failedCalls.queue),
    },
    abandoned: rate(({ abandonedCalls }) => abandonedCalls),
    late: rate(({ late }) => late),
    requests: rate(({ requests }) => requests),
    fromCache: calls > 0 ? rate(({ hits }) => hits) / calls : 1,
  };
}

const refusedOf = ({ refused: { owner, client, endpoint } }: RegistryStats): number => owner + client + endpoint;

/** Requests that no call waits for are refreshes and canaries. */
const callsOf = (stats: RegistryStats): number =>
  stats.hits + stats.joined + refusedOf(stats) + stats.requests - stats.refreshes;
