import { clock, install } from '../../board/clock.mjs';
import { peers } from '../../peers/index.mjs';
import { percentile } from '../measure.mjs';
import { ours, verify } from '../ours.mjs';
import { inProcess } from '../processes.mjs';
import { endOf, keysOf, startService } from '../service.mjs';

export const title = 'A call while the endpoint hangs for five minutes, with tokens of an hour';

/** How many times faster than real time the clocks and timers of a player and its service run. All times are theirs. */
const SPEED = 60;
const LIFETIME_S = 3_600;
const OWNERS = 120;
const WATCH_MS = 12 * 60_000;
const OUTAGE_MS = [150_000, 450_000];
const TICK_MS = 3_000;
const CALLS_PER_TICK = OWNERS / 10;
const BUCKET_MS = 30_000;
/** Clocks of two processes differ by a few milliseconds, times the speed. */
const CLOCK_ERROR_MS = 1_000;
/** How many players run at the same time. Each has other neighbours in each round. */
const AT_ONCE = 5;

const players = [ours, ...peers];

export async function run({ quick }) {
  const watched = players.map(({ name }) => ({ name, calls: [], failure: undefined }));
  for (let round = 0; round < (quick ? 1 : 2); round++) {
    const order = watched.map((_, place) => watched[(place + 2 * round) % watched.length]);
    while (order.length > 0) await Promise.all(order.splice(0, AT_ONCE).map(watch));
  }
  const rows = watched.map(({ name, calls, failure }) =>
    calls.length > 0 ? { name, ...summaryOf(calls) } : { name, failure },
  );
  return [{ what: 'outage', columns: 's: 99th percentile', outageMs: OUTAGE_MS, bucketMs: BUCKET_MS, rows }];
}

/** On a busy machine a library may time out before the outage, because its time runs that fast. */
async function watch(player) {
  try {
    player.calls.push(...(await inProcess(import.meta.url, 'callsOf', player.name)));
  } catch (error) {
    player.failure = error.message;
  }
}

/** Every owner is called twice a minute. */
export async function callsOf(name) {
  installClock();
  const service = await startService({ lifetimeS: LIFETIME_S });
  const player = await players.find((each) => each.name === name).open(service);
  const keys = keysOf(OWNERS);
  await fillOverOneLife(player, keys, service);
  const calls = [];
  const startedMs = clock.now();
  let hangs = false;
  for (let nowMs = 0; nowMs < WATCH_MS; nowMs = clock.now() - startedMs) {
    const shouldHang = nowMs >= OUTAGE_MS[0] && nowMs < OUTAGE_MS[1];
    if (shouldHang !== hangs) await (shouldHang ? service.hang() : service.recover());
    hangs = shouldHang;
    for (let n = 0; n < CALLS_PER_TICK; n++) calls.push(timedCall(player, keys[calls.length % OWNERS], nowMs));
    await clock.sleep(TICK_MS);
  }
  const timed = await Promise.all(calls);
  await player.close();
  service.stop();
  return timed;
}

/** Before the player's library is loaded, which happens when it is opened. */
function installClock() {
  install();
  AbortSignal.timeout = (ms) => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(new DOMException('timed out', 'TimeoutError')), ms).unref();
    return controller.signal;
  };
}

/** So that in every minute as many tokens are due as in any other. */
async function fillOverOneLife(player, keys, service) {
  // In real time, because the first request loads code for longer than some time limits last at that speed. A library may
  // read the clock once a second, so that second passes, too.
  await player.getToken('warm-up');
  await clock.pass(0);
  clock.run(SPEED);
  for (const key of keys) {
    await service.setClock(Date.now(), SPEED);
    verify(key, await player.getToken(key));
    await clock.pass((LIFETIME_S * 1_000) / keys.length);
  }
  await service.setClock(Date.now(), SPEED);
}

async function timedCall(player, key, atMs) {
  const startedMs = clock.now();
  const token = await player.getToken(key).catch(() => undefined);
  const ms = clock.now() - startedMs;
  if (token !== undefined) verify(key, token);
  return { atMs, ms, failed: token === undefined, expired: token !== undefined && isExpired(token) };
}

const isExpired = (token) => Date.now() - endOf(token) > CLOCK_ERROR_MS;

function summaryOf(calls) {
  const inOutage = calls.filter(({ atMs }) => atMs >= OUTAGE_MS[0] && atMs < OUTAGE_MS[1]);
  const buckets = Array.from({ length: WATCH_MS / BUCKET_MS }, (_, index) => {
    const within = calls.filter(({ atMs }) => Math.floor(atMs / BUCKET_MS) === index);
    return { p99: seconds(within, 99), failed: count(within, 'failed') };
  });
  const [failed, expired] = [count(inOutage, 'failed'), count(calls, 'expired')];
  const waited = inOutage.filter((call) => call.ms > 1_000 && !call.failed).length;
  const note =
    `of ${inOutage.length.toLocaleString('en')} calls, ${failed} failed and ${waited} waited over a second; ` +
    `of ${calls.length.toLocaleString('en')} in all, ${expired} got an expired token`;
  return {
    cost: seconds(inOutage, 99),
    calls: inOutage.length,
    failed,
    waited,
    expired,
    note,
    buckets,
  };
}

const count = (calls, what) => calls.filter((call) => call[what]).length;

function seconds(calls, percent) {
  const ms = calls.map((call) => call.ms);
  return (percentile(ms, percent) ?? 0) / 1_000;
}
