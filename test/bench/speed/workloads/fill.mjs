import { peers } from '../../peers/index.mjs';
import { LEAN_FETCH_PEERS } from '../goals.mjs';
import { inTurns, median, pooled, pooledCost, rowsOf } from '../measure.mjs';
import { bareFetch, bareHttp, openOurs, verify } from '../ours.mjs';
import { inProcess } from '../processes.mjs';
import { keysOf, startService } from '../service.mjs';

export const title = 'Cold fill: new owners over loopback, ours over node:http unless it says fetch';

/**
 * The fills of a process. The first one is that of a service that has just started. The JIT still compiles in the next ones, which
 * are not counted; the warm cost is the median of the others. `fetch` is so much slower that fewer owners are as precise.
 */
const HTTP_FILLS = { owners: 5_000, warmUp: 4, counted: 4 };
const FETCH_FILLS = { owners: 800, warmUp: 10, counted: 3 };
const BASE = 'bare node:http';

const opened = (options) => (service, concurrency) => openOurs(service, { ...options, concurrency });
const PEERS = Object.fromEntries(peers.map(({ name, open }) => [name, (service) => open(service)]));
const HTTP_PEER = 'simple-oauth2 + Map';
const { [HTTP_PEER]: httpPeer, ...FETCH_PEERS } = PEERS;
const OBSERVED = { 'ours, logging': opened({ logged: true }), 'ours, OpenTelemetry': opened({ traced: true }) };
const OVER_HTTP = { [BASE]: bareHttp, ours: opened({}), ...OBSERVED };
const OVER_FETCH = { 'bare fetch': bareFetch, 'ours over fetch': opened({ fetch }) };
const PLAYERS = { ...OVER_HTTP, ...OVER_FETCH, ...PEERS };

export async function run({ quick }) {
  const { stop, ...service } = await startService();
  const tables = [];
  for (const atOnce of [16, 64]) {
    const isAll = atOnce === 16 && !quick;
    const timed = (names, rounds) => {
      const filling = (name) => () => inProcess(import.meta.url, 'costsOfFills', { name, atOnce, service });
      const candidates = Object.fromEntries(names.map((name) => [name, filling(name)]));
      const isSlow = (name) => !(name in OVER_FETCH) && ![BASE, 'ours', ...LEAN_FETCH_PEERS].includes(name);
      return inTurns(candidates, rounds, { isSlow });
    };
    const overHttp = await timed([...Object.keys(OVER_HTTP), ...(isAll ? [HTTP_PEER] : [])], quick ? 2 : 10);
    const fetchPeers = isAll ? Object.keys(FETCH_PEERS) : LEAN_FETCH_PEERS;
    const overFetch = await timed([...Object.keys(OVER_FETCH), ...fetchPeers], quick ? 1 : 4);
    const table = (what, base, rows) =>
      tables.push({ what: `${atOnce} at once, ${what}`, unit: 'µs per owner', base, rows });
    const ofHttp = (numberOf) => rowsOf(overHttp, BASE, numberOf);
    const ofFetch = (base) => rowsOf(overFetch, base, ({ warm }) => warm.cpuUs);
    table('CPU time', BASE, [...ofHttp(({ warm }) => warm.cpuUs), ...ofFetch()]);
    table(
      'by the clock',
      BASE,
      ofHttp(({ warm }) => warm.us),
    );
    table(
      'in a new process, CPU time',
      BASE,
      ofHttp(({ first }) => first.cpuUs),
    );
    table(
      'in a new process, by the clock',
      BASE,
      ofHttp(({ first }) => first.us),
    );
    table('over fetch, CPU time', 'ours over fetch', ofFetch('ours over fetch'));
  }
  tables.push(await allocations(service));
  stop();
  return tables;
}

/**
 * The cost of the first fill and of one after the warm-up. Each candidate runs in its own process: candidates that share code
 * would otherwise pollute each other's type feedback.
 */
export async function costsOfFills({ name, atOnce, service }) {
  const { owners, warmUp, counted } = name in OVER_HTTP || name === HTTP_PEER ? HTTP_FILLS : FETCH_FILLS;
  const keys = keysOf(owners);
  const costs = [];
  for (let n = 0; n < warmUp + counted; n++) {
    const player = await PLAYERS[name](service, atOnce);
    globalThis.gc({ type: 'minor' });
    costs.push(await pooledCost(async (key) => verify(key, await player.getToken(key)), keys, atOnce));
    await player.close();
  }
  const warm = (what) => median(costs.slice(warmUp).map((cost) => cost[what]));
  return { first: costs[0], warm: { cpuUs: warm('cpuUs'), us: warm('us') } };
}

async function allocations(service) {
  // A new space of this size is not collected while allocations are counted.
  const space = ['--min-semi-space-size=128', '--max-semi-space-size=128'];
  const counting = (name) => () => inProcess(import.meta.url, 'bytesOfFill', { name, service }, space);
  const candidates = Object.fromEntries([BASE, 'ours'].map((name) => [name, counting(name)]));
  const rows = rowsOf(await inTurns(candidates, 3), BASE);
  return { what: 'allocated', unit: 'bytes per request', base: BASE, rows };
}

/**
 * What each of a thousand requests allocates on the heap: both the garbage and the cached token. The keys are created beforehand.
 * Compiled code allocates less than interpreted code, so the first requests are not counted, and no full collection takes place,
 * which would discard compiled code.
 */
export async function bytesOfFill({ name, service }) {
  const { registry, getToken, close } = await PLAYERS[name](service, 16);
  const call = registry ? (key) => registry.getToken(key) : getToken;
  await pooled(call, keysOf(20_000, 'warm-up'), 16);
  const rounds = [];
  for (let n = 0; n < 10; n++) {
    const keys = keysOf(1_000, `round-${n}`);
    globalThis.gc({ type: 'minor' });
    const before = process.memoryUsage().heapUsed;
    await pooled(call, keys, 16);
    rounds.push((process.memoryUsage().heapUsed - before) / keys.length);
  }
  await close();
  return median(rounds);
}
