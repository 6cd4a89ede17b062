/**
 * Uses the packed tarball in projects as their generators write them: NestJS with CommonJS, ts-jest and both older kinds
 * of module resolution; Next.js, its edge runtime included; a Cloudflare Worker in workerd; OpenTelemetry's NodeSDK; and
 * prom-client without OpenTelemetry; and the oldest TypeScript that is supported.
 */

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { on, once } from 'node:events';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
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
  const output = run('npx', 'jest', '--ci', '--runInBand', '--detectOpenHandles');
  assert.doesNotMatch(output, /did not exit|open handle/);
  // The example in plain JavaScript, with Jest's defaults.
  cpSync(join(import.meta.dirname, '../docs/examples/integration.test.cjs'), join(home, 'integration.test.cjs'));
  const integration = run(
    'npx',
    'jest',
    '--ci',
    '--config',
    '{}',
    '--testTimeout=60000',
    '--detectOpenHandles',
    'integration.test.cjs',
  );
  assert.doesNotMatch(integration, /open handle/);
}

function typescript() {
  assert.match(run('npx', 'tsc', '--version'), /Version 5\.2\./);
  const strict = '--noEmit --strict --exactOptionalPropertyTypes --target es2022 --lib es2022,esnext'.split(' ');
  run('npx', 'tsc', ...strict, '--module', 'commonjs', '--moduleResolution', 'node10', 'use.ts');
  run('npx', 'tsc', ...strict, '--module', 'node16', '--moduleResolution', 'node16', 'use.ts');
}

/** A file of a recipe, with imports as Next resolves them: without the extension. */
function recipeFile(page, name) {
  const text = readFileSync(join(import.meta.dirname, `../docs/recipes/${page}.md`), 'utf8');
  return text
    .split(`\`\`\`ts file:${name}.ts\n`)[1]
    .split('```')[0]
    .replace(/(from '\.\/.+)\.js'/g, "$1'");
}

/** The recipe, built where no secret is present and deployed as the folder that `output: 'standalone'` makes. */
async function next() {
  mkdirSync(join(home, 'lib'));
  mkdirSync(join(home, 'app/api/device'), { recursive: true });
  for (const [page, name] of [
    ['shared', 'answer'],
    ['shared', 'owner-tokens'],
    ['nextjs', 'registry'],
  ]) {
    writeFileSync(join(home, `lib/${name}.ts`), recipeFile(page, name));
  }
  const route = recipeFile('nextjs', 'route').replaceAll("from './", "from '../../../lib/");
  writeFileSync(join(home, 'app/api/device/route.ts'), route);
  const output = run('node_modules/.bin/next', 'build');
  // In CI, Next warns of a missing build cache, which is not the package's.
  assert.doesNotMatch(output.replace(/^.*No build cache found.*$/m, ''), /warn|⚠/i);

  const deployed = join(workplace, 'next-deployed');
  cpSync(join(home, '.next/standalone'), deployed, { recursive: true });
  const sandbox = spawn('npx', ['owner-token-registry', 'sandbox', '--json'], { cwd: home, detached: true });
  const { url, clientId, clientSecret, accessKeys } = JSON.parse(await firstMatch(sandbox.stdout, /\{.*\}/));
  const port = await freePort();
  const OTR = {
    OTR_BASE_URL: url,
    OTR_CLIENT_ID: clientId,
    OTR_CLIENT_SECRET: clientSecret,
    OTR_ACCESS_KEY: accessKeys[0],
  };
  const env = { ...process.env, ...OTR, HOSTNAME: '127.0.0.1', PORT: `${port}` };
  const server = spawn('node', ['server.js'], { cwd: deployed, env, detached: true });
  try {
    await firstMatch(server.stdout, /Ready/);
    const answers = await Promise.all(
      [1, 2].map(() => fetch(`http://127.0.0.1:${port}/api/device`, { headers: { 'x-tenant': 'acme' } })),
    );
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200],
    );
    assert.ok((await answers[0].json()).owner);
    const line = firstMatch(server.stdout, /\{"level":.*\}/);
    const answer = await (await fetch(`http://127.0.0.1:${port}/api/token`)).json();
    assert.match(answer.token, /^AccessToken\(token_/);
    assert.deepEqual({ ...answer, token: '' }, { token: '', known: true, portal: true });
    assert.equal(JSON.parse(await line)['owner_token.event'], 'pause.began');
  } finally {
    process.kill(-server.pid);
    process.kill(-sandbox.pid);
  }
  mkdirSync(join(home, 'app/api/edge'));
  cpSync(join(home, 'edge-route.ts.txt'), join(home, 'app/api/edge/route.ts'));
  const edge = attempt('node_modules/.bin/next', 'build');
  assert.notEqual(edge.status, 0);
  assert.match(edge.output, /owner-token-registry does not run in the edge runtime/);
}

/** The first match in what a process prints. */
async function firstMatch(stream, pattern) {
  let printed = '';
  for await (const chunk of on(stream, 'data')) {
    printed += chunk;
    const [found] = pattern.exec(printed) ?? [];
    if (found) return found;
  }
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
