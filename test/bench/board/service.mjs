/**
 * A token service in a process of its own that does what the current script says and keeps a ledger:
 *
 * - `latencyMs`: how long an answer takes; `doublesAt`: twice as long with so many at once, growing with their square; `lifetime`: what `expires_in` says; `fields`: further fields of the answer;
 * - `capacity`: how many requests are worked on at once, the others wait; `maxParallel`, `maxPerSecond`: beyond them, 429;
 * - `lone`: every so many requests, one gets 503; `unavailable`: all do; `hang`: requests of owners whose key holds this are never answered;
 * - `answer`, and `answers` by a part of the access key: `{ status, body, headers, echo }` instead of a token;
 * - `redirect`: a status, to another origin that keeps what it is sent;
 * - `repeatsAt`: gives an owner one token until its end, with the whole seconds that are left, by a clock this many times as fast as ours;
 * - `mixes`: every so many answers, one is that of the request before; `oneForAll`: all owners get one token;
 * - `usedStatus`: the answer to any further request over a connection; `secret`: any other is `invalid_client`;
 * - `encoding`: how the answer's text becomes bytes; `dateAfterS`: a `Retry-After` that is a date.
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
let lastResponse;
let repeated = new Map();
const waiting = [];

function newLedger() {
  return { startedMs: performance.now(), arrivals: [], statuses: {}, owners: {}, peak: 0, leaked: 0 };
}

const tokens = createServer(async (request, response) => {
  const fields = fieldsOf(await bodyOf(request), request);
  const key = accessKeyOf(fields);
  const current = script;
  parallel++;
  response.on('close', () => parallel--);
  ledger.peak = Math.max(ledger.peak, parallel);
  ledger.owners[key] = (ledger.owners[key] ?? 0) + 1;
  const answer = overUsed(current, request) ?? answerTo(current, { ...fields, key }, ledger.arrivals.length + 1);
  ledger.arrivals.push([Math.round(performance.now() - ledger.startedMs), answer?.status ?? 0]);
  ledger.statuses[answer?.status ?? 0] = (ledger.statuses[answer?.status ?? 0] ?? 0) + 1;
  if (!answer) return;
  if (answer.atOnce) return send(response, answer);
  await turn(current);
  setTimeout(() => {
    working--;
    waiting.shift()?.();
    send(response, answer, current);
  }, latencyOf(current));
});

/** The answer of a gateway that has just given up the connection. */
function overUsed({ usedStatus }, { socket }) {
  const isUsed = socket.isUsed;
  socket.isUsed = true;
  return isUsed && usedStatus
    ? { status: usedStatus, headers: { connection: 'close' }, body: '', atOnce: true }
    : undefined;
}

const latencyOf = ({ latencyMs = 20, doublesAt = Infinity }) => latencyMs * (1 + (parallel / doublesAt) ** 2);

function answerTo(current, { key, client_secret: secret }, number) {
  if (current.secret && secret !== current.secret) return { status: 401, body: { error: 'invalid_client' } };
  if (current.hang && key.includes(current.hang)) return undefined;
  if (parallel > (current.maxParallel ?? Infinity) || isOverRate(current.maxPerSecond)) {
    return { status: 429, body: { error: 'slow_down' }, atOnce: true };
  }
  if (current.redirect) return { status: current.redirect, headers: { location: `${elsewhereUrl}/auth/v1/token` } };
  if (current.lone && number % current.lone === 0) return UNAVAILABLE;
  if (current.unavailable) return UNAVAILABLE;
  const [, special] = Object.entries(current.answers ?? {}).find(([part]) => key.includes(part)) ?? [];
  return special ?? current.answer ?? { status: 200, body: responseTo(current, key, number) };
}

/** A token response, by whatever rule the script sets for it. */
function responseTo(current, key, number) {
  if (current.repeatsAt) return repeatedResponse(current, key);
  if (current.oneForAll) return tokenResponse(current, '', 'for-all');
  const isMixed = number % current.mixes === 0 && lastResponse;
  lastResponse = isMixed ? lastResponse : tokenResponse(current, key);
  return lastResponse;
}

/** The token says when it ends, in milliseconds since the script began. */
function repeatedResponse({ repeatsAt, lifetime, ...rest }, key) {
  const nowMs = (performance.now() - ledger.startedMs) * repeatsAt;
  let held = repeated.get(key);
  if (!held || nowMs >= held.endsAtMs) {
    const endsAtMs = nowMs + lifetime * 1_000;
    held = { endsAtMs, token: `tk.${digest(key)}.${++issued}.${Math.floor(endsAtMs)}` };
    repeated.set(key, held);
  }
  return tokenResponse({ ...rest, lifetime: Math.floor((held.endsAtMs - nowMs) / 1_000) }, key, held.token);
}

function tokenResponse({ lifetime, fields }, key, token = newToken(key)) {
  return {
    access_token: token,
    token_type: 'Bearer',
    ...(lifetime !== undefined && { expires_in: lifetime }),
    ...fields,
  };
}

const newToken = (key) => `tk.${digest(key)}.${++issued}.${randomBytes(16).toString('hex')}`;

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

function send(response, { status, body = {}, headers = {} }, { encoding, dateAfterS } = {}) {
  const retryAfter = dateAfterS && { 'retry-after': new Date(Date.now() + dateAfterS * 1_000).toUTCString() };
  response.writeHead(status, { 'content-type': 'application/json', ...headers, ...retryAfter });
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  response.end(encoding ? ENCODINGS[encoding](text) : text);
}

/** What `response.json()` reads although it is no clean UTF-8. */
const ENCODINGS = {
  'byte order mark': (text) => `\ufeff${text}`,
  'Latin-1': (text) => Buffer.from(text, 'latin1'),
  'half a character': (text) => Buffer.from(text.replace('ü', '\xc3'), 'latin1'),
};

const digest = (key) => createHash('sha256').update(key).digest('hex').slice(0, 16);

async function bodyOf(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/** JSON as the service wants it, or a form for those that send nothing else. MSAL sends the key as a scope. */
function fieldsOf(text, request) {
  const isJson = /json/.test(request.headers['content-type'] ?? '');
  return isJson ? JSON.parse(text) : Object.fromEntries(new URLSearchParams(text));
}

const accessKeyOf = (fields) => fields.appliance_owner_scope ?? decodeURIComponent(fields.scope ?? '');

/** Where redirects lead: it counts what it is sent. */
const elsewhere = createServer(async (request, response) => {
  if ((await bodyOf(request)).length > 0 || request.headers.authorization) ledger.leaked++;
  send(response, { status: 200, body: tokenResponse({ lifetime: 3600 }, 'elsewhere') });
});

const control = createServer(async (request, response) => {
  if (request.method === 'POST') {
    const { keepLedger, ...next } = JSON.parse(await bodyOf(request));
    script = next;
    repeated = new Map();
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
