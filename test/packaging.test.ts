/**
 * What `package.json` promises, and the build as users load it. What only the packed tarball shows, and projects that use
 * it, are checked in CI.
 */

import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { build } from 'esbuild';
import { beforeAll, describe, expect, it } from 'vitest';
import { LOOPBACK_CERTIFICATE, LOOPBACK_KEY } from './helpers/loopback-certificate.ts';
import { isEntryPoint, pathsBelow, ROOT } from './helpers/source-files.ts';

interface Manifest {
  version: string;
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
  engines: { node: string };
  bin: Record<string, string>;
  main: string;
  types: string;
  exports: Record<string, unknown>;
  typesVersions: Record<string, Record<string, string[]>>;
}

const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest;

/**
 * The modules of Node that the main entry imports or looks up at once. It loads the others and pino when they are first
 * needed. Before adding one, see `builtinLookups` in `tsdown.config.ts`.
 */
const EAGER = 'async_hooks diagnostics_channel http timers url util'.split(' ').map((name) => `node:${name}`);

/** The key in `exports` and the file of every entry point that there is. */
const entryPoints = pathsBelow('src')
  .filter(isEntryPoint)
  .map((path) => path.slice(0, -'.ts'.length))
  .map((file) => ({ file, key: file === 'index' ? '.' : `./${file.replace(/\/index$/, '')}` }));

