/** Random requests for both planes of a sandbox: the same for the same seed, and what must hold of every answer. */

import { connect } from 'node:net';
import { seeded } from '../../helpers/seeded.mjs';

/** Whoever waits this long for the control plane has found a hang, by the machine's clock. */
const HANG_MS = 20_000;

/** An answer that has come, or will never come, has done so by then: after it a connection is cut. */
const CUT_MS = 40;

/** Sends so many requests, some at a time, and tells what went wrong. */
export async function fuzz({ sandbox, count, seed, concurrency = 32, onProgress = () => {} }) {
  const random = seeded(seed);
  const report = { sent: 0, answered: 0, cut: 0, statuses: {}, problems: [] };
  const work = async () => {
    while (report.sent < count && report.problems.length < 20) {
      const number = report.sent++;
      const request = requestOf(random, sandbox);
      const answer = await send(request);
      judge(request, answer, number, sandbox, report);
      if (number % 1000 === 0) onProgress(report);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
  return report;
}

function judge(request, answer, number, sandbox, report) {
  const problem = (text) => report.problems.push(`request ${number}: ${text}: ${request.bytes.slice(0, 200)}`);
  if (answer.text === '') report.cut++;
  else report.answered++;
  const status = /^HTTP\/1\.1 (\d{3})/.exec(answer.text)?.[1] ?? 'none';
  const name = `${request.plane} ${status}`;
  report.statuses[name] = (report.statuses[name] ?? 0) + 1;
  if (answer.refused && request.plane === 'control') problem('the control plane has gone');
  if (answer.hung) problem('the control plane did not answer');
  if (request.plane === 'control' && status === '500') problem('an error that should not have happened');
  if (request.givesSecrets) return;
  if (/sbx_(secret|key|control)_[\w-]{20,}/.test(answer.text)) problem('a secret in the answer');
  if (sandbox.secrets.some((secret) => answer.text.includes(secret))) problem('a secret in the answer');
  if (request.plane === 'control' && /sbx_[\w-]{30,}/.test(answer.text)) problem('a token in the answer');
}

/** Sends bytes, in one piece or two, and reads until the end or until nothing more is to be expected. */
function send({ url, bytes, plane, split, mayHang }) {
  return new Promise((resolve) => {
    const answer = { text: '', refused: false, hung: false };
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    let timer = setTimeout(
      () => finish(plane === 'control' && !mayHang),
      plane === 'control' && !mayHang ? HANG_MS : CUT_MS,
    );
    const finish = (hung) => {
      clearTimeout(timer);
      answer.hung = hung && answer.text === '';
      socket.destroy();
      resolve(answer);
    };
    socket.on('connect', () => {
      socket.write(bytes.slice(0, split), 'latin1');
      if (split < bytes.length) setImmediate(() => socket.write(bytes.slice(split), 'latin1'));
    });
    socket.on('data', (chunk) => {
      if (answer.text.length < 300_000) answer.text += chunk.toString('latin1');
      clearTimeout(timer);
      timer = setTimeout(() => finish(false), CUT_MS);
    });
    socket.on('error', (error) => {
      answer.refused = error.code === 'ECONNREFUSED';
    });
    socket.on('close', () => finish(false));
  });
}

function requestOf(random, sandbox) {
  return random() < 0.6 ? tokenPlaneRequest(random, sandbox) : controlRequest(random, sandbox);
}

function tokenPlaneRequest(random, sandbox) {
  const path = pick(random, [
    '/auth/v1/token',
    '/auth/v1/token',
    '/auth/v1/token',
    '/echo',
    '/auth/v1/token?x=1',
    '/',
    junk(random),
  ]);
  const body = mutated(random, () => {
    return JSON.stringify(
      thinned(random, {
        grant_type: mostly(random, 'client_credentials'),
        client_id: mostly(random, sandbox.clientId),
        client_secret: mostly(random, sandbox.clientSecret),
        appliance_owner_scope: mostly(random, pick(random, sandbox.accessKeys)),
      }),
    );
  });
  const headers = {
    host: 'sandbox',
    'content-type': pick(random, ['application/json', 'application/json', 'application/json', ...TYPES]),
    ...(random() < 0.3 && {
      authorization: pick(random, ['Bearer', 'Bearer x', `Bearer ${junk(random)}`, 'Basic eDp5']),
    }),
    ...(random() < 0.1 && { 'x-expected-owner': junk(random) }),
  };
  return framed(random, 'token', sandbox.url, mostlyOf(random, 'POST', METHODS), path, headers, body);
}

function controlRequest(random, sandbox) {
  const [method, pattern] = pick(random, sandbox.operations).split(' ');
  const path = pattern.replace(/\{\w+\}/g, () =>
    pick(random, ['owner-001', 'owner-001-key', 'fault-1', '1', 'scenario', 'outage', 'cold-start', junk(random)]),
  );
  const query =
    random() < 0.15
      ? `?${pick(random, ['owner', 'limit', 'windowMs', 'token', junk(random)])}=${pick(random, ['owner-001', '3', '-1', junk(random)])}`
      : '';
  const body =
    method === 'GET' ? '' : mutated(random, () => JSON.stringify(thinned(random, controlBody(random, pattern))));
  const headers = {
    host: mostlyOf(random, 'localhost', ['evil.example', '', '127.0.0.1:1', '[::1]', junk(random)]),
    'content-type': mostlyOf(random, 'application/json', TYPES),
    ...(random() < 0.05 && {
      origin: pick(random, ['null', 'http://localhost', 'https://evil.example', junk(random)]),
    }),
    ...(random() < 0.05 && { 'last-event-id': junk(random) }),
  };
  const request = framed(
    random,
    'control',
    sandbox.portalUrl,
    mostlyOf(random, method, METHODS),
    path + query,
    headers,
    body,
  );
  const mayHang = pattern === '/api/events' || pattern === '/api/try' || request.broken;
  return { ...request, mayHang, givesSecrets: path.startsWith('/api/credentials') };
}

/** What each operation takes, mostly in order, so that what lies behind the checks is reached as well. */
function controlBody(random, pattern) {
  if (pattern === '/api/faults') return faultRule(random);
  if (pattern === '/api/profile') {
    return {
      shape: pick(random, ['rfc6749', 'minimal', 'odd', 'hostile', 7]),
      tokenFormat: pick(random, ['opaque', 'jwt', null]),
      lifetimeSeconds: pick(random, [0.001, 1, 600, -1, 1e99]),
      revokePrevious: pick(random, [true, false, 'x']),
      replicationLagMs: pick(random, [0, 1000, 0.5]),
      errorForm: pick(random, ['rfc6749', 'problem', 'text', 'html', 'empty', 'none']),
      revokedKey: pick(random, ['invalid_grant', 'access_denied', 'not_found', 'invalid_client', 'token', []]),
      odd: pick(random, [{ wrapped: true }, { lifetimeAs: 'milliseconds' }, { camelCase: 1 }, null]),
    };
  }
  return {
    id: pick(random, ['mine', 'a b', junk(random), 5]),
    name: pick(random, ['A name', junk(random), '']),
    owner: pick(random, ['owner-001', 'nobody', 3]),
    enabled: pick(random, [true, true, false, 'no']),
    overlapMs: pick(random, [0, 1000, -1, 1e300]),
    owners: pick(random, [1, 20, -1, 1e12, 0.5]),
    advanceMs: pick(random, [0, 1000, 3_600_000, -5, 1e300]),
    frozen: pick(random, [false, false, true, 0]),
    all: pick(random, [true, false]),
    fingerprint: junk(random),
  };
}

function faultRule(random) {
  const number = () => pick(random, [0, 1, 5, 100, 500, 503, 429, 1000, -1, 1e12, 0.5, null]);
  return {
    kind: pick(random, sandboxKinds),
    ms: number(),
    status: number(),
    body: pick(random, ['text', { error: 'invalid_grant' }, null, 5]),
    at: pick(random, ['before_headers', 'after_headers', 'in_body', 'never']),
    how: pick(random, ['plain', 'cut', 'corrupt']),
    bytes: number(),
    keepBytes: number(),
    everyMs: number(),
    retryAfter: number(),
    location: pick(random, ['/x', 'https://evil.example/', junk(random)]),
    headers: pick(random, [{ 'x-y': 'z' }, { trailer: 'x-y' }, { 'bad header': '\r\n' }, null]),
    target: pick(random, [{ owner: 'owner-001' }, { path: 'echo' }, { path: 'all' }, {}, null]),
    when: pick(random, [
      { next: 1 },
      { next: 3 },
      { over: 1, perMs: 1000 },
      { probability: 0.1 },
      { schedule: [[0, 1000]] },
      { schedule: [[0, 1]], everyMs: 2 },
      { next: -1 },
      null,
    ]),
  };
}

const sandboxKinds = [
  ...[
    'status',
    'latency',
    'refuse',
    'silence',
    'stall',
    'drip',
    'truncate',
    'reset',
    'garbage',
    'wrong_gzip',
    'redirect',
  ],
  ...['oversized_headers', 'oversized_body', 'wrong_owner_token', 'nothing'],
];
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS', 'CONNECT', 'FROBNICATE'];
const TYPES = [
  'text/plain',
  'application/x-www-form-urlencoded',
  '',
  'application/json; charset=utf-8',
  'application/json; charset=latin1',
];

/** A request as bytes; one in ten is broken in its framing too. */
function framed(random, plane, url, method, path, headers, body) {
  const broken = random() < 0.1;
  const length = broken ? pick(random, ['0', '5', '99999999', '-1', 'x']) : Buffer.byteLength(body);
  const lines = Object.entries({ connection: 'close', ...headers, 'content-length': length }).map(
    ([name, value]) => `${name}: ${value}`,
  );
  let bytes = `${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${Buffer.from(body).toString('latin1')}`;
  if (broken && random() < 0.5) bytes = bytes.slice(0, Math.floor(random() * bytes.length)) + junk(random);
  const split = random() < 0.1 ? Math.floor(random() * bytes.length) : bytes.length;
  return { plane, url, bytes, split, broken };
}

/** An object without some of its members, as a rule with most of them left out. */
function thinned(random, object) {
  const keep = pick(random, [0.15, 0.5, 1, 1]);
  const entries = Object.entries(object).filter(([name]) => name === 'kind' || random() < keep);
  if (random() < 0.05) entries.push([junk(random), junk(random)]);
  return Object.fromEntries(entries);
}

function mutated(random, make) {
  const text = make();
  const roll = random();
  if (roll < 0.75) return text;
  if (roll < 0.8) return text.slice(0, Math.floor(random() * text.length));
  if (roll < 0.85) return junk(random).repeat(Math.floor(random() * 3000));
  if (roll < 0.9) return pick(random, ['null', '[]', '0', '""', '{}', '{"__proto__":{"x":1}}', '['.repeat(5000)]);
  const at = Math.floor(random() * text.length);
  return text.slice(0, at) + junk(random) + text.slice(at + 1);
}

const mostly = (random, value) => mostlyOf(random, value, [junk(random), '', null, 7, [], {}, `${value}x`]);
const mostlyOf = (random, value, others) => (random() < 0.85 ? value : pick(random, others));
const pick = (random, list) => list[Math.floor(random() * list.length)];

function junk(random) {
  const alphabet = [
    'a',
    'Z',
    '0',
    '_',
    '-',
    '%',
    '%00',
    '"',
    '\\',
    '/',
    '..',
    '<',
    '\u0001',
    '\u00ff',
    '{',
    '}',
    '\r\n',
    ' ',
    'é',
    '💥',
  ];
  return Array.from({ length: 1 + Math.floor(random() * 6) }, () => pick(random, alphabet)).join('');
}
