/**
 * Measures `learnedLifetime` beside fixed guesses and `untilRejected`, on the built package, in virtual time.
 *
 *   node test/bench/learned-lifetime/main.mjs            the table; exits with 1 when a figure is missed
 *   node test/bench/learned-lifetime/main.mjs --docs     the same, stores the figures, and renews docs/expiry.md and its picture
 *   node test/bench/learned-lifetime/main.mjs --sweep    other numbers of owners and calls, the worst of several seeds
 */

import { writeFileSync } from 'node:fs';
import { storeFigures } from '../stored.mjs';
import { drawPlot } from './plot.mjs';
import { runWorld } from './world.mjs';

const { fixedLifetime, learnedLifetime, OwnerTokenRegistry, untilRejected } = await import(
  '../../../dist/index.js'
).catch((cause) => {
  throw new Error('npm run build first', { cause });
});

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const MOST_REQUESTS = 1.3;
const MOST_OUTLIVED = 0.005;

/** Ten lifetimes to learn and ten that are counted; then the lifetime halves, and then it doubles. */
const FACTORS = [1, 1, 0.5, 0.5, 1, 1];
const COUNTED = { 'as it was': 1, halved: 3, doubled: 5 };
const phasesOf = (lifetimeMs) => FACTORS.map((factor) => ({ lifetimeMs: lifetimeMs * factor, lifetimes: 10 }));

const run = (world) => runWorld({ ...world, makeRegistry: (options) => new OwnerTokenRegistry(options) });
const knowing = (world) => run({ ...world, policyFor: (hiddenMs) => ({ lifetimeMs: hiddenMs }) });

/** For each counted phase: requests for one of the policy that knows, and the share of calls that came too late. */
async function measure(world, policyFor, base) {
  const { counts } = await run({ ...world, policyFor });
  return Object.values(COUNTED).map((phase) => ({
    requests: counts[phase].requests / base.counts[phase].requests,
    outlived: counts[phase].outlived / counts[phase].calls,
  }));
}

const meets = ({ requests, outlived }) => requests <= MOST_REQUESTS && outlived <= MOST_OUTLIVED;
const cell = (result) =>
  `${result.requests.toFixed(2).padStart(8)} × ${(100 * result.outlived).toFixed(2).padStart(6)} % ${meets(result) ? ' ' : '!'}`;
const row = (...cells) => console.log(cells.join(' │ '));

async function table() {
  const lifetimes = { '30 s': 30_000, '5 min': 5 * MINUTE_MS, '1 h': HOUR_MS, '24 h': DAY_MS };
  const policies = {
    learnedLifetime: () => learnedLifetime(),
    'fixedLifetime 1 min': () => fixedLifetime(MINUTE_MS),
    'fixedLifetime 5 min': () => fixedLifetime(5 * MINUTE_MS),
    'fixedLifetime 1 h': () => fixedLifetime(HOUR_MS),
    'fixedLifetime 24 h': () => fixedLifetime(DAY_MS),
    untilRejected: () => untilRejected(),
  };
  console.log(
    [
      '100 owners, 60 calls each per lifetime (Poisson), 1 % of tokens revoked, 0.5 % of calls answered 401 for nothing.',
      'Token requests for one of a policy that knows the lifetime, and calls made again because their token had outlived',
      `it. "!" is over ${MOST_REQUESTS} or ${100 * MOST_OUTLIVED} %.\n`,
    ].join('\n'),
  );
  row('hidden'.padEnd(6), 'policy'.padEnd(20), ...Object.keys(COUNTED).map((name) => name.padStart(21)));
  const results = [];
  for (const [name, lifetimeMs] of Object.entries(lifetimes)) {
    const world = { phases: phasesOf(lifetimeMs) };
    const base = await knowing(world);
    for (const [policy, policyFor] of Object.entries(policies)) {
      const measured = await measure(world, policyFor, base);
      results.push({ hidden: name, policy, measured });
      row(name.padEnd(6), policy.padEnd(20), ...measured.map(cell));
    }
  }
  const missed = results.filter(({ policy, measured }) => policy === 'learnedLifetime' && !measured.every(meets));
  console.log(
    missed.length === 0 ? '\nlearnedLifetime is within the figures.' : '\nlearnedLifetime misses the figures.',
  );
  process.exitCode = missed.length === 0 ? 0 : 1;
  return { results, lifetimes };
}

