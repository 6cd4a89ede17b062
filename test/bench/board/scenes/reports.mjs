/** Faults that users of token clients and HTTP clients reported, in the public threads that are named here. */

import { fork } from 'node:child_process';
import dns from 'node:dns';
import { once } from 'node:events';
import { number, SECRET } from '../scene.mjs';

const HALF_AN_HOUR_MS = 1_800_000;

/** An API that accepts a token eight seconds after it was issued; a call a second, at sixty times the speed. */
async function lateValid(scene) {
  await scene.script({ latencyMs: 2, lifetime: 7_200 });
  const { getToken, renew, accept } = await scene.open();
  const firstSeenMs = new Map();
  const isAccepted = (token) => {
    if (!firstSeenMs.has(token)) firstSeenMs.set(token, scene.clock.now());
    return scene.clock.now() - firstSeenMs.get(token) >= 8_000;
  };
  scene.clock.run(60);
  const startedMs = scene.clock.now();
  const ageMs = () => scene.clock.now() - startedMs;
  let calls = 0;
  let served = 0;
  while (ageMs() < HALF_AN_HOUR_MS) {
    let { token } = await scene.call('owner', getToken);
    if (token && !isAccepted(token)) ({ token } = await scene.call('owner', (key) => renew(key, token)));
    const isServed = token !== undefined && isAccepted(token);
    if (isServed) await accept?.('owner', token);
    if (ageMs() >= 120_000) {
      calls++;
      served += isServed ? 1 : 0;
    }
    await scene.clock.sleep(1_000);
  }
  const requests = (await scene.ledger()).arrivals.length;
  return {
    good: served >= 0.9 * calls && requests <= 60,
    figure: `${((100 * served) / calls).toFixed(0)} % served; ${number(requests)} requests`,
  };
}

/** One-minute tokens that the service repeats to their end; five owners, two calls a second each, at ten times the speed. */
async function repeatedToken(scene) {
  const [speed, lifetime, lastingMs] = [10, 60, 180_000];
  const keys = ['owner-0', 'owner-1', 'owner-2', 'owner-3', 'owner-4'];
  const { getToken } = await scene.open();
  scene.clock.run(speed);
  await scene.script({ latencyMs: 2, lifetime, repeatsAt: speed });
  const startedMs = scene.clock.now();
  let [calls, ended, failed] = [0, 0, 0];
  while (scene.clock.now() - startedMs < lastingMs) {
    const { outcomes } = await scene.callAll(keys, getToken);
    for (const { ok, token } of outcomes) {
      calls++;
      if (!ok) failed++;
      // A call on its way when the token ends is nobody's fault.
      else if (scene.clock.now() - startedMs > Number(token.split('.').at(-1)) + 250) ended++;
    }
    await scene.clock.sleep(500);
  }
  const requests = (await scene.ledger()).arrivals.length;
  const share = (count) => `${((100 * count) / calls).toFixed(0)} %`;
  return {
    good: ended <= 0.02 * calls && failed <= 0.01 * calls && requests <= 0.1 * calls,
    figure: `${share(ended)} of the calls got an ended token; ${share(requests)} cost a request${failed ? `; ${failed} failed` : ''}`,
  };
}

/** A name with an IPv4 address, to which connecting takes a second, and an IPv6 address that nobody can reach. */
async function slowConnect(scene) {
  const service = fork(new URL('../slow-service.mjs', import.meta.url), { execArgv: [] });
  try {
    const [port] = await once(service, 'message');
    bothFamilies('localhost');
    const { getToken } = await scene.open({ tokenUrl: `http://localhost:${port}/auth/v1/token` });
    await scene.clock.sleep(100);
    const { ok, error, ms } = await scene.call('owner', getToken);
    return {
      good: ok,
      figure: ok
        ? `served after ${(ms / 1000).toFixed(1)} s`
        : `fails after ${(ms / 1000).toFixed(1)} s: ${codeOf(error)}`,
    };
  } finally {
    service.kill();
  }
}

