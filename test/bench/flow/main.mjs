/**
 * Whether the registry harms anybody while a part of the service fails, or while the service slows down under load: each scene
 * over real HTTP, with every service in a process of its own. Beside it, in the same process and at the same time, plays a client
 * of a few lines: 32 requests at once, a map of tokens, and nothing else. Takes three minutes; `--docs` also stores the run, and
 * renews docs/internals/arena.md.
 *
 * "Healthy" are the owners whose service works. Requests count as the registry and that client send them.
 */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import pLimit from 'p-limit';
import { bundled } from '../../helpers/bundle.mjs';
import { storeFigures } from '../stored.mjs';

const { OwnerTokenRegistry, TokenEndpoint } = await bundled('src/index.ts');

const OWNERS = 200;
/** All owners are called at once, every second. A part fails as the first of their tokens are due for a refresh. */
const SCRIPT = { latencyMs: 50, lifetime: 20 };
const FAILS_AFTER_S = 12;
const ENDS_AFTER_S = 42;
const COLD_OWNERS = 2_000;
const IN_TIME_MS = 1_000;

/** Owners of the part that fails among the others, not after them. */
const mixed = (failing) =>
  Array.from({ length: OWNERS }, (_, n) => `${(n * 7) % OWNERS < failing ? 'failing' : 'healthy'}-${n}`);

const PLAYERS = {
  registry(source) {
    const registry = new OwnerTokenRegistry({ source });
    return { get: (key) => registry.getToken(key), close: () => registry.close({ timeoutMs: 0 }) };
  },
  plain(source) {
    const limit = pLimit(32);
    const held = new Map();
    const get = async (key) => {
      const { promise, untilMs = Infinity } = held.get(key) ?? {};
      if (promise && Date.now() < untilMs) return promise;
      const entry = { promise: limit(() => source.requestToken(key, { signal: new AbortController().signal })) };
      held.set(key, entry);
      try {
        entry.untilMs = Date.now() + 950 * (await entry.promise).response.expires_in;
      } catch {
        held.delete(key);
      }
      return entry.promise;
    };
    return { get, close: () => source.close() };
  },
};

async function startService(script) {
  const child = fork(new URL('../board/service.mjs', import.meta.url), { execArgv: [] });
  const [{ tokenUrl, controlUrl }] = await once(child, 'message');
  const play = (next) => fetch(controlUrl, { method: 'POST', body: JSON.stringify(next) });
  await play(script);
  const endpoint = new TokenEndpoint({
    baseUrl: new URL(tokenUrl).origin,
    clientId: 'bench',
    clientSecret: 'a-secret',
  });
  return { endpoint, play, stop: () => child.kill('SIGKILL') };
}

/** The calls of a scene in which a part fails. */
const callsOf = (keys, fail) => async (services, call, count) => {
  const startMs = performance.now();
  for (let second = 0; second < ENDS_AFTER_S; second++) {
    if (second === FAILS_AFTER_S) {
      await fail(services);
      count();
    }
    for (const key of keys) call(key);
    await sleep(startMs + (second + 1) * 1_000 - performance.now());
  }
};

const shardOf = (failing) => ({
  scene: `${failing} of ${OWNERS} owners get 503`,
  scripts: [SCRIPT],
  play: callsOf(mixed(failing), ([service]) =>
    service.play({ ...SCRIPT, answers: { failing: { status: 503, body: 'unavailable' } } }),
  ),
});

const SCENES = [
  shardOf(40),
  shardOf(100),
  {
    scene: 'two services behind one source, one of them down',
    scripts: [SCRIPT, SCRIPT],
    play: callsOf(mixed(OWNERS / 2), ([, service]) => service.stop()),
  },
  {
    scene: `latency grows with the square of what is at once: cold start of ${COLD_OWNERS.toLocaleString('en')}`,
    scripts: [{ latencyMs: 20, doublesAt: 16, lifetime: 3_600 }],
    async play(_services, call, count) {
      count();
      for (let n = 0; n < COLD_OWNERS; n++) call(`healthy-${n}`);
    },
  },
];

