/**
 * Uses the packed tarball in projects as their generators write them: NestJS with CommonJS, ts-jest and both older kinds
 * of module resolution; Next.js, its edge runtime included; a Cloudflare Worker in workerd; OpenTelemetry's NodeSDK; and
 * prom-client without OpenTelemetry; and the oldest TypeScript that is supported.
 */

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';

const [tarball, workplace, project] = process.argv.slice(2);
const home = join(workplace, project);
cpSync(join(import.meta.dirname, 'projects', project), home, { recursive: true });
run('npm', 'install', '--no-audit', '--no-fund', resolve(tarball));

const checks = {
  nest,
  next,
  bundlers: () => console.log(run('node', 'run.mjs')),
  worker: () => run('node', 'run.mjs'),
  otel: () => run('node', 'run.cjs'),
  'prom-client': () => run('node', 'run.mjs'),
  typescript,
};
await checks[project]();
console.log(`${project}: good`);

function nest() {
  for (const resolution of ['node10', 'node16']) run('npx', 'tsc', '--noEmit', '-p', `tsconfig.${resolution}.json`);
  // In one process, which Jest does not end by force.
  const output = run('npx', 'jest', '--ci', '--runInBand');
  assert.doesNotMatch(output, /did not exit/);
  // The example in plain JavaScript, with Jest's defaults.
  cpSync(join(import.meta.dirname, '../docs/examples/integration.test.cjs'), join(home, 'integration.test.cjs'));
  run('npx', 'jest', '--ci', '--config', '{}', 'integration.test.cjs');
}

function typescript() {
  assert.match(run('npx', 'tsc', '--version'), /Version 5\.2\./);
  const strict = '--noEmit --strict --exactOptionalPropertyTypes --target es2022 --lib es2022,esnext'.split(' ');
  run('npx', 'tsc', ...strict, '--module', 'commonjs', '--moduleResolution', 'node10', 'use.ts');
  run('npx', 'tsc', ...strict, '--module', 'node16', '--moduleResolution', 'node16', 'use.ts');
}

async function next() {
  run('npx', 'next', 'build');
  const port = await freePort();
  const server = spawn('npx', ['next', 'start', '-H', '127.0.0.1', '-p', `${port}`], { cwd: home, detached: true });
  try {
    for await (const chunk of server.stdout) if (`${chunk}`.includes('Ready')) break;
    const answer = await (await fetch(`http://127.0.0.1:${port}/api/token`)).json();
    assert.match(answer.token, /^AccessToken\(token_/);
    assert.deepEqual({ ...answer, token: '' }, { token: '', known: true, portal: true });
  } finally {
    process.kill(-server.pid);
  }
  mkdirSync(join(home, 'app/api/edge'));
  cpSync(join(home, 'edge-route.ts.txt'), join(home, 'app/api/edge/route.ts'));
  const { status, output } = attempt('npx', 'next', 'build');
  assert.notEqual(status, 0);
  assert.match(output, /owner-token-registry does not run in the edge runtime/);
}

function run(command, ...args) {
  const { status, output } = attempt(command, ...args);
  assert.equal(status, 0, `${command} ${args.join(' ')}\n${output}`);
  return output;
}

function attempt(command, ...args) {
  const env = { ...process.env, NEXT_TELEMETRY_DISABLED: '1' };
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: home, env, encoding: 'utf8', timeout: 300_000 });
  return { status, output: `${stdout}${stderr}` };
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  return port;
}
