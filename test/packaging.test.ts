/** The package: what it promises in `package.json`, and the build as users load it. What only the packed tarball shows is
 * checked in CI. */

import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, readFileSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { pathsBelow, ROOT } from './helpers/source-files.ts';

interface Manifest {
  version: string;
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
  engines: { node: string };
  bin: Record<string, string>;
  exports: Record<string, string | { types: string; default: string }>;
}

const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest;

describe('package.json', () => {
  it('has three dependencies', () => {
    expect(Object.keys(manifest.dependencies).sort()).toEqual(['lru-cache', 'p-limit', 'pino']);
  });

  it('names the supported lines of Node', () => {
    expect(manifest.engines.node).toBe('^20.19.0 || ^22.12.0 || >=24.0.0');
  });

  it('exports every entry point there is, and no other', () => {
    const there = pathsBelow('src').filter((path) =>
      /^(index|(sandbox|redis|otel)\/index|adapters\/[^/]+)\.ts$/.test(path),
    );
    const expected = there.map((path) => {
      const name = path.slice(0, -'.ts'.length);
      const key = name === 'index' ? '.' : `./${name.replace(/\/index$/, '')}`;
      return [key, { types: `./dist/${name}.d.ts`, default: `./dist/${name}.js` }];
    });
    expect(manifest.exports).toEqual({ ...Object.fromEntries(expected), './package.json': './package.json' });
  });

  it('lists types before code, which is the order in which they are looked up', () => {
    for (const target of Object.values(manifest.exports)) {
      if (typeof target === 'object') expect(Object.keys(target)).toEqual(['types', 'default']);
    }
  });

  it('has a lock file that names no registry', () => {
    expect(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')).not.toMatch(/"resolved"|https?:\/\/registry/);
  });

  it('has a lock file with the binaries of every platform, without which npm ci refuses it', () => {
    const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, { version?: string; optionalDependencies?: Record<string, string> }>;
    };
    const locked = new Set(Object.keys(packages).map((path) => path.slice(path.lastIndexOf('node_modules/'))));
    const wanted = Object.values(packages).flatMap((found) => Object.keys(found.optionalDependencies ?? {}));
    expect(wanted.filter((name) => !locked.has(`node_modules/${name}`))).toEqual([]);
  });
});

describe('the build', () => {
  // Beside the sources, so that dependencies are found as from an installed package.
  const home = join(ROOT, 'reports/package');
  const bin = join(home, manifest.bin['owner-token-registry'] ?? '');

  beforeAll(() => {
    rmSync(home, { recursive: true, force: true });
    const tsdown = join(ROOT, 'node_modules/tsdown/dist/run.mjs');
    const args = [tsdown, '--no-dts', '--logLevel', 'error', '--out-dir', join(home, 'dist')];
    execFileSync(process.execPath, args, { cwd: ROOT, stdio: 'pipe' });
    copyFileSync(join(ROOT, 'package.json'), join(home, 'package.json'));
  }, 60_000);

  it('has every file that package.json names', () => {
    const named = Object.values(manifest.exports).flatMap((target) =>
      typeof target === 'object' ? target.default : [],
    );
    expect([...named, ...Object.values(manifest.bin)].filter((path) => !existsSync(join(home, path)))).toEqual([]);
  });

  it('loads none of the sandbox, the command line or the fleet with the main entry', () => {
    const files = filesLoadedBy(join(home, 'dist/index.js'));
    const regions = files.flatMap((path) => readFileSync(path, 'utf8').match(/^\/\/#region src\/.*$/gm) ?? []);
    expect(regions).toContain('//#region src/registry/registry.ts');
    expect(regions.filter((region) => /src\/(sandbox|cli|redis|otel|adapters)\//.test(region))).toEqual([]);
  });

  it('has no top-level await in what is imported, which require() could not load', () => {
    for (const [name, target] of Object.entries(manifest.exports)) {
      if (typeof target !== 'object') continue;
      const code = `if (Object.keys(require(${JSON.stringify(join(home, target.default))})).length === 0) process.exit(3)`;
      const { status, stderr } = spawnSync(process.execPath, ['--eval', code], { encoding: 'utf8' });
      expect({ name, status, stderr: status === 0 ? '' : stderr }).toEqual({ name, status: 0, stderr: '' });
    }
  });

  it('has an executable that tells its version, and refuses a secret without repeating it', () => {
    const version = spawnSync(process.execPath, [bin, '--version'], { encoding: 'utf8' });
    expect(version).toMatchObject({ status: 0, stdout: `${manifest.version}\n`, stderr: '' });
    const refused = spawnSync(process.execPath, [bin, 'token', '--secret=canary-20'], { encoding: 'utf8' });
    expect(refused).toMatchObject({ status: 2, stdout: '' });
    expect(refused.stderr).not.toContain('canary');
  });

  it('has an executable that Ctrl-C ends at once, with exit code 130', async () => {
    const silent = createServer().listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const env = {
      ...process.env,
      ...{ OTR_BASE_URL: `http://127.0.0.1:${port}`, OTR_CLIENT_ID: 'a', OTR_CLIENT_SECRET: 'b', OTR_ACCESS_KEY: 'c' },
    };
    const child = spawn(process.execPath, [bin, 'token'], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    const exited = once(child, 'exit');
    const [socket] = (await once(silent, 'connection')) as [Socket];
    child.kill('SIGINT');
    expect(await exited).toEqual([130, null]);
    socket.destroy();
    silent.close();
  });
});

/** A module and all that it imports statically, of our own files. */
function filesLoadedBy(path: string, seen = new Set<string>()): string[] {
  if (seen.has(path)) return [];
  seen.add(path);
  for (const [, specifier = ''] of readFileSync(path, 'utf8').matchAll(/^(?:import|export)\b.*?["'](\..+?)["'];?$/gm)) {
    filesLoadedBy(join(dirname(path), specifier), seen);
  }
  return [...seen];
}
