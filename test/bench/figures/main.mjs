/**
 * The figures of behaviour under load and faults, in virtual time: whole registries against a model of the service,
 * every chance from one seed, so that each run prints the same. Wall time is spent only on what is measured in it (the
 * heap, and the cost of failing callers).
 *
 *   node --expose-gc test/bench/figures/main.mjs                 all of them
 *   node --expose-gc test/bench/figures/main.mjs outage hangs    those named
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { bundled } from '../../helpers/bundle.mjs';
import { Engine, percentile } from './engine.mjs';

const library = await bundled('src/index.ts');
const { OwnerTokenError, OwnerTokenRegistry } = library;
const DEADLINE_MS = 10_000;
const seed = Number(process.env.SEED ?? 1);
let missed = 0;

const timedOut = () => new OwnerTokenError('endpoint_unavailable', 'no answer in time');
const broken = () => new OwnerTokenError('endpoint_unavailable', 'answered 503', { status: 503 });
const unreached = () => new OwnerTokenError('endpoint_unavailable', 'no connection', { failureScope: 'endpoint' });
const invalidClient = () =>
  new OwnerTokenError('client_refused', 'answered 401', { status: 401, oauthError: 'invalid_client' });

const figures = { noisy, outage, client, spread, owners, hangs, callers };

const asked = process.argv.slice(2);
for (const [name, figure] of Object.entries(figures)) {
  if (asked.length > 0 && !asked.includes(name)) continue;
  console.log(`\n== ${name} (seed ${seed})`);
  await figure();
}
if (missed > 0) console.log(`\n${missed} figures missed`);
process.exit(missed > 0 ? 1 : 0);

function row(what, value, bound, holds = true) {
  if (!holds) missed++;
  console.log(`${holds ? ' ' : '!'} ${what.padEnd(66)} ${String(value).padStart(12)}${bound ? `   (${bound})` : ''}`);
}

/** 1 % of owners hang and are asked for ten times as often; tokens are short, so that most calls are misses. */
async function noisy() {
  const run = async (hang) => {
    const engine = new Engine(seed);
    const isHung = (owner) => owner < 10;
    const registry = engine.registry(OwnerTokenRegistry, {}, ({ owner }) =>
      hang && isHung(owner)
        ? { afterMs: DEADLINE_MS, error: timedOut() }
        : { afterMs: 20 + 60 * engine.random(), seconds: 10 },
    );
    const waits = [];
    const refused = [];
    const call = (owner) => {
      const fromMs = engine.nowMs;
      const done = (kind) => {
        if (!isHung(owner) && fromMs > 120_000 && fromMs < 720_000 - DEADLINE_MS) kind.push(engine.nowMs - fromMs);
      };
      const isMiss = !registry.peek(engine.key(owner));
      registry.getToken(engine.key(owner)).then(
        () => isMiss && done(waits),
        () => done(refused),
      );
    };
    engine.poisson(1_000, (owner) => (isHung(owner) ? 2_000 : 20_000), call);
    await engine.runTo(720_000);
    await engine.close(registry);
    return { p50: percentile(waits, 50), p99: percentile(waits, 99), count: waits.length, refused: refused.length };
  };
  const base = await run(false);
  const noise = await run(true);
  row('misses of the other 990 owners, base and with noise', `${base.count}, ${noise.count}`);
  row('p50, ms', `${base.p50.toFixed(1)}, ${noise.p50.toFixed(1)}`);
  row('p99, ms', `${base.p99.toFixed(1)}, ${noise.p99.toFixed(1)}`);
  const ratio = noise.p99 / base.p99;
  row('p99, ratio', ratio.toFixed(3), 'at most 1.2', ratio <= 1.2);
  row('calls of others refused', noise.refused, 'none', noise.refused === 0);
}

