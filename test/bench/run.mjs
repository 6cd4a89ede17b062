/**
 * Runs the benchmarks, one process each, and prints their ratios. Figures are measured side by side in one run, because
 * machines are shared and noisy: compare the ratios, not the times.
 *
 *   npm run bench                        speed beside other libraries, in a few minutes
 *   npm run bench -- fleet portal        those named
 *   npm run bench -- board --peers ours  one of them, with its own options
 *   npm run bench -- board --help        what it measures, and its options
 *
 * A benchmark is a folder with a `main.mjs`. What only those that compare us with other libraries need is a package of
 * its own, which is installed on first use.
 */

import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';

const COMPARING = ['board', 'speed'];

const here = new URL('.', import.meta.url);
const all = readdirSync(here).filter((name) => existsSync(new URL(`${name}/main.mjs`, here)));

const firstOption = process.argv.findIndex((argument, at) => at > 1 && argument.startsWith('-'));
const asked = process.argv.slice(2, firstOption === -1 ? undefined : firstOption);
const options = firstOption === -1 ? [] : process.argv.slice(firstOption);
const unknown = asked.filter((name) => !all.includes(name));
if (unknown.length > 0) {
  console.error(`no such benchmark: ${unknown.join(', ')}. There are: ${all.join(', ')}`);
  process.exit(2);
}

if (options.includes('--help')) {
  const files = asked.length > 0 ? asked.map((name) => `${name}/main.mjs`) : ['run.mjs'];
  for (const file of files) console.log(introductionOf(new URL(file, here)));
  if (asked.length === 0) console.log(`The benchmarks are ${all.join(', ')}.`);
  process.exit(0);
}

const chosen = asked.length > 0 ? asked : ['speed'];
if (asked.length === 0) options.push('--quick');
if (chosen.some((name) => COMPARING.includes(name))) installPeers();
const failed = chosen.filter((name) => {
  console.log(`\n== ${name}`);
  const file = new URL(`${name}/main.mjs`, here);
  const { status } = spawnSync(process.execPath, ['--expose-gc', file.pathname, ...options], { stdio: 'inherit' });
  return status !== 0;
});
if (failed.length > 0) {
  console.error(`\nmissed their figures, or failed: ${failed.join(', ')}`);
  process.exit(1);
}

function installPeers() {
  const modifiedMs = (name) => statSync(new URL(name, here), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (modifiedMs('node_modules/.package-lock.json') >= modifiedMs('package-lock.json')) return;
  const { status } = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: here, stdio: 'inherit' });
  if (status !== 0) process.exit(1);
}

/** The comment at the beginning of the file, as plain text. */
function introductionOf(file) {
  const [, comment] = /^\/\*\*(.*?)\*\//s.exec(readFileSync(file, 'utf8'));
  return comment.replaceAll(/^ *\* ?/gm, '').trim();
}
