import { describe, expect, it } from 'vitest';
import { ConcurrencyLimit, type ConcurrencyRange } from '../../src/failures/concurrency-limit.ts';
import { seeded } from '../helpers/seeded.mjs';

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

describe('growth', () => {
  it('is by a quarter per round trip, up to the most', () => {
    const stage = new Stage();
    expect(stage.limit.limit).toBe(16);
    stage.answer(16);
    expect(stage.limit.limit).toBe(20);
    stage.answer(20);
    expect(stage.limit.limit).toBe(25);
    stage.answer(600);
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
    const random = seeded(7);
    stage.latencyMs = () => draw(random);
    stage.answer(6_000);
    expect(stage.limit.limit).toBeGreaterThan(100);
  });

  it('is not stopped by a few milliseconds of the event loop', () => {
    const stage = new Stage();
    const random = seeded(7);
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
    expect([limit.rateLimited(5, 9, false), limit.limit]).toEqual([true, 12]);
    expect([limit.rateLimited(9, 9, false), limit.limit]).toEqual([true, 12]);
    expect([limit.rateLimited(10, 10, false), limit.limit]).toEqual([true, 9]);
  });

  it('marks a ceiling, near which the limit grows by one per round, and beyond which it grows fast again', () => {
    const stage = new Stage();
    stage.limit.rateLimited(1, 0, false);
    stage.answer(12);
    expect(stage.limit.limit).toBe(12);
    stage.answer(12);
    expect(stage.limit.limit).toBe(12);
    stage.answer(20);
    expect(stage.limit.limit).toBe(13);
    stage.answer(3 * 32);
    expect(stage.limit.limit).toBe(16);
    stage.answer(200);
    expect(stage.limit.limit).toBeGreaterThan(40);
  });

  it('leaves at least the least', () => {
    const { limit } = new Stage({ min: 14 });
    expect([limit.rateLimited(1, 1, false), limit.limit]).toEqual([true, 14]);
    expect([limit.rateLimited(2, 2, false), limit.limit]).toEqual([false, 14]);
  });
});

describe('a 429 with Retry-After', () => {
  /** After 16 requests, the limit is 12, near a ceiling of 16. Then a pause ends. */
  const paused = (hasRetryAfter: boolean) => {
    const told = new Told();
    told.limit.rateLimited(told.sent, told.sent, hasRetryAfter);
    told.sent++;
    told.limit.restart(told.sent);
    return told;
  };
  const limitAfter = (told: Told, count: number) => {
    told.succeed(count, 100);
    return told.limit.limit;
  };

  it('marks a ceiling that outlasts the pause: the limit doubles up to three quarters of it', () => {
    expect(limitAfter(paused(true), 11)).toBe(12);
    expect(limitAfter(paused(true), 12)).toBe(12);
    expect(limitAfter(paused(false), 40)).toBeGreaterThan(16);
  });

  it('makes the limit grow by one in eight rounds from there', () => {
    const told = paused(true);
    told.succeed(11, 100);
    expect([limitAfter(told, 8 * 32 - 1), limitAfter(told, 2)]).toEqual([12, 13]);
  });

  it('leaves growth by a quarter per round trip below three quarters of a high ceiling', () => {
    const high = new Told({ initial: 4, max: 128 });
    high.succeed(4 * 36, 100);
    expect(high.limit.limit).toBe(40);
    high.limit.rateLimited(high.sent + 1, high.sent + 1, true);
    high.sent++;
    high.limit.restart(high.sent);
    expect([limitAfter(high, 3), limitAfter(high, 4), limitAfter(high, 4)]).toEqual([4, 5, 6]);
  });

  it('costs nothing any more once the ceiling is that of another kind', () => {
    const told = paused(true);
    told.succeed(11, 100);
    told.limit.rateLimited(told.sent + 1, told.sent + 1, false);
    told.sent++;
    expect([told.limit.limit, limitAfter(told, 31), limitAfter(told, 2)]).toEqual([9, 9, 10]);
    told.limit.restart(told.sent);
    expect(limitAfter(told, 40)).toBeGreaterThan(16);
  });

  it('costs nothing any more once 503 responses mark a ceiling', () => {
    const told = paused(true);
    told.succeed(11, 100);
    told.overload(18);
    expect([told.limit.limit, limitAfter(told, 31), limitAfter(told, 2)]).toEqual([9, 9, 10]);
  });

  it('does not make callers wait longer than at three quarters of the ceiling', () => {
    const told = paused(true);
    told.succeed(1, 120);
    expect(told.limit.waitMs(100)).toBeCloseTo((100 * 120) / 12);
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
    stage.limit.rateLimited(stage.sent, stage.sent, false);
    expect(stage.limit.waitMs(1_280)).toBeGreaterThan(5_000);
  });
});

