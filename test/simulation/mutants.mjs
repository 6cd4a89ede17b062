/**
 * Proves that the simulation can fail: breaks the core in one way after another, and runs worlds until one notices.
 *
 *   node test/simulation/mutants.mjs [part of a name [most steps]]
 *
 * A change that no longer applies to the sources is an error; `broken-cores.test.ts` finds it first.
 */

import { bundled } from '../helpers/bundle.mjs';
import { BROKEN_CORES } from './broken-cores.mjs';

// What is left of a world that was found broken may still reject.
process.on('unhandledRejection', () => {});

const MOST_STEPS = Number(process.argv[3] ?? 2_000_000);
let missed = 0;
for (const [file, breaks] of Object.entries(BROKEN_CORES)) {
  for (const [name, from, to] of breaks) {
    if (process.argv[2] && !name.includes(process.argv[2])) continue;
    const { runWorlds } = await bundled('test/simulation/worlds.ts', [{ file: `src/${file}.ts`, from, to }]);
    const { broken, steps } = await runWorlds(5, (soFar) => soFar.steps < MOST_STEPS);
    if (!broken) missed++;
    const what = broken ? broken.what.replace(/^step \d+: (registry \d+: )?/, '').split('\n')[0] : 'NOT NOTICED';
    console.log(`| ${name} | ${what} | ${steps} |`);
  }
}
process.exit(missed > 0 ? 1 : 0);
