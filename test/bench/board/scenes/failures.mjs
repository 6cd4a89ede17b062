/** The service, or our standing with it, fails. */

import { keysOf, number, quantile, seconds } from '../scene.mjs';

const MINUTE = 60_000;

/**
 * 60 owners with tokens of 20 minutes, called every 2 s each; from minute 13 to 23 the service is down, at sixty times
 * the speed. Until minute 19:50 (lifetime less the margin) the tokens can be served.
 */
async function outage(scene) {
  const keys = keysOf(60);
  await scene.script({ latencyMs: 5, lifetime: 1_200 });
  const { getToken } = await scene.open();
  await scene.callAll(keys, getToken);
  const issuedMs = scene.clock.now();
  scene.clock.advance(13 * MINUTE);
  await scene.script({ latencyMs: 5, unavailable: true });
  scene.clock.run(60);
  let failedEarly = 0;
  const sinceMs = () => scene.clock.now() - issuedMs;
  const everyTwoSeconds = async (untilMs, take) => {
    const callers = keys.map(async (key, n) => {
      await scene.clock.sleep((n / keys.length) * 2_000);
      while (sinceMs() < untilMs()) {
        take(await scene.call(key, getToken));
        await scene.clock.sleep(2_000);
      }
    });
    await Promise.all(callers);
  };
  await everyTwoSeconds(
    () => 23 * MINUTE,
    ({ ok }) => {
      if (!ok && sinceMs() < 19 * MINUTE) failedEarly++;
    },
  );
  const attempts = (await scene.ledger()).arrivals.length;
  await scene.script({ latencyMs: 5, lifetime: 1_200 });
  const endedMs = scene.clock.now();
  const recovered = new Map();
  await everyTwoSeconds(
    () => (recovered.size === keys.length ? 0 : 26 * MINUTE),
    ({ key, ok }) => {
      if (ok && !recovered.has(key)) recovered.set(key, scene.clock.now() - endedMs);
    },
  );
  const allMs = recovered.size === keys.length ? Math.max(...recovered.values()) : Infinity;
  return {
    good: failedEarly === 0 && attempts <= 150 && allMs <= 60_000,
    figure: `${number(attempts)} requests in 10 min; ${failedEarly} failed with a good token; all served ${seconds(allMs / 1000)} after`,
  };
}

/** The client secret is wrong: 500 owners are asked for, and each again every half second for three seconds. */
async function invalidClient(scene) {
  const keys = keysOf(500);
  await scene.script({ latencyMs: 20, answer: { status: 401, body: { error: 'invalid_client' } } });
  const { getToken } = await scene.open();
  for (let round = 0; round < 6; round++) {
    await scene.callAll(keys, getToken);
    await scene.clock.sleep(500);
  }
  const requests = (await scene.ledger()).arrivals.length;
  await scene.script({ latencyMs: 20, lifetime: 3600 });
  const startedMs = scene.clock.realNow();
  const outcomes = await Promise.all(keys.map((key) => scene.callUntilServed(key, getToken, 20_000)));
  const recovery = (scene.clock.realNow() - startedMs) / 1000;
  const unserved = outcomes.filter(({ ok }) => !ok).length;
  return {
    good: requests <= 30 && unserved === 0,
    figure: `${number(requests)} requests; fixed: ${unserved ? `${unserved} unserved` : `all served in ${seconds(recovery)}`}`,
  };
}

/** 429 with `Retry-After: 3` for everyone; a hundred owners are asked for every 100 ms. */
async function retryAfter(scene) {
  const keys = keysOf(100);
  const answer = { status: 429, headers: { 'retry-after': '3' }, body: { error: 'slow_down' } };
  await scene.script({ latencyMs: 20, answer });
  const { getToken } = await scene.open();
  const endMs = scene.clock.realNow() + 2_500;
  while (scene.clock.realNow() < endMs) {
    await scene.callAll(keys, getToken);
    await scene.clock.sleep(100);
  }
  const { arrivals } = await scene.ledger();
  // What was sent before the first answer could be read does not count.
  const firstMs = arrivals[0][0];
  const against = arrivals.filter(([atMs]) => atMs > firstMs + 150).length;
  return { good: against === 0, figure: `${number(against)} requests against it, of ${number(arrivals.length)}` };
}

/** The service accepts a request and never answers. */
async function deadline(scene) {
  await scene.script({ hang: 'hang' });
  const { getToken } = await scene.open();
  const outcome = await Promise.race([scene.call('hang', getToken), scene.clock.sleep(15_000)]);
  return {
    good: outcome !== undefined,
    figure: outcome ? `fails after ${seconds(outcome.ms / 1000)}` : 'pending after 15 s',
  };
}

/** Answers that are no tokens; each for an owner of its own. */
const BAD = {
  'an empty object': { status: 200, body: {} },
  HTML: { status: 200, headers: { 'content-type': 'text/html' }, body: '<html></html>' },
  'a cut body': { status: 200, body: '{"access_token": "tk.' },
  'an empty token': { status: 200, body: { access_token: '', expires_in: 3600 } },
  'a number': { status: 200, body: { access_token: 42, expires_in: 3600 } },
  'a line break': { status: 200, body: { access_token: 'tk.a\r\nx: y', expires_in: 3600 } },
  'an OAuth error with 200': { status: 200, body: { error: 'invalid_grant' } },
};

async function badAnswers(scene) {
  const { getToken } = await scene.open();
  const served = [];
  for (const [name, answer] of Object.entries(BAD)) {
    await scene.script({ latencyMs: 2, answer });
    const result = await getToken(`owner of ${name}`).then(
      (token) => `${name} served as ${JSON.stringify(token)?.slice(0, 20)}`,
      () => undefined,
    );
    if (result) served.push(result);
  }
  return { good: served.length === 0, figure: served.join('; ') || 'all refused' };
}

export const failures = [
  {
    id: 'outage',
    title: 'ten minutes of outage, 60 owners with tokens of 20 minutes that end in the midst of it',
    good: 'no call fails while its token is good; at most 150 requests; all served within a minute after',
    idle: true,
    run: outage,
  },
  {
    id: 'invalid-client',
    title: 'a wrong client secret: 500 owners are asked for, six times in 3 s; then it is fixed',
    good: 'at most 30 requests; then all served',
    idle: true,
    run: invalidClient,
  },
  {
    id: 'retry-after',
    title: '429 with `Retry-After: 3`, 100 owners are asked for every 100 ms',
    good: 'no request before it is over',
    idle: true,
    run: retryAfter,
  },
  {
    id: 'deadline',
    title: 'the service accepts the request and never answers',
    good: 'the call fails within 15 s',
    idle: true,
    run: deadline,
  },
  {
    id: 'bad-answers',
    title: `an answer with ${Object.keys(BAD).join(', ')}`,
    good: 'refused, never served as a token',
    run: badAnswers,
  },
];
