/**
 * Uses the installed package as its users do, on the Node that runs this: `import` and `require()` of every entry point,
 * the same names by both; the executable; the examples; a test that closes nothing; and a look at what the main entry
 * really loads.
 */

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const user = process.argv[2];
const home = join(user, 'node_modules/owner-token-registry');
const manifest = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8'));
const entryPoints = Object.keys(manifest.exports).filter((path) => path !== './package.json');

for (const path of entryPoints) {
  const name = `owner-token-registry${path.slice(1)}`;
  const imported = namesOf('module', `await import('${name}')`);
  const required = namesOf('commonjs', `require('${name}')`);
  assert.notEqual(imported, '', `${name} exports nothing`);
  assert.equal(required, imported, `require('${name}') gives other names than import`);
  console.log(`${name}: ${imported.split(',').length} names, by import and by require()`);
}

const loaded = scriptsLoadedBy("import 'owner-token-registry'").filter((path) => path.startsWith(home));
assert.ok(loaded.length > 0, 'nothing of the package was seen loading');
for (const path of loaded) {
  const regions = readFileSync(path, 'utf8').match(/^\/\/#region src\/(sandbox|cli|redis|otel)\/.*$/gm) ?? [];
  assert.deepEqual(regions, [], `the main entry loads ${path}`);
}
console.log(`the main entry loads ${loaded.length} files of the package, none of the sandbox`);

const bin = join(user, 'node_modules/.bin', Object.keys(manifest.bin)[0]);
assert.equal(run(bin, '--version').stdout.trim(), manifest.version);
assert.match(run(bin, '--help').stdout, /Usage: owner-token-registry/);
const refused = run(bin, 'token', '--client-secret=canary-7c1d');
assert.equal(refused.status, 2);
assert.ok(!`${refused.stdout}${refused.stderr}`.includes('canary'), 'an argument was repeated');
console.log(`the executable runs on Node ${process.version}`);

// `package-projects.mjs` runs the one that needs Jest.
const examples = readdirSync(join(home, 'docs/examples')).filter((name) => /(?<!\.test)\.cjs$|\.mjs$/.test(name));
assert.ok(examples.length >= 3);
for (const name of examples) {
  const { status, stdout, stderr } = run(join(home, 'docs/examples', name));
  assert.deepEqual({ name, status, stderr }, { name, status: 0, stderr: '' });
  assert.notEqual(stdout, '', `${name} prints nothing`);
}
console.log(`${examples.length} examples run`);

writeFileSync(
  join(user, 'forgetful.test.mjs'),
  `import { test } from 'node:test';
  import { OwnerTokenRegistry, TokenEndpoint } from 'owner-token-registry';
  import { startSandbox } from 'owner-token-registry/sandbox';
  test('closes nothing', async () => {
    const { url: baseUrl, clientId, clientSecret, accessKeys } = await startSandbox();
    const registry = new OwnerTokenRegistry({ source: new TokenEndpoint({ baseUrl, clientId, clientSecret }) });
    await (await registry.ownerFetch(accessKeys[0])(baseUrl + '/echo')).text();
  });`,
);
const forgetful = spawnSync(process.execPath, ['--test', 'forgetful.test.mjs'], { cwd: user, timeout: 20_000 });
assert.deepEqual([forgetful.status, forgetful.signal], [0, null], 'node:test does not end by itself');
console.log('node:test ends, although nothing is closed');

/** Without `module.exports`, which Node adds since version 23 to what `import` finds in CommonJS. */
function namesOf(type, module) {
  return evaluate(
    type,
    `console.log(Object.keys(${module}).filter((name) => name !== 'module.exports').sort().join())`,
  );
}

function evaluate(type, code) {
  const args = ['--no-warnings', `--input-type=${type}`, '--eval', code];
  return execFileSync(process.execPath, args, { cwd: user, encoding: 'utf8' }).trim();
}

function run(command, ...args) {
  return spawnSync(process.execPath, [command, ...args], { cwd: user, encoding: 'utf8' });
}

/** Every script that V8 saw, by its own coverage report. */
function scriptsLoadedBy(code) {
  const folder = mkdtempSync(join(tmpdir(), 'loaded-'));
  try {
    execFileSync(process.execPath, ['--input-type=module', '--eval', code], {
      cwd: user,
      env: { ...process.env, NODE_V8_COVERAGE: folder },
    });
    const reports = readdirSync(folder).map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')));
    const urls = reports.flatMap(({ result }) => result.map(({ url }) => url));
    return urls.filter((url) => url.startsWith('file:')).map((url) => fileURLToPath(url));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
