/** How requests flow: cold starts, owners that hang, isolated failures, services with limits. */

import { fails, keysOf, number, quantile, seconds } from '../scene.mjs';

/** All owners call once, as fast as the event loop can make the calls. */
async function coldStart(scene, { count, latencyMs, withinSeconds }) {
  await scene.script({ latencyMs, lifetime: 3600 });
  const { getToken } = await scene.open();
  scene.watchLoop();
  const { failed, seconds: took } = await scene.callAll(keysOf(count), getToken);
  const stallMs = scene.longestStallMs();
  const { peak } = await scene.ledger();
  return {
    good: failed === 0 && took <= withinSeconds && stallMs < 100,
    figure: `${fails(failed)}; ${seconds(took)}; ${number(peak)} in parallel; stall ${number(stallMs)} ms`,
    ...(failed === 0 && { seconds: took }),
  };
}

/** Some of the owners hang; the others are to be served. */
async function hanging(scene, { keys, latencyMs, withinMs }) {
  await scene.script({ latencyMs, lifetime: 3600, hang: 'hang' });
  const { getToken } = await scene.open();
  const isHealthy = (key) => !key.includes('hang');
  const calls = keys.map((key) => ({ key, outcome: scene.call(key, getToken) }));
  const healthy = await Promise.all(calls.filter(({ key }) => isHealthy(key)).map(({ outcome }) => outcome));
  const failed = healthy.filter(({ ok }) => !ok).length;
  const p99Ms = quantile(
    healthy.map(({ ms }) => ms),
    0.99,
  );
  return {
    good: failed === 0 && p99Ms <= withinMs,
    figure: `${fails(failed)} of ${number(healthy.length)}; p99 ${seconds(p99Ms / 1000)}`,
  };
}

/** Every hundredth request fails once; callers try three times in 0.3 s. */
async function loneFailures(scene) {
  await scene.script({ latencyMs: 10, lifetime: 3600, lone: 100 });
  const { getToken } = await scene.open();
  const left = keysOf(2_000);
  let lost = 0;
  let seen = 0;
  const caller = async () => {
    for (let key = left.pop(); key; key = left.pop()) {
      let served = false;
      for (let attempt = 0; attempt < 3 && !served; attempt++) {
        if (attempt > 0) await scene.clock.sleep(150);
        served = (await scene.call(key, getToken)).ok;
        if (!served) seen++;
      }
      if (!served) lost++;
    }
  };
  await Promise.all(Array.from({ length: 16 }, caller));
  return { good: lost === 0, figure: `${lost} lost; ${seen} failed calls` };
}

async function capacity(scene) {
  const [count, atOnce, latencyMs] = [2_000, 32, 50];
  await scene.script({ latencyMs, lifetime: 3600, capacity: atOnce });
  const { getToken } = await scene.open();
  const { failed, seconds: took } = await scene.callAll(keysOf(count), getToken);
  const { peak } = await scene.ledger();
  const ideal = (count / atOnce) * (latencyMs / 1000);
  return {
    good: failed === 0 && took <= 1.5 * ideal && peak <= 3 * atOnce,
    figure: `${fails(failed)}; ${(took / ideal).toFixed(2)} × ideal; ${number(peak)} in parallel`,
  };
}

/** Callers try again until they are served. */
async function limited(scene, { count, script }) {
  await scene.script({ lifetime: 3600, ...script });
  const { getToken } = await scene.open();
  const startedMs = scene.clock.realNow();
  const outcomes = await Promise.all(keysOf(count).map((key) => scene.callUntilServed(key, getToken, 20_000)));
  const took = (scene.clock.realNow() - startedMs) / 1000;
  const { arrivals } = await scene.ledger();
  const firstMs = arrivals[0][0];
  const later = arrivals.filter(([atMs]) => atMs >= firstMs + 1_000);
  const refused = later.filter(([, status]) => status === 429).length;
  const share = refused / Math.max(1, later.length);
  const unserved = outcomes.filter(({ ok }) => !ok).length;
  const calls = outcomes.reduce((sum, outcome) => sum + outcome.calls, 0) / count;
  return {
    good: unserved === 0 && share <= 0.05,
    figure: `${unserved} unserved; ${seconds(took)}; ${(share * 100).toFixed(0)} % 429s; ${calls.toFixed(1)} calls each`,
  };
}

