/** The shutdown of the recipes: processes of their own, under the load of clients that keep their connections. */

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Children } from '../helpers/child.ts';
import { ROOT } from '../helpers/source-files.ts';

const SHUTDOWN = pathToFileURL(join(ROOT, 'docs/examples/recipes/shutdown.mjs')).href;

const RUN = `
import { fork } from 'node:child_process';
import cluster from 'node:cluster';
import { once } from 'node:events';
import http from 'node:http';
import { OwnerTokenRegistry } from 'owner-token-registry';
import { closeOnSignal } from '${SHUTDOWN}';

const [, file, way] = process.argv;
const answering = way === 'alone' ? process.send === undefined : cluster.isPrimary;
if (!answering) serve();
else if (way === 'alone') await stopAlone();
else await restartCluster();

/** The application: each call needs a token, and takes a moment. */
function serve() {
  const source = { requestToken: async () => ({ token: 'opaque', response: { expires_in: 3600 } }) };
  const registry = new OwnerTokenRegistry({ source });
  const server = http.createServer(async (_request, response) => {
    await registry.getToken('key');
    setTimeout(() => response.end(String(process.pid)), 5);
  });
  closeOnSignal(server, () => registry.close(), { graceMs: 300 });
  server.listen(0, '127.0.0.1', () => process.send?.({ port: server.address().port }));
}

/** Ten clients that call without a break, each over a connection that it keeps, until there were so many calls. */
async function load(port, lasts) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 10 });
  const seen = { calls: 0, pids: new Set(), failures: [] };
  const call = () => new Promise((resolve) => {
    const request = http.get({ port, host: '127.0.0.1', agent }, async (response) => {
      let body = '';
      for await (const chunk of response) body += chunk;
      seen.pids.add(body);
      resolve();
    });
    request.on('error', ({ code }) => {
      // The system itself resets new connections that the server has not accepted when it stops listening.
      if (request.reusedSocket || code !== 'ECONNRESET') seen.failures.push(code);
      resolve();
    });
  });
  await Promise.all(Array.from({ length: 10 }, async () => {
    while (lasts(seen)) {
      seen.calls++;
      await call();
    }
  }));
  agent.destroy();
  return seen;
}

async function restartCluster() {
  const start = async () => {
    const worker = cluster.fork();
    const [{ port }] = await once(worker, 'message');
    return { worker, port };
  };
  const old = [await start(), await start()];
  const exits = [];
  let isRestarted = false;
  const restart = async () => {
    for (const [at, { worker }] of old.entries()) {
      await start();
      worker.process.kill(['SIGTERM', 'SIGINT'][at]);
      exits.push(await once(worker, 'exit'));
    }
    isRestarted = true;
  };
  const [seen] = await Promise.all([
    load(old[0].port, ({ calls }) => calls < 1_000 || !isRestarted),
    restart(),
  ]);
  console.log(JSON.stringify({ ...seen, pids: seen.pids.size, exits }));
  process.exit();
}

async function stopAlone() {
  const child = fork(file, ['alone']);
  const [{ port }] = await once(child, 'message');
  let exit;
  child.once('exit', (...how) => (exit = how));
  setTimeout(() => child.kill('SIGTERM'), 200);
  const seen = await load(port, () => exit === undefined);
  console.log(JSON.stringify({ ...seen, pids: seen.pids.size, exits: [exit] }));
}
`;

let children: Children;
beforeAll(() => {
  children = new Children();
});
afterAll(() => children[Symbol.dispose]());

async function played(way: 'alone' | 'cluster') {
  const { code, out } = await children.run(RUN, [way]);
  expect([code, out]).toEqual([0, expect.stringMatching(/^\{/)]);
  return JSON.parse(out) as { calls: number; pids: number; failures: string[]; exits: [number, string | null][] };
}

it('a rolling restart of a cluster fails none of 1,000 calls, and each worker ends by itself', async () => {
  const { calls, pids, failures, exits } = await played('cluster');
  expect(failures).toEqual([]);
  expect(calls).toBeGreaterThanOrEqual(1_000);
  expect(pids).toBe(4);
  expect(exits).toEqual([
    [0, null],
    [0, null],
  ]);
}, 60_000);

it('a server whose connections are never idle ends by itself, and resets none of them', async () => {
  const { failures, exits } = await played('alone');
  expect(exits).toEqual([[0, null]]);
  // Once it no longer listens.
  expect([...new Set(failures)]).toEqual(failures.length > 0 ? ['ECONNREFUSED'] : []);
}, 60_000);
