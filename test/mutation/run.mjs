/**
 * Mutation testing of what decides, a file at a time, and of mutants drawn from what is beside it. Stores each score as soon as
 * it is known, and renews docs/internals/mutation.md.
 *
 *   npm run mutation                                          everything: takes hours
 *   npm run mutation -- failures/blame failures/limiter       these files; the scores of the others stay
 *   npm run mutation -- drawn                                 the drawn mutants alone
 */

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { commitNow, storeFigures } from '../bench/stored.mjs';
import { DRAWN, MUTATED } from './mutated.mjs';

const STORE = 'test/mutation/results.json';
const LEAST_PERCENT = 98;
const NAMES = [...Object.keys(MUTATED), 'drawn'];

const here = (path) => new URL(path, import.meta.url);
const readJson = (url) => JSON.parse(readFileSync(url, 'utf8'));

/** The mutants of a file that count, by its path, or those that were drawn of all. */
function mutantsOf(name) {
  const stryker = fileURLToPath(here('node_modules/@stryker-mutator/core/bin/stryker.js'));
  const config = fileURLToPath(here('stryker.config.mjs'));
  const env = { ...process.env, MUTATED_FILE: name === 'drawn' ? '' : name };
  const { status } = spawnSync(process.execPath, [stryker, 'run', config], { stdio: 'inherit', env });
  if (status !== 0) throw new Error(`Stryker failed for ${name}`);
  const { files } = readJson(here('../../reports/mutation.json'));
  return Object.entries(files).flatMap(([path, { mutants }]) =>
    mutants
      .filter(({ status }) => !['Ignored', 'CompileError', 'RuntimeError'].includes(status))
      .map(({ status }) => ({ path, isKilled: ['Killed', 'Timeout'].includes(status) })),
  );
}

const rowOf = (name, mutants) => [name, mutants.length, mutants.filter(({ isKilled }) => isKilled).length, commitNow()];
const scores = () => readJson(here('results.json')).figures.scores.rows;

function store(name, mutants) {
  if (name === 'drawn') {
    const rows = DRAWN.folders.map((folder) =>
      rowOf(
        folder,
        mutants.filter(({ path }) => path.startsWith(`src/${folder}/`)),
      ),
    );
    storeFigures(STORE, 'npm run mutation -- drawn', { drawn: { rows } });
    return;
  }
  const others = scores().filter(([file]) => file !== name && Object.hasOwn(MUTATED, file));
  const rows = [...others, rowOf(name, mutants)].sort(([a], [b]) => (a < b ? -1 : 1));
  storeFigures(STORE, 'npm run mutation', { scores: { rows } });
}

const named = process.argv.slice(2);
for (const name of named) if (!NAMES.includes(name)) throw new Error(`${name} is not in mutated.mjs`);
for (const name of named.length > 0 ? named : NAMES) store(name, mutantsOf(name));

const sum = (at) => scores().reduce((total, row) => total + row[at], 0);
if ((100 * sum(2)) / sum(1) < LEAST_PERCENT) process.exitCode = 1;
