import { peers } from '../../peers/index.mjs';
import { inTurns, percentile, pooled } from '../measure.mjs';
import { bareMap, lruCacheFetch, lruCacheGet, openOurs, verify } from '../ours.mjs';
import { inProcess } from '../processes.mjs';
import { keysOf, startService, tokenOf } from '../service.mjs';

export const title = 'Heap per held owner beyond its key and token, and the pause of a full collection';
export const unit = 'bytes per owner';
export const base = 'lru-cache get';

/** The peers get their tokens over HTTP, and some take more time per owner the more owners there are. */
const PEER_OWNERS = 1_000;
const BARE = { Map: bareMap, 'lru-cache get': lruCacheGet, 'lru-cache fetch': lruCacheFetch };
const OURS = { ours: {}, 'ours, logging': { logged: true }, 'ours, OpenTelemetry': { traced: true } };
const PEERS = Object.fromEntries(peers.map(({ name, open }) => [name, open]).filter(([name]) => !(name in BARE)));

/** Each in a process of its own: a heap remembers what it held. */
export async function run({ quick }) {
  const { stop, ...service } = await startService();
  const tables = [];
  for (const owners of quick ? [PEER_OWNERS, 100_000] : [PEER_OWNERS, 200_000, 1_000_000]) {
    const names = namesFor(owners);
    const pauses = Object.fromEntries(names.map((name) => [name, []]));
    const holding = (name) => async () => {
      const { bytes, pauseMs } = await inProcess(import.meta.url, 'held', { name, owners, service });
      pauses[name].push(pauseMs);
      return bytes;
    };
    const candidates = Object.fromEntries(names.map((name) => [name, holding(name)]));
    const rounds = owners === PEER_OWNERS ? 5 : quick ? 1 : 3;
    const rows = await inTurns(candidates, rounds, { isSlow: (name) => name in PEERS });
    tables.push({ owners, rows: rows.map((row) => ({ ...row, ...pauseOf(pauses[row.name]) })) });
  }
  stop();
  return tables;
}

/** With so few owners, compiled code and the like add or hide up to 200 bytes each, too much for the bare caches. */
function namesFor(owners) {
  if (owners === PEER_OWNERS) return ['ours', ...Object.keys(PEERS)];
  return [...Object.keys(BARE), ...(owners < 1_000_000 ? Object.keys(OURS) : ['ours'])];
}

function pauseOf(pauses) {
  const pauseMs = percentile(pauses, 50);
  return { pauseMs, note: `a full collection stops the process for ${pauseMs.toFixed(0)} ms` };
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
  const source = { requestToken: async (key) => ({ token: newTokenOf(key), response: { expires_in: 86_400 } }) };
  const options = { ...OURS[name], source, concurrency: 1, maxOwners: owners };
  const { getToken } = name in OURS ? openOurs(undefined, options) : await PEERS[name](service);
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
