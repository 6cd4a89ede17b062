/**
 * What the sandbox costs over a bare `node:http` server: from the start of the process to its being ready, and requests
 * per second. The bare server reads the same request and answers as much, and does nothing else.
 */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';

const CONNECTIONS = 32;
const ROUNDS = 7;
const ROUND_MS = 1000;
const STARTS = 9;

const print = (name, value, remark = '') => console.log(`${name.padEnd(64)}${value.padStart(10)}  ${remark}`);
const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

/** The two servers that are compared, each in a process of its own. */
const SERVERS = {
  async bare() {
    const body = JSON.stringify({ access_token: 'x'.repeat(36), token_type: 'Bearer', expires_in: 3600 });
    const server = createServer((req, res) => {
      req.on('data', () => {});
      req.on('end', () => {
        const headers = { 'content-type': 'application/json', 'cache-control': 'no-store', pragma: 'no-cache' };
        res.writeHead(200, { ...headers, 'content-length': body.length }).end(body);
      });
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    const fields = { client_id: 'x'.repeat(23), client_secret: 'x'.repeat(43), appliance_owner_scope: 'x'.repeat(40) };
    return { url: `http://127.0.0.1:${server.address().port}`, fields };
  },
  async sandbox() {
    const { startSandbox } = await import(process.env.SANDBOX_ENTRY ?? '../../../dist/sandbox/index.js');
    const { url, clientId, clientSecret, accessKeys } = await startSandbox({ owners: 200, unref: false });
    return { url, fields: { client_id: clientId, client_secret: clientSecret, appliance_owner_scope: accessKeys[7] } };
  },
};

async function measure() {
  const startRatio = await starts();
  const servers = [await start('bare'), await start('sandbox')];
  const perSecond = { bare: [], sandbox: [] };
  for (const server of servers) await load(server);
  for (let round = 0; round < ROUNDS; round++) {
    for (const server of servers) perSecond[server.name].push(await load(server));
  }
  for (const { child } of servers) child.kill();
  const [bare, sandbox] = [median(perSecond.bare), median(perSecond.sandbox)];
  print('requests per second, bare server', bare.toFixed(0));
  print('requests per second, sandbox, a token each', sandbox.toFixed(0));
  print('sandbox : bare', `${(sandbox / bare).toFixed(2)} x`, 'at least 0.50 x');
  process.exitCode = startRatio <= 3 && sandbox / bare >= 0.5 ? 0 : 1;
}

/** From fork to ready, turn about, so that what disturbs one disturbs the other. */
async function starts() {
  const tookMs = { bare: [], sandbox: [] };
  for (let n = 0; n < STARTS; n++) {
    for (const name of ['bare', 'sandbox']) {
      const startedMs = performance.now();
      const { child } = await start(name);
      tookMs[name].push(performance.now() - startedMs);
      child.kill();
    }
  }
  const ratio = median(tookMs.sandbox) / median(tookMs.bare);
  print('ready after, bare server', `${median(tookMs.bare).toFixed(0)} ms`);
  print('ready after, sandbox of 200 owners', `${median(tookMs.sandbox).toFixed(0)} ms`);
  print('sandbox : bare', `${ratio.toFixed(2)} x`, 'at most 3 x');
  return ratio;
}

async function start(name) {
  const child = fork(new URL(import.meta.url).pathname, [name]);
  const [ready] = await once(child, 'message');
  return { name, child, ...ready };
}

/** Requests per second that a server answers on some connections, one after another on each. */
async function load({ url, fields }) {
  const body = JSON.stringify({ grant_type: 'client_credentials', ...fields });
  const head = 'POST /auth/v1/token HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n';
  const request = `${head}content-length: ${body.length}\r\n\r\n${body}`;
  const endMs = performance.now() + ROUND_MS;
  let answered = 0;
  const connections = Array.from({ length: CONNECTIONS }, async () => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    socket.setNoDelay();
    socket.on('data', (chunk) => {
      // An answer of this size comes in one piece, and ends with its JSON.
      if (chunk[chunk.length - 1] !== 0x7d) throw new Error(`unexpected: ${chunk}`);
      answered++;
      if (performance.now() < endMs) socket.write(request);
      else socket.end();
    });
    await once(socket, 'connect');
    socket.write(request);
    await once(socket, 'close');
  });
  await Promise.all(connections);
  return answered / (ROUND_MS / 1000);
}

const [role] = process.argv.slice(2);
if (role) process.send(await SERVERS[role]());
else await measure();