function bothFamilies(name) {
  const { lookup } = dns;
  const addresses = [
    { address: '127.0.0.1', family: 4 },
    { address: '::1', family: 6 },
  ];
  dns.lookup = (host, options, done) => {
    if (host !== name || typeof options === 'function') return lookup(host, options, done);
    process.nextTick(() => (options.all ? done(null, addresses) : done(null, '127.0.0.1', 4)));
  };
}

const codeOf = (error) => error.cause?.cause?.code ?? error.cause?.code ?? error.code ?? error.name;

/** The process stands still for longer than any default deadline, while answers arrive. */
async function busyLoop(scene) {
  await scene.script({ latencyMs: 300, lifetime: 3_600 });
  const { getToken } = await scene.open();
  const count = 20;
  const calls = Array.from({ length: count }, (_, n) => scene.call(`owner-${n}`, getToken));
  await until(async () => (await scene.ledger()).arrivals.length >= count);
  await new Promise((resolve) => {
    setImmediate(() => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 11_000);
      resolve();
    });
  });
  const served = (await Promise.all(calls)).filter(({ ok }) => ok).length;
  return { good: served >= 0.9 * count, figure: `${served} of ${count} served` };
}

async function until(isSo) {
  const endMs = performance.now() + 5_000;
  while (!(await isSo()) && performance.now() < endMs);
}

/** Forty owners, one after another, and each further request over a connection is answered for the connection alone. */
async function usedConnections(scene) {
  const found = [];
  for (const usedStatus of [408, 421]) {
    await scene.script({ latencyMs: 2, lifetime: 3_600, usedStatus });
    const { getToken } = await scene.open();
    let failed = 0;
    for (let n = 0; n < 40; n++) failed += (await scene.call(`owner-${usedStatus}-${n}`, getToken)).ok ? 0 : 1;
    found.push({ usedStatus, failed });
  }
  return {
    good: found.every(({ failed }) => failed === 0),
    figure: found.map(({ usedStatus, failed }) => `${usedStatus}: ${failed} of 40 calls failed`).join('; '),
  };
}

/**
 * An owner is told to come again in 20 s, and asks twice a second, at twenty times the speed; after 20 s the service works again.
 *
 * @returns how often it asked in the first 18 s, and after how many seconds it was served
 */
async function pausing(scene, { key, getToken }, answer) {
  await scene.script({ latencyMs: 2, ...answer });
  scene.clock.run(20);
  await scene.call(key, getToken);
  const startedMs = scene.clock.now();
  const ageMs = () => scene.clock.now() - startedMs;
  const ask = async () => {
    await scene.clock.sleep(500);
    return (await scene.call(key, getToken)).ok;
  };
  while (ageMs() < 18_000) await ask();
  const again = (await scene.ledger()).arrivals.length - 1;
  while (ageMs() < 20_000) await ask();
  await scene.script({ latencyMs: 2, lifetime: 3_600 });
  let isServed = false;
  while (!isServed && ageMs() < 60_000) isServed = await ask();
  scene.clock.run(1);
  return { again, servedS: isServed ? ageMs() / 1000 : undefined };
}

async function retryAfterForms(scene) {
  const seconds = (value) => ({ 'retry-after': value });
  const cases = {
    'a fraction': { answer: { status: 429, headers: seconds('20.5'), body: {} } },
    '400 temporarily_unavailable': {
      answer: { status: 400, headers: seconds('20'), body: { error: 'temporarily_unavailable' } },
    },
    'a date, our clock 10 min behind': { setWallMs: -600_000, answer: { status: 429, body: {} }, dateAfterS: 20 },
    'a date, our clock 10 min ahead': { setWallMs: 600_000, answer: { status: 429, body: {} }, dateAfterS: 20 },
  };
  const problems = [];
  for (const [name, { setWallMs = 0, ...answer }] of Object.entries(cases)) {
    scene.clock.setWall(setWallMs);
    const { getToken } = await scene.open();
    const { again, servedS } = await pausing(scene, { key: `owner of ${name}`, getToken }, answer);
    scene.clock.setWall(-setWallMs);
    if (again > 0) problems.push(`${name}: asked ${again} times again`);
    if (servedS === undefined) problems.push(`${name}: not served within a minute`);
  }
  return { good: problems.length === 0, figure: problems.join('; ') || 'all waited for, and served after it' };
}

