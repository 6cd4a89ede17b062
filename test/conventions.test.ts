/** Enforces the architecture: what a file may import, how long it may be, module state, public names; and what lock files hold. */

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  exportsOf,
  type Import,
  importCycles,
  isEntryPoint,
  moduleState,
  pathsBelow,
  ROOT,
  readSource,
} from './helpers/source-files.ts';

/** The service's world, what happened in it, and the verdict on an integration. */
const SANDBOX_STATE = ['sandbox/state/world', 'sandbox/state/ledger', 'sandbox/state/judge'];

/**
 * The folders that the files of each folder may import from, besides their own. `~` means types only. The root holds the
 * shared vocabulary; its `index.ts` may export from anywhere.
 */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  root: ['errors', '~reporting'],
  errors: ['own-property'],
  reporting: ['root', 'errors'],
  failures: ['root', 'errors'],
  expiry: ['root', 'errors'],
  endpoint: ['root', 'errors'],
  calling: ['root', 'errors'],
  registry: ['root', 'errors', 'reporting', 'failures', 'expiry', 'calling', 'registry/owners', 'registry/requests'],
  'registry/owners': [
    'root',
    'errors',
    'reporting',
    'failures',
    'expiry',
    'registry/async-context',
    '~registry',
    '~registry/requests',
  ],
  'registry/requests': [
    'root',
    'errors',
    'reporting',
    'failures',
    'registry/owners',
    'registry/async-context',
    '~registry',
  ],
  redis: ['root', 'errors', 'reporting', 'expiry'],
  otel: ['option-check', '~reporting', '~registry', '~redis'],
  adapters: ['~root', '~errors', '~calling', 'calling/printing', 'calling/leaving'],
  'live-view': ['root', 'errors', 'reporting', '~registry', '~redis', 'page-engine'],
  'live-view/page': ['live-view', '~registry', 'page-engine'],
  // Lanes and time rail of a page: plain data in, no knowledge of where it comes from.
  'page-engine': [],
  sandbox: [...SANDBOX_STATE, 'sandbox/service', 'sandbox/control'],
  'sandbox/state/world': ['option-check', 'nearest', '~root', '~sandbox/state/ledger', '~sandbox/state/judge'],
  'sandbox/state/ledger': ['page-engine', 'sandbox/state/world'],
  'sandbox/state/judge': ['sandbox/state/world', 'sandbox/state/ledger'],
  'sandbox/service': ['sandbox/state/world', '~sandbox/state/ledger'],
  'sandbox/control': ['page-engine', ...SANDBOX_STATE, 'sandbox/service', 'sandbox/portal'],
  'sandbox/portal': [],
  // Values too: its tables of fault kinds are the page's as well. The bundle fails if one needs Node.
  'sandbox/portal/page': ['~sandbox/control', ...SANDBOX_STATE, 'page-engine'],
  cli: ['nearest', 'parse-url', 'public', 'cli/demo', 'cli/doctor', 'cli/sandbox'],
  'cli/demo': ['cli', 'public'],
  'cli/doctor': ['cli', 'parse-url', 'public'],
  'cli/sandbox': ['cli', 'public'],
};

/** The runtime dependencies, and the only files that may import them. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  'lru-cache': ['registry/owners/owner-table.ts', 'registry/owners/slot-cache.ts', 'expiry/learned-lifetime.ts'],
  'p-limit': ['registry/warm-up.ts'],
  // Optional peers.
  '@opentelemetry/api': ['otel/instrument.ts', 'otel/spans.ts'],
  '@opentelemetry/instrumentation': ['otel/instrumentation.ts'],
  pino: ['reporting/diagnostics.ts'],
};

/** Tests without a file of the same name in `src`. */
const OTHER_TESTS = [
  ...['architecture', 'conventions', 'docs', 'monitoring', 'packaging', 'polluted-names', 'secrets', 'types'],
  // In virtual time: what the page says and which alerts fire in whole incidents, and what a policy comes to.
  ...['workflows', 'live-view/incidents', 'alerts', 'expiry/learned-lifetime-worlds'],
];

/** Folders of `test` without a folder of the same name in `src`. */
const OTHER_FOLDERS = ['guarantees/', 'system/', 'simulation/', 'arena/', 'fuzz/', 'helpers/', 'bench/', 'doubles/'];

