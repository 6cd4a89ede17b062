/**
 * A token service in a process of its own that does what the current script says and keeps a ledger:
 *
 * - `latencyMs`: how long an answer takes; `doublesAt`: twice as long with so many at once, growing with their square; `lifetime`: what `expires_in` says; `fields`: further fields of the answer;
 * - `capacity`: how many requests are worked on at once, the others wait; `maxParallel`, `maxPerSecond`: beyond them, 429;
 * - `lone`: every so many requests, one gets 503; `unavailable`: all do; `hang`: requests of owners whose key holds this are never answered;
 * - `answer`, and `answers` by a part of the access key: `{ status, body, headers, echo }` instead of a token;
 * - `redirect`: a status, to another origin that keeps what it is sent.
 *
 * The control port takes a script (POST) and gives the ledger (GET).
 */

import { createHash, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';

/** As a load balancer answers for a service that is down. */
const UNAVAILABLE = {
  status: 503,
  headers: { 'content-type': 'text/html' },
  body: '<html><body><h1>503 Service Unavailable</h1></body></html>',
};

let script = {};
let ledger = newLedger();
let parallel = 0;
let working = 0;
let issued = 0;
let second = { startedMs: 0, count: 0 };
const waiting = [];

function newLedger() {
  return { startedMs: performance.now(), arrivals: [], statuses: {}, owners: {}, peak: 0, leaked: 0 };
}

const tokens = createServer(async (request, response) => {
  const key = accessKeyOf(await bodyOf(request), request);
  const current = script;
  parallel++;
  response.on('close', () => parallel--);
  ledger.peak = Math.max(ledger.peak, parallel);
  ledger.owners[key] = (ledger.owners[key] ?? 0) + 1;
  const answer = answerTo(current, key, ledger.arrivals.length + 1);
  ledger.arrivals.push([Math.round(performance.now() - ledger.startedMs), answer?.status ?? 0]);
  ledger.statuses[answer?.status ?? 0] = (ledger.statuses[answer?.status ?? 0] ?? 0) + 1;
  if (!answer) return;
  if (answer.atOnce) return send(response, answer);
  await turn(current);
  setTimeout(() => {
    working--;
    waiting.shift()?.();
    send(response, answer);
  }, latencyOf(current));
});

const latencyOf = ({ latencyMs = 20, doublesAt = Infinity }) => latencyMs * (1 + (parallel / doublesAt) ** 2);

function answerTo(current, key, number) {
  if (current.hang && key.includes(current.hang)) return undefined;
  if (parallel > (current.maxParallel ?? Infinity) || isOverRate(current.maxPerSecond)) {
    return { status: 429, body: { error: 'slow_down' }, atOnce: true };
  }
  if (current.redirect) return { status: current.redirect, headers: { location: `${elsewhereUrl}/auth/v1/token` } };
  if (current.lone && number % current.lone === 0) return UNAVAILABLE;
  if (current.unavailable) return UNAVAILABLE;
  const [, special] = Object.entries(current.answers ?? {}).find(([part]) => key.includes(part)) ?? [];
  return special ?? current.answer ?? { status: 200, body: tokenResponse(current, key) };
}

function tokenResponse({ lifetime, fields }, key) {
  const token = `tk.${digest(key)}.${++issued}.${randomBytes(16).toString('hex')}`;
  return {
    access_token: token,
    token_type: 'Bearer',
    ...(lifetime !== undefined && { expires_in: lifetime }),
    ...fields,
  };
}

function isOverRate(maxPerSecond = Infinity) {
  const nowMs = performance.now();
  if (nowMs - second.startedMs >= 1_000) second = { startedMs: nowMs, count: 0 };
  return second.count >= maxPerSecond || ++second.count < 0;
}

/** Resolves when one of the service's workers is free. */
async function turn({ capacity = Infinity }) {
  if (working >= capacity) await new Promise((resolve) => waiting.push(resolve));
  working++;
}

function send(response, { status, body = {}, headers = {} }) {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
}

const digest = (key) => createHash('sha256').update(key).digest('hex').slice(0, 16);

async function bodyOf(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/** JSON as the service wants it, or a form for those that send nothing else. MSAL sends the key as a scope. */
function accessKeyOf(text, request) {
  const isJson = /json/.test(request.headers['content-type'] ?? '');
  const fields = isJson ? JSON.parse(text) : Object.fromEntries(new URLSearchParams(text));
  return fields.appliance_owner_scope ?? decodeURIComponent(fields.scope ?? '');
}

/** Where redirects lead: it counts what it is sent. */
const elsewhere = createServer(async (request, response) => {
  if ((await bodyOf(request)).length > 0 || request.headers.authorization) ledger.leaked++;
  send(response, { status: 200, body: tokenResponse({ lifetime: 3600 }, 'elsewhere') });
});

const control = createServer(async (request, response) => {
  if (request.method === 'POST') {
    const { keepLedger, ...next } = JSON.parse(await bodyOf(request));
    script = next;
    if (!keepLedger) ledger = newLedger();
  }
  send(response, { status: 200, body: ledger });
});

const portOf = (server) =>
  new Promise((resolve) =>
    server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => resolve(server.address().port)),
  );
const elsewhereUrl = `http://127.0.0.1:${await portOf(elsewhere)}`;
for (const server of [tokens, elsewhere]) server.keepAliveTimeout = 60_000;
process.send({
  tokenUrl: `http://127.0.0.1:${await portOf(tokens)}/auth/v1/token`,
  controlUrl: `http://127.0.0.1:${await portOf(control)}`,
});
process.on('disconnect', () => process.exit());
