import { describe, expect, it } from 'vitest';
import { ConcurrencyLimit, type ConcurrencyRange } from '../../src/failures/concurrency-limit.ts';

const DEFAULTS: ConcurrencyRange = { initial: 16, min: 1, max: 128 };

interface InFlight {
  readonly number: number;
  readonly sentMs: number;
  readonly dueMs: number;
  readonly fails: boolean;
}

/** A service and callers that keep the limit in use: as many requests as the limit allows are in flight at any time. */
class Stage {
  readonly limit: ConcurrencyLimit;
  /** What the next request meets: how long it takes, or that the service answers 503 at once. */
  latencyMs: (stage: Stage) => number = () => 100;
  isOverloaded: (number: number) => boolean = () => false;
  isLimitInUse = true;
  nowMs = 0;
  sent = 0;
  mostInFlight = 0;
  #inFlight: InFlight[] = [];
  #freeAtMs: number[] = [];

  constructor(range: Partial<ConcurrencyRange> = {}) {
    this.limit = new ConcurrencyLimit({ ...DEFAULTS, ...range });
  }

  get inFlight(): number {
    return this.#inFlight.length;
  }

  /** So many requests end; others take their places. */
  answer(count: number): void {
    for (let ended = 0; ended < count; ended++) {
      while (this.inFlight < this.limit.limit) this.#send();
      this.#inFlight.sort((a, b) => a.dueMs - b.dueMs);
      const { number, sentMs, dueMs, fails } = this.#inFlight.shift() as InFlight;
      this.nowMs = dueMs;
      const { isLimitInUse } = this;
      if (fails) this.limit.overloaded(number, this.sent);
      else this.limit.succeeded({ number, latencyMs: dueMs - sentMs, isLimitInUse }, this.sent);
    }
  }

  /** The latency behind so many workers, each busy for so long. */
  workers(count: number, busyMs: number): () => number {
    this.#freeAtMs = Array(count).fill(0);
    return () => {
      const startMs = Math.max(this.nowMs, Math.min(...this.#freeAtMs));
      this.#freeAtMs[this.#freeAtMs.indexOf(Math.min(...this.#freeAtMs))] = startMs + busyMs;
      return startMs + busyMs - this.nowMs;
    };
  }

  #send(): void {
    const number = ++this.sent;
    const fails = this.isOverloaded(number);
    const dueMs = this.nowMs + (fails ? 1 : this.latencyMs(this));
    this.#inFlight.push({ number, sentMs: this.nowMs, dueMs, fails });
    this.mostInFlight = Math.max(this.mostInFlight, this.inFlight);
  }
}

/** Numbers that look random, and are the same in each run. */
function numbers(): () => number {
  let seed = 7;
  return () => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return seed / 2 ** 31;
  };
}

describe('growth', () => {
  it('is by half per round trip, up to the most', () => {
    const stage = new Stage();
    expect(stage.limit.limit).toBe(16);
    stage.answer(16);
    expect(stage.limit.limit).toBe(24);
    stage.answer(24);
    expect(stage.limit.limit).toBe(36);
    stage.answer(400);
    expect(stage.limit.limit).toBe(128);
  });

  it('is nothing while fewer requests are in flight than may be', () => {
    const stage = new Stage();
    stage.isLimitInUse = false;
    stage.answer(400);
    expect(stage.limit.limit).toBe(16);
  });

  it.each([
    ['between 20 and 80 ms', (random: () => number) => 20 + 60 * random()],
    ['of 20 or 300 ms', (random: () => number) => (random() < 0.5 ? 20 : 300)],
    ['exponential beyond 20 ms', (random: () => number) => 20 - 100 * Math.log(1 - random())],
    ['of 5 s for one request in a hundred', (random: () => number) => (random() < 0.01 ? 5_000 : 50)],
  ])('is not stopped by latencies %s', (_, draw) => {
    const stage = new Stage();
    const random = numbers();
    stage.latencyMs = () => draw(random);
    stage.answer(3_000);
    expect(stage.limit.limit).toBe(128);
  });

  it('is not stopped by a few milliseconds of the event loop', () => {
    const stage = new Stage();
    const random = numbers();
    stage.latencyMs = () => 1 + 8 * random();
    stage.answer(3_000);
    expect(stage.limit.limit).toBe(128);
  });
});

