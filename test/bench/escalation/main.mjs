/**
 * Rules of scope escalation side by side, by both mistakes they can make: a healthy owner is refused because others
 * fail, and a sick endpoint is hammered because nobody notices. In virtual time, from a seed.
 *
 *   node test/bench/escalation/main.mjs [beginning of a scene's name …]
 *   RULES='the rule,late failures count' SEED=2 node test/bench/escalation/main.mjs
 *   RULES='the rule' SEEDS=12 LATENCY_MS=300 node test/bench/escalation/main.mjs
 *
 * With several seeds, from `SEED` on, each cell is the worst of them; the first one is their mean. "Down": while no
 * request can succeed. "Once known": from the first failure in that time on.
 */

import { bundled } from '../../helpers/bundle.mjs';
import { Engine } from '../figures/engine.mjs';
import { RULES } from './rules.mjs';

const DEADLINE_MS = 10_000;
const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const firstSeed = Number(process.env.SEED ?? 1);
const seeds = Array.from({ length: Number(process.env.SEEDS ?? 1) }, (_, index) => firstSeed + index);
const latencyMs = Number(process.env.LATENCY_MS ?? 50);

/** How a request ends. */
const OK = { afterMs: latencyMs };
const BROKEN = { afterMs: latencyMs, code: 'endpoint_unavailable', status: 503 };
const HANGS = { afterMs: DEADLINE_MS, code: 'endpoint_unavailable' };
const BARE_401 = { afterMs: latencyMs, code: 'owner_refused', status: 401 };

/** Owners from here on ask once, and for the first time. */
const FIRST_NEWCOMER = 1_000_000;
const isSickNewcomer = (owner) => owner >= FIRST_NEWCOMER && owner % 2 === 1;

/** Owners that call at random, some of them sick. */
const calling = (owners, meanMs, isSick, sickMeanMs = meanMs) => ({
  isSick,
  load: (engine, call) => engine.poisson(owners, (owner) => (isSick(owner) ? sickMeanMs : meanMs), call),
});

/** New owners, each of which calls once: sick ones and healthy ones, so many a second of each, beside known owners. */
const newcomers = (sickPerSecond, healthyPerSecond, knownOwners = 0) => ({
  isSick: isSickNewcomer,
  load: (engine, call) => {
    let next = FIRST_NEWCOMER;
    engine.poisson(knownOwners, () => 60_000, call);
    // Sick ones are the odd ones.
    const arrive = (perSecond, parity) =>
      engine.poisson(
        1,
        () => SECOND_MS / perSecond,
        () => call(2 * next++ + parity),
      );
    if (sickPerSecond > 0) arrive(sickPerSecond, 1);
    if (healthyPerSecond > 0) arrive(healthyPerSecond, 0);
  },
});

const between = (ms, fromMs, toMs) => ms >= fromMs && ms < toMs;
const none = () => false;
const down = [10 * MINUTE_MS, 20 * MINUTE_MS];
const isDown = (ms) => between(ms, ...down);