/** The estimate at each tenth of a lifetime, from the first call on. */
async function courses(lifetimes) {
  const all = [];
  for (const [name, lifetimeMs] of Object.entries(lifetimes)) {
    const points = [];
    const policyFor = () => learnedLifetime();
    let next = 0;
    const onCall = (nowMs, policy) => {
      if (nowMs / lifetimeMs < next) return;
      points.push([nowMs / lifetimeMs, policy.estimateMs / lifetimeMs]);
      next = nowMs / lifetimeMs + 0.1;
    };
    await run({ phases: phasesOf(lifetimeMs), policyFor, onCall });
    all.push({ name, points });
  }
  return all;
}

/** The paragraph of docs/expiry.md. */
function textOf(results) {
  const worst = (learned, figure) =>
    Math.max(
      ...results
        .filter(({ policy }) => (policy === 'learnedLifetime') === learned)
        .flatMap(({ measured }) => measured.map((each) => each[figure])),
    );
  const percent = (share) => `${(100 * share).toFixed(2)} %`;
  return `In simulated workloads with lifetimes from 30 s to 24 h, in which 1 % of the tokens are revoked and 0.5 % of the calls get a 401
for no reason, it makes at most ${worst(true, 'requests').toFixed(2)} times the requests of a policy that knows the lifetime, and repeats at most ${percent(worst(true, 'outlived'))} of
the calls. Each fixed guess is right for one lifetime: others cost up to ${worst(false, 'requests').toFixed(0)} times the requests, or ${percent(worst(false, 'outlived'))} repeated calls.`;
}

async function sweep() {
  const seeds = [1, 2, 3, 4, 5];
  row('world'.padEnd(44), ...Object.keys(COUNTED).map((name) => name.padStart(21)));
  const shapes = [];
  for (const owners of [10, 100, 1000]) {
    for (const callsPerLifetime of [10, 60, 600]) {
      for (const burst of [1, 5])
        if (owners * callsPerLifetime <= 60_000) shapes.push({ owners, callsPerLifetime, burst });
    }
  }
  shapes.push({ together: 5 }, { spread: 1000 }, { revoked: 0.2 }, { revokedPerCall: 0.01 });
  for (const shape of shapes) {
    for (const [name, lifetimeMs] of Object.entries({ '20 s': 20_000, '7 d': 7 * DAY_MS })) {
      const each = [];
      for (const seed of seeds.slice(0, shape.owners * shape.callsPerLifetime > 10_000 ? 1 : undefined)) {
        const world = { phases: phasesOf(lifetimeMs), seed, ...shape };
        each.push(await measure(world, () => learnedLifetime(), await knowing(world)));
      }
      const worst = Object.keys(COUNTED).map((_, index) => ({
        requests: Math.max(...each.map((measured) => measured[index].requests)),
        outlived: Math.max(...each.map((measured) => measured[index].outlived)),
      }));
      const title = Object.entries(shape).map(([key, value]) => `${key} ${value}`);
      row(`${name}, ${title.join(', ')}`.padEnd(44), ...worst.map(cell));
    }
  }
}

if (process.argv.includes('--sweep')) {
  await sweep();
} else {
  const { results, lifetimes } = await table();
  if (process.argv.includes('--docs')) {
    const command = 'node test/bench/learned-lifetime/main.mjs --docs';
    storeFigures('test/bench/learned-lifetime/results.json', command, { costs: { text: textOf(results) } });
    const file = new URL('../../../docs/learned-lifetime.svg', import.meta.url);
    writeFileSync(file, drawPlot(await courses(lifetimes), results));
  }
}
