import { peers } from '../../peers/index.mjs';
import { inTurns, percentile, pooledCost } from '../measure.mjs';
import { bareFetch, bareHttp, openOurs, verify } from '../ours.mjs';
import { inProcess } from '../processes.mjs';
import { figure } from '../report.mjs';
import { keysOf, startService } from '../service.mjs';

export const title = 'Cold fill: new owners over loopback';
export const unit = 'µs of CPU time per owner';
export const base = 'bare node:http';

/** Fills per process. The JIT has not warmed up in the first one, which is what a service that has just started does. */
const FILLS = 4;

const OURS = {
  ours: {},
  'ours over fetch': { fetch },
  'ours, logging': { logged: true },
  'ours, OpenTelemetry': { traced: true },
};

const players = {
  'bare node:http': bareHttp,
  'bare fetch': bareFetch,
  ...Object.fromEntries(
    Object.entries(OURS).map(([name, options]) => [
      name,
      (service, concurrency) => openOurs(service, { ...options, concurrency }),
    ]),
  ),
  ...Object.fromEntries(peers.map(({ name, open }) => [name, (service) => open(service)])),
};

export async function run({ quick }) {
  const { stop, ...service } = await startService();
  const names = Object.keys(players).filter((name) => !quick || !isPeer(name));
  const tables = [];
  for (const atOnce of [16, 64]) {
    const times = Object.fromEntries(names.map((name) => [name, []]));
    const filling = (name) => async () => {
      const { cpuUs, ...wall } = await inProcess(import.meta.url, 'costOfFills', { name, atOnce, service });
      times[name].push(wall);
      return cpuUs;
    };
    const candidates = Object.fromEntries(names.map((name) => [name, filling(name)]));
    const rows = await inTurns(candidates, quick ? 2 : 5, { isSlow });
    tables.push({ atOnce, rows: rows.map((row) => ({ ...row, ...ratesOf(times[row.name], times[base]) })) });
  }
  stop();
  return tables;
}

/**
 * The least cost of several fills, and the time of the first one. Each candidate runs in its own process: candidates that
 * share code would otherwise pollute each other's type feedback. The peers and `fetch` are slower by so much that fewer
 * owners time them as well.
 */
export async function costOfFills({ name, atOnce, service }) {
  const keys = keysOf(isSlow(name) ? 800 : 5_000);
  const costs = [];
  for (let n = 0; n < FILLS; n++) {
    const player = await players[name](service, atOnce);
    globalThis.gc({ type: 'minor' });
    costs.push(await pooledCost(async (key) => verify(key, await player.getToken(key)), keys, atOnce));
    await player.close();
  }
  return {
    cpuUs: Math.min(...costs.map(({ cpuUs }) => cpuUs)),
    least: Math.min(...costs.map(({ us }) => us)),
    first: costs[0].us,
    owners: keys.length,
  };
}

/**
 * Owners a second by the clock, and over the rate of the bare loop: the best fill of all, and the median of the first fills
 * and of their ratios, each to the bare loop's first fill of the same round. A first fill of fewer owners has no such ratio,
 * because more of it runs before the JIT has warmed up.
 */
function ratesOf(times, bareTimes) {
  const best = (all) => 1e6 / Math.min(...all.map(({ least }) => least));
  const warm = best(times);
  const first =
    1e6 /
    percentile(
      times.map((time) => time.first),
      50,
    );
  const rates = { warm, first, warmOverBare: warm / best(bareTimes) };
  if (times[0].owners === bareTimes[0].owners) {
    const ratios = times.map((time, round) => bareTimes[round].first / time.first);
    rates.firstOverBare = percentile(ratios, 50);
  }
  const over = (ratio) => (ratio === undefined ? '' : `, ${ratio.toFixed(2)} of the bare loop`);
  const note =
    `${figure(warm)} owners a second${over(rates.warmOverBare)}; ` +
    `in a new process ${figure(first)}${over(rates.firstOverBare)}`;
  return { rates, note };
}

function isSlow(name) {
  return isPeer(name) || name.endsWith('fetch');
}

function isPeer(name) {
  return peers.some((peer) => peer.name === name);
}
