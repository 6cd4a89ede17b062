/** Mutation testing of what decides: `npm run mutation`. What comes of it is in `docs/internals/mutation.md`. */

import { MUTATED } from './mutated.mjs';

/** @type {import('@stryker-mutator/api/core').PartialStrykerOptions} */
export default {
  mutate: MUTATED.map((name) => `src/${name}.ts`),
  ignorePatterns: ['**', '!src/**', '!test/**/*.ts', '!test/helpers/**', '!test/mutation/*.mjs', '!*.json'],
  testRunner: 'vitest',
  plugins: ['@stryker-mutator/vitest-runner'],
  vitest: { configFile: 'test/mutation/vitest.config.mjs' },
  coverageAnalysis: 'perTest',
  concurrency: 1,
  reporters: ['clear-text', 'html', 'json'],
  clearTextReporter: { allowColor: false, reportTests: false, reportMutants: true },
  htmlReporter: { fileName: 'reports/mutation.html' },
  jsonReporter: { fileName: 'reports/mutation.json' },
  thresholds: { high: 100, low: 98, break: 98 },
};
