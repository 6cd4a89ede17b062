import { setTimeout as sleep } from 'node:timers/promises';
import { peers } from '../../peers/index.mjs';
import { percentile } from '../measure.mjs';
import { ourPlayers, verify } from '../ours.mjs';
import { keysOf, startService } from '../service.mjs';

export const title = 'A call while the endpoint hangs for a second and the tokens, of 8 s, are due for renewal';
export const columns = ['slowest call, ms', 'median, ms'];
export const base = 'ours';

const LIFETIME_S = 8;
const TICK_MS = 50;
const OWNERS = 80;
/** Of the watch, which begins when the first tokens are a life old. */
const WATCH_MS = 4_000;
const OUTAGE_MS = [1_500, 2_500];
const BUCKET_MS = 250;

/** All at the same time against one service each, so that all see the same seconds. */
export async function run() {
  const players = [...ourPlayers(), ...peers];
  const watched = await Promise.all(players.map(watch));
  return [{ outageMs: OUTAGE_MS, bucketMs: BUCKET_MS, rows: watched }];
}

async function watch({ name, open }) {
  const service = await startService({ lifetimeS: LIFETIME_S });
  const player = await open(service);
  const keys = keysOf(OWNERS);
  // Spread over a life, so that in every second as many tokens are due as in any other.
  const filledMs = performance.now();
  for (const [index, key] of keys.entries()) {
    await player.getToken(key);
    await sleep(Math.max(0, filledMs + ((index + 1) * LIFETIME_S * 1_000) / OWNERS - performance.now()));
  }
  const calls = [];
  const pending = new Set();
  const startedMs = performance.now();
  let next = 0;
  let hangs = false;
  for (let nowMs = 0; nowMs < WATCH_MS; nowMs = performance.now() - startedMs) {
    const shouldHang = nowMs >= OUTAGE_MS[0] && nowMs < OUTAGE_MS[1];
    if (shouldHang !== hangs) await (shouldHang ? service.hang() : service.recover());
    hangs = shouldHang;
    // Every owner is called about twice a second.
    for (let n = 0; n < OWNERS / 10; n++) {
      const call = timedCall(player, keys[next++ % OWNERS], nowMs).then((timed) => calls.push(timed));
      pending.add(call.finally(() => pending.delete(call)));
    }
    await sleep(TICK_MS);
  }
  await service.recover();
  await Promise.race([Promise.all(pending), sleep(12_000)]);
  await player.close();
  service.stop();
  return summaryOf(name, calls);
}

async function timedCall(player, key, atMs) {
  const startedMs = performance.now();
  try {
    verify(key, await player.getToken(key));
    return { atMs, ms: performance.now() - startedMs, ok: true };
  } catch {
    return { atMs, ms: performance.now() - startedMs, ok: false };
  }
}

function summaryOf(name, calls) {
  const inOutage = calls.filter(({ atMs }) => atMs >= OUTAGE_MS[0] && atMs < OUTAGE_MS[1]);
  const buckets = Array.from({ length: WATCH_MS / BUCKET_MS }, (_, index) => {
    const within = calls.filter(({ atMs }) => Math.floor(atMs / BUCKET_MS) === index);
    const ms = within.map((call) => call.ms);
    return { p50: percentile(ms, 50), p99: percentile(ms, 99), failed: within.filter(({ ok }) => !ok).length };
  });
  const waited = inOutage.filter(({ ms, ok }) => ok && ms > 20).length;
  const failed = inOutage.filter(({ ok }) => !ok).length;
  const ms = inOutage.map((call) => call.ms);
  const note = `of ${inOutage.length} calls, ${waited} waited over 20 ms and ${failed} failed`;
  return { name, min: Math.max(0, ...ms), median: percentile(ms, 50) ?? 0, note, buckets };
}
