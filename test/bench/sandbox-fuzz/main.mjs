/**
 * Random requests at both planes of the sandbox, in a process of its own: 100,000 unless `FUZZ_COUNT` says otherwise. It
 * must neither crash nor hang, and no answer and nothing that it prints may hold a secret.
 */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fuzz } from './requests.mjs';

const count = Number(process.env.FUZZ_COUNT ?? 100_000);
const seed = Number(process.env.FUZZ_SEED ?? Date.now() % 1_000_000);

async function serve() {
  const { startSandbox } = await import(process.env.SANDBOX_ENTRY ?? '../../../dist/sandbox/index.js');
  const { url, portalUrl, clientId, clientSecret, accessKeys } = await startSandbox({
    owners: 5,
    seed: 1,
    unref: false,
  });
  process.send({ url, portalUrl, clientId, clientSecret, accessKeys });
}

async function run() {
  console.log(`seed ${seed}: FUZZ_SEED=${seed} sends the same requests`);
  const child = fork(new URL(import.meta.url).pathname, ['serve'], { silent: true });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (printed += chunk));
  const died = once(child, 'exit').then(([code, signal]) => ({ died: `it died (${code ?? signal})` }));
  const [sandbox] = await once(child, 'message');
  const { paths } = await (await fetch(`${sandbox.portalUrl}/openapi.json`)).json();
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const secrets = [sandbox.clientSecret, ...sandbox.accessKeys];
  const onProgress = ({ sent }) => process.stderr.isTTY && process.stderr.write(`\r${sent} `);
  const report = await Promise.race([
    fuzz({ sandbox: { ...sandbox, secrets, operations }, count, seed, onProgress }),
    died,
  ]);
  const problems = report.died ? [report.died] : [...report.problems, ...(await afterwards(sandbox))];
  if (printed !== '') problems.push(`it printed: ${printed.slice(0, 500)}`);
  child.kill();
  if (!report.died) console.log(`${report.sent} sent, ${report.answered} answered`, report.statuses);
  for (const problem of problems) console.error(problem);
  process.exitCode = problems.length === 0 ? 0 : 1;
}

/** After all that it still does what it is for. */
async function afterwards({ url, portalUrl, clientId, clientSecret, accessKeys }) {
  const headers = { 'content-type': 'application/json' };
  await fetch(`${portalUrl}/api/reset`, { method: 'POST', headers, body: '{}' });
  const fields = { client_id: clientId, client_secret: clientSecret, appliance_owner_scope: accessKeys[0] };
  const body = JSON.stringify({ grant_type: 'client_credentials', ...fields });
  const { status } = await fetch(`${url}/auth/v1/token`, { method: 'POST', headers, body });
  return status === 200 ? [] : [`a good request is answered with ${status} afterwards`];
}

if (process.argv[2] === 'serve') await serve();
else await run();
