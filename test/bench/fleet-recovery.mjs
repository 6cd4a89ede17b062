/**
 * Row N4 with real processes: how fast the worst of 20 replicas recovers from an outage of 10 s, compared with a process
 * that does not share. Five worlds at once (each with a service, a Redis prefix, and a registry in each process), four
 * times: 20 outages in two minutes. Needs `redis-server`; without one it says so.
 */

import { rmSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { build } from 'tsdown';

const root = new URL('../..', import.meta.url).pathname;
const outDir = `${root}node_modules/.cache/owner-token-registry/bench-${process.pid}`;
await build({
  ...{ config: false, cwd: root, outDir, dts: false, clean: false, logLevel: 'silent' },
  ...{ platform: 'node', target: 'node20.19', deps: { onlyBundle: false } },
  entry: { main: 'test/bench/fleet-recovery.main.ts', replica: 'test/bench/fleet-recovery.replica.ts' },
});
try {
  const { main } = await import(pathToFileURL(`${outDir}/main.mjs`).href);
  process.exitCode = await main(`${outDir}/replica.mjs`);
} finally {
  rmSync(outDir, { recursive: true, force: true });
}
