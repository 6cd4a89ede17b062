/** Virtual time for the figures: a clock that jumps from one event to the next, and a source on it. */

import { bundled } from '../../helpers/bundle.mjs';

const { ManualClock, quiet } = await bundled('test/helpers/manual-clock.ts');
const { Random } = await bundled('test/helpers/random.ts');

export class Engine {
  clock = new ManualClock();
  /** When each request was sent. */
  sentMs = [];
  inFlight = 0;
  mostInFlight = 0;
  #random;
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
    this.clock.at(ms, fn);
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
      if (this.clock.nextDueMs > endMs) break;
      this.clock.moveTo(this.clock.nextDueMs);
      this.clock.runNext();
    }
    this.clock.moveTo(endMs);
  }

  async close(registry) {
    const closed = registry.close({ timeoutMs: 0 });
    await this.runTo(this.nowMs + 1);
    await closed;
  }
}

export function percentile(values, p) {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((p / 100) * sorted.length))] ?? 0;
}
