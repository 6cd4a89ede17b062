/** Mutation testing of the file that `run.mjs` names. What comes of it is in `docs/internals/mutation.md`. */

/** @type {import('@stryker-mutator/api/core').PartialStrykerOptions} */
export default {
  mutate: [`src/${process.env.MUTATED_FILE}.ts`],
  ignorePatterns: ['**', '!src/**', '!test/**/*.ts', '!test/helpers/**', '!test/mutation/*.mjs', '!*.json'],
  testRunner: 'vitest',
  plugins: ['@stryker-mutator/vitest-runner'],
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
