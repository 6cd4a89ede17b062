/**
 * Speed beside the libraries you might choose instead, measured on the built package (`npm run build`): every workload in a process
 * of its own, its candidates in turns, least and median of all rounds. Compare the ratios: machines are shared and noisy.
 *
 *   npm run bench -- speed                         all workloads, about 20 minutes
 *   npm run bench -- speed --workloads hit,fill    those named
 *   npm run bench -- speed --quick                 fewer rounds, owners and peers: a few minutes
 *   npm run bench -- speed --json                  prints the results as JSON instead
 *   npm run bench -- speed --docs                  also stores them, and renews docs/performance.md and its pictures
 */

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import os from 'node:os';
import { parseArgs } from 'node:util';
import { peers, versionOf } from '../peers/index.mjs';
import { renewDocs } from './docs.mjs';
import { inProcess } from './processes.mjs';
import { text } from './report.mjs';

const WORKLOADS = ['hit', 'burst', 'fill', 'invalidated', 'outage', 'memory', 'start', 'owner-fetch'];

const { values: options } = parseArgs({
  options: {
    workloads: { type: 'string', default: WORKLOADS.join() },
    quick: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    docs: { type: 'boolean', default: false },
  },
});
const chosen = options.workloads.split(',');
const unknown = chosen.filter((name) => !WORKLOADS.includes(name));
if (unknown.length > 0) {
  console.error(`no such workload: ${unknown.join(', ')}. There are: ${WORKLOADS.join(', ')}`);
  process.exit(2);
}

const results = {};
for (const name of chosen) {
  const module = new URL(`workloads/${name}.mjs`, import.meta.url).href;
  const { title, unit, base, columns = [`least, ${unit}`, 'median'] } = await import(module);
  const tables = await inProcess(module, 'run', { quick: options.quick });
  results[name] = { title, columns, base, quick: options.quick, ...conditions(name), tables };
  if (!options.json) console.log(text(results[name]));
}
if (options.json) console.log(JSON.stringify(results, null, 2));
if (options.docs) renewDocs(results);

function conditions(workload) {
  const git = (...args) => execFileSync('git', args, { cwd: import.meta.dirname, encoding: 'utf8' }).trim();
  const own = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'));
  return {
    command: `npm run bench -- speed --workloads ${workload}${options.quick ? ' --quick' : ''}`,
    date: new Date().toISOString().slice(0, 10),
    commit: git('rev-parse', '--short', 'HEAD'),
    node: process.version,
    machine: `${os.cpus().length} cores of ${os.cpus()[0].model.trim()}, ${os.type()}`,
    load: os.loadavg()[0].toFixed(1),
    versions: {
      [own.name]: own.version,
      ...Object.fromEntries(peers.map((peer) => [peer.packages[0], versionOf(peer)])),
    },
  };
}