/** `answer`: what becomes of a request of this owner at this time. `down`: when nobody can succeed. */
const SCENES = {
  '10 of 200 owners hang': {
    ...calling(200, 60_000, (owner) => owner < 10),
    ...{ forMs: HOUR_MS, answer: (owner) => (owner < 10 ? HANGS : OK) },
  },
  '10 of 20 owners fail, all rarely called': {
    ...calling(20, 300_000, (owner) => owner < 10),
    ...{ forMs: 10 * HOUR_MS, answer: (owner) => (owner < 10 ? BROKEN : OK) },
  },
  '16 of 20 owners hang, the others are called rarely': {
    ...calling(20, 60_000, (owner) => owner < 16, 1_000),
    ...{ forMs: 2 * HOUR_MS, answer: (owner) => (owner < 16 ? HANGS : OK) },
  },
  'a first start beside 16 owners that hang; a good one every second': {
    isSick: (owner) => owner < 16,
    load: (engine, call) => {
      let next = FIRST_NEWCOMER;
      engine.poisson(16, () => 100, call);
      engine.poisson(
        1,
        () => SECOND_MS,
        () => call(next++),
      );
    },
    ...{ forMs: 10 * MINUTE_MS, answer: (owner) => (owner < 16 ? HANGS : OK) },
  },
  '16 of 20 owners get 503, the others are called rarely': {
    ...calling(20, 60_000, (owner) => owner < 16, 1_000),
    ...{ forMs: 2 * HOUR_MS, answer: (owner) => (owner < 16 ? BROKEN : OK) },
  },
  '16 of 20 owners get 503 once they worked, the others are called rarely': {
    ...calling(20, 60_000, (owner) => owner < 16, 1_000),
    ...{ forMs: 2 * HOUR_MS, answer: (owner, ms) => (owner < 16 && ms > 5 * MINUTE_MS ? BROKEN : OK) },
  },
  'one request in five fails': {
    ...calling(200, 10_000, none),
    ...{ forMs: HOUR_MS, answer: (_owner, _ms, random) => (random() < 0.2 ? BROKEN : OK) },
  },
  '20 of 200 keys are wrong (bare 401)': {
    ...calling(200, 60_000, (owner) => owner < 20),
    ...{ forMs: HOUR_MS, answer: (owner) => (owner < 20 ? BARE_401 : OK) },
  },
  ...Object.fromEntries(
    [0.2, 1, 5].map((perSecond) => [
      `newcomers with wrong keys (bare 401), ${perSecond} a second; a good one every 10 s; 50 known owners`,
      { ...newcomers(perSecond, 0.1, 50), forMs: HOUR_MS, answer: (owner) => (isSickNewcomer(owner) ? BARE_401 : OK) },
    ]),
  ),
  ...Object.fromEntries(
    [50, 300, 1_000].map((afterMs) => [
      `a first start among wrong keys (bare 401 after ${afterMs} ms), 5 a second; a good one every 10 s`,
      {
        ...newcomers(5, 0.1),
        ...{ forMs: HOUR_MS, answer: (owner) => ({ ...(isSickNewcomer(owner) ? BARE_401 : OK), afterMs }) },
      },
    ]),
  ),
  'newcomers with wrong keys (bare 401), 20 a second, every hundredth gets 503; a good one every second': {
    ...newcomers(20, 1, 50),
    ...{ forMs: HOUR_MS, answer: (owner) => (isSickNewcomer(owner) ? (owner % 200 === 1 ? BROKEN : BARE_401) : OK) },
  },
  'newcomers that get 503, one a second; a good one every 10 s; 50 known owners': {
    ...newcomers(1, 0.1, 50),
    ...{ forMs: HOUR_MS, answer: (owner) => (isSickNewcomer(owner) ? BROKEN : OK) },
  },
  'newcomers that get 503, one a second; a good one every second; 50 known owners': {
    ...newcomers(1, 1, 50),
    ...{ forMs: HOUR_MS, answer: (owner) => (isSickNewcomer(owner) ? BROKEN : OK) },
  },
  'newcomers that hang, one a second; a good one every 10 s; 50 known owners': {
    ...newcomers(1, 0.1, 50),
    ...{ forMs: HOUR_MS, answer: (owner) => (isSickNewcomer(owner) ? HANGS : OK) },
  },
  'a first start with a wrong client secret (bare 401)': {
    ...calling(200, 10_000, none),
    ...{
      forMs: 20 * MINUTE_MS,
      down: [0, 10 * MINUTE_MS],
      answer: (_owner, ms) => (ms < 10 * MINUTE_MS ? BARE_401 : OK),
    },
  },
  'a client secret that goes wrong (bare 401)': {
    ...calling(1_000, 10_000, none),
    ...{ forMs: 30 * MINUTE_MS, down, answer: (_owner, ms) => (isDown(ms) ? BARE_401 : OK) },
  },
  'an outage that only newcomers meet (503, 5 a second)': {
    ...newcomers(0, 5),
    ...{ forMs: 30 * MINUTE_MS, down, answer: (_owner, ms) => (isDown(ms) ? BROKEN : OK) },
  },
  'an outage that only newcomers meet (hangs, 5 a second)': {
    ...newcomers(0, 5),
    ...{ forMs: 30 * MINUTE_MS, down, answer: (_owner, ms) => (isDown(ms) ? HANGS : OK) },
  },
  'ten minutes down (503)': {
    ...calling(1_000, 10_000, none),
    ...{ forMs: 30 * MINUTE_MS, down, answer: (_owner, ms) => (isDown(ms) ? BROKEN : OK) },
  },
  'ten minutes down (hangs)': {
    ...calling(1_000, 10_000, none),
    ...{ forMs: 30 * MINUTE_MS, down, answer: (_owner, ms) => (isDown(ms) ? HANGS : OK) },
  },
  'a minute down (503) beside 16 owners that hang; the others are called once a minute': {
    ...calling(216, 60_000, (owner) => owner < 16, 100),
    ...{ forMs: 30 * MINUTE_MS, down: [10 * MINUTE_MS, 11 * MINUTE_MS] },
    answer: (owner, ms) => (owner < 16 ? HANGS : between(ms, 10 * MINUTE_MS, 11 * MINUTE_MS) ? BROKEN : OK),
  },
  'nine in ten fail for ten minutes': {
    ...calling(1_000, 10_000, none),
    ...{ forMs: 30 * MINUTE_MS, down, answer: (_owner, ms, random) => (isDown(ms) && random() < 0.9 ? BROKEN : OK) },
  },
};

/** How long after an outage refusals are still its doing. */
const AFTERMATH_MS = 60_000;
const HELD_SECONDS = 30;

