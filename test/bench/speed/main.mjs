/**
 * Speed compared with the libraries you might choose instead, measured on the built package (`npm run build`): every workload in a process
 * of its own, its candidates in turns, least and median of all rounds. Compare the ratios: machines are shared and noisy.
 *
 *   npm run bench -- speed                         all workloads, about 20 minutes
 *   npm run bench -- speed --workloads hit,fill    those named
 *   npm run bench -- speed --quick                 fewer rounds, owners and peers: a few minutes
 *   npm run bench -- speed --docs                  stores a whole run, and renews docs/performance.md and its pictures
 */

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import os from 'node:os';
import { parseArgs } from 'node:util';
import { shareOfOthers } from '../others.mjs';
import { peers, versionOf } from '../peers/index.mjs';
import { orRefuse, refuse } from '../refuse.mjs';
import { checkMeasured, publish, WORKLOADS } from './docs.mjs';
import { inProcess } from './processes.mjs';
import { text } from './report.mjs';

const { values: options } = parseArgs({
  options: {
    workloads: { type: 'string' },
    quick: { type: 'boolean', default: false },
    docs: { type: 'boolean', default: false },
  },
});
const chosen = options.workloads?.split(',') ?? WORKLOADS;
const unknown = chosen.filter((name) => !WORKLOADS.includes(name));
if (unknown.length > 0) refuse(`no such workload: ${unknown.join(', ')}. There are: ${WORKLOADS.join(', ')}`);
if (options.docs && (options.quick || options.workloads)) {
  refuse('--docs publishes only a whole run: leave out --quick and --workloads, as in npm run bench -- speed --docs');
}

const run = { conditions: conditions(), workloads: {} };
const { versions, ...here } = run.conditions;
console.log(Object.values(here).join(', '));
let before = await shareOfOthers();
for (const name of chosen) {
  try {
    await measure(name);
  } catch (error) {
    console.error(`\n${name} failed: ${error.stack}`);
    process.exitCode = 1;
  }
  // Fails now, instead of after the remaining workloads.
  if (options.docs) orRefuse(() => checkMeasured(run));
}
if (options.docs) orRefuse(() => publish(run));

async function measure(name) {
  const module = new URL(`workloads/${name}.mjs`, import.meta.url).href;
  const { title } = await import(module);
  const startedMs = performance.now();
  const tables = await inProcess(module, 'run', { quick: options.quick });
  const minutes = (performance.now() - startedMs) / 60_000;
  const after = await shareOfOthers();
  run.workloads[name] = { title, minutes, others: Math.max(before, after), tables };
  before = after;
  console.log(text(run.workloads[name]));
}

function conditions() {
  const git = (...args) => execFileSync('git', args, { cwd: import.meta.dirname, encoding: 'utf8' }).trim();
  const own = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'));
  return {
    date: new Date().toISOString().slice(0, 10),
    commit: git('describe', '--always', '--dirty', '--exclude=*'),
    node: process.version,
    machine: `${os.cpus().length} cores of ${os.cpus()[0].model.trim()}, ${os.type()}`,
    load: `load average ${os.loadavg()[0].toFixed(1)} at its start`,
    versions: {
      [own.name]: own.version,
      ...Object.fromEntries(peers.map((peer) => [peer.packages[0], versionOf(peer)])),
    },
  };
}
