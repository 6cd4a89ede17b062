/**
 * Bundles an application with each bundler as one does for Node, and runs what comes out: without warnings, in one file, and
 * in a folder without packages.
 */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import nodeResolve from '@rollup/plugin-node-resolve';
import { rspack } from '@rspack/core';
import { build } from 'esbuild';
import { startSandbox } from 'owner-token-registry/sandbox';
import { rollup } from 'rollup';
import webpack from 'webpack';

const ENTRY = join(import.meta.dirname, 'application.js');

/** Each writes one file into a folder, and returns its warnings. */
const BUNDLERS = {
  webpack: (folder) => withWebpack(webpack, folder),
  rspack: (folder) => withWebpack(rspack, folder),
  rollup: withRollup,
  'esbuild, ES module': (folder) => withEsbuild(join(folder, 'bundle.mjs'), 'esm'),
  'esbuild, CommonJS': (folder) => withEsbuild(join(folder, 'bundle.cjs'), 'cjs'),
};

// Bundles with the address of this folder in them would find pino here, but not where they are deployed.
rmSync(join(import.meta.dirname, 'node_modules/pino'), { recursive: true });
const sandbox = await startSandbox();
const rows = [];
for (const [bundler, bundle] of Object.entries(BUNDLERS)) {
  const folder = mkdtempSync(join(tmpdir(), 'bundle-'));
  try {
    const warnings = await bundle(folder);
    assert.deepEqual(warnings, [], bundler);
    const [name, ...others] = readdirSync(folder);
    assert.deepEqual(others, [], `${bundler} wrote several files`);
    const file = join(folder, name);
    rows.push({ bundler, warnings: warnings.length, bytes: statSync(file).size, firstTokenMs: await start(file) });
  } finally {
    rmSync(folder, { recursive: true });
  }
}
await sandbox.close();
console.table(rows);

/** Runs a bundle and checks what it prints. Returns when it had its first token. */
async function start(file) {
  const { url: BASE_URL, clientId: CLIENT_ID, clientSecret: CLIENT_SECRET, accessKeys } = sandbox;
  const env = { ...process.env, BASE_URL, CLIENT_ID, CLIENT_SECRET, ACCESS_KEY: accessKeys[0] };
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [file], { env, cwd: tmpdir() });
  assert.equal(stderr, '');
  const [paused, closed, outcome] = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    [paused, closed].map((line) => [line.level, line.name, line['owner_token.event'], line.msg]),
    [
      [40, 'owner-token-registry', 'pause.began', 'token requests paused'],
      [30, 'owner-token-registry', 'registry.closed', 'registry closed'],
    ],
  );
  assert.equal(paused['error.type'], 'owner_refused');
  assert.match(outcome.token, /^AccessToken\(token_/);
  assert.equal(outcome.code, 'owner_refused');
  return outcome.firstTokenMs;
}

async function withWebpack(pack, folder) {
  const output = { path: folder, filename: 'bundle.cjs' };
  const stats = await promisify(pack)({ mode: 'production', target: 'node20', entry: ENTRY, output });
  const { warnings, errors } = stats.toJson({ all: false, warnings: true, errors: true });
  return [...warnings, ...errors].map(({ message }) => message);
}

async function withRollup(folder) {
  const warnings = [];
  const plugins = [nodeResolve({ exportConditions: ['node'] })];
  const onwarn = ({ message }) => warnings.push(message);
  const bundle = await rollup({ input: ENTRY, plugins, onwarn, external: /^node:/ });
  await bundle.write({ file: join(folder, 'bundle.mjs'), format: 'esm' });
  return warnings;
}

async function withEsbuild(outfile, format) {
  const options = { bundle: true, minify: true, platform: 'node', logLevel: 'silent' };
  const { warnings } = await build({ ...options, entryPoints: [ENTRY], outfile, format });
  return warnings.map(({ text }) => text);
}
