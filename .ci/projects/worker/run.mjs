/** Runs the worker in workerd, bundled as wrangler bundles, on a sandbox. */

import assert from 'node:assert/strict';
import { build } from 'esbuild';
import { Miniflare } from 'miniflare';
import { startSandbox } from 'owner-token-registry/sandbox';

const { outputFiles } = await build({
  entryPoints: ['worker.js'],
  bundle: true,
  write: false,
  format: 'esm',
  conditions: ['workerd', 'worker', 'browser'],
  mainFields: ['browser', 'module', 'main'],
  external: ['node:*', 'util', 'events'],
});
const sandbox = await startSandbox();
const { url: BASE_URL, clientId: CLIENT_ID, clientSecret: CLIENT_SECRET } = sandbox;
let printed = '';
const worker = new Miniflare({
  handleRuntimeStdio: (stdout) => stdout.on('data', (chunk) => (printed += chunk)),
  modules: true,
  script: outputFiles[0].text,
  compatibilityDate: '2026-01-01',
  compatibilityFlags: ['nodejs_compat'],
  durableObjects: { TOKENS: 'Tokens' },
  bindings: { BASE_URL, CLIENT_ID, CLIENT_SECRET },
});
try {
  const call = async (accessKey) =>
    (await worker.dispatchFetch('http://worker', { headers: { 'access-key': accessKey } })).json();
  const answers = await Promise.all([1, 2, 3].map(() => call(sandbox.accessKeys[0])));
  assert.match(answers[0].token, /^AccessToken\(token_/);
  assert.deepEqual(new Set(answers.map(({ token }) => token)).size, 1);
  assert.equal(sandbox.ledger.count(), 1);
  assert.equal((await call('wrong')).token, 'owner_refused');
  assert.match(printed, /"owner_token.event":"pause.began"/);
} finally {
  await worker.dispose();
  await sandbox.close();
}
console.log('three calls, one token request, in workerd');
