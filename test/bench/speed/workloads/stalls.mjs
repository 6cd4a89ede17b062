import { PerformanceObserver } from 'node:perf_hooks';
import { setTimeout } from 'node:timers/promises';
import { OwnerTokenError, OwnerTokenRegistry } from '../../../../dist/index.js';
import { inTurns, rowsOf } from '../measure.mjs';

export const title = 'How long an operation on 100,000 owners keeps the event loop from turning';

const OWNERS = 100_000;

const turn = () => new Promise((resolve) => setImmediate(resolve));
const keysUpTo = (count) => Array.from({ length: count }, (_, index) => `key-${index}`);
const ignore = () => {};

/** Responses that arrive in one turn of the event loop. */
const RESPONSES_PER_TURN = 64;

/** A source that answers soon; if `isHeld`, the first request when told. */
function sourceOf({ isHeld = false } = {}) {
  const held = [];
  const due = [];
  let issued = 0;
  const arrive = () => {
    for (const succeed of due.splice(0, RESPONSES_PER_TURN)) succeed();
    if (due.length > 0) setImmediate(arrive);
  };
  return {
    held,
    requestToken(key) {
      const response = { token: `token-${++issued}-of-${key}`, response: { expires_in: 3_600 } };
      return new Promise((resolve, reject) => {
        const answer = { succeed: () => resolve(response), fail: reject };
        if (isHeld && held.length < 1) held.push(answer);
        else if (due.push(answer.succeed) === 1) setImmediate(arrive);
      });
    },
  };
}

const open = [];

function registryOf(source, options = {}) {
  const bounds = { maxOwners: OWNERS, maxQueued: 2 * OWNERS, maxQueueMs: 3_600_000, requestTimeoutMs: 3_600_000 };
  const registry = new OwnerTokenRegistry({ source, ...bounds, concurrency: 16, ...options });
  open.push(registry);
  return registry;
}

/** One request in flight, which is not answered yet, and a queue of so many owners behind it. */
async function queueOf(count, optionsOf = () => undefined) {
  const source = sourceOf({ isHeld: true });
  const registry = registryOf(source, { concurrency: 1 });
  const outcomes = [registry.getToken('first')];
  await turn();
  for (const key of keysUpTo(count)) {
    outcomes.push(registry.getToken(key, optionsOf(key)));
    if (outcomes.length % 1_000 === 0) await turn();
  }
  for (const outcome of outcomes) outcome.catch(ignore);
  return { registry, first: source.held[0], whenSettled: Promise.allSettled(outcomes) };
}

export async function run({ quick }) {
  const running = (prepare) => async () => {
    const stalls = await stallsOf(await prepare(OWNERS));
    for (const registry of open.splice(0)) await registry.close({ timeoutMs: 0 });
    return stalls;
  };
  const candidates = Object.fromEntries(Object.entries(OPERATIONS).map(([name, prepare]) => [name, running(prepare)]));
  const timed = await inTurns(candidates, quick ? 1 : 3);
  return [
    { what: 'longest stall', unit: 'ms', rows: rowsOf(timed, undefined, (cost) => cost.withoutGcMs) },
    {
      what: 'longest stall, garbage collection included',
      unit: 'ms',
      rows: rowsOf(timed, undefined, (cost) => cost.stallMs),
    },
  ];
}