async function laxJson(scene) {
  const { getToken } = await scene.open();
  const refused = [];
  for (const encoding of ['byte order mark', 'Latin-1', 'half a character']) {
    await scene.script({ latencyMs: 2, lifetime: 3_600, fields: { owner: 'Kühlhaus' }, encoding });
    if (!(await scene.call(`owner of ${encoding}`, getToken)).ok) refused.push(encoding);
  }
  return { good: refused.length === 0, figure: refused.length ? `refused: ${refused.join(', ')}` : 'all served' };
}

const TYPES = ['BearerToken', 'Bearer ', 'access_token', 'urn:ietf:params:oauth:token-type:access_token'];

async function tokenTypes(scene) {
  const { getToken } = await scene.open();
  const refused = [];
  for (const type of TYPES) {
    await scene.script({ latencyMs: 2, lifetime: 3_600, fields: { token_type: type } });
    if (!(await scene.call(`owner of ${type}`, getToken)).ok) refused.push(`"${type}"`);
  }
  return { good: refused.length === 0, figure: refused.length ? `refused: ${refused.join(', ')}` : 'all served' };
}

const POINTS_AT_IT = /white.?space|line.?(break|feed)|new.?line|trailing|\bblanks?\b|\bspaces?\b/i;

async function whiteSpace(scene) {
  await scene.script({ latencyMs: 2, lifetime: 3_600, secret: SECRET });
  let said = '';
  process.on('warning', ({ message }) => (said += message));
  const call = async () => {
    const { getToken } = await scene.open({ clientSecret: `${SECRET}\n` });
    return await scene.call('owner', getToken);
  };
  const { ok, error } = await call().catch((thrown) => ({ error: thrown }));
  const isTold = POINTS_AT_IT.test([said, error?.message, error?.cause?.message].join(' '));
  return { good: ok === true || isTold, figure: ok ? 'served' : isTold ? 'named' : 'a refused secret, without a hint' };
}

/** What is written to the console tells of it too. */
const judgeHint = (result, output) =>
  !result.good && POINTS_AT_IT.test(output) ? { ...result, good: true, figure: 'named on the console' } : result;

/** Six hundred owners one after another; one answer in thirty is that of the request before. */
async function mixedAnswers(scene) {
  const count = 600;
  const play = async (script, prefix) => {
    await scene.script({ latencyMs: 1, lifetime: 3_600, ...script });
    const { getToken } = await scene.open();
    scene.wrongTokens = 0;
    let served = 0;
    for (let n = 0; n < count; n++) served += (await scene.call(`${prefix}-${n}`, getToken)).ok ? 1 : 0;
    const wrong = scene.wrongTokens;
    scene.wrongTokens = 0;
    return { served, wrong, requests: (await scene.ledger()).arrivals.length };
  };
  const mixed = await play({ mixes: 30 }, 'mixed');
  const one = await play({ oneForAll: true }, 'one');
  const [least, most] = [0.95 * count, 2 * count + 10];
  const isServed = ({ served, requests }) => served >= least && requests <= most;
  return {
    good: mixed.wrong <= 1 && isServed(mixed) && isServed(one),
    figure: `${mixed.wrong} of ${count} got another owner's token, ${mixed.served} served; one token for all: ${one.served} served`,
  };
}