describe('package.json', () => {
  it('has three dependencies', () => {
    expect(Object.keys(manifest.dependencies).sort()).toEqual(['lru-cache', 'p-limit', 'pino']);
  });

  it('names the supported lines of Node', () => {
    expect(manifest.engines.node).toBe('^20.19.0 || ^22.12.0 || >=24.0.0');
  });

  it('exports every entry point there is and no other, to import and to require(), types first', () => {
    const keys = entryPoints.map(({ key }) => key);
    expect(Object.keys(manifest.exports).sort()).toEqual([...keys, './package.json'].sort());
    for (const { key, file } of entryPoints) {
      const expected = {
        ...(!key.startsWith('./adapters/') && { 'edge-light': './dist/edge.cjs' }),
        import: { types: `./dist/${file}.d.ts`, default: `./dist/${file}.js` },
        require: { types: `./dist/${file}.d.cts`, default: `./dist/${file}.cjs` },
      };
      // As text, because resolvers take the first condition that holds.
      expect(JSON.stringify(manifest.exports[key])).toBe(JSON.stringify(expected));
    }
  });

  it('names the CommonJS build and its types for resolvers that ignore exports', () => {
    const below = entryPoints
      .filter(({ key }) => key !== '.')
      .map(({ key, file }) => [key.slice('./'.length), [`./dist/${file}.d.cts`]]);
    expect(manifest).toMatchObject({ main: './dist/index.cjs', types: './dist/index.d.cts' });
    expect(manifest.typesVersions).toEqual({ '*': Object.fromEntries(below) });
  });

  it('cannot be published before it has an address, and invents none', () => {
    const { status, stderr } = spawnSync(process.execPath, ['.ci/release-check.mjs'], { cwd: ROOT, encoding: 'utf8' });
    const fields = ['repository', 'homepage', 'bugs'].filter((field) => !(field in manifest));
    expect(fields.filter((field) => !stderr.includes(`package.json has no ${field}`))).toEqual([]);
    if (fields.length > 0) expect(status).toBe(1);
    expect(manifest).toMatchObject({
      publishConfig: { provenance: true },
      scripts: { prepublishOnly: 'node .ci/release-check.mjs' },
    });
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
  // Below the project, so that dependencies are found as from an installed package.
  const home = join(ROOT, 'reports/package');
  const options = { cwd: home, encoding: 'utf8' } as const;
  const bin = join(home, manifest.bin['owner-token-registry'] ?? '');

  beforeAll(() => {
    rmSync(home, { recursive: true, force: true });
    const tsdown = join(ROOT, 'node_modules/tsdown/dist/run.mjs');
    const args = [tsdown, '--no-dts', '--logLevel', 'error', '--out-dir', join(home, 'dist')];
    execFileSync(process.execPath, args, { cwd: ROOT, stdio: 'pipe' });
    copyFileSync(join(ROOT, 'package.json'), join(home, 'package.json'));
  }, 60_000);

  it('has every file that package.json names', () => {
    const named = entryPoints.flatMap(({ file }) => [`dist/${file}.js`, `dist/${file}.cjs`]);
    const missing = [...named, 'dist/edge.cjs', ...Object.values(manifest.bin)];
    expect(missing.filter((path) => !existsSync(join(home, path)))).toEqual([]);
  });

  for (const format of ['js', 'cjs']) {
    it(`loads none of the sandbox, the command line or the fleet with the main entry (${format})`, () => {
      const files = filesLoadedBy(join(home, `dist/index.${format}`));
      const regions = files.flatMap((path) => readFileSync(path, 'utf8').match(/^\/\/#region src\/.*$/gm) ?? []);
      expect(regions).toContain('//#region src/registry/registry.ts');
      expect(regions.filter((region) => /src\/(sandbox|cli|redis|otel|adapters)\//.test(region))).toEqual([]);
    });
  }

  it('has a main entry of at most 114 kB in two files, which loads p-limit, lru-cache and listed Node modules only', async () => {
    const { outputFiles, metafile } = await build({
      entryPoints: [join(home, 'dist/index.js')],
      bundle: true,
      minify: true,
      write: false,
      metafile: true,
      outdir: home,
      platform: 'node',
      format: 'esm',
      packages: 'external',
    });
    expect(outputFiles[0]?.contents.length).toBeLessThan(114_000);
    expect(Object.keys(metafile.inputs)).toHaveLength(2);
    const loaded = Object.values(metafile.outputs).flatMap(({ imports }) =>
      imports.filter(({ kind }) => kind === 'import-statement').map(({ path }) => path),
    );
    const core = readFileSync(join(home, 'dist/shared/core.js'), 'utf8');
    for (const [, builtin = ''] of core.matchAll(/^const .+ = process\.getBuiltinModule\("(.+)"\);$/gm))
      loaded.push(builtin);
    expect([...new Set(loaded)].sort()).toEqual(['lru-cache', ...EAGER, 'p-limit']);
  });

  it('can be required where require() cannot load ES modules, as in Jest', () => {
    for (const { file } of entryPoints) {
      const code = `if (Object.keys(require('./dist/${file}.cjs')).length === 0) process.exit(3)`;
      const ran = spawnSync(process.execPath, ['--no-experimental-require-module', '--eval', code], options);
      expect({ file, ...ran }).toMatchObject({ file, status: 0, stderr: '' });
    }
  });

  it.each(entryPoints.flatMap(({ file }) => [`${file}.js`, `${file}.cjs`]))(
    'opens nothing when %s is imported, standard input least of all',
    (file) => {
      // The base class of OpenTelemetry looks at standard error by itself.
      const before = file.startsWith('otel/instrumentation') ? "await import('@opentelemetry/instrumentation');" : '';
      // Node 22 itself opens standard error when its `util` is imported: an export is an accessor that loads the colours.
      const code = `
        await import('node:util');
        ${before}
        const touched = [];
        for (const name of ['stdin', 'stdout', 'stderr']) {
          const { get } = Object.getOwnPropertyDescriptor(process, name);
          Object.defineProperty(process, name, { get: () => (touched.push(name), get.call(process)) });
        }
        const resources = async () => {
          await new Promise(setImmediate);
          await new Promise(setImmediate);
          return process.getActiveResourcesInfo().join();
        };
        const open = await resources();
        await import('./dist/${file}');
        const opened = await resources();
        console.log(JSON.stringify([touched, opened === open]));
      `;
      const ran = spawnSync(process.execPath, ['--input-type=module', '--eval', code], options);
      expect([ran.stdout.trim(), ran.stderr, ran.status]).toEqual(['[[],true]', '', 0]);
    },
  );

  it('lets node:test end though nobody closes the sandbox and the registry', () => {
    const code = `
      const { test } = require('node:test');
      const { OwnerTokenRegistry, TokenEndpoint } = require('owner-token-registry');
      const { startSandbox } = require('owner-token-registry/sandbox');
      test('forgets to close', async () => {
        const { url: baseUrl, clientId, clientSecret, accessKeys } = await startSandbox();
        const registry = new OwnerTokenRegistry({ source: new TokenEndpoint({ baseUrl, clientId, clientSecret }) });
        await registry.getToken(accessKeys[0]);
        await fetch(baseUrl + '/echo').then((answer) => answer.text());
      });
    `;
    writeFileSync(join(home, 'forgetful.test.cjs'), code);
    const ran = spawnSync(process.execPath, ['--test', 'forgetful.test.cjs'], { ...options, timeout: 15_000 });
    expect(ran).toMatchObject({ status: 0, signal: null });
    expect(ran.stdout).toMatch(/pass 1\b/);
  });

  it('fails in an edge runtime with a sentence that says so', () => {
    const code = "require('owner-token-registry')";
    const { status, stderr } = spawnSync(process.execPath, ['--conditions=edge-light', '--eval', code], options);
    expect(status).toBe(1);
    expect(stderr).toContain('Error: owner-token-registry does not run in the edge runtime');
  });

  it('runs the examples of the docs', () => {
    const folder = join(home, 'examples');
    cpSync(join(ROOT, 'docs/examples'), folder, { recursive: true });
    const promised: Record<string, RegExp> = {
      'quick-start.mjs': /^1 token for 1000 calls\nanother owner: owner_refused, scope owner$/,
      'worker.mjs': /^tenant-1 done as owner-001\ntenant-2 failed: owner_refused\ntenant-3 done as owner-003$/,
      'http-server.mjs': /^alice 200\nbob 200\nmallory 502$/,
      'commonjs.cjs': /^200 \{\}\nno token: owner_refused$/,
      'integration.test.mjs': /pass 2\n.*fail 0\n/,
      'opentelemetry.mjs': /^owner_token\.lookups \{\} 9$(.|\n)*^owner_token\.request\.duration \{\} 1$/m,
    };
    // By test/system/other-language.test.ts, .ci/package-projects.mjs and docs.test.ts.
    const runElsewhere = ['client.py', 'integration.test.cjs', 'recipes'];
    expect(readdirSync(folder).sort()).toEqual([...Object.keys(promised), ...runElsewhere].sort());
    for (const [file, output] of Object.entries(promised)) {
      const { stdout, stderr, status } = spawnSync(process.execPath, [join(folder, file)], options);
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
      expect(stdout.trim().replaceAll(/\{[^}]*\}/g, '{}')).toMatch(output);
    }
  });

  it('has an executable that prints its version, and refuses a secret without repeating it', () => {
    const version = spawnSync(process.execPath, [bin, '--version'], { encoding: 'utf8' });
    expect(version).toMatchObject({ status: 0, stdout: `${manifest.version}\n`, stderr: '' });
    const refused = spawnSync(process.execPath, [bin, 'token', '--secret=canary-20'], { encoding: 'utf8' });
    expect(refused).toMatchObject({ status: 2, stdout: '' });
    expect(refused.stderr).not.toContain('canary');
  });

  it('has an executable that trusts NODE_EXTRA_CA_CERTS, alone and with a client certificate', async () => {
    const pem = (name: string, text: string) => {
      writeFileSync(join(home, name), text);
      return join(home, name);
    };
    const tls = { key: LOOPBACK_KEY, cert: LOOPBACK_CERTIFICATE, ca: LOOPBACK_CERTIFICATE };
    const server = https.createServer({ ...tls, requestCert: true, rejectUnauthorized: false }, (request, response) => {
      const { authorized } = request.socket as TLSSocket;
      response.end(JSON.stringify({ access_token: `client-${authorized}`, token_type: 'Bearer', expires_in: 60 }));
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as AddressInfo;
    const tokenFrom = async (env: NodeJS.ProcessEnv, ...flags: string[]) => {
      const credentials = { OTR_CLIENT_ID: 'a', OTR_CLIENT_SECRET: 'b', OTR_ACCESS_KEY: 'c' };
      const all = { ...process.env, OTR_BASE_URL: `https://127.0.0.1:${port}`, ...credentials, ...env };
      const child = spawn(process.execPath, [bin, 'token', '--show-token', ...flags], { env: all });
      return (await child.stdout.setEncoding('utf8').toArray()).join('').trim();
    };
    const ca = { NODE_EXTRA_CA_CERTS: pem('ca.pem', LOOPBACK_CERTIFICATE) };
    const client = ['--cert', pem('client.pem', LOOPBACK_CERTIFICATE), '--key', pem('client.key', LOOPBACK_KEY)];
    expect(await tokenFrom({})).toBe('');
    expect(await tokenFrom(ca)).toContain('client-false');
    expect(await tokenFrom(ca, ...client)).toContain('client-true');
    server.close();
  });

  it('has an executable that Ctrl-C ends at once, with exit code 130', async () => {
    const silent = createServer().listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const env = {
      ...process.env,
      OTR_BASE_URL: `http://127.0.0.1:${port}`,
      OTR_CLIENT_ID: 'a',
      OTR_CLIENT_SECRET: 'b',
      OTR_ACCESS_KEY: 'c',
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

/** A module and all of our own files that it imports or requires statically. */
function filesLoadedBy(path: string, seen = new Set<string>()): string[] {
  if (seen.has(path)) return [];
  seen.add(path);
  for (const [, specifier = ''] of readFileSync(path, 'utf8').matchAll(
    /^(?:(?:import|export)\b|const \w+ = require\().*?["'](\..+?)["']\)?;?$/gm,
  )) {
    filesLoadedBy(join(dirname(path), specifier), seen);
  }
  return [...seen];
}
