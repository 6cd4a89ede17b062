import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { configDefaults, defineConfig } from 'vitest/config';
import { bundlePage, LIVE_VIEW, PORTAL, pagePlugin } from './src/page-engine/bundle.ts';

/** Long worlds in virtual time. CI plays them once and not on every line of Node, because no figure depends on the machine. */
const ARENA = [
  'test/arena/{fault-scenes,load-scenes,random,resource}.test.ts',
  'test/expiry/learned-lifetime-worlds.test.ts',
  'test/live-view/incidents.test.ts',
  'test/alerts.test.ts',
];

/**
 * Part of `npm test`, and not run on the other lines of Node, which run only what Node may change: sockets, streams, timers,
 * crypto, HTTP, clients of Redis, diagnostics channels, signals and printed errors. These decide from values in virtual time.
 */
const DECISIONS = [
  'test/{expiry,page-engine,simulation}/**/*.test.ts',
  'test/failures/!(foreign-error).test.ts',
  'test/guarantees/{api-outages,attribution,do-no-harm,failure-scopes,flow,long-queues,mixed-answers,partial-failures,refresh-ahead,stored-values,time}.test.ts',
  'test/redis/{forgettings,known-tokens,replicas,shared-tokens}.test.ts',
  'test/sandbox/state/**/*.test.ts',
  'test/{conventions,monitoring,workflows}.test.ts',
];

/** Real Redis servers that fail, for seconds each: what they find depends on Redis and its clients. They run on the oldest line alone. */
const REDIS_OUTAGES = ['test/system/redis-outages.test.ts'];

/** Clients of Redis whose connections die or move, which the sockets of Node may change: on the oldest and the newest line. */
const REDIS_CLIENTS = ['test/system/redis-clients.test.ts'];

/** Slower tests of what Node itself may change: sockets, printed errors. All but the above run on every line of Node. */
const PLATFORM = [
  ...REDIS_OUTAGES,
  ...REDIS_CLIENTS,
  'test/cli/{commands,network}.test.ts',
  'test/guarantees/unauthorized-calls.test.ts',
  'test/redis/ports.test.ts',
  'test/sandbox/index.test.ts',
  'test/secrets.test.ts',
  'test/system/{glide,networks,oauth-clients,own-sources}.test.ts',
];

/** More processes than cores. They must not run alongside the browser, which starves them of CPU time while it renders. */
const FLEET = ['test/system/fleet.test.ts'];

/** Other tests that take long: a browser, many requests, builds; and those that replace a module. */
const SYSTEM = [
  'test/system/**/*.test.ts',
  'test/arena/arena.test.ts',
  'docs/examples/recipes/*.test.mjs',
  'test/{architecture,docs,packaging,types}.test.ts',
  'test/guarantees/fleet-flow.test.ts',
  'test/redis/record-scripts.test.ts',
];

/** Libraries that replace `node:http` or the global `fetch`: part of `npm test`, each file in a process of its own. */
const DOUBLES = ['test/doubles/*.test.ts'];

/** Clients that are installed on the other lines only, with `test/doubles/newest`. */
const FETCH_CLIENTS = ['test/doubles/fetch-clients.test.ts'];

/** Set on all lines of Node but the oldest: whether the line is the newest or in the middle. */
const OTHER_LINE = process.env.OTHER_LINE as 'middle' | 'newest' | undefined;

const source = (path: string) => fileURLToPath(new URL(`src/${path}`, import.meta.url));

export default defineConfig({
  plugins: [
    pagePlugin(PORTAL, () => bundlePage(PORTAL, ['preact', 'valibot'])),
    pagePlugin(LIVE_VIEW, () => bundlePage(LIVE_VIEW, ['preact'])),
  ],
  resolve: {
    // Examples import the package by its name and run against the sources.
    alias: [
      { find: /^owner-token-registry$/, replacement: source('index.ts') },
      { find: /^owner-token-registry\/((?:adapters|otel)\/.+)$/, replacement: source('$1.ts') },
      { find: /^owner-token-registry\/([\w-]+)$/, replacement: source('$1/index.ts') },
    ],
  },
  test: {
    // Only a hang takes this long: on two cores with a load of 25, an hour of virtual time took one minute instead of 2 s.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // CI repeats a failed test once and lists it at the end: one busy moment of a shared machine must not fail 14,000
    // tests. More than two such tests fail the run (`.ci/counts.mjs`).
    retry: process.env.CI ? 1 : 0,
    restoreMocks: true,
    unstubEnvs: true,
    // An unhandled rejection anywhere fails the run.
    dangerouslyIgnoreUnhandledErrors: false,
    // The default, one less than there are cores, leaves a core idle on a machine with two.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    projects: [
      {
        // `npm test`: everything that fits into a minute. Threads start faster than processes. The files that a worker runs
        // share their modules, since these hold no state (`test/conventions.test.ts`): loading them for each file took as
        // long as a quarter of the tests.
        extends: true,
        test: {
          name: 'unit',
          pool: 'threads',
          isolate: false,
          setupFiles: [fileURLToPath(new URL('test/helpers/own-fetch.ts', import.meta.url))],
          include: ['test/**/*.test.ts'],
          exclude: [
            ...[...configDefaults.exclude, ...PLATFORM, ...FLEET, ...SYSTEM, ...ARENA, ...DOUBLES],
            ...(OTHER_LINE ? DECISIONS : []),
          ],
        },
      },
      {
        extends: true,
        test: {
          name: 'doubles',
          include: DOUBLES,
          exclude: [...configDefaults.exclude, ...(OTHER_LINE ? [] : FETCH_CLIENTS)],
        },
      },
      {
        // `npm run test:system`, with the next two: what takes longer.
        extends: true,
        test: {
          name: 'platform',
          include: PLATFORM,
          exclude: [
            ...configDefaults.exclude,
            ...(OTHER_LINE ? REDIS_OUTAGES : []),
            ...(OTHER_LINE === 'middle' ? REDIS_CLIENTS : []),
          ],
        },
      },
      {
        extends: true,
        test: { name: 'fleet', include: FLEET },
      },
      {
        extends: true,
        test: {
          name: 'system',
          include: SYSTEM,
          exclude: [...configDefaults.exclude, ...PLATFORM, ...FLEET],
          // Runs after the platform and fleet projects.
          sequence: { groupOrder: 1 },
        },
      },
      {
        // `npm run test:arena`: above all, no healthy tenant fares worse than with plain p-limit and lru-cache.
        extends: true,
        test: {
          name: 'arena',
          pool: 'threads',
          isolate: false,
          include: ARENA,
          // Virtual time: how long a scene takes depends on what runs beside it.
          testTimeout: 800_000,
        },
      },
    ],
    // CI counts the tests from a file.
    reporters: process.env.CI ? ['default', 'json'] : ['default'],
    outputFile: { json: process.env.TEST_REPORT ?? 'reports/tests.json' },
    // Coverage of the core by all unit tests (`npm run coverage`). CI measures it while it runs them for the README.
    coverage: {
      enabled: process.env.COVERAGE === '1',
      include: ['src/*.ts', 'src/{calling,endpoint,expiry,failures,registry}/**/*.ts'],
      exclude: ['src/index.ts', 'src/reporting/channel-messages.ts', '**/*-types.ts'], // They have exports or types only.
      reporter: ['text', 'html'],
      thresholds: { statements: 100, branches: 100, functions: 100 },
    },
  },
});
