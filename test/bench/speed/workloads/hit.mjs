import { peers } from '../../peers/index.mjs';
import { inTurns, median, perCall, picksOf, pooled, rowsOf } from '../measure.mjs';
import { lruCacheFetch, lruCacheGet, lruCacheGetAndDate, openOurs, verify } from '../ours.mjs';
import { inProcess } from '../processes.mjs';
import { accessKeyOf, keysOf, startService, tokenOf } from '../service.mjs';

export const title = 'A hit: an awaited call for an owner whose token is held';

/** A hit must read a clock to know whether the token has expired. */
const BASE = 'lru-cache get and Date.now()';
/** Batches per process. In the first ones the JIT still changes the code, and a hit takes up to twice as long. */
const BATCHES = { warmUp: 16, counted: 8 };

const BARE = { 'lru-cache get': lruCacheGet, [BASE]: lruCacheGetAndDate, 'lru-cache fetch': lruCacheFetch };
const OURS = {
  ours: {},
  'ours, lookup subscriber': { watched: true },
  'ours, logging': { logged: true },
  'ours, OpenTelemetry': { traced: true },
};
const PEERS = Object.fromEntries(peers.map(({ name, open }) => [name, open]).filter(([name]) => !(name in BARE)));

/** The fast libraries that cache any number of owners. `simple-oauth2 + Map` has the same hit as `openid-client + Map`. */
const FAST_PEERS = ['badgateway', 'google-auth-library', 'openid-client + Map', 'p-memoize'];

const alone = [...Object.keys(BARE), 'ours'];
const TABLES = [
  { what: '100 owners', owners: 100, rounds: 4, names: [...alone, ...Object.keys(PEERS)] },
  { what: '10,000 owners', owners: 10_000, rounds: 6, names: [...alone, ...FAST_PEERS] },
  // As in a server, which parses its keys from requests.
  { what: '10,000 owners, keys just parsed', owners: 10_000, rounds: 4, anew: true, names: alone },
  // More rounds, because the speed of a process of this size depends on its memory layout.
  { what: '100,000 owners', owners: 100_000, rounds: 10, names: [...alone, ...FAST_PEERS] },
  { what: '100 owners, observed', owners: 100, rounds: 4, names: Object.keys(OURS), base: 'ours' },
  { what: '10,000 owners, observed', owners: 10_000, rounds: 12, names: Object.keys(OURS), base: 'ours' },
];

export async function run({ quick }) {
  const { stop, ...service } = await startService();
  const tables = [];
  for (const { what, owners, rounds, anew, names, base = BASE } of TABLES) {
    const hitting = (name) => () => inProcess(import.meta.url, 'costOfHits', { name, owners, anew, service });
    const candidates = Object.fromEntries(names.map((name) => [name, hitting(name)]));
    const timed = await inTurns(candidates, quick ? 2 : rounds, { isSlow: (name) => name in PEERS });
    tables.push({ what, unit: 'ns', base, rows: rowsOf(timed, base) });
  }
  stop();
  return tables;
}

/**
 * The median cost of several batches after the warm-up. Each candidate runs in its own process, as in production: the data of several candidates
 * would evict each other from the CPU's caches, and variants that share code would pollute each other's type feedback.
 */
export async function costOfHits({ name, owners, anew, service }) {
  const keys = keysOf(owners);
  const { call, getToken } = await filled(name, keys, service);
  // As in a process that has run for a while: what was left of the requests is gone, and the tokens have aged.
  globalThis.gc();
  const measure = perCall(call, picksOf(keys, 200_000), { anew });
  const costs = [];
  for (let n = 0; n < BATCHES.warmUp + BATCHES.counted; n++) costs.push(await measure());
  for (const key of keys) verify(key, await getToken(key));
  return median(costs.slice(BATCHES.warmUp));
}

/** Filled and verified. The registry itself is called in the time that counts, which gives more than the token's text. */
async function filled(name, keys, service) {
  if (name in BARE) {
    const cache = BARE[name](keys.length);
    for (const key of keys) cache.set(key, tokenOf(key));
    return { call: cache.get, getToken: cache.get };
  }
  globalThis.fetch = issue;
  const options = { ...OURS[name], concurrency: 64, maxOwners: keys.length };
  const { registry, getToken } = name in OURS ? openOurs(undefined, options) : await PEERS[name](service);
  await pooled(getToken, keys, 16);
  return { call: registry ? (key) => registry.getToken(key) : getToken, getToken };
}

/** Instead of a request, which would make filling the large caches take minutes: here only hits count. */
async function issue(_url, { body }) {
  return Response.json({ access_token: tokenOf(accessKeyOf(String(body))), token_type: 'Bearer', expires_in: 3_600 });
}