const column = (text, width) => String(text).padStart(width);
const asked = process.argv.slice(2);
const rules = Object.entries(RULES).filter(
  ([rule]) => !process.env.RULES || process.env.RULES.split(',').includes(rule),
);
const percent = (share) => `${(100 * share).toFixed(2)} %`;
const number = (value) => value ?? '';
const seconds = (ms) => (ms === undefined ? '' : `${(ms / 1000).toFixed(1)} s`);
/** The cells of a row: what they show of a scene, and how. */
const COLUMNS = [
  { head: 'refused, mean', of: ({ refused }) => refused, text: percent, isMean: true },
  { head: 'refused', of: ({ refused }) => refused, text: percent },
  { head: 'failed late', of: ({ failed }) => failed, text: percent },
  { head: 'delayed', of: ({ late }) => late, text: percent },
  { head: 'most a second', of: ({ sentMs }) => mostPerSecond(sentMs), text: number },
  { head: 'same, down', of: ({ sentDownMs }) => sentDownMs && mostPerSecond(sentDownMs), text: number },
  { head: 'once known', of: ({ sentKnownMs }) => sentKnownMs && mostPerSecond(sentKnownMs), text: number },
  { head: 'attempts down', of: ({ sentDownMs }) => sentDownMs?.length, text: number },
  { head: 'back after', of: ({ backMs }) => backMs, text: seconds },
];
const WIDTH = 15;
const known = (values) => values.filter((value) => value !== undefined);
const worst = (values) => (known(values).length > 0 ? Math.max(...known(values)) : undefined);
const mean = (values) => values.reduce((sum, each) => sum + each) / values.length;

const ofSeeds = `seed ${seeds.length > 1 ? `${seeds[0]} to ${seeds.at(-1)}` : seeds[0]}, ${latencyMs} ms`;
for (const [scene, what] of Object.entries(SCENES)) {
  if (asked.length > 0 && !asked.some((name) => scene.startsWith(name))) continue;
  console.log(`\n${scene} (${ofSeeds})`);
  console.log('rule'.padEnd(33) + COLUMNS.map(({ head }) => column(head, WIDTH)).join(''));
  for (const [rule, patches] of rules) {
    const { OwnerTokenRegistry, OwnerTokenError } = await bundled('src/index.ts', patches);
    const played = [];
    for (const seed of seeds) played.push(await play(seed, what, OwnerTokenRegistry, OwnerTokenError));
    const cells = COLUMNS.map(({ of, text, isMean }) => text((isMean ? mean : worst)(played.map(of))));
    console.log(rule.padEnd(33) + cells.map((cell) => column(cell, WIDTH)).join(''));
  }
}
process.exit(0);

/** Plays one scene. Returns shares of the calls of healthy owners, and when requests were sent. */
async function play(seed, { load, forMs, isSick, answer, down }, OwnerTokenRegistry, OwnerTokenError) {
  const engine = new Engine(seed);
  let knownMs = Infinity;
  const registry = engine.registry(OwnerTokenRegistry, {}, ({ owner }) => {
    const { afterMs, code, status } = answer(owner, engine.nowMs, engine.random);
    if (!code) return { afterMs, seconds: HELD_SECONDS };
    if (down && between(engine.nowMs, ...down)) knownMs = Math.min(knownMs, engine.nowMs + afterMs);
    return { afterMs, error: new OwnerTokenError(code, 'no', { status }) };
  });
  const count = { calls: 0, refused: 0, failed: 0, late: 0 };
  let backMs;
  load(engine, (owner) => {
    const fromMs = engine.nowMs;
    const counts = !isSick(owner) && !(down && between(fromMs, down[0], down[1] + AFTERMATH_MS));
    if (counts) count.calls++;
    const over = (error) => {
      if (down && fromMs > down[1] && !error) backMs ??= engine.nowMs - down[1];
      if (!counts) return;
      if (engine.nowMs - fromMs > 1_000) count.late++;
      if (!error) return;
      // At once: a pause that somebody else's failure began. Later: the queue, or a pause that began meanwhile.
      if (engine.nowMs > fromMs && !error.status) count.failed++;
      else if (engine.nowMs === fromMs && error.failureScope !== 'owner') count.refused++;
    };
    registry.getToken(engine.key(owner)).then(() => over(), over);
  });
  await engine.runTo(forMs);
  const { sentMs } = engine;
  const sentDownMs = down && sentMs.filter((ms) => between(ms, ...down));
  const sentKnownMs = sentDownMs?.filter((ms) => ms >= knownMs);
  const { calls, refused, failed, late } = count;
  const shares = { refused: refused / calls, failed: failed / calls, late: late / calls };
  return { ...shares, sentMs, sentDownMs, sentKnownMs, backMs };
}

/** The most requests that began within one second. */
function mostPerSecond(sentMs) {
  let most = 0;
  for (let from = 0, to = 0; to < sentMs.length; to++) {
    while (sentMs[to] - sentMs[from] >= SECOND_MS) from++;
    most = Math.max(most, to - from + 1);
  }
  return most;
}
