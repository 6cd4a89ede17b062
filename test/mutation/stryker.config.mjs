/**
 * Mutation testing of the file that `run.mjs` names, or of mutants drawn from all the others. What comes of it is in
 * `docs/internals/mutation.md`.
 */

import { fileURLToPath } from 'node:url';
import { DRAWN, MUTATED } from './mutated.mjs';

const { MUTATED_FILE } = process.env;
const others = [
  ...DRAWN.folders.map((folder) => `src/${folder}/**/*.ts`),
  ...Object.keys(MUTATED).map((path) => `!src/${path}.ts`),
];

/** @type {import('@stryker-mutator/api/core').PartialStrykerOptions} */
export default {
  mutate: MUTATED_FILE ? [`src/${MUTATED_FILE}.ts`] : others,
  ignorePatterns: ['**', '!src/**', '!test/**/*.ts', '!test/helpers/**', '!test/mutation/*.mjs', '!*.json'],
  testRunner: 'vitest',
  plugins: ['@stryker-mutator/vitest-runner', fileURLToPath(new URL('drawn.mjs', import.meta.url))],
  checkers: MUTATED_FILE ? [] : ['drawn'],
  // A changed constant would run every test.
  ignoreStatic: !MUTATED_FILE,
  vitest: { configFile: 'test/mutation/vitest.config.mjs' },
  coverageAnalysis: 'perTest',
  concurrency: 1,
  // A busy machine takes long for the first run.
  dryRunTimeoutMinutes: 15,
  reporters: ['clear-text', 'progress-append-only', 'html', 'json'],
  clearTextReporter: { allowColor: false, reportTests: false, reportMutants: true },
  htmlReporter: { fileName: 'reports/mutation.html' },
  jsonReporter: { fileName: 'reports/mutation.json' },
  thresholds: { high: 100, low: 98, break: null },
};
