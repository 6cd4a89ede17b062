/**
 * The token service, in a process of its own: a token names its access key, so that any mix-up shows, and states its end.
 * A resource of each key accepts its tokens only.
 */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { clock, install } from '../board/clock.mjs';

/** What every service of the benchmark issues for this access key. */
export const tokenOf = (accessKey) => `token-of-${accessKey}`;

/** When a token ends by the service's clock, in epoch milliseconds. */
export const endOf = (token) => Number(token.split('.')[2]);

export const keysOf = (count, name = 'owner') =>
  // Joined in a buffer: a string made of parts would be flattened by whoever hashes it first.
  Array.from({ length: count }, (_, n) => Buffer.from(`access-key-${name}-${n}`).toString());

/** @param options `delayMs` of each answer, and `lifetimeS` of its token. */
export async function startService(options = {}) {
  const child = fork(new URL(import.meta.url), [JSON.stringify(options)], { execArgv: [] });
  const [port] = await once(child, 'message');
  const ask = async (what) => {
    child.send(what);
    return (await once(child, 'message'))[0];
  };
  return {
    baseUrl: `http://127.0.0.1:${port}`,
    tokenUrl: `http://127.0.0.1:${port}/auth/v1/token`,
    resourceUrl: (accessKey) => `http://127.0.0.1:${port}/resource/${accessKey}`,
    clientId: 'client',
    clientSecret: 'secret',
    /** How many token requests there were. */
    requests: () => ask('requests'),
    /** Every token request hangs; ending that breaks their connections. */
    hang: () => ask('hang'),
    recover: () => ask('recover'),
    /** Sets the service's clock, in epoch milliseconds, and how many times faster than real time it runs. */
    setClock: (nowMs, speed) => ask({ nowMs, speed }),
    stop: () => child.disconnect(),
  };
}

function serve({ delayMs = 0, lifetimeS = 3_600 }) {
  install();
  let requests = 0;
  let hung;
  const issue = (accessKey, response) => {
    // Never the same twice, as after a rejection only a new one counts.
    const token = `${tokenOf(accessKey)}.${requests}.${Date.now() + lifetimeS * 1_000}`;
    const body = JSON.stringify({ access_token: token, token_type: 'Bearer', expires_in: lifetimeS });
    response
      .writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) })
      .end(body);
  };
  const server = createServer((request, response) => {
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      if (request.url.startsWith('/resource/')) return answerResource(request, response);
      requests++;
      const accessKey = accessKeyOf(Buffer.concat(chunks).toString());
      if (hung) hung.push(request.socket);
      else if (delayMs > 0) setTimeout(issue, delayMs, accessKey, response);
      else issue(accessKey, response);
    });
  });
  // Longer than any pause between two rounds: a `fetch` fails when the service closes its idle connection first.
  server.keepAliveTimeout = 600_000;
  server.listen(0, '127.0.0.1', () => process.send(server.address().port));
  process.on('message', (what) => {
    if (what.speed) {
      clock.run(what.speed);
      clock.setWall(what.nowMs - Date.now());
    }
    if (what === 'hang') hung ??= [];
    if (what === 'recover') {
      for (const socket of hung ?? []) socket.destroy();
      hung = undefined;
    }
    if (process.connected) process.send(requests);
  });
  process.on('disconnect', () => process.exit());
}

function answerResource({ url, headers }, response) {
  const expected = `Bearer ${tokenOf(url.slice('/resource/'.length))}`;
  const status = headers.authorization?.split('.', 1)[0] === expected ? 200 : 401;
  response.writeHead(status, { 'content-type': 'application/json' }).end('{}');
}

/** JSON from us and most; a form from the OAuth clients, where some can give an owner only as an encoded scope. */
export function accessKeyOf(body) {
  if (body.startsWith('{')) return JSON.parse(body).appliance_owner_scope;
  const form = new URLSearchParams(body);
  return form.get('appliance_owner_scope') ?? decodeURIComponent(form.get('scope').split(' ')[0]);
}

if (process.send && process.argv[2]?.startsWith('{')) serve(JSON.parse(process.argv[2]));
