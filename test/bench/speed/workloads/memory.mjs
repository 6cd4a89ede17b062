import { peers } from '../../peers/index.mjs';
import { inTurns, percentile, pooled, rowsOf } from '../measure.mjs';
import { lruCacheFetch, lruCacheGet, openOurs, verify } from '../ours.mjs';
import { inProcess } from '../processes.mjs';
import { keysOf, startService, tokenOf } from '../service.mjs';

export const title = 'Heap per held owner beyond its key and token, and the pause of a full collection';

/** The peers get their tokens over HTTP, and some take more time per owner the more owners there are. */
const PEER_OWNERS = 1_000;
const BARE = { 'lru-cache get': lruCacheGet, 'lru-cache fetch': lruCacheFetch };
const [HOUR_S, YEAR_S] = [3_600, 31_536_000];
const OURS = {
  ours: { lifetimeS: HOUR_S },
  'ours, tokens of a year': { lifetimeS: YEAR_S },
  'ours, logging': { lifetimeS: HOUR_S, logged: true },
  'ours, OpenTelemetry': { lifetimeS: HOUR_S, traced: true },
};
const PEERS = Object.fromEntries(peers.map(({ name, open }) => [name, open]).filter(([name]) => !(name in BARE)));

/** Each in a process of its own: a heap remembers what it held. */
export async function run({ quick }) {
  const { stop, ...service } = await startService();
  const measured = (owners, names, rounds) => {
    const holding = (name) => () => inProcess(import.meta.url, 'held', { name, owners, service });
    const candidates = Object.fromEntries(names.map((name) => [name, holding(name)]));
    return inTurns(candidates, rounds, { isSlow: (name) => name in PEERS });
  };
  // With so few owners, compiled code and the like add or hide up to 200 bytes each, too much for the bare caches.
  const few = await measured(PEER_OWNERS, ['ours', ...Object.keys(PEERS)], quick ? 2 : 5);
  const owners = quick ? 100_000 : 200_000;
  const many = await measured(owners, [...Object.keys(BARE), ...Object.keys(OURS)], quick ? 1 : 2);
  stop();
  const [bytes, ms] = ['bytes per owner', 'ms'];
  const [base, what] = ['lru-cache get', `${owners.toLocaleString('en')} owners`];
  return [
    { what: '1,000 owners', unit: bytes, base: 'ours', rows: rowsOf(few, 'ours', (cost) => cost.bytes) },
    { what, unit: bytes, base, rows: rowsOf(many, base, (cost) => cost.bytes) },
    { what: `a full collection, ${what}`, unit: ms, base, rows: rowsOf(many, base, (cost) => cost.pauseMs) },
  ];
}

export async function held({ name, owners, service }) {
  const keys = keysOf(owners);
  // Warm-up, so that loaded code is not counted per owner.
  await pooled((await candidateOf(name, 50, service)).fill, keysOf(50, 'first'), 1);
  const tokenBytes = (await bytesOfTokens(keys)) / owners;
  const before = await heapUsed();
  const { fill, get } = await candidateOf(name, owners, service);
  await pooled(fill, keys, 1);
  const bytes = ((await heapUsed()) - before) / owners - tokenBytes;
  for (const key of keys) verify(key, await get(key));
  const pauses = Array.from({ length: 7 }, fullCollectionMs);
  return { bytes, pauseMs: percentile(pauses, 50) };
}

async function candidateOf(name, owners, service) {
  if (name in BARE) {
    const cache = BARE[name](owners);
    return { fill: (key) => cache.set(key, newTokenOf(key)), get: cache.get };
  }
  if (name in PEERS) {
    const { getToken } = await PEERS[name](service);
    return { fill: getToken, get: getToken };
  }
  const { lifetimeS, ...options } = OURS[name];
  const source = { requestToken: async (key) => ({ token: newTokenOf(key), response: { expires_in: lifetimeS } }) };
  const { getToken } = openOurs(undefined, { ...options, source, concurrency: 1, maxOwners: owners });
  return { fill: getToken, get: getToken };
}

/** A string of its own, as from a response: `tokenOf` alone would make one that refers to its parts. */
const newTokenOf = (key) => Buffer.from(tokenOf(key)).toString();

async function bytesOfTokens(keys) {
  const tokens = keys.map(() => '');
  const before = await heapUsed();
  for (const [index, key] of keys.entries()) tokens[index] = newTokenOf(key);
  const bytes = (await heapUsed()) - before;
  // Uses the tokens once more, so that they are held until here.
  verify(keys[0], tokens[0]);
  return bytes;
}

/** Several collections, with turns of the event loop in between, which release what they held. */
async function heapUsed() {
  for (let n = 0; n < 4; n++) {
    globalThis.gc();
    await new Promise((resolve) => setImmediate(resolve));
  }
  return process.memoryUsage().heapUsed;
}

function fullCollectionMs() {
  const startedMs = performance.now();
  globalThis.gc();
  return performance.now() - startedMs;
}