const source = readSource();
const folderOf = (path: string) => (path.includes('/') ? path.slice(0, path.lastIndexOf('/')) : 'root');

/** Whether the importing file's folder may import this file. */
function isAllowed(path: string, { from, typeOnly }: Import): boolean {
  const folder = folderOf(path);
  if (path === 'index.ts' || folderOf(from) === folder) return true;
  const names = [folderOf(from), from.replace(/\.ts$/, '')];
  if (isEntryPoint(from)) names.push('public');
  const allowed = MAY_IMPORT[folder] ?? [];
  return names.some((name) => allowed.includes(name) || (typeOnly && allowed.includes(`~${name}`)));
}

describe('folders', () => {
  it('have a rule each', () => {
    const folders = new Set(source.map(({ path }) => folderOf(path)));
    expect([...folders].sort()).toEqual(Object.keys(MAY_IMPORT).sort());
  });

  it('import only from folders that their rule allows', () => {
    const wrong = source.flatMap((file) =>
      file.imports
        .filter((found) => found.relative && !isAllowed(file.path, found))
        .map((found) => `${file.path} imports ${found.from}${found.typeOnly ? ' (types)' : ''}`),
    );
    expect(wrong).toEqual([]);
  });

  it('have no import cycle', () => {
    expect(importCycles(source)).toEqual([]);
  });

  it('import each dependency only in the files listed above', () => {
    const wrong = source.flatMap(({ path, imports }) =>
      imports
        .filter(({ from, typeOnly }) => PACKAGES[from] && !typeOnly && !PACKAGES[from].includes(path))
        .map(({ from }) => `${path} imports ${from}`),
    );
    expect(wrong).toEqual([]);
  });

  it('that library users load import only dependencies', () => {
    const wrong = source
      .filter(({ path }) => !/^(cli|page-engine|sandbox|live-view\/page)\//.test(path))
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
  it('of src have at most 350 lines', () => {
    expect(source.filter(({ lines }) => lines > 350).map(({ path, lines }) => `${path}: ${lines}`)).toEqual([]);
  });

  it('keep no module state', () => {
    // The executable is not a shared module: it is the process.
    const modules = source.filter(({ path }) => path !== 'cli/main.ts');
    expect(modules.flatMap((file) => moduleState(file).map((name) => `${file.path}: ${name}`))).toEqual([]);
  });

  it('of tests mirror one of src, or are listed above', () => {
    const tests = pathsBelow('test').filter((path) => /\.test\.ts$/.test(path));
    const stray = tests
      .filter((path) => !OTHER_FOLDERS.some((folder) => path.startsWith(folder)))
      .map((path) => path.slice(0, -'.test.ts'.length))
      .filter((name) => !OTHER_TESTS.includes(name))
      .filter((name) => !['.ts', '.tsx'].some((ending) => existsSync(join(ROOT, 'src', name + ending))));
    expect(stray).toEqual([]);
  });
});

describe('the public API', () => {
  for (const file of source.filter(({ path }) => isEntryPoint(path))) {
    it(`exports the same names as before from ${file.path}`, async () => {
      const name = file.path.replaceAll('/', '-').replace(/\.ts$/, '.txt');
      await expect(`${exportsOf(file).join('\n')}\n`).toMatchFileSnapshot(`api/${name}`);
    });
  }
});

describe('lock files', () => {
  interface LockFile {
    /** By path below the lock file's folder; '' is the project itself. */
    readonly packages: Readonly<Record<string, { readonly integrity?: string; readonly resolved?: string }>>;
  }

  const lockFilesIn = (folder: string): string[] =>
    readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return /^(\..*|node_modules|reports)$/.test(entry.name) ? [] : lockFilesIn(path);
      return entry.name === 'package-lock.json' ? [path] : [];
    });

  it('have the hash of every package, and no address of a registry', () => {
    const files = lockFilesIn('.');
    expect(files).toEqual(expect.arrayContaining(['package-lock.json', join('test', 'mutation', 'package-lock.json')]));
    const flawed = files.flatMap((file) => {
      const { packages } = JSON.parse(readFileSync(join(ROOT, file), 'utf8')) as LockFile;
      return Object.entries(packages)
        .filter(([path, { integrity, resolved }]) => path !== '' && (!integrity || resolved))
        .map(([path]) => `${file}: ${path}`);
    });
    expect(flawed).toEqual([]);
  });
});
