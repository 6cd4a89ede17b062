/** When a token ends, and what happens before it does. Clocks are steered: a library cannot tell. */

import { keysOf, number, quantile } from '../scene.mjs';

const MINUTE = 60_000;

/** A token of a minute, called ten times a second (of its own time) for three minutes, at twenty times the speed. */
async function shortLifetime(scene) {
  const lifetimeMs = MINUTE;
  await scene.script({ latencyMs: 5, lifetime: lifetimeMs / 1000 });
  const { getToken } = await scene.open();
  const firstSeen = new Map();
  let expired = 0;
  let failed = 0;
  scene.clock.run(20);
  const endMs = scene.clock.now() + 3 * lifetimeMs;
  while (scene.clock.now() < endMs) {
    const outcome = await scene.call('owner', getToken);
    if (!outcome.ok) failed++;
    else if (!firstSeen.has(outcome.token)) firstSeen.set(outcome.token, scene.clock.now());
    else if (scene.clock.now() - firstSeen.get(outcome.token) > lifetimeMs) expired++;
    await scene.clock.sleep(100);
  }
  const requests = (await scene.ledger()).arrivals.length;
  return {
    good: expired + failed === 0 && requests <= 8,
    figure: `${number(requests)} requests${expired ? `; ${number(expired)} calls got an EXPIRED token` : ''}`,
  };
}

const STATED = { absent: undefined, '"3600"': '3600', 0: 0, '-5': -5, '"abc"': 'abc', null: null, '1e20': 1e20 };

/** For each kind of `expires_in`: ten calls one after another, and one after 30 days. */
async function oddLifetimes(scene) {
  const { getToken } = await scene.open();
  const owners = [];
  for (const [name, lifetime] of Object.entries(STATED)) {
    await scene.script({ latencyMs: 2, ...(lifetime !== undefined && { lifetime }) });
    const owner = { name, key: `owner of ${name}`, tokens: new Set() };
    for (let call = 0; call < 10; call++) owner.tokens.add((await scene.call(owner.key, getToken)).token);
    owner.requests = (await scene.ledger()).arrivals.length;
    owners.push(owner);
  }
  await scene.clock.pass(30 * 24 * 60 * MINUTE);
  const perCall = owners.filter(({ requests }) => requests > 2);
  const immortal = [];
  for (const { name, key, tokens } of owners) {
    const { ok, token } = await scene.call(key, getToken);
    if (!ok || tokens.has(token)) immortal.push(name);
  }
  const names = (found) => found.join(' ');
  const problems = [
    ...(perCall.length ? [`a request per call: ${names(perCall.map(({ name }) => name))}`] : []),
    ...(immortal.length ? [`served for ever: ${names(immortal)}`] : []),
  ];
  return { good: problems.length === 0, figure: problems.join('; ') || 'all' };
}

/** Tokens of an hour, 58 minutes old, and the service hangs: the tokens are good, so the calls are to be served. */
async function refreshHangs(scene) {
  const keys = keysOf(100);
  await scene.script({ latencyMs: 5, lifetime: 3600 });
  const { getToken } = await scene.open();
  await scene.callAll(keys, getToken);
  await scene.clock.pass(58 * MINUTE);
  await scene.script({ hang: 'access-key' });
  const calls = keys.map((key) => scene.call(key, getToken));
  const gaveUp = scene.clock.sleep(2_000);
  const outcomes = await Promise.all(calls.map((call) => Promise.race([call, gaveUp])));
  const served = outcomes.filter((outcome) => outcome?.ok);
  const p99Ms = quantile(
    served.map(({ ms }) => ms),
    0.99,
  );
  return {
    good: served.length === keys.length && p99Ms <= 50,
    figure: `${served.length} of ${keys.length} served within 2 s${served.length ? `, p99 ${number(p99Ms)} ms` : ''}`,
  };
}

/** The wall clock is set back an hour after a token of a minute was issued, and then 70 s pass; or it is set forward. */
async function clockJumps(scene) {
  await scene.script({ latencyMs: 5, lifetime: 60 });
  const { getToken } = await scene.open();
  const { token } = await scene.call('set back', getToken);
  scene.clock.setWall(-60 * MINUTE);
  await scene.clock.pass(70_000);
  const back = await scene.call('set back', getToken);
  const expired = back.ok && back.token === token;
  await scene.script({ latencyMs: 5, lifetime: 3600 });
  const keys = keysOf(50);
  await scene.callAll(keys, getToken);
  scene.clock.setWall(24 * 60 * MINUTE);
  await scene.clock.pass(0);
  for (let call = 0; call < 3; call++) await scene.callAll(keys, getToken);
  const requests = (await scene.ledger()).arrivals.length / keys.length;
  return {
    good: !expired && requests <= 2,
    figure: `${expired ? 'serves an EXPIRED token' : 'none served expired'}; set forward: ${requests.toFixed(1)} requests per owner`,
  };
}

export const lifetimes = [
  {
    id: 'short-lifetime',
    criterion: 'a one-minute token, used for three minutes: ≤ 8 requests, never served expired',
    concerns: ['cache'],
    title: 'a one-minute token, used ten times a second for three minutes',
    good: 'never served expired; at most 8 requests',
    idle: true,
    run: shortLifetime,
  },
  {
    id: 'odd-lifetimes',
    criterion: 'seven unusable values of `expires_in`: ≤ 2 requests for ten calls, renewed after 30 days',
    concerns: ['request'],
    title: `\`expires_in\` is ${Object.keys(STATED).join(', ')}: ten calls, then one after 30 days`,
    good: 'at most 2 requests for the ten; renewed after 30 days',
    run: oddLifetimes,
  },
  {
    id: 'refresh-hangs',
    criterion: 'the service hangs two minutes before the tokens end: every call served, p99 ≤ 50 ms',
    concerns: ['cache'],
    title: 'tokens of an hour are 58 minutes old when the service hangs',
    good: 'every call served, p99 ≤ 50 ms',
    idle: true,
    run: refreshHangs,
  },
  {
    id: 'clock-jumps',
    criterion: 'the wall clock is changed: no expired token, at most one extra request per owner',
    concerns: ['cache'],
    title: 'the wall clock is set back an hour, or forward a day',
    good: 'no expired token served; at most one extra request per owner',
    run: clockJumps,
  },
];
