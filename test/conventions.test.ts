/** The architecture, kept: where a file may import from, how long it may be, what it may hold, what is public. */

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { exportsOf, type Import, moduleState, pathsBelow, ROOT, readSource } from './helpers/source-files.ts';

/** Bottom first. A file of the core imports from the rows below its own. */
const LAYERS: readonly (readonly string[])[] = [
  // Layer 0: what everything speaks of.
  ['clock.ts', 'errors.ts', 'token.ts', 'fingerprints.ts'],
  ['access-key.ts', 'options.ts'],
  // Layer 1: deciding, telling, and the parts that the next layer is made of.
  [
    'call-legs.ts',
    'deadline.ts',
    'diagnostics.ts',
    'endpoint-failures.ts',
    'expiry.ts',
    'lifetime-candidates.ts',
    'flight.ts',
    'gate.ts',
    'http-exchange.ts',
  ],
  ['fetch-exchange.ts', 'learned-lifetime.ts', 'pauses.ts', 'slot.ts', 'turns.ts'],
  ['endpoint-options.ts', 'failures.ts', 'holding.ts'],
  // Layer 2: talking, and what is built on the registry's methods.
  ['owner-fetch.ts', 'report.ts', 'requests.ts', 'token-endpoint.ts', 'warm-up.ts'],
  // Layer 3: doing.
  ['registry-options.ts'],
  ['registry.ts'],
  // Layer 4: exports.
  ['index.ts'],
];

/** How many of the rows above a fleet's shared source may use: layers 0 and 1. */
const ROWS_FOR_REDIS = 5;

/** What everything that takes options may use: the checks, and the error that they throw. */
const OPTION_CHECKS = ['options.ts', 'errors.ts'];

/** Packages by the only files that may import them at run time. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  'lru-cache': ['registry.ts'],
  'p-limit': ['turns.ts'],
  pino: ['diagnostics.ts'],
};

/** Tests that mirror no file of `src`. */
const OTHER_TESTS = ['conventions', 'docs', 'packaging', 'secrets'];

/** Folders of tests that mirror no folder of `src`. */
const OTHER_FOLDERS = ['gauntlet/', 'simulation/', 'helpers/', 'bench/'];

const ENTRY_POINTS = ['index.ts', 'sandbox/index.ts', 'redis/index.ts', 'otel/index.ts'];

const source = readSource();
const rowOf = (path: string) => LAYERS.findIndex((row) => row.includes(path));
const isEntryPoint = (path: string) => ENTRY_POINTS.includes(path) || path.startsWith('adapters/');

/** Why this file may not import that other file of ours; undefined where it may. */
function objection(path: string, { from, typeOnly }: Import): string | undefined {
  const folder = path.includes('/') ? path.slice(0, path.indexOf('/')) : 'core';
  const own = from.startsWith(`${folder}/`);
  switch (folder) {
    case 'core':
      if (rowOf(from) < 0 || rowOf(from) >= rowOf(path)) return 'not a lower layer';
      break;
    case 'redis':
      if (!own && !(rowOf(from) >= 0 && rowOf(from) < ROWS_FOR_REDIS)) return 'redis/ uses layers 0 and 1';
      break;
    case 'otel':
    case 'adapters':
      if (!own && !typeOnly) return `${folder}/ imports types only`;
      break;
    case 'sandbox':
      if (!own && !typeOnly && !OPTION_CHECKS.includes(from)) return 'the sandbox uses option checks and types only';
      break;
    case 'cli':
      if (!own && !isEntryPoint(from) && !OPTION_CHECKS.includes(from)) return 'commands use public entry points only';
      break;
    default:
      return 'a folder without a rule: give it one here and in the architecture';
  }
  return undefined;
}

describe('layers', () => {
  it('every file of the core has its layer', () => {
    const core = source.map(({ path }) => path).filter((path) => !path.includes('/'));
    expect(core.filter((path) => rowOf(path) < 0)).toEqual([]);
  });

  it('a file imports only from lower layers', () => {
    const wrong = source.flatMap(({ path, imports }) =>
      imports
        .filter((found) => found.relative)
        .map((found) => ({ found, why: objection(path, found) }))
        .filter(({ why }) => why)
        .map(({ found, why }) => `${path} imports ${found.from}: ${why}`),
    );
    expect(wrong).toEqual([]);
  });

  it('each dependency is used in one place', () => {
    const wrong = source.flatMap(({ path, imports }) =>
      imports
        .filter(({ from, typeOnly }) => PACKAGES[from] && !typeOnly && !PACKAGES[from].includes(path))
        .map(({ from }) => `${path} imports ${from}`),
    );
    expect(wrong).toEqual([]);
  });

  it('what is no dependency is not imported by what library users load', () => {
    const wrong = source
      .filter(({ path }) => !/^(cli|sandbox)\//.test(path))
      .flatMap(({ path, imports }) =>
        imports
          .filter(
            ({ from, relative, typeOnly }) => !relative && !typeOnly && !from.startsWith('node:') && !PACKAGES[from],
          )
          .map(({ from }) => `${path} imports ${from}`),
      );
    expect(wrong).toEqual([]);
  });
});

describe('files', () => {
  it('none is longer than 340 lines', () => {
    expect(source.filter(({ lines }) => lines > 340).map(({ path, lines }) => `${path}: ${lines}`)).toEqual([]);
  });

  it('no module keeps state', () => {
    // The executable is no module to be shared: it is the process.
    const modules = source.filter(({ path }) => path !== 'cli/main.ts');
    expect(modules.flatMap((file) => moduleState(file).map((name) => `${file.path}: ${name}`))).toEqual([]);
  });

  it('every test mirrors a file of src, or is one of the listed', () => {
    const tests = pathsBelow('test').filter((path) => /\.test\.ts$/.test(path));
    const stray = tests
      .filter((path) => !OTHER_FOLDERS.some((folder) => path.startsWith(folder)))
      .map((path) => path.slice(0, -'.test.ts'.length))
      .filter((name) => !OTHER_TESTS.includes(name))
      .filter((name) => !['.ts', '.tsx'].some((ending) => existsSync(join(ROOT, 'src', name + ending))));
    expect(stray).toEqual([]);
  });
});

describe('public API', () => {
  for (const file of source.filter(({ path }) => isEntryPoint(path))) {
    it(`${file.path} exports what it did`, async () => {
      const name = file.path.replaceAll('/', '-').replace(/\.ts$/, '.txt');
      await expect(`${exportsOf(file).join('\n')}\n`).toMatchFileSnapshot(`api/${name}`);
    });
  }
});

describe('the run of the tests', () => {
  // Inside the project, so that its own configuration is the one that is tried.
  const home = join(ROOT, 'reports/unhandled');
  const runOf = (body: string) => {
    rmSync(home, { recursive: true, force: true });
    mkdirSync(join(home, 'test'), { recursive: true });
    writeFileSync(
      join(home, 'test/fixture.test.ts'),
      `import { it } from 'vitest';\nit('passes', () => { ${body} });\n`,
    );
    const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs');
    const env = { ...process.env, CI: '', TEST_REPORT: '' };
    return spawnSync(process.execPath, [vitest, 'run', '--dir', home], { cwd: ROOT, env, encoding: 'utf8' });
  };

  it('K2: fails by one unhandled rejection, though every test passes', () => {
    expect(runOf('')).toMatchObject({ status: 0 });
    const { status, stdout, stderr } = runOf("void Promise.reject(new Error('nobody heard'));");
    expect(status).toBe(1);
    expect(stdout + stderr).toContain('nobody heard');
    expect(stdout).toContain('1 passed');
  });
});