const hangingFirst = [...keysOf(30, 'hang'), ...keysOf(2_970)];
const hangingBetween = keysOf(1_000).map((key, n) => (n % 100 === 50 ? `hang-${n}` : key));

export const flow = [
  {
    id: 'cold-300',
    criterion: '3,000 cold owners, responses take 300 ms: all served in 10.5 s, no stall of 100 ms',
    concerns: ['request'],
    title: '3,000 owners cold at once, responses take 300 ms',
    timeoutMs: 30_000,
    good: 'none fails; ≤ 10.5 s (1.5 × the best fixed concurrency up to 128); no stall of 100 ms',
    run: (scene) => coldStart(scene, { count: 3_000, latencyMs: 300, withinSeconds: 10.5 }),
  },
  {
    id: 'cold-20',
    criterion: '10,000 cold owners, responses take 20 ms: within 10 % of the fastest, no stall of 100 ms',
    concerns: ['request'],
    title: '10,000 owners cold at once, responses take 20 ms',
    good: 'none fails; within 10 % of the fastest that serves all; no stall of 100 ms',
    fastest: 1.1,
    timeoutMs: 30_000,
    run: (scene) => coldStart(scene, { count: 10_000, latencyMs: 20, withinSeconds: 30 }),
  },
  {
    id: 'hang-first',
    criterion: '30 of 3,000 owners hang and are called first: p99 of the others ≤ 2 s',
    concerns: ['request'],
    title: '30 of 3,000 owners hang and are called first',
    good: 'all others served, p99 ≤ 2 s',
    whyMissed:
      'it depends on the machine: the version that met it on a faster one, played in turns with this one on the machine of this run, took 2.0 to 2.6 s; this one took 2.0 to 2.4 s',
    run: (scene) => hanging(scene, { keys: hangingFirst, latencyMs: 20, withinMs: 2_000 }),
  },
  {
    id: 'hang-between',
    criterion: '10 of 1,000 owners hang: p99 of the others ≤ 2 s',
    concerns: ['request'],
    title: '10 of 1,000 owners hang',
    good: 'all others served, p99 ≤ 2 s',
    run: (scene) => hanging(scene, { keys: hangingBetween, latencyMs: 50, withinMs: 2_000 }),
  },
  {
    id: 'lone-503',
    criterion: '1 % of the requests get a 503: each owner served within three tries',
    concerns: ['request'],
    title: 'every hundredth request gets a 503, 2,000 owners, callers try three times in 0.3 s',
    good: 'no owner lost',
    run: loneFailures,
  },
  {
    id: 'capacity',
    criterion: 'the service handles 32 requests at a time: ≤ 1.5 × the ideal time, ≤ 96 in parallel',
    concerns: ['request'],
    title: 'the service handles 32 requests at a time, the others wait; 2,000 owners',
    good: 'none fails; ≤ 1.5 × the ideal time; ≤ 96 in parallel',
    whyMissed:
      'the concurrency limit grows by half within about one latency, before the moving average of the latency shows that requests are waiting; in three more runs of this scene alone it also reached 100',
    run: capacity,
  },
  {
    id: 'limit-parallel',
    criterion: '429 beyond 32 in parallel: ≤ 5 % of the answers after the first second',
    concerns: ['request'],
    title: '429 beyond 32 in parallel, 2,000 owners, callers retry',
    good: 'all served; at most 5 % 429s after the first second',
    run: (scene) => limited(scene, { count: 2_000, script: { latencyMs: 50, maxParallel: 32 } }),
  },
  {
    id: 'limit-rate',
    criterion: '429 beyond 200 a second: ≤ 5 % of the answers after the first second',
    concerns: ['request'],
    title: '429 beyond 200 a second, 1,000 owners, callers retry',
    good: 'all served; at most 5 % 429s after the first second',
    whyMissed:
      'the learned rate limit rises by a fifth each second until it exceeds what the service accepts, and is cut only once 18 % of the answers are 429s',
    run: (scene) => limited(scene, { count: 1_000, script: { latencyMs: 20, maxPerSecond: 200 } }),
  },
];
