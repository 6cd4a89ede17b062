import { peers } from '../../peers/index.mjs';
import { inTurns, pooledCost } from '../measure.mjs';
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
    const rows = await inTurns(candidates, quick ? 2 : 5);
    const perSecond = (name, fill) => figure(1e6 / Math.min(...times[name].map((wall) => wall[fill])));
    const note = (name) => `${perSecond(name, 'least')} owners a second, ${perSecond(name, 'first')} in a new process`;
    tables.push({ atOnce, rows: rows.map((row) => ({ ...row, note: note(row.name) })) });
  }
  stop();
  return tables;
}

/**
 * The least cost of several fills, and the time of the first one. Each candidate runs in its own process: candidates that
 * share code would otherwise pollute each other's type feedback. The peers are slower by so much that fewer owners time
 * them as well.
 */
export async function costOfFills({ name, atOnce, service }) {
  const keys = keysOf(isPeer(name) ? 1_000 : 5_000);
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
  };
}

function isPeer(name) {
  return peers.some((peer) => peer.name === name);
}