/** Ten minutes without the service, at the time when most tokens of an hour are due for a refresh. */
async function outage() {
  const fromMs = 38 * 60_000;
  const untilMs = fromMs + 600_000;
  for (const [kind, answer] of Object.entries({
    refused: () => ({ afterMs: 1, error: unreached() }),
    503: () => ({ afterMs: 50, error: broken() }),
    hangs: () => ({ afterMs: DEADLINE_MS, error: timedOut() }),
  })) {
    const engine = new Engine(seed);
    let firstGoodMs = Infinity;
    const registry = engine.registry(OwnerTokenRegistry, {}, () => {
      const isOut = engine.nowMs >= fromMs && engine.nowMs < untilMs;
      if (isOut) return answer();
      if (engine.nowMs >= untilMs) firstGoodMs = Math.min(firstGoodMs, engine.nowMs + 50);
      return { afterMs: 50, seconds: 3600 };
    });
    let failed = 0;
    const call = (owner) => registry.getToken(engine.key(owner)).catch(() => failed++);
    engine.every(1_000, 1_000, call);
    await engine.runTo(untilMs);
    while (firstGoodMs === Infinity) await engine.runTo(engine.nowMs + 50);
    await engine.runTo(firstGoodMs + 30_000);
    let fresh = 0;
    for (let owner = 0; owner < 1_000; owner++) {
      if (registry.peek(engine.key(owner))?.refreshAtMs > engine.clock.wallMs) fresh++;
    }
    const at30 = engine.nowMs;
    await engine.runTo(untilMs + 90 * 60_000);
    const inOutage = engine.sentMs.filter((ms) => ms >= fromMs && ms < untilMs).length;
    const slots = (from, to) => {
      const counts = new Array(Math.ceil((to - from) / 10_000)).fill(0);
      for (const ms of engine.sentMs) if (ms >= from && ms < to) counts[Math.floor((ms - from) / 10_000)]++;
      return counts;
    };
    const recovery = Math.max(...slots(firstGoodMs - 50, at30));
    const later = Math.max(...slots(at30, engine.nowMs));
    row(`${kind}: failed calls of owners that held a token`, failed, '0', failed === 0);
    const every = 600 / inOutage;
    row(`${kind}: attempts in ten minutes, one per`, `${inOutage}, ${every.toFixed(1)} s`, 'at least 5 s', every >= 5);
    row(`${kind}: fresh 30 s after the first probe that succeeds`, `${fresh / 10} %`, '99 %', fresh >= 990);
    row(`${kind}: first probe that succeeds, after the end`, `${((firstGoodMs - untilMs) / 1000).toFixed(1)} s`);
    row(`${kind}: most in flight`, engine.mostInFlight, 'at most 128', engine.mostInFlight <= 128);
    const remark = 'no second peak: less than a third';
    row(
      `${kind}: busiest ten seconds in recovery, and in 80 min after`,
      `${recovery}, ${later}`,
      remark,
      later * 3 < recovery,
    );
    await engine.close(registry);
  }
}

/** Credentials that are refused: what is still sent, and when. */
async function client() {
  const engine = new Engine(seed);
  const answeredMs = [];
  const registry = engine.registry(OwnerTokenRegistry, {}, () => {
    answeredMs.push(engine.nowMs + 50);
    return { afterMs: 50, error: invalidClient() };
  });
  for (let owner = 0; owner < 1_000; owner++) registry.getToken(engine.key(owner)).catch(() => {});
  engine.every(1_000, 1_000, (owner) => registry.getToken(engine.key(owner)).catch(() => {}));
  await engine.runTo(1);
  const inFlight = engine.sentMs.length;
  await engine.runTo(600_000);
  const firstMs = answeredMs[0];
  const beyond = engine.sentMs.filter((ms) => ms > 0 && ms < firstMs + 500).length;
  const probes = engine.sentMs.slice(inFlight);
  row('in flight when the first answer arrives', inFlight, 'the initial concurrency, 16');
  row('sent beyond those, before the first probe', beyond, '0', beyond === 0);
  row('probes in the ten minutes after', probes.length);
  const gaps = probes.map((ms, n) => ((ms - (probes[n - 1] ?? firstMs)) / 1000).toFixed(1));
  row('seconds between them', gaps.slice(0, 9).join(' '));
  await engine.close(registry);
}

/** 10,000 tokens of ten minutes issued together, each called every second. */
async function spread() {
  const engine = new Engine(seed);
  const registry = engine.registry(OwnerTokenRegistry, { maxOwners: 10_000, concurrency: 10_000 }, () => ({
    afterMs: 1,
    seconds: 600,
  }));
  for (let owner = 0; owner < 10_000; owner++) void registry.getToken(engine.key(owner));
  await engine.runTo(10);
  // Requests still in flight when the figure is taken end with the registry.
  engine.every(10_000, 1_000, (owner) => registry.getToken(engine.key(owner)).catch(() => {}));
  await engine.runTo(490_000);
  const counts = new Array(12).fill(0);
  let outside = 0;
  for (const ms of engine.sentMs.slice(10_000)) {
    const slot = Math.floor((ms - 360_000) / 10_000);
    if (counts[slot] === undefined) outside++;
    else counts[slot]++;
  }
  const mean = counts.reduce((sum, count) => sum + count, 0) / counts.length;
  const ratio = Math.max(...counts) / mean;
  row('refreshes in each ten seconds of the window', counts.join(' '));
  row('busiest over mean', ratio.toFixed(3), 'at most 1.5', ratio <= 1.5);
  row('outside the window (a call comes up to a second late)', outside);
  await engine.close(registry);
}