describe('a slow request', () => {
  const limitAfter = (told: Told, count: number) => {
    for (let each = 0; each < count; each++) told.limit.slowed();
    return told.limit.limit;
  };

  it('raises the limit by one until a latency is known, up to twice the initial one and the most', () => {
    expect([limitAfter(new Told(), 1), limitAfter(new Told(), 16), limitAfter(new Told(), 40)]).toEqual([17, 32, 32]);
    expect(limitAfter(new Told({ initial: 4, max: 6 }), 10)).toBe(6);
    const told = new Told();
    told.succeed(1, 100, false);
    expect(limitAfter(told, 5)).toBe(16);
  });

  it('does not take the place of successes after a pause', () => {
    const told = new Told();
    told.limit.restart(told.sent);
    expect(limitAfter(told, 5)).toBe(1);
  });

  it('takes half a second at least, less until a latency is known, and three times as long as nearly all others', () => {
    const stage = new Stage();
    expect(stage.limit.slowAfterMs).toBe(300);
    stage.answer(1_000);
    expect(stage.limit.slowAfterMs).toBe(500);
    stage.latencyMs = () => 2_000;
    stage.answer(1_000);
    expect(stage.limit.slowAfterMs).toBeGreaterThan(5_000);
    expect(stage.limit.slowAfterMs).toBeLessThan(8_000);
  });

  it('does not change what counts as slow', () => {
    const stage = new Stage();
    const random = seeded(7);
    stage.latencyMs = () => (random() < 0.02 ? 30_000 : 50);
    stage.answer(2_000);
    expect(stage.limit.slowAfterMs).toBe(500);
  });
});

/** A limit to which the test itself tells the outcomes, each of the request that follows. */
class Told {
  readonly limit: ConcurrencyLimit;
  readonly #max: number;
  /** Those that the limit starts with do not count. */
  sent: number;

  constructor(range: Partial<ConcurrencyRange> = {}) {
    this.#max = range.max ?? DEFAULTS.max;
    this.sent = range.initial ?? DEFAULTS.initial;
    this.limit = new ConcurrencyLimit({ ...DEFAULTS, ...range });
  }

  succeed(count: number, latencyMs: number, isLimitInUse = true): void {
    for (let each = 0; each < count; each++) {
      this.limit.succeeded({ number: ++this.sent, latencyMs, isLimitInUse }, this.sent);
    }
  }

  /** Small rounds with these latencies. */
  rounds(...latenciesMs: number[]): this {
    for (const latencyMs of latenciesMs) this.succeed(29, latencyMs);
    return this;
  }

  overload(count: number): void {
    for (let each = 0; each < count; each++) this.limit.overloaded(++this.sent, this.sent);
  }

