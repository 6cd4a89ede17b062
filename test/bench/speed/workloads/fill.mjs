import { peers } from '../../peers/index.mjs';
import { inTurns, pooled, pooledCost, rowsOf } from '../measure.mjs';
import { bareFetch, bareHttp, openOurs, verify } from '../ours.mjs';
import { inProcess } from '../processes.mjs';
import { keysOf, startService } from '../service.mjs';

export const title = 'Cold fill: new owners over loopback, ours over node:http unless it says fetch';

/** Fills per process. The JIT has not warmed up in the first one, which is what a service that has just started does. */
const FILLS = 4;
const BASE = 'bare node:http';

const opened = (options) => (service, concurrency) => openOurs(service, { ...options, concurrency });
const OVER_HTTP = {
  [BASE]: bareHttp,
  ours: opened({}),
  'ours, logging': opened({ logged: true }),
  'ours, OpenTelemetry': opened({ traced: true }),
};
const OVER_FETCH = { 'bare fetch': bareFetch, 'ours over fetch': opened({ fetch }) };
const PEERS = Object.fromEntries(peers.map(({ name, open }) => [name, (service) => open(service)]));
const PLAYERS = { ...OVER_HTTP, ...OVER_FETCH, ...PEERS };

/** The libraries that add the least to `fetch`. */
const LEAN_PEERS = ['badgateway', 'async-cache-dedupe', 'lru-cache fetch', 'p-memoize'];

export async function run({ quick }) {
  const { stop, ...service } = await startService();
  const tables = [];
  for (const atOnce of [16, 64]) {
    const names = Object.keys({ ...OVER_HTTP, ...OVER_FETCH }).concat(
      atOnce === 16 && !quick ? Object.keys(PEERS) : LEAN_PEERS,
    );
    const filling = (name) => () => inProcess(import.meta.url, 'costsOfFills', { name, atOnce, service });
    const candidates = Object.fromEntries(names.map((name) => [name, filling(name)]));
    const timed = await inTurns(candidates, quick ? 2 : 5, { isSlow: (name) => name in PEERS });
    const table = (what, among, base, numberOf) => {
      const compared = timed.filter(({ name }) => among.includes(name));
      tables.push({
        what: `${atOnce} at once, ${what}`,
        unit: 'µs per owner',
        base,
        rows: rowsOf(compared, base, numberOf),
      });
    };
    const overHttp = Object.keys(OVER_HTTP);
    table('CPU time', names, BASE, ({ warm }) => warm.cpuUs);
    table('by the clock', overHttp, BASE, ({ warm }) => warm.us);
    table('in a new process, CPU time', overHttp, BASE, ({ first }) => first.cpuUs);
    table('in a new process, by the clock', overHttp, BASE, ({ first }) => first.us);
    const overFetch = [...Object.keys(OVER_FETCH), ...LEAN_PEERS];
    table('over fetch, CPU time', overFetch, 'ours over fetch', ({ warm }) => warm.cpuUs);
  }
  tables.push(await allocations(service));
  stop();
  return tables;
}

/**
 * The least cost of several fills, and that of the first one. Each candidate runs in its own process: candidates that share
 * code would otherwise pollute each other's type feedback. `fetch` is slower by so much that fewer owners time it as well.
 */
export async function costsOfFills({ name, atOnce, service }) {
  const keys = keysOf(name in OVER_HTTP ? 5_000 : 800);
  const costs = [];
  for (let n = 0; n < FILLS; n++) {
    const player = await PLAYERS[name](service, atOnce);
    globalThis.gc({ type: 'minor' });
    costs.push(await pooledCost(async (key) => verify(key, await player.getToken(key)), keys, atOnce));
    await player.close();
  }
  const least = (what) => Math.min(...costs.map((cost) => cost[what]));
  return { first: costs[0], warm: { cpuUs: least('cpuUs'), us: least('us') } };
}

async function allocations(service) {
  // A new space of this size is not collected while allocations are counted.
  const space = ['--min-semi-space-size=128', '--max-semi-space-size=128'];
  const counting = (name) => () => inProcess(import.meta.url, 'bytesOfFill', { name, service }, space);
  const candidates = Object.fromEntries([BASE, 'ours'].map((name) => [name, counting(name)]));
  const rows = rowsOf(await inTurns(candidates, 3), BASE);
  return { what: 'allocated', unit: 'bytes per request', base: BASE, rows };
}

/** The least that a thousand requests allocate per request, with what is kept; the first ones are compiled. */
export async function bytesOfFill({ name, service }) {
  const player = await PLAYERS[name](service, 16);
  let least = Infinity;
  for (let n = 0; n < 10; n++) {
    const keys = keysOf(1_000, `round-${n}`);
    globalThis.gc();
    const before = process.memoryUsage().heapUsed;
    await pooled(player.getToken, keys, 16);
    least = Math.min(least, (process.memoryUsage().heapUsed - before) / keys.length);
  }
  await player.close();
  return least;
}