/** The heap, with a million owners going through ten thousand slots: tokens, failures and rejections. */
async function owners() {
  if (!global.gc) return row('skipped: needs --expose-gc', '');
  const registry = new OwnerTokenRegistry({
    maxOwners: 10_000,
    source: {
      requestToken: async (key) => {
        const n = Number(key.slice(key.indexOf(' ') + 1));
        if (n % 10 === 0) throw new OwnerTokenError('owner_refused', 'no', { failureScope: 'owner' });
        return { token: `token-${n}`, response: { expires_in: 3600 } };
      },
    },
  });
  const heaps = [];
  for (let n = 1; n <= 1_000_000; n += 100) {
    const calls = [];
    for (let each = n; each < n + 100; each++) {
      const key = `an access key of usual length ${each}`;
      calls.push(
        registry.getToken(key).then(
          (token) => each % 7 === 0 && registry.reject(key, token),
          () => {},
        ),
      );
    }
    await Promise.all(calls);
    if (n > 500_000 && n % 50_000 === 1) {
      global.gc();
      heaps.push(process.memoryUsage().heapUsed / 2 ** 20);
    }
  }
  const swing = Math.max(...heaps) / Math.min(...heaps) - 1;
  row('heap at every 50,000 owners of the second half, MiB', heaps.map((heap) => heap.toFixed(1)).join(' '));
  row('most over least', `${(swing * 100).toFixed(2)} %`, 'within 5 %', swing <= 0.05);
  row('owners held, evicted', `${registry.stats().owners}, ${registry.stats().evictions}`);
  await registry.close();
}

/** D3: as many owners hang as there are turns. */
async function hangs() {
  for (const concurrency of [2, 4, 16]) {
    const engine = new Engine(seed);
    const isHung = (owner) => owner < concurrency;
    const registry = engine.registry(OwnerTokenRegistry, { concurrency }, ({ owner }) =>
      isHung(owner) ? { afterMs: DEADLINE_MS, error: timedOut() } : { afterMs: 50, seconds: 5 },
    );
    const troubled = [];
    const call = (owner) => {
      const fromMs = engine.nowMs;
      const over = (refused) => {
        const tookMs = engine.nowMs - fromMs;
        if (!isHung(owner) && (refused || tookMs > 1_000)) troubled.push({ fromMs, untilMs: engine.nowMs, refused });
      };
      registry.getToken(engine.key(owner)).then(
        () => over(false),
        () => over(true),
      );
    };
    // The hung ones first, so that they hold every turn; each owner then every ten seconds, its token gone by then.
    engine.every(concurrency + 20, 10_000, call, 5_000);
    for (let owner = 0; owner < concurrency; owner++) call(owner);
    await engine.runTo(1_800_000);
    const until = troubled.length > 0 ? Math.max(...troubled.map(({ untilMs }) => untilMs)) / 1000 : 0;
    const refused = troubled.filter((each) => each.refused).length;
    row(
      `${concurrency} hang: calls of others delayed by over 1 s, refused`,
      `${troubled.length - refused}, ${refused}`,
    );
    const boundS = (DEADLINE_MS + 500) / 1000;
    row(`${concurrency} hang: the last of them is over after`, `${until.toFixed(1)} s`, `${boundS} s`, until <= boundS);
    const later = engine.sentMs.length;
    row(`${concurrency} hang: requests in half an hour, most in flight`, `${later}, ${engine.mostInFlight}`);
    await engine.close(registry);
  }
}

/** I5: one owner with 10,000 failing callers, in real time. */
async function callers() {
  const measure = async (noise) => {
    const registry = new OwnerTokenRegistry({
      source: {
        requestToken: async (key) => {
          await sleep(5);
          if (key === 'failing') throw new OwnerTokenError('owner_refused', 'no', { failureScope: 'owner' });
          return { token: `token of ${key}`.replaceAll(' ', '-') };
        },
      },
      pauses: { owner: { baseMs: 20, capMs: 20 } },
    });
    const waits = [];
    const endsAt = performance.now() + 6_000;
    const failing = async () => {
      while (performance.now() < endsAt) {
        await registry.getToken('failing').catch(() => {});
        await sleep(5_000 * Math.random() + 2_500);
      }
    };
    const crowd = noise ? Array.from({ length: 10_000 }, failing) : [];
    await sleep(500);
    while (performance.now() < endsAt - 500) {
      const startedAt = performance.now();
      await registry.getToken(`other ${waits.length}`);
      waits.push(performance.now() - startedAt);
      await sleep(1);
    }
    await Promise.all(crowd);
    await registry.close();
    return waits;
  };
  const base = await measure(false);
  const noise = await measure(true);
  for (const p of [50, 90]) {
    const ratio = percentile(noise, p) / percentile(base, p);
    row(
      `p${p} of others' misses, base, with the crowd, ms`,
      `${percentile(base, p).toFixed(2)}, ${percentile(noise, p).toFixed(2)}`,
    );
    row(`p${p}, ratio`, ratio.toFixed(2), 'at most 1.2', ratio <= 1.2);
  }
}