  /** The moving average of the latencies, as long as no ceiling is known. */
  get recentMs(): number {
    return this.limit.waitMs(this.#max);
  }

  /** The best latency: a quarter of what an outlier counts as. Infinite if it is not known yet. */
  get bestMs(): number {
    const before = this.recentMs;
    this.succeed(1, 1e9, false);
    const countedMs = before + 4 * (this.recentMs - before);
    return countedMs > 1e8 ? Number.POSITIVE_INFINITY : countedMs / 4;
  }
}

/** The best latency after these rounds, even if a ceiling is known: a restart forgets that alone. */
function bestAfter(range: Partial<ConcurrencyRange>, ...latenciesMs: number[]): number {
  const told = new Told(range).rounds(...latenciesMs);
  told.limit.restart(told.sent);
  return told.bestMs;
}

/** Bounds with which nothing grows. */
const upTo = (max: number, min = 1) => ({ initial: max, min, max });

describe('a round', () => {
  it('is over when nine tenths of it have been answered', () => {
    const at = (responses: number, size: number) => {
      const told = new Told(upTo(size));
      told.succeed(responses, 100);
      return told.bestMs;
    };
    // The response that asks for the best latency is answered before it is learned.
    expect([at(28, 32), at(29, 32)]).toEqual([Number.POSITIVE_INFINITY, 100]);
    expect([at(28, 16), at(29, 16)]).toEqual([Number.POSITIVE_INFINITY, 100]);
    expect([at(35, 40), at(36, 40)]).toEqual([Number.POSITIVE_INFINITY, 100]);
  });

  it('is over without them once as many requests again were answered that came after it', () => {
    const limitAfter = (number: number) => {
      const told = new Told(upTo(16));
      told.succeed(5, 100);
      told.sent = 16 + number - 1;
      told.succeed(1, 700);
      return told.bestMs;
    };
    expect([limitAfter(64), limitAfter(65)]).toEqual([Number.POSITIVE_INFINITY, 100]);
  });

  it('does not include the last request before it', () => {
    const bestFrom = (number: number) => {
      const told = new Told(upTo(16));
      told.sent = number - 1;
      told.succeed(1, 200);
      told.sent = 17;
      told.succeed(29, 100);
      return told.bestMs;
    };
    expect(bestFrom(16)).toBeCloseTo(100);
    expect(bestFrom(17)).toBeCloseTo((200 + 28 * 100) / 29);
  });

  it('averages its own requests alone', () => {
    const told = new Told(upTo(16));
    told.sent = 19;
    told.succeed(28, 100);
    told.sent = 48;
    told.succeed(5, 900);
    told.sent = 47;
    told.succeed(1, 390);
    expect(told.bestMs).toBeCloseTo((28 * 100 + 390) / 29);
  });

  it('with the limit in use for half of it, or less, shows the latency of the service itself', () => {
    const afterwards = (inUse: number) => {
      const told = new Told(upTo(40));
      told.succeed(36, 100);
      told.succeed(36 - inUse, 200, false);
      told.succeed(inUse, 200);
      return told.limit.limit;
    };
    expect([afterwards(18), afterwards(19)]).toEqual([40, 34]);
    const told = new Told(upTo(40));
    told.succeed(36, 100);
    told.succeed(36, 200, false);
    expect(told.bestMs).toBeCloseTo(125);
  });
});

describe('the best latency', () => {
  it('moves by a quarter to a lower one', () => {
    expect(new Told(upTo(16)).rounds(100, 60).bestMs).toBeCloseTo(90);
  });

  it('moves by little to a higher one at the same limit, and not at all at a higher limit', () => {
    expect(new Told(upTo(16)).rounds(100, 140).bestMs).toBeCloseTo(100.8);
    expect(new Told({ initial: 16, max: 128 }).rounds(100, 100, 140).bestMs).toBeCloseTo(100);
  });

  it('is at the lowest limit whatever latency remains', () => {
    expect(bestAfter(upTo(16, 16), 100, 300)).toBeCloseTo(300);
    expect(bestAfter(upTo(17, 16), 100, 300)).toBeCloseTo(100);
  });

  it('bounds what one response counts for: four times itself, and forty milliseconds', () => {
    const told = new Told(upTo(16));
    told.succeed(29, 100);
    told.succeed(1, 5_000);
    expect(told.recentMs).toBe(175);
    const fast = new Told(upTo(16));
    fast.succeed(29, 1);
    fast.succeed(1, 5_000);
    expect(fast.recentMs).toBe(10.75);
  });
});

describe('latency over one and a half times the best', () => {
  it('shrinks the limit by a seventh if it doubles, and the responses to earlier requests no longer count', () => {
    const told = new Told(upTo(16));
    told.succeed(29, 100);
    told.succeed(28, 200);
    expect(told.limit.limit).toBe(16);
    told.succeed(1, 200);
    expect(told.limit.limit).toBe(13);
    const before = told.limit.waitMs(1_000);
    told.limit.succeeded({ number: told.sent, latencyMs: 1, isLimitInUse: true }, told.sent);
    expect(told.limit.waitMs(1_000)).toBe(before);
    told.succeed(1, 1);
    expect(told.limit.waitMs(1_000)).toBeLessThan(before);
  });

  it('otherwise shrinks the limit after three rounds in a row', () => {
    expect([limitAfter(160, 160), limitAfter(160, 160, 160)]).toEqual([32, 27]);
    expect([limitAfter(160, 160, 150, 160, 160), limitAfter(160, 160, 160, 160, 160)]).toEqual([32, 27]);
    expect(limitAfter(160, 200, 160, 160)).toBe(27);
  });

  it('counts only beyond ten milliseconds', () => {
    const told = new Told(upTo(16));
    told.succeed(29, 2);
    told.succeed(29, 12);
    expect(told.limit.limit).toBe(16);
    told.succeed(29, 13);
    expect(told.limit.limit).toBe(13);
  });

  it('is approached by less growth, the nearer the less', () => {
    const limitAt = (latencyMs: number) => {
      const told = new Told({ initial: 16, min: 16, max: 1_000 });
      told.succeed(29, 100, false);
      // The moving average settles, with the limit not in use, before the round is over.
      told.succeed(20, latencyMs, false);
      told.succeed(8, latencyMs);
      return told.limit.limit;
    };
    expect([limitAt(100), limitAt(120), limitAt(140)]).toEqual([18, 17, 16]);
  });

  it('stops growth at once', () => {
    const told = new Told({ initial: 16, min: 16, max: 17 });
    told.succeed(29, 100, false);
    told.succeed(1, 1_000);
    told.succeed(1, 1_000);
    expect(told.limit.limit).toBe(16);
  });

  it('does not stop growth up to the least limit after a pause', () => {
    const told = new Told({ initial: 16, min: 4, max: 16 }).rounds(100);
    told.limit.restart(told.sent);
    told.succeed(3, 1_000);
    expect(told.limit.limit).toBe(4);
    told.succeed(3, 1_000);
    expect(told.limit.limit).toBe(4);
  });

  /** The limit after rounds with these latencies; the first shows the best. */
  const limitAfter = (...roundsMs: number[]) => new Told(upTo(32)).rounds(100, ...roundsMs).limit.limit;

  it('is the service’s own if three steps leave over nine tenths of it', () => {
    expect([limitAfter(200), limitAfter(200, 200), limitAfter(200, 200, 200)]).toEqual([27, 23, 19]);
    expect(limitAfter(200, 200, 200, 181)).toBe(19);
    expect(bestAfter(upTo(32), 100, 200, 200, 200, 180)).toBeCloseTo(100);
    expect(bestAfter(upTo(32), 100, 200, 200, 200, 181)).toBeCloseTo(181);
    // Then 190 ms are the best latency, and the limit grows again.
    expect(limitAfter(200, 200, 200, 190, 190)).toBe(32);
    // It takes three more steps until a further rise counts as the service’s own.
    expect(limitAfter(200, 200, 200, 190, 400, 400, 400)).toBe(12);
  });

  it('goes on shrinking the limit while the steps have an effect', () => {
    expect(limitAfter(300, 300, 300, 260)).toBe(16);
    expect(limitAfter(300, 200, 200, 200)).toBe(16);
  });

  it('counts its steps anew after a round without it', () => {
    expect(limitAfter(900, 100, 200, 200, 200, 190)).toBe(limitAfter(900, 100, 200, 200, 200));
    expect(limitAfter(200, 100, 200, 200, 200)).toBeLessThan(limitAfter(200, 100, 200, 200));
  });
});

describe('the share of 503 responses', () => {
  it('shrinks the limit if it is over a tenth of a round', () => {
    const limitAfter = (overloads: number) => {
      const told = new Told(upTo(44));
      told.overload(overloads);
      told.succeed(40 - overloads, 100);
      return told.limit.limit;
    };
    expect([limitAfter(4), limitAfter(5)]).toEqual([44, 33]);
  });

  it('counts those of the present round alone', () => {
    const told = new Told(upTo(16));
    for (let count = 0; count < 20; count++) told.limit.overloaded(0, 0);
    told.succeed(29, 100);
    expect(told.limit.limit).toBe(16);
  });

  it('may end a round, too', () => {
    const told = new Told(upTo(16));
    told.succeed(20, 100);
    told.overload(9);
    expect(told.limit.limit).toBe(12);
  });

  it('leaves a limit that a pause has set to one as it is', () => {
    const told = new Told(upTo(16, 16));
    told.limit.restart(told.sent);
    told.overload(29);
    expect(told.limit.limit).toBe(1);
  });
});

describe('steps of growth', () => {
  it('are by one up to the initial limit, by a quarter beyond it', () => {
    const told = new Told();
    told.succeed(3, 100);
    expect(told.limit.limit).toBe(16);
    told.succeed(1, 100);
    expect(told.limit.limit).toBe(17);
    told.limit.raiseToInitial();
    expect(told.limit.limit).toBe(17);
    told.limit.restart(told.sent);
    told.succeed(2, 100);
    expect(told.limit.limit).toBe(3);
  });

  it('do not follow from a request that was sent before the limit shrank', () => {
    const { limit } = new Told();
    limit.rateLimited(5, 9, false);
    limit.succeeded({ number: 9, latencyMs: 100, isLimitInUse: true }, 9);
    expect(limit.waitMs(1_000)).toBe(0);
    limit.succeeded({ number: 10, latencyMs: 100, isLimitInUse: true }, 10);
    expect(limit.waitMs(12)).toBeCloseTo(100, -1);
  });

  it('are fast again after a pause, though a ceiling was known', () => {
    const told = new Told(upTo(16));
    told.limit.rateLimited(1, 1, false);
    told.sent = 1;
    told.limit.restart(1);
    told.succeed(15, 100);
    expect(told.limit.limit).toBe(16);
  });
});

describe('what counts as slow', () => {
  it('is three times the tail, which each slower response raises by nearly a fifth and each other one lowers a little', () => {
    const told = new Told();
    const slowAfter = [1_000, 1_000, 1_000].map((ms) => {
      told.succeed(1, ms, false);
      return told.limit.slowAfterMs;
    });
    expect(slowAfter.map(Math.round)).toEqual([3_000, 2_970, 3_534]);
  });
});

describe('refusals of owners', () => {
  it('let the limit grow by one each after a pause, up to the initial limit', () => {
    const { limit } = new Stage({ initial: 3 });
    limit.restart(7);
    const limits: number[] = [];
    for (const number of [7, 8, 9, 10]) {
      limit.refused(number);
      limits.push(limit.limit);
    }
    expect(limits).toEqual([1, 2, 3, 3]);
  });

  it('never shrink a limit that has grown beyond the initial one, nor let it grow', () => {
    const stage = new Stage({ initial: 2 });
    stage.answer(100);
    const { limit } = stage.limit;
    expect(limit).toBeGreaterThan(2);
    stage.limit.refused(stage.sent + 1);
    expect(stage.limit.limit).toBe(limit);
  });

  it('do not let it grow towards a ceiling', () => {
    const { limit } = new Stage();
    limit.rateLimited(1, 1, false);
    expect(limit.limit).toBe(12);
    limit.refused(2);
    expect(limit.limit).toBe(12);
  });
});