/** What the calls of one player got, once the scene began to count. */
async function played({ scripts, play }, open) {
  const services = await Promise.all(scripts.map(startService));
  const groups = { healthy: newGroup(), failing: newGroup() };
  const calls = [];
  let counts = false;
  const { get, close } = open({
    requestToken(key, request) {
      const group = groupOf(key);
      if (counts) groups[group].requests++;
      return services.at(group === 'failing' ? -1 : 0).endpoint.requestToken(key, request);
    },
    close: () => Promise.all(services.map(({ endpoint }) => endpoint.close())),
  });
  const call = async (key) => {
    const isCounted = counts;
    const startMs = performance.now();
    const isServed = await get(key).then(Boolean, () => false);
    if (!isCounted) return;
    const ms = performance.now() - startMs;
    const { owners, servedMs, failedMs } = groups[groupOf(key)];
    owners.add(key);
    (isServed ? servedMs : failedMs).push(ms);
  };
  const count = () => {
    counts = true;
  };
  await play(services, (key) => calls.push(call(key)), count);
  await Promise.all(calls);
  await close();
  for (const { stop } of services) stop();
  return groups;
}

const newGroup = () => ({ owners: new Set(), requests: 0, servedMs: [], failedMs: [] });
const groupOf = (key) => key.slice(0, key.indexOf('-'));

/** What is shown of a player. A healthy call that fails is served never. */
function figuresOf({ healthy, failing }) {
  const waitsMs = [...healthy.servedMs, ...healthy.failedMs.map(() => Infinity)];
  const perOwner = ({ requests, owners }) => requests / owners.size;
  return {
    inTime: waitsMs.filter((ms) => ms <= IN_TIME_MS).length / waitsMs.length,
    worstMs: Math.max(...waitsMs),
    ...(failing.owners.size > 0 && {
      failsMs: [0.5, 0.99].map((share) => quantile(failing.failedMs, share)),
      perFailing: perOwner(failing),
    }),
    perHealthy: perOwner(healthy),
  };
}

const quantile = (values, share) => values.toSorted((a, b) => a - b)[Math.ceil(values.length * share) - 1];

const ms = (value) => `${Math.round(value).toLocaleString('en')} ms`;
const percent = (share) => `${(Math.floor(share * 1_000) / 10).toFixed(1)} %`;
const beside = (registry, plain) => `${registry} (${plain})`;
const times = (registry, plain) =>
  plain ? `${beside(registry.toFixed(1), plain.toFixed(1))}, ${(registry / plain).toFixed(2)} times` : '–';

/** The columns of the table, and what each shows of the two. */
const COLUMNS = {
  'healthy calls served within a second': (one, two) => beside(percent(one.inTime), percent(two.inTime)),
  'the longest wait of one': (one, two) => beside(ms(one.worstMs), ms(two.worstMs)),
  'a call fails after (p50, p99)': (one, two) =>
    one.failsMs ? beside(one.failsMs.map(ms).join(', '), two.failsMs.map(ms).join(', ')) : '–',
  'requests per healthy owner': (one, two) => times(one.perHealthy, two.perHealthy),
  'requests per failing owner': (one, two) => times(one.perFailing, two.perFailing),
};

/** Twice the wait, or half a second more, is the noise of a shared machine. */
const harms = (one, two) =>
  one.worstMs > Math.max(2 * two.worstMs, two.worstMs + 500) || one.failsMs?.[1] > IN_TIME_MS + two.failsMs?.[1];

const rows = [];
for (const scene of SCENES) {
  const groups = await Promise.all(Object.values(PLAYERS).map((open) => played(scene, open)));
  const [registry, plain] = groups.map(figuresOf);
  const cells = Object.entries(COLUMNS).map(([column, show]) => [column, show(registry, plain)]);
  console.log(`\n${scene.scene}: the registry (and the plain client)`);
  for (const [column, cell] of cells) console.log(`  ${column.padEnd(40)}${cell}`);
  rows.push([scene.scene, ...cells.map(([, cell]) => cell)]);
  if (!harms(registry, plain)) continue;
  console.error('  The registry serves healthy owners less, or later, or keeps those waiting whose calls fail.');
  process.exitCode = 1;
}
if (process.argv.includes('--docs')) {
  const columns = ['scene', ...Object.keys(COLUMNS)];
  storeFigures('test/bench/flow/results.json', 'npm run bench -- flow --docs', { http: { columns, rows } });
}
