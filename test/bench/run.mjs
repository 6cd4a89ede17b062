/**
 * Runs the benchmarks, one process each, and prints their ratios. Figures are measured side by side in one run, because
 * machines are shared and noisy: compare the ratios, not the times.
 *
 *   npm run bench                  all of them
 *   npm run bench -- core fleet    those named
 */

import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';

const here = new URL('.', import.meta.url);
/** A benchmark is a file of one word; files with another dot in their names are its parts. */
const all = readdirSync(here)
  .filter((name) => /^[a-z-]+\.mjs$/.test(name) && name !== 'run.mjs')
  .map((name) => name.slice(0, -'.mjs'.length));

const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !all.includes(name));
if (unknown.length > 0) {
  console.error(`no such benchmark: ${unknown.join(', ')}. There are: ${all.join(', ')}`);
  process.exit(2);
}

const failed = (asked.length > 0 ? asked : all).filter((name) => {
  console.log(`\n== ${name}`);
  const { status } = spawnSync(process.execPath, ['--expose-gc', new URL(`${name}.mjs`, here).pathname], {
    stdio: 'inherit',
  });
  return status !== 0;
});
if (failed.length > 0) {
  console.error(`\nmissed their figures, or failed: ${failed.join(', ')}`);
  process.exit(1);
}
