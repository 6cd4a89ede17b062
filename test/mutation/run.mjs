/**
 * Mutation testing of what decides, a file at a time. Stores the score of each as soon as it is known, and renews
 * docs/internals/mutation.md.
 *
 *   npm run mutation                                       every file: takes hours
 *   npm run mutation -- failures/blame failures/limiter       these files; the scores of the others stay
 */

import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { storeFigures } from '../bench/stored.mjs';
import { MUTATED } from './mutated.mjs';

const STORE = 'test/mutation/results.json';
const LEAST_PERCENT = 98;

const here = (path) => new URL(path, import.meta.url);
const readJson = (url) => JSON.parse(readFileSync(url, 'utf8'));

/** How many mutants of a file there are, and how many were noticed. */
function scoreOf(file) {
  const stryker = fileURLToPath(here('node_modules/@stryker-mutator/core/bin/stryker.js'));
  const config = fileURLToPath(here('stryker.config.mjs'));
  const env = { ...process.env, MUTATED_FILE: file };
  const { status } = spawnSync(process.execPath, [stryker, 'run', config], { stdio: 'inherit', env });
  if (status !== 0) throw new Error(`Stryker failed for ${file}`);
  const mutants = Object.values(readJson(here('../../reports/mutation.json')).files).flatMap((each) => each.mutants);
  const valid = mutants.filter(({ status }) => !['Ignored', 'CompileError', 'RuntimeError'].includes(status));
  return [valid.length, valid.filter(({ status }) => ['Killed', 'Timeout'].includes(status)).length];
}

const rowsNow = () => readJson(here('results.json')).figures.scores.rows;

function store(row) {
  const others = rowsNow().filter(([file]) => file !== row[0] && Object.hasOwn(MUTATED, file));
  const rows = [...others, row].sort(([a], [b]) => (a < b ? -1 : 1));
  storeFigures(STORE, 'npm run mutation', { scores: { rows } });
}

const named = process.argv.slice(2);
for (const file of named.length > 0 ? named : Object.keys(MUTATED)) {
  if (!Object.hasOwn(MUTATED, file)) throw new Error(`${file} is not in mutated.mjs`);
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
  store([file, ...scoreOf(file), commit]);
}

const sum = (at) => rowsNow().reduce((total, row) => total + row[at], 0);
if ((100 * sum(2)) / sum(1) < LEAST_PERCENT) process.exitCode = 1;
