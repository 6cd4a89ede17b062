/**
 * What sharing over a fleet does and costs: real processes, a real Redis, by what the service counted. Some figures
 * alone: `node test/bench/fleet.mjs fuzz hits hung wakes killed outage cost refresh cold`, or `cost8`; `large` (50 processes, 1,000
 * owners) only when it is named. Needs `redis-server`; without one it says so.
 */

import { rmSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { build } from 'tsdown';

const root = new URL('../..', import.meta.url).pathname;
const outDir = `${root}node_modules/.cache/owner-token-registry/bench-${process.pid}`;
await build({
  ...{ config: false, cwd: root, outDir, dts: false, clean: false, logLevel: 'silent' },
  ...{ platform: 'node', target: 'node20.19', deps: { onlyBundle: false } },
  entry: { main: 'test/bench/fleet.main.ts', replica: 'test/helpers/fleet-worker.ts' },
});
try {
  const { main } = await import(pathToFileURL(`${outDir}/main.mjs`).href);
  process.exitCode = await main(`${outDir}/replica.mjs`, process.argv.slice(2));
} finally {
  rmSync(outDir, { recursive: true, force: true });
}
