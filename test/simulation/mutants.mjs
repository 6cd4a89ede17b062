/**
 * Proves that the simulation can fail: breaks the core in one way after another, and runs worlds until one notices.
 *
 *   node test/simulation/mutants.mjs [part of a name [most steps]]
 *   node test/simulation/mutants.mjs --docs      all, and stores the figures and renews docs/internals/simulation.md
 *
 * A change that no longer applies to the sources is an error; `broken-cores.test.ts` finds it first.
 */

import { storeFigures } from '../bench/stored.mjs';
import { bundled } from '../helpers/bundle.mjs';
import { BROKEN_CORES } from './broken-cores.mjs';

// What is left of a world that was found broken may still reject.
process.on('unhandledRejection', () => {});

const isForDocs = process.argv[2] === '--docs';
const named = isForDocs ? '' : (process.argv[2] ?? '');
const MOST_STEPS = Number(process.argv[3] ?? 2_000_000);
const stepsUntilNoticed = [];
let missed = 0;
for (const [file, breaks] of Object.entries(BROKEN_CORES)) {
  for (const [name, from, to] of breaks) {
    if (!name.includes(named)) continue;
    const { runWorlds } = await bundled('test/simulation/worlds.ts', [{ file: `src/${file}.ts`, from, to }]);
    const { broken, steps } = await runWorlds(5, (soFar) => soFar.steps < MOST_STEPS);
    if (broken) stepsUntilNoticed.push(steps);
    else missed++;
    const what = broken ? broken.what.replace(/^step \d+: (registry \d+: )?/, '').split('\n')[0] : 'NOT NOTICED';
    console.log(`| ${name} | ${what} | ${steps} |`);
  }
}
if (isForDocs) {
  const sorted = stepsUntilNoticed.sort((a, b) => a - b);
  const [half, last] = [sorted[sorted.length >> 1], sorted.at(-1)].map((steps) => steps.toLocaleString('en'));
  const text = `\`node test/simulation/mutants.mjs\` breaks the core in ${sorted.length + missed} ways, one after another, and prints what the oracle says and after how
many steps. The simulation notices ${missed === 0 ? 'all of them' : `all but ${missed}`}: half within ${half} steps, the last after ${last}.`;
  storeFigures('test/simulation/results.json', 'node test/simulation/mutants.mjs --docs', { mutants: { text } });
}
process.exit(missed > 0 ? 1 : 0);
