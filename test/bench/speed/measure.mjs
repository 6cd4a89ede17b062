/**
 * Measures candidates in turns, so that other load on the machine affects all alike, and by the CPU time of this process, which
 * other processes disturb much less than wall-clock time.
 */

import { seeded } from '../../helpers/seeded.mjs';

/** A batch lasts about this long, so that fast and slow candidates are measured with the same precision. */
const BATCH_MS = 25;

/** How many strings are created at a time: few enough to stay in the CPU's caches, like one that was just parsed. */
const ANEW_AT_ONCE = 512;

/**
 * Runs every candidate once per round, each round in another order, and collects its costs. A candidate that fails, as other
 * libraries do by time-outs on a busy machine, keeps the costs of its other rounds.
 *
 * @param candidates `{ name: async () => cost }`
 * @param collect whether to collect young garbage in between, so that less of it is collected in the time of the next.
 * @param isSlow whether the named candidate runs only in every fourth round once it has been measured, to shorten the run.
 * @returns `[{ name, costs, failure }]` in the order of the candidates; a cost stands at the number of its round
 */
export async function inTurns(candidates, rounds, { collect = false, isSlow = () => false } = {}) {
  const all = Object.entries(candidates).map(([name, run]) => ({ name, run, costs: [], failure: undefined }));
  for (let round = 0; round < rounds; round++) {
    for (let place = 0; place < all.length; place++) {
      const candidate = all[(place + round) % all.length];
      const isMeasured = candidate.costs.length > 0;
      if (round % 4 > 0 && isMeasured && isSlow(candidate.name)) continue;
      // A full collection would also discard compiled code.
      if (collect) globalThis.gc({ type: 'minor' });
      try {
        candidate.costs[round] = await candidate.run();
      } catch (error) {
        candidate.failure = error.message;
      }
    }
  }
  return all;
}

/**
 * A row for each candidate. Its cost is the median of its rounds. The minimum would depend on luck: compiled code, memory layout
 * and batches of responses differ from process to process. The ratio to the base is the median of the ratios within each round,
 * because the two were measured soon after one another.
 *
 * @param numberOf picks the number out of a cost that has several.
 */
export function rowsOf(candidates, base, numberOf = Number) {
  const baseCosts = candidates.find(({ name }) => name === base)?.costs ?? [];
  return candidates.map(({ name, costs, failure }) => {
    const numbers = Object.values(costs).map(numberOf);
    if (numbers.length === 0) return { name, failure };
    const ratios = costs.flatMap((cost, round) =>
      round in baseCosts ? [numberOf(cost) / numberOf(baseCosts[round])] : [],
    );
    return {
      name,
      cost: median(numbers),
      quartiles: [percentile(numbers, 25), percentile(numbers, 75)],
      ...(ratios.length > 0 && { ratio: median(ratios) }),
    };
  });
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

export function percentile(values, percent) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * percent) / 100))];
}

/** CPU time of this process since then, all its threads included, in microseconds. */
export function cpuUsSince(started) {
  const { user, system } = process.cpuUsage(started);
  return user + system;
}

/**
 * The cost of an awaited call, as a candidate of `inTurns`.
 *
 * @param call receives each argument in turn, from the beginning again where they end.
 * @param options `anew`: each argument is a string that is parsed from JSON before it is given, apart from what is timed.
 * @returns nanoseconds per call
 */
export function perCall(call, args, { anew = false } = {}) {
  const measure = anew ? nsPerCallAnew : nsPerCall;
  const next = endless(args);
  let times = 0;
  return async () => {
    times ||= await calibrated(measure, call, next);
    return await measure(call, next, times);
  };
}

/**
 * Returns the next `count` values, in a circle. Batches that all start at the first owner would measure only owners that
 * are in the CPU's caches.
 */
function endless(values) {
  let at = 0;
  return (count) => {
    const taken = [];
    for (; taken.length < count; at = (at + 1) % values.length) taken.push(values[at]);
    return taken;
  };
}

/** Also warms the code up. */
async function calibrated(measure, call, next) {
  const trial = 50;
  await measure(call, next, trial);
  const ns = Math.max(50, await measure(call, next, trial));
  const times = Math.max(trial, Math.round((BATCH_MS * 1e6) / ns));
  if (times > 10 * trial) for (let n = 0; n < 2; n++) await measure(call, next, times);
  return times;
}

async function nsPerCallAnew(call, next, times) {
  let ns = 0;
  for (let left = times; left > 0; left -= ANEW_AT_ONCE) {
    const part = next(Math.min(left, ANEW_AT_ONCE)).map((arg) => JSON.parse(`{"key":${JSON.stringify(arg)}}`).key);
    ns += (await nsPerCallOf(call, part)) * part.length;
  }
  return ns / times;
}

function nsPerCall(call, next, times) {
  return nsPerCallOf(call, next(times));
}

async function nsPerCallOf(call, args) {
  const started = process.cpuUsage();
  for (const arg of args) await call(arg);
  return (cpuUsSince(started) * 1_000) / args.length;
}

/** Calls it with every argument, so many at once. */
export async function pooled(call, args, atOnce) {
  let next = 0;
  const worker = async () => {
    while (next < args.length) await call(args[next++]);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}

/** What that costs per argument, and how long it takes, in microseconds. */
export async function pooledCost(call, args, atOnce) {
  const startedMs = performance.now();
  const started = process.cpuUsage();
  await pooled(call, args, atOnce);
  return { cpuUs: cpuUsSince(started) / args.length, us: ((performance.now() - startedMs) * 1_000) / args.length };
}

/** Picks `times` of the values at random. */
export function picksOf(values, times) {
  const random = seeded(1);
  return Array.from({ length: times }, () => values[Math.floor(random() * values.length)]);
}
