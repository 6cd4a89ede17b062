import { percentile, pooled } from '../measure.mjs';
import { bareMap, lruCacheFetch, lruCacheGet, openOurs, verify } from '../ours.mjs';
import { inProcess } from '../processes.mjs';
import { keysOf, tokenOf } from '../service.mjs';

export const title = 'Heap per held owner beyond its key and token, and the pause of a full collection';
export const unit = 'bytes per owner';
export const base = 'lru-cache get';

const NAMES = ['Map', 'lru-cache get', 'lru-cache fetch', 'ours', 'ours, logging', 'ours, OpenTelemetry'];

/** Each in a process of its own: a heap remembers what it held. */
export async function run({ quick }) {
  const tables = [];
  for (const owners of quick ? [100_000] : [10_000, 200_000, 1_000_000]) {
    const rows = [];
    for (const name of NAMES) rows.push(await inProcess(import.meta.url, 'held', { name, owners }));
    tables.push({ owners, rows });
  }
  return tables;
}

export async function held({ name, owners }) {
  const keys = keysOf(owners);
  const tokens = keys.map((key) => Buffer.from(tokenOf(key)).toString());
  let issued = 0;
  const source = {
    requestToken: async () => ({ token: tokens[issued++], response: { expires_in: 86_400 } }),
  };
  const caches = { Map: bareMap, 'lru-cache get': lruCacheGet, 'lru-cache fetch': lruCacheFetch };
  const before = heapUsed();
  let get;
  if (caches[name]) {
    const cache = caches[name](owners);
    for (const [index, key] of keys.entries()) cache.set(key, tokens[index]);
    get = cache.get;
  } else {
    const ours = openOurs(undefined, {
      ...{ source, concurrency: 1, maxOwners: owners },
      ...{ logged: name.endsWith('logging'), traced: name.endsWith('Telemetry') },
    });
    await pooled(ours.getToken, keys, 1);
    get = ours.getToken;
  }
  const bytes = (heapUsed() - before) / owners;
  for (let n = 0; n < owners; n += Math.ceil(owners / 10_000)) verify(keys[n], await get(keys[n]));
  const pauses = Array.from({ length: 7 }, pauseMs);
  const note = `a full collection stops the process for ${Math.min(...pauses).toFixed(0)} ms`;
  return {
    name,
    min: bytes,
    median: bytes,
    pauseMs: { min: Math.min(...pauses), median: percentile(pauses, 50) },
    note,
  };
}

function heapUsed() {
  globalThis.gc();
  globalThis.gc();
  return process.memoryUsage().heapUsed;
}

function pauseMs() {
  const startedMs = performance.now();
  globalThis.gc();
  return performance.now() - startedMs;
}
