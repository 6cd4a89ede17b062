import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { peers } from '../../peers/index.mjs';
import { inTurns, rowsOf } from '../measure.mjs';

export const title = 'Size';

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url));
const PEERS = fileURLToPath(new URL('../../', import.meta.url));

export async function run() {
  const bundling = (imported, resolveDir) => () =>
    bundledKb({ stdin: { contents: `export * from '${imported}'`, resolveDir } });
  const bundles = { ours: bundling('./dist/index.js', ROOT) };
  for (const { packages } of peers) bundles[packages[0]] ??= bundling(packages[0], PEERS);
  const own = { ours: () => bundledKb({ entryPoints: [`${ROOT}dist/index.js`], packages: 'external' }) };
  const measured = async (candidates) => rowsOf(await inTurns(candidates, 1), 'ours');
  return [
    { what: 'bundled', unit: 'kB, minified', rows: await measured(own) },
    { what: 'bundled with dependencies', unit: 'kB, minified', base: 'ours', rows: await measured(bundles) },
    { what: 'installed', unit: 'MB', rows: installed() },
  ];
}

async function bundledKb(options) {
  const { outputFiles } = await build({
    ...{ ...options, bundle: true, minify: true, write: false },
    ...{ platform: 'node', format: 'esm', logLevel: 'silent' },
  });
  return outputFiles[0].contents.length / 1_000;
}

/** The size of all that `npm install owner-token-registry` installs, and of its packages, without optional peer dependencies. */
function installed() {
  const home = mkdtempSync(join(tmpdir(), 'installed-'));
  const npm = (args, cwd) => execFileSync('npm', args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  try {
    const [{ filename }] = JSON.parse(npm(['pack', '--json', '--ignore-scripts', '--pack-destination', home], ROOT));
    npm(['install', '--prefix', home, '--no-audit', '--no-fund', '--omit=peer', join(home, filename)], home);
    const modules = join(home, 'node_modules');
    const folders = readdirSync(modules).filter((name) => !name.startsWith('.'));
    const sizes = folders.map((name) => [name, megabytesIn(join(modules, name))]);
    const sumOf = (isCounted) => sizes.reduce((sum, [name, size]) => sum + (isCounted(name) ? size : 0), 0);
    const row = (name, isCounted) => ({ name, cost: sumOf(isCounted) });
    const named = ['owner-token-registry', 'lru-cache'];
    return [
      row('ours', () => true),
      ...named.map((name) => row(name, (each) => each === name)),
      row('pino, p-limit and their dependencies', (each) => !named.includes(each)),
    ];
  } finally {
    rmSync(home, { recursive: true });
  }
}

function megabytesIn(folder) {
  const files = readdirSync(folder, { recursive: true }).map((path) => statSync(join(folder, path)));
  return files.reduce((sum, file) => sum + (file.isFile() ? file.size : 0), 0) / 1e6;
}
