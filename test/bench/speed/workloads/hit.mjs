import { peers } from '../../peers/index.mjs';
import { inTurns, perCall, picksOf, pooled } from '../measure.mjs';
import { bareMap, lruCacheFetch, lruCacheGet, openOurs, verify } from '../ours.mjs';
import { inProcess } from '../processes.mjs';
import { keysOf, startService, tokenOf } from '../service.mjs';

export const title = 'A hit: an awaited call for an owner whose token is held';
export const unit = 'ns';
export const base = 'lru-cache get';

const PEER_OWNERS = 1_000;
/** The default of `maxOwners`; here the keys are also given as a server has them, which parses them from requests. */
const DEFAULT_OWNERS = 10_000;
/** Batches per process. */
const BATCHES = 10;

const BARE = { Map: bareMap, 'lru-cache get': lruCacheGet, 'lru-cache fetch': lruCacheFetch };
const [logged, traced] = [true, true];
const OURS = {
  ours: {},
  'ours, logging': { logged },
  'ours, OpenTelemetry': { traced },
  'ours, both': { logged, traced },
  'ours, lookup subscriber': { watched: true },
};
const PEERS = Object.fromEntries(peers.map(({ name, open }) => [name, open]).filter(([name]) => !(name in BARE)));

export async function run({ quick }) {
  const { stop, ...service } = await startService();
  const sizes = quick ? [100, DEFAULT_OWNERS, 100_000] : [100, PEER_OWNERS, DEFAULT_OWNERS, 100_000, 1_000_000];
  const tables = [];
  for (const owners of sizes) {
    const rounds = quick || owners === 1_000_000 ? 3 : 5;
    for (const distribution of owners === PEER_OWNERS ? ['uniform'] : ['uniform', 'zipf']) {
      for (const anew of owners === DEFAULT_OWNERS ? [false, true] : [false]) {
        const hitting = (name) => () =>
          inProcess(import.meta.url, 'leastCostOfHits', { name, owners, distribution, anew, service });
        const candidates = Object.fromEntries(namesFor(owners, anew).map((name) => [name, hitting(name)]));
        const rows = await inTurns(candidates, rounds, { isSlow: (name) => name in PEERS });
        tables.push({ owners, distribution, anew, rows });
      }
    }
  }
  stop();
  return tables;
}

function namesFor(owners, anew) {
  const names = [...Object.keys(BARE), ...(owners === DEFAULT_OWNERS && !anew ? Object.keys(OURS) : ['ours'])];
  return owners === PEER_OWNERS ? [...names, ...Object.keys(PEERS)] : names;
}

/**
 * The least cost of several batches. Each candidate runs in its own process, as in production: the data of several candidates
 * would evict each other from the CPU's caches, and variants that share code would pollute each other's type feedback.
 */
export async function leastCostOfHits({ name, owners, distribution, anew, service }) {
  const keys = keysOf(owners);
  const { call, getToken } = await filled(name, keys, service);
  // As in a process that has run for a while: what was left of the requests is gone, and the tokens have aged.
  globalThis.gc();
  const measure = perCall(call, picksOf(keys, distribution, 200_000), { anew });
  let least = Infinity;
  for (let n = 0; n < BATCHES; n++) least = Math.min(least, await measure());
  for (const key of keys) verify(key, await getToken(key));
  return least;
}

/** Filled and verified. The registry itself is called in the time that counts, which gives more than the token's text. */
async function filled(name, keys, service) {
  if (name in BARE) {
    const cache = BARE[name](keys.length);
    for (const key of keys) cache.set(key, tokenOf(key));
    for (const key of keys) verify(key, await cache.get(key));
    return { call: cache.get, getToken: cache.get };
  }
  const options = { ...OURS[name], concurrency: 64, maxOwners: keys.length };
  const { registry, getToken } = name in OURS ? openOurs(undefined, options) : await PEERS[name](service);
  await pooled(getToken, keys, 16);
  for (const key of keys) verify(key, await getToken(key));
  return { call: registry ? (key) => registry.getToken(key) : getToken, getToken };
}
