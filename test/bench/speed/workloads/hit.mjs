import { peers } from '../../peers/index.mjs';
import { inTurns, perCall, picksOf, pooled } from '../measure.mjs';
import { bareMap, lruCacheFetch, lruCacheGet, openOurs, verify } from '../ours.mjs';
import { keysOf, startService, tokenOf } from '../service.mjs';

export const title = 'A hit: an awaited call for an owner whose token is held';
export const unit = 'ns';
export const base = 'lru-cache get';

const PEER_OWNERS = 1_000;
/** The default of `maxOwners`; here the keys are also given as a server has them, which parses them from requests. */
const DEFAULT_OWNERS = 10_000;

export async function run({ quick }) {
  const rounds = quick ? 5 : 9;
  const sizes = quick ? [100, 10_000, 100_000] : [100, 1_000, 10_000, 100_000, 1_000_000];
  const tables = [];
  for (const owners of sizes) {
    const keys = keysOf(owners);
    const { candidates, close } = await filled(keys, quick);
    for (const distribution of ['uniform', 'zipf']) {
      const picks = picksOf(keys, distribution, 200_000);
      for (const anew of owners === DEFAULT_OWNERS ? [false, true] : [false]) {
        const calls = Object.entries(candidates).map(([name, call]) => [name, perCall(call, picks, { anew })]);
        tables.push({ owners, distribution, anew, rows: await inTurns(Object.fromEntries(calls), rounds) });
      }
    }
    await close();
  }
  return tables;
}

/** All candidates that can hold this many owners, filled and verified. */
async function filled(keys, quick) {
  const candidates = {};
  const closers = [];
  for (const cache of [bareMap(), lruCacheGet(keys.length), lruCacheFetch(keys.length)]) {
    for (const key of keys) cache.set(key, tokenOf(key));
    for (const key of keys) verify(key, await cache.get(key));
    candidates[cache.name] = cache.get;
  }
  const variants = { ours: {} };
  if (keys.length === DEFAULT_OWNERS) {
    const [logged, traced] = [true, true];
    Object.assign(variants, { 'ours, logging': { logged }, 'ours, OpenTelemetry': { traced } });
    variants['ours, both'] = { logged, traced };
  }
  for (const [name, options] of Object.entries(variants)) {
    const { registry, getToken, close } = openOurs(undefined, { ...options, concurrency: 64, maxOwners: keys.length });
    await pooled(getToken, keys, 64);
    for (const key of keys) verify(key, await getToken(key));
    candidates[name] = (key) => registry.getToken(key);
    closers.push(close);
  }
  if (keys.length === PEER_OWNERS && !quick) closers.push(await addPeers(candidates, keys));
  return { candidates, close: () => Promise.all(closers.map((close) => close())) };
}

/** Through their adapters, from a real service. */
async function addPeers(candidates, keys) {
  const service = await startService();
  const opened = [];
  for (const { name, open } of peers) {
    const peer = await open(service);
    await pooled(peer.getToken, keys, 16);
    for (const key of keys) verify(key, await peer.getToken(key));
    if (name !== 'lru-cache fetch') candidates[name] = peer.getToken;
    opened.push(peer);
  }
  service.stop();
  return () => Promise.all(opened.map((peer) => peer.close()));
}