export const reports = [
  {
    id: 'late-valid',
    criterion: 'new tokens are refused for eight seconds: ≥ 90 % of the calls of half an hour served, ≤ 60 requests',
    concerns: ['cache'],
    title:
      'the API refuses each token for eight seconds after its issue (octokit/auth-app.js#65); a call a second for half an hour, each tried twice',
    good: 'from two minutes on at least 90 % of the calls served; at most 60 requests',
    idle: true,
    run: lateValid,
  },
  {
    id: 'repeated-token',
    criterion: 'the service repeats a token to its end: ≤ 2 % of the calls get an ended one, ≤ 10 % cost a request',
    concerns: ['request'],
    title: 'the service gives an owner one token until its end, with the whole seconds left (wso2/api-manager#773)',
    good: 'at most 2 % of the calls get a token that has ended; requests are at most a tenth of the calls',
    idle: true,
    run: repeatedToken,
  },
  {
    id: 'slow-connect',
    criterion: 'connecting over IPv4 takes a second, and IPv6 is unreachable: the call is served',
    concerns: ['request'],
    title:
      'the name has an IPv4 address that connects after a second and an unreachable IPv6 address (nodejs/node#54359)',
    good: 'the call is served',
    idle: true,
    run: slowConnect,
  },
  {
    id: 'busy-loop',
    criterion: 'the event loop stands still for 11 s while 20 answers arrive: ≥ 18 calls served',
    concerns: ['request'],
    title: 'the event loop stands still for 11 s while the answers to 20 requests arrive (nodejs/undici#3410)',
    good: 'at least 18 of the 20 calls served',
    idle: true,
    run: busyLoop,
  },
  {
    id: 'used-connections',
    criterion: '408 or 421 to each request over a used connection: no call fails',
    concerns: ['request'],
    title: 'a gateway answers 408 or 421 to each request over a used connection (dotnet/runtime#52659)',
    good: 'no call fails, because the request was not processed (RFC 9110, 15.5.9 and 15.5.20)',
    run: usedConnections,
  },
  {
    id: 'retry-after-forms',
    criterion: '`Retry-After` as fraction, as date while the clocks differ, with a 400: waited for, then served',
    concerns: ['request', 'cache'],
    title:
      '`Retry-After` of 20 s as a fraction, with `temporarily_unavailable` and a 400, and as a date while our clock is off (aws/aws-sdk-js#706)',
    good: 'no second request within 18 s; served within a minute',
    idle: true,
    run: retryAfterForms,
  },
  {
    id: 'lax-json',
    criterion: 'JSON that is no clean UTF-8, which `response.json()` reads: served',
    concerns: ['request'],
    title: 'a token response with a byte order mark, Latin-1 or half a character in another field (hapijs/bourne#28)',
    good: 'served, as `response.json()` reads all of them',
    run: laxJson,
  },
  {
    id: 'token-type',
    criterion: 'a `token_type` that is no registered scheme: the token is served',
    concerns: ['request'],
    title: `\`token_type\` is ${TYPES.map((type) => `"${type}"`).join(', ')} (DuendeArchive/Support#1413)`,
    good: 'the token is served',
    run: tokenTypes,
  },
  {
    id: 'white-space',
    criterion: 'a client secret that ends with a line break: the error or the log names it',
    concerns: ['request'],
    title: 'the client secret ends with a line break (kubernetes-sigs/aws-load-balancer-controller#3936)',
    good: 'an error, a warning or a line on the console names white space, or the call is served',
    run: whiteSpace,
    judgeOutput: judgeHint,
  },
  {
    id: 'mixed-answers',
    criterion: 'one answer in thirty is that of the request before: no owner gets another’s token',
    concerns: ['request', 'cache'],
    title:
      'one answer in thirty is that of the request before (haga-rak/fluxzy.core#634); then one token for all, on purpose',
    good: 'at most one of 600 owners gets another’s token; 95 % served in both, with at most two requests each',
    run: mixedAnswers,
  },
];
