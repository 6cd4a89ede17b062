/** What callers of one owner share, and what one owner never shares with another. */

import { keysOf, number, quantile } from '../scene.mjs';

async function singleFlight(scene) {
  await scene.script({ latencyMs: 100, lifetime: 3600 });
  const { getToken } = await scene.open();
  const { outcomes, failed } = await scene.callAll(Array(1_000).fill('owner'), getToken);
  const cold = (await scene.ledger()).arrivals.length;
  await scene.clock.pass(3_700_000);
  const again = await scene.callAll(Array(1_000).fill('owner'), getToken);
  const requests = (await scene.ledger()).arrivals.length;
  const renewed = again.outcomes.every(({ token }) => token && token !== outcomes[0].token);
  return {
    good: failed + again.failed === 0 && renewed && requests === 2,
    figure: `${number(cold)} and ${number(requests - cold)} requests${renewed ? '' : '; SERVED EXPIRED TOKENS'}`,
  };
}

/** An owner whose request fails: those who called share the failure, and those who call next are told of it. */
async function sharedFailure(scene) {
  await scene.script({ latencyMs: 100, answer: { status: 400, body: { error: 'invalid_grant' } } });
  const { getToken } = await scene.open();
  const { outcomes } = await scene.callAll(Array(1_000).fill('owner'), getToken);
  const first = (await scene.ledger()).arrivals.length;
  for (let call = 0; call < 20; call++) await scene.call('owner', getToken);
  const requests = (await scene.ledger()).arrivals.length;
  const failed = outcomes.every(({ ok }) => !ok);
  return {
    good: failed && first === 1 && requests <= 2,
    figure: `${number(first)} and ${number(requests - first)} requests`,
  };
}

/** All hold the same token when resources begin to refuse it; a straggler's 401 comes after the new token. */
async function storm(scene) {
  await scene.script({ latencyMs: 50, lifetime: 3600 });
  const { getToken, renew } = await scene.open();
  const { token } = await scene.call('owner', getToken);
  const { outcomes, failed } = await scene.callAll(Array(1_000).fill('owner'), (key) => renew(key, token));
  const stragglers = [];
  for (let late = 0; late < 20; late++) stragglers.push(await scene.call('owner', (key) => renew(key, token)));
  const requests = (await scene.ledger()).arrivals.length - 1;
  const got = [...outcomes, ...stragglers].filter((outcome) => outcome.ok && outcome.token !== token).length;
  return {
    good: failed === 0 && got === 1_020 && requests === 1,
    figure: `${number(requests)} requests${got < 1_020 ? `; ${number(1_020 - got)} calls without a new token` : ''}`,
  };
}

/** One key of a thousand is revoked, and its owner called all the time; the others are to notice nothing. */
async function revokedKey(scene) {
  await scene.script({
    latencyMs: 20,
    lifetime: 3600,
    answers: { revoked: { status: 400, body: { error: 'invalid_grant' } } },
  });
  const { getToken } = await scene.open();
  const others = await Promise.all([
    scene.callAll(keysOf(999), getToken),
    (async () => {
      for (let call = 0; call < 100; call++) {
        await scene.call('revoked', getToken);
        await scene.clock.sleep(50);
      }
    })(),
  ]);
  const [{ failed, outcomes }] = others;
  const requests = (await scene.ledger()).owners.revoked;
  const p99Ms = quantile(
    outcomes.map(({ ms }) => ms),
    0.99,
  );
  return {
    good: failed === 0 && requests <= 6,
    figure: `${failed} others failed, p99 ${number(p99Ms)} ms; ${requests} requests for the revoked key in 5 s`,
  };
}

const CONFUSABLE = [
  ...['Key', 'key', 'KEY', 'key ', ' key', 'key\u00e9', 'keye\u0301', '__proto__', 'constructor', 'toString'],
  ...['a|b', 'a:b', 'a/b', 'a b', 'a%20b', 'a+b', 'a,b', '"', '1', '01', '1.0', 'k'.repeat(2_000)],
];

async function confusableKeys(scene) {
  await scene.script({ latencyMs: 5, lifetime: 3600 });
  const { getToken } = await scene.open();
  let failed = 0;
  for (let round = 0; round < 2; round++) failed += (await scene.callAll(CONFUSABLE, getToken)).failed;
  // Counted here and not left to the runner, so that the figure says how many.
  const wrong = scene.wrongTokens;
  scene.wrongTokens = 0;
  return { good: failed + wrong === 0, figure: `${wrong} wrong tokens, ${failed} failed of ${2 * CONFUSABLE.length}` };
}

export const sharing = [
  {
    id: 'single-flight',
    criterion: '1,000 callers of one owner, cold and then expired: one request each time',
    concerns: ['cache'],
    title: '1,000 callers of one cold owner, and again when its token has expired',
    good: 'one request each time',
    run: singleFlight,
  },
  {
    id: 'shared-failure',
    criterion: '1,000 callers of an owner whose request fails, then 20 more: ≤ 2 requests',
    concerns: ['cache'],
    title: '1,000 callers of an owner whose request fails, then 20 one after another',
    good: 'one request, then at most one more',
    run: sharedFailure,
  },
  {
    id: 'storm-401',
    criterion: '1,020 calls get a 401 with the same token: one request',
    concerns: ['cache'],
    title: '1,000 callers get a 401 with the same token, and 20 more after it was renewed',
    good: 'one request; all get the new token',
    run: storm,
  },
  {
    id: 'revoked-key',
    criterion: 'a revoked key, called 100 times in 5 s: ≤ 6 requests, no other owner fails',
    concerns: ['cache'],
    title: 'one key of 1,000 is revoked, and called every 50 ms for 5 s',
    good: 'no other owner fails; at most 6 requests for it',
    idle: true,
    run: revokedKey,
  },
  {
    id: 'keys',
    criterion: 'access keys that are easily confused: each owner gets its own token',
    concerns: ['keys'],
    title: 'access keys that differ in case, spaces, Unicode form or separators, and names such as `__proto__`',
    good: 'each owner gets its own token',
    run: confusableKeys,
  },
];
