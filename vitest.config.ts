import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { bundlePage, portalPlugin } from './src/sandbox/portal/bundle.ts';

const source = (path: string) => fileURLToPath(new URL(`src/${path}`, import.meta.url));

export default defineConfig({
  plugins: [portalPlugin('memory', () => bundlePage(['preact']))],
  resolve: {
    // Examples import the package by its name, and are run against the sources.
    alias: [
      { find: /^owner-token-registry$/, replacement: source('index.ts') },
      { find: /^owner-token-registry\/(adapters\/.+)$/, replacement: source('$1.ts') },
      { find: /^owner-token-registry\/(\w+)$/, replacement: source('$1/index.ts') },
    ],
  },
  test: {
    include: ['test/**/*.test.ts'],
    testTimeout: 20_000,
    restoreMocks: true,
    unstubEnvs: true,
    // One unhandled rejection or error anywhere in the run fails the run.
    dangerouslyIgnoreUnhandledErrors: false,
    // Contract signatures. What else is wrong with the types is `npm run typecheck`'s to say.
    typecheck: { enabled: true, include: ['test/**/*.test-d.ts'], ignoreSourceErrors: true },
    // In CI the counts are read from a file.
    reporters: process.env.CI ? ['default', 'json'] : ['default'],
    outputFile: { json: process.env.TEST_REPORT ?? 'reports/tests.json' },
    // Of the core, by its own unit tests (`npm run coverage`): what the gauntlet happens to pass by does not count.
    coverage: {
      include: ['src/*.ts', 'src/{calling,endpoint,expiry,failures,registry}/*.ts'],
      exclude: ['src/index.ts'], // It has exports only.
      reporter: ['text', 'html'],
      thresholds: { statements: 100, branches: 100, functions: 100 },
    },
  },
});