/** Each prepares an operation on so many owners and returns it. */
const OPERATIONS = {
  'warmUp at a concurrency of 2,048': async (count) => {
    const registry = registryOf(sourceOf(), { concurrency: 2_048 });
    const keys = keysUpTo(count);
    return () => registry.warmUp(keys);
  },
  'warmUp over owners with a token': async (count) => {
    const registry = registryOf(sourceOf(), { concurrency: 2_048 });
    const keys = keysUpTo(count);
    await registry.warmUp(keys);
    return () => registry.warmUp(keys);
  },
  'the queue drains': async (count) => {
    const { first, whenSettled } = await queueOf(count);
    return () => {
      first.succeed();
      return whenSettled;
    };
  },
  'the queue drains; nine in ten have left': async (count) => {
    const leaving = [];
    const { first, whenSettled } = await queueOf(count, (key) => {
      if (key.endsWith('7')) return undefined;
      leaving.push(new AbortController());
      return { signal: leaving.at(-1).signal };
    });
    for (const [index, controller] of leaving.entries()) {
      controller.abort();
      if (index % 1_000 === 0) await turn();
    }
    return () => {
      first.succeed();
      return whenSettled;
    };
  },
  'the whole queue is refused': async (count) => {
    const { first, whenSettled } = await queueOf(count);
    return () => {
      const scope = { failureScope: 'endpoint', retryAfterMs: 60_000 };
      first.fail(new OwnerTokenError('endpoint_unavailable', 'no', scope));
      return whenSettled;
    };
  },
  'the whole queue times out': async (count) => {
    const timers = [];
    let nowMs = 0;
    const clock = {
      now: () => 1e12 + nowMs,
      monotonic: () => nowMs,
      setTimeout: (fn, ms) => {
        const timer = { fn, dueMs: nowMs + ms };
        timers.push(timer);
        return () => {
          timer.fn = undefined;
        };
      },
    };
    const source = sourceOf({ isHeld: true });
    const registry = registryOf(source, { concurrency: 1, maxQueueMs: 1_000, clock });
    const outcomes = [];
    for (const key of ['first', ...keysUpTo(count)]) {
      outcomes.push(registry.getToken(key).catch(ignore));
      if (outcomes.length % 1_000 === 0) await turn();
    }
    return async () => {
      let queued = count;
      for (nowMs = 1_000; queued > 0; await turn()) {
        for (const timer of timers.splice(0)) {
          if (timer.fn && timer.dueMs > nowMs) timers.push(timer);
          else timer.fn?.();
        }
        ({ queued } = registry.stats());
      }
      source.held[0].succeed();
    };
  },
  'forgetAll with a full queue': async (count) => {
    const { registry } = await queueOf(count);
    return () => registry.forgetAll();
  },
  'forgetAll over owners with a token': async (count) => {
    const registry = registryOf(sourceOf(), { concurrency: 2_048 });
    await registry.warmUp(keysUpTo(count));
    return () => registry.forgetAll();
  },
  'a signal shared by all callers aborts': async (count) => {
    const controller = new AbortController();
    const { whenSettled, first } = await queueOf(count, () => ({ signal: controller.signal }));
    return () => {
      controller.abort(new Error('enough'));
      first.succeed();
      return whenSettled;
    };
  },
  'close with a full queue': async (count) => {
    const { registry, whenSettled } = await queueOf(count);
    return () => Promise.all([registry.close({ timeoutMs: 0 }), whenSettled]);
  },
  'resume with all owners failing': async (count) => {
    const source = {
      requestToken: () => Promise.reject(new OwnerTokenError('owner_refused', 'no', { oauthError: 'invalid_grant' })),
    };
    const registry = registryOf(source, { concurrency: 2_048 });
    await registry.warmUp(keysUpTo(count));
    return () => registry.resume();
  },
};

const timesMs = () => {
  const { user, system } = process.cpuUsage();
  return { wallMs: performance.now(), cpuMs: (user + system) / 1_000 };
};

/** The smaller of wall and CPU time, because others use the machine too, and garbage is collected in parallel. */
const elapsedMs = (from, to) => Math.min(to.wallMs - from.wallMs, to.cpuMs - from.cpuMs);

/** Turns of the event loop that are watched after an operation has returned, because it may go on in slices. */
const TURNS_AFTER = 1_000;

/** The pauses of the garbage collector. They depend on the heap and on what else the machine does, not on a slice. */
const collections = [];
new PerformanceObserver((list) => collections.push(...list.getEntries())).observe({ entryTypes: ['gc'] });

const collectedMs = (fromMs, toMs) => {
  const within = ({ startTime, duration }) => Math.min(toMs, startTime + duration) - Math.max(fromMs, startTime);
  return collections.reduce((sum, each) => sum + Math.max(0, within(each)), 0);
};

/** Runs an operation; returns the longest time between two turns of the event loop, and the longest without the garbage collector. */
async function stallsOf(operation) {
  globalThis.gc?.();
  await setTimeout(200); // A sweep that goes on in parallel would slow down large allocations.
  collections.length = 0;
  let isOver = false;
  let last = timesMs();
  const slow = [];
  const watch = (async () => {
    while (!isOver) {
      await turn();
      const now = timesMs();
      if (elapsedMs(last, now) > 0.1) slow.push([last, now]);
      last = now;
    }
  })();
  await operation();
  for (let turns = 0; turns < TURNS_AFTER; turns++) await turn();
  isOver = true;
  await watch;
  await setTimeout(10); // For the last entries of the observer.
  const longest = (msOf) => slow.reduce((most, [from, to]) => Math.max(most, msOf(from, to)), 0);
  return {
    stallMs: longest(elapsedMs),
    withoutGcMs: longest((from, to) => elapsedMs(from, to) - collectedMs(from.wallMs, to.wallMs)),
  };
}
