/** Virtual time for the figures: a heap of events, a clock that jumps from one to the next, and a source on it. */

import { bundled } from '../../helpers/bundle.mjs';

const { WorldClock } = await bundled('test/simulation/world-clock.ts');
const { Random } = await bundled('test/simulation/random.ts');

const quiet = () => new Promise((resolve) => queueMicrotask(() => process.nextTick(resolve)));

export class Engine {
  clock = new WorldClock();
  /** When each request was sent. */
  sentMs = [];
  inFlight = 0;
  mostInFlight = 0;
  #heap = [];
  #random;
  #order = 0;
  #keys = new Map();

  constructor(seed) {
    this.#random = new Random(seed);
  }

  random = () => this.#random.next();

  get nowMs() {
    return this.clock.monotonicMs;
  }

  key(owner) {
    const key = `access key ${owner}`;
    this.#keys.set(key, owner);
    return key;
  }

  /** A registry on this clock; `answer` says what becomes of a request: `{ afterMs, seconds }` or `{ afterMs, error }`. */
  registry(OwnerTokenRegistry, options, answer) {
    const source = {
      requestToken: (key) => {
        const number = this.sentMs.push(this.nowMs);
        const { afterMs, seconds, error } = answer({ owner: this.#keys.get(key) });
        this.mostInFlight = Math.max(this.mostInFlight, ++this.inFlight);
        return new Promise((resolve, reject) => {
          this.at(this.nowMs + afterMs, () => {
            this.inFlight--;
            if (error) reject(error);
            else resolve({ token: `token-${number}`, response: { expires_in: seconds } });
          });
        });
      },
    };
    return new OwnerTokenRegistry({ source, clock: this.clock, random: this.random, ...options });
  }

  at(ms, fn) {
    push(this.#heap, { ms, order: this.#order++, fn });
  }

  /** Each of so many owners calls at every interval, all of them spread over it. */
  every(owners, intervalMs, call, fromMs = 0) {
    for (let owner = 0; owner < owners; owner++) {
      const next = (ms) =>
        this.at(ms, () => {
          call(owner);
          next(ms + intervalMs);
        });
      next(fromMs + (owner / owners) * intervalMs);
    }
  }

  /** Each of so many owners calls at random moments. */
  poisson(owners, meanMsOf, call) {
    for (let owner = 0; owner < owners; owner++) {
      const next = () =>
        this.at(this.nowMs - Math.log(1 - this.random()) * meanMsOf(owner), () => {
          call(owner);
          next();
        });
      next();
    }
  }

  async runTo(endMs) {
    for (;;) {
      await quiet();
      const dueMs = Math.min(this.#heap[0]?.ms ?? Infinity, this.clock.nextDueMs);
      if (dueMs > endMs) break;
      this.clock.moveTo(Math.max(dueMs, this.nowMs));
      if (!this.clock.runNext()) pop(this.#heap).fn();
      // What comes within the same millisecond runs without a pause, up to an answer of the service.
    }
    this.clock.moveTo(endMs);
  }

  async close(registry) {
    const closed = registry.close({ timeoutMs: 0 });
    await this.runTo(this.nowMs + 1);
    await closed;
  }
}

const isBefore = (a, b) => a.ms < b.ms || (a.ms === b.ms && a.order < b.order);

function push(heap, item) {
  let at = heap.push(item) - 1;
  while (at > 0) {
    const above = (at - 1) >> 1;
    if (!isBefore(item, heap[above])) break;
    heap[at] = heap[above];
    at = above;
  }
  heap[at] = item;
}

function pop(heap) {
  const first = heap[0];
  const item = heap.pop();
  if (heap.length === 0) return first;
  let at = 0;
  for (;;) {
    let below = 2 * at + 1;
    if (below >= heap.length) break;
    if (below + 1 < heap.length && isBefore(heap[below + 1], heap[below])) below++;
    if (!isBefore(heap[below], item)) break;
    heap[at] = heap[below];
    at = below;
  }
  heap[at] = item;
  return first;
}

export function percentile(values, p) {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((p / 100) * sorted.length))] ?? 0;
}