describe('congestion', () => {
  it.each([
    [32, 20],
    [32, 50],
    [32, 200],
    [64, 100],
  ])('keeps a service with %i workers, %i ms each, busy with at most three requests for each', (count, busyMs) => {
    const stage = new Stage();
    stage.latencyMs = stage.workers(count, busyMs);
    stage.answer(3_000);
    expect(stage.mostInFlight).toBeLessThanOrEqual(3 * count);
    expect(stage.limit.limit).toBeGreaterThanOrEqual(count);
    expect(stage.limit.limit).toBeLessThanOrEqual(2 * count);
    expect(stage.nowMs).toBeLessThan((1.1 * 3_000 * busyMs) / count);
  });

  it('is recognized although no request of an earlier round was answered', () => {
    const stage = new Stage();
    stage.sent = 100;
    stage.limit.succeeded({ number: 100, latencyMs: 50, isLimitInUse: true }, stage.sent);
    stage.latencyMs = stage.workers(32, 50);
    stage.answer(2_000);
    expect(stage.limit.limit).toBeLessThan(64);
  });

  it('is noticed although the first responses, while connections are opened, are slow', () => {
    const stage = new Stage();
    const busy = stage.workers(32, 50);
    stage.latencyMs = ({ sent }) => busy() + (sent <= 24 ? 200 : 0);
    stage.answer(3_000);
    expect(stage.mostInFlight).toBeLessThanOrEqual(96);
  });

  it('is followed by growth again once it is gone', () => {
    const stage = new Stage();
    stage.latencyMs = stage.workers(32, 50);
    stage.answer(2_000);
    expect(stage.limit.limit).toBeLessThan(64);
    stage.latencyMs = () => 50;
    stage.answer(2_000);
    expect(stage.limit.limit).toBe(128);
  });

  it('is not what a service suffers from that is slower by itself', () => {
    const stage = new Stage();
    stage.answer(1_000);
    expect(stage.limit.limit).toBe(128);
    stage.latencyMs = () => 400;
    let least = 128;
    for (let round = 0; round < 60; round++) {
      stage.answer(50);
      least = Math.min(least, stage.limit.limit);
    }
    expect(least).toBeLessThan(128);
    expect(stage.limit.limit).toBe(128);
  });

  it('never shrinks the limit below the least: there the latency is the service’s own', () => {
    const stage = new Stage({ min: 16 });
    stage.latencyMs = stage.workers(2, 50);
    stage.answer(3_000);
    expect(stage.limit.limit).toBeGreaterThanOrEqual(16);
    const fixed = new Stage({ initial: 8, min: 8, max: 8 });
    fixed.latencyMs = fixed.workers(2, 50);
    fixed.answer(1_000);
    expect(fixed.limit.limit).toBe(8);
  });

  it('is not seen while fewer requests are in flight than may be', () => {
    const stage = new Stage();
    stage.answer(200);
    const before = stage.limit.limit;
    stage.isLimitInUse = false;
    stage.latencyMs = () => 1_000;
    stage.answer(1_000);
    expect(stage.limit.limit).toBe(before);
  });
});

describe('a refusal', () => {
  it('shrinks the limit once for all requests that were sent before', () => {
    const { limit } = new Stage();
    expect([limit.rateLimited(5, 9), limit.limit]).toEqual([true, 12]);
    expect([limit.rateLimited(9, 9), limit.limit]).toEqual([true, 12]);
    expect([limit.rateLimited(10, 10), limit.limit]).toEqual([true, 9]);
  });

  it('marks a ceiling, near which the limit grows by one per round trip, and beyond which it grows fast again', () => {
    const stage = new Stage();
    stage.limit.rateLimited(1, 0);
    stage.answer(12);
    expect(stage.limit.limit).toBe(12);
    stage.answer(12);
    expect(stage.limit.limit).toBe(13);
    stage.answer(48);
    expect(stage.limit.limit).toBe(16);
    stage.answer(150);
    expect(stage.limit.limit).toBeGreaterThan(40);
  });

  it('leaves at least the least', () => {
    const { limit } = new Stage({ min: 14 });
    expect([limit.rateLimited(1, 1), limit.limit]).toEqual([true, 14]);
    expect([limit.rateLimited(2, 2), limit.limit]).toEqual([false, 14]);
  });
});

describe('503 responses', () => {
  it('of a few requests are no overload', () => {
    const stage = new Stage();
    stage.isOverloaded = (number) => number % 20 === 0;
    stage.answer(1_500);
    expect(stage.limit.limit).toBe(128);
  });

  it('of every fifth request shrink the limit', () => {
    const stage = new Stage();
    stage.isOverloaded = (number) => number % 5 === 0;
    stage.answer(1_500);
    expect(stage.limit.limit).toBeLessThan(16);
  });
});

describe('a pause', () => {
  it('is followed by one request, then twice as many per round trip', () => {
    const stage = new Stage();
    stage.answer(40);
    stage.limit.restart(stage.sent);
    expect(stage.limit.limit).toBe(1);
    const after = () => {
      stage.limit.succeeded({ number: ++stage.sent, latencyMs: 5_000, isLimitInUse: true }, stage.sent);
      return stage.limit.limit;
    };
    stage.limit.succeeded({ number: 1, latencyMs: 100, isLimitInUse: true }, stage.sent);
    expect(stage.limit.limit).toBe(1);
    const fixed = new Stage({ initial: 4, min: 4, max: 4 });
    fixed.limit.restart(0);
    expect(fixed.limit.limit).toBe(1);
    fixed.answer(1);
    expect(fixed.limit.limit).toBe(2);
    fixed.answer(2);
    expect(fixed.limit.limit).toBe(4);
    expect(after()).toBeGreaterThanOrEqual(1);
  });

  it('lets its trial start, whatever the limit was', () => {
    const { limit } = new Stage();
    limit.restart(1);
    limit.raiseToInitial();
    expect(limit.limit).toBe(16);
  });
});

describe('the wait', () => {
  it('is unknown before the first response, then follows from latency and limit', () => {
    const stage = new Stage();
    expect(stage.limit.waitMs(1_000)).toBe(0);
    stage.answer(20);
    expect(stage.limit.waitMs(1_280)).toBeCloseTo(1_000);
    stage.limit.rateLimited(stage.sent, stage.sent);
    expect(stage.limit.waitMs(1_280)).toBeGreaterThan(5_000);
  });
});

describe('a slow request', () => {
  it('takes a second at least, and three times as long as nearly all others', () => {
    const stage = new Stage();
    expect(stage.limit.slowAfterMs).toBe(1_000);
    stage.answer(1_000);
    expect(stage.limit.slowAfterMs).toBe(1_000);
    stage.latencyMs = () => 2_000;
    stage.answer(1_000);
    expect(stage.limit.slowAfterMs).toBeGreaterThan(5_000);
    expect(stage.limit.slowAfterMs).toBeLessThan(8_000);
  });

  it('does not change what counts as slow', () => {
    const stage = new Stage();
    const random = numbers();
    stage.latencyMs = () => (random() < 0.02 ? 30_000 : 50);
    stage.answer(2_000);
    expect(stage.limit.slowAfterMs).toBe(1_000);
  });
});
