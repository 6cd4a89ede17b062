import { describe, expect, it } from 'vitest';
import {
  initialLimiter,
  type Limiter,
  limiterFailed,
  limiterIssued,
  limiterSent,
  paceStat,
  startsAtMs,
} from '../../src/failures/limiter.ts';

/** Requests and their answers, each of another owner unless named. */
class Load {
  readonly limiter: Limiter;
  nowMs = 0;

  constructor(most = 100, quotaPerSecond?: number) {
    this.limiter = initialLimiter(most, quotaPerSecond);
  }

  at(nowMs: number): this {
    this.nowMs = nowMs;
    return this;
  }

  sent(count = 1): this {
    for (let n = 0; n < count; n++) limiterSent(this.limiter, this.nowMs);
    return this;
  }

  /** Tokens that took this long, while so many requests ran. */
  issued(count = 1, { tookMs = 0, running = 1, unavailableMs = undefined as number | undefined } = {}): this {
    const answer = { tookMs, running };
    for (let n = 0; n < count; n++) limiterIssued(this.limiter, answer, unavailableMs, this.nowMs);
    return this;
  }

  failed(status: 429 | 503 | undefined, count = 1, { tookMs = 0, running = 1 } = {}): this {
    for (let n = 0; n < count; n++) limiterFailed(this.limiter, { tookMs, running }, status, this.nowMs);
    return this;
  }

  /** Twenty answers, of which twelve say that the service is busy. */
  overloaded(): this {
    return this.failed(undefined, 8).failed(429, 12);
  }

  /** How long a request must wait beside so many that run. */
  waitMs(running: number): number {
    return startsAtMs(this.limiter, running, this.nowMs) - this.nowMs;
  }

  /** How many requests run at once, if as many as possible are started. */
  get atOnce(): number {
    let running = 0;
    while (this.waitMs(running) < Number.POSITIVE_INFINITY && running < 1_000) running++;
    return running;
  }

  get perSecond(): number | undefined {
    return paceStat(this.limiter, this.nowMs)?.perSecond;
  }
}

/** 100 requests were sent in a half second, and then the rate limit was cut. */
const cut = (quotaPerSecond?: number) => new Load(100, quotaPerSecond).sent(100).at(500).overloaded();

describe('the concurrency limit', () => {
  it.each([
    ['nothing was sent', 0, 0, 16],
    ['ten milliseconds have passed', 10, 0, 17],
    ['five tokens have come and 25 ms have passed', 25, 5, 23],
    ['the limit is reached', 110, 5, 32],
  ])('begins slowly: when %s', (_, nowMs, tokens, expected) => {
    const load = new Load().at(5_000).sent().issued(tokens).failed(undefined);
    load.nowMs += nowMs;
    expect([load.waitMs(expected - 1), load.waitMs(expected)]).toEqual([0, expected === 32 ? Infinity : 10]);
  });

  it.each([
    [100, 100],
    [8, 8],
  ])('while nothing has answered, a concurrency of %i allows %i', (most, expected) => {
    expect(new Load(most).sent().at(10_000).atOnce).toBe(expected);
  });

  it.each([
    ['a 429', 70, (load: Load, running: number) => load.failed(429, 1, { running })],
    ['a token, which raises it,', 71, (load: Load, running: number) => load.issued(1, { running })],
  ])('is what ran when the first answer, %s came, at least 32 and at most the concurrency', (_, after70, answer) => {
    const limitAfter = (running: number, most = 100) => answer(new Load(most).sent().at(10_000), running).atOnce;
    expect([limitAfter(1), limitAfter(70), limitAfter(70, 50), limitAfter(1, 8)]).toEqual([32, after70, 50, 8]);
  });

  /** A service whose answers take so long, and as many requests as may run at any time. */
  const fill = (load: Load, answers: number, latencyMs: (running: number) => number) => {
    for (let n = 0; n < answers; n++) load.issued(1, { tookMs: latencyMs(load.atOnce), running: load.atOnce });
    return load;
  };
  const known = () => new Load().sent().issued(30, { tookMs: 50, running: 10 }).at(10_000);
  const steady = () => 50;
  /** Each request beyond 40 makes all of them slower. */
  const collapsing = (running: number) => 50 * Math.max(1, running / 40) ** 2;

  it('rises with each two answers while answers stay as fast, up to the concurrency', () => {
    expect(fill(known(), 2, steady).atOnce).toBe(33);
    expect(fill(known(), 400, steady).atOnce).toBe(100);
  });

  it('does not rise for answers that came while it was not reached', () => {
    expect(known().issued(500, { tookMs: 50, running: 31 }).atOnce).toBe(32);
  });

  it('rises while answers take up to half as long again as usual', () => {
    expect(fill(known(), 400, (running) => (running > 32 ? 74 : 50)).atOnce).toBe(100);
  });

  it('is not too high at 32, however slow answers become', () => {
    expect(known().issued(2, { tookMs: 2_000, running: 32 }).atOnce).toBe(33);
  });

  it('stays at the concurrency once it is there, however slow answers become', () => {
    const full = fill(known(), 400, steady);
    expect(fill(full, 400, () => 5_000).atOnce).toBe(100);
  });

  it('returns to 32 from a first answer beside more, if later ones take longer', () => {
    const load = new Load().sent().at(10_000).issued(1, { tookMs: 50, running: 70 });
    expect(fill(load, 10, () => 500).atOnce).toBe(32);
  });

  it('returns to 32 once they take longer, and rises again after 5 s', () => {
    const load = known();
    const raisedAtMs: number[] = [];
    for (; load.nowMs < 30_000; load.nowMs += 1_000) {
      const limits = Array.from({ length: 100 }, () => fill(load, 1, collapsing).atOnce);
      if (limits.some((limit) => limit > 40)) raisedAtMs.push(load.nowMs);
    }
    expect(raisedAtMs).toEqual([10_000, 15_000, 20_000, 25_000]);
  });

  it('is not known from a failure that says nothing about load', () => {
    expect(new Load().sent().at(10_000).failed(undefined, 1, { running: 70 }).atOnce).toBe(100);
  });

  it('forgets how long answers took while it was too high', () => {
    const load = fill(known(), 400, collapsing);
    while (load.atOnce > 32) fill(load, 1, collapsing);
    load.nowMs += 5_000;
    expect(fill(load, 10, steady).atOnce).toBe(37);
  });

  it('takes as usual how long answers take with up to 32 at once', () => {
    const load = known().issued(400, { tookMs: 500, running: 32 });
    expect(fill(load, 400, () => 500).atOnce).toBe(100);
  });
});

describe('the quota', () => {
  it('spaces requests evenly from the first one on, and saves nothing up', () => {
    const load = new Load(100, 50).at(1_000).sent();
    expect(load.waitMs(0)).toBe(20);
    expect(load.waitMs(16)).toBe(20);
    expect(load.at(5_000).waitMs(0)).toBe(0);
    expect(load.sent().waitMs(0)).toBe(20);
  });

  it('is not used up in advance by trials, which do not wait for it', () => {
    expect(new Load(100, 0.01).sent(1_000).waitMs(0)).toBe(100_000);
  });

  it('is unlimited by default: any number of requests may start at once', () => {
    expect(new Load().at(1_000).sent(100).waitMs(0)).toBe(0);
    expect(new Load().perSecond).toBeUndefined();
  });

  it('is named where the learned rate is as high', () => {
    const load = new Load(100, 5).at(5_000).overloaded();
    expect(paceStat(load.limiter, load.nowMs)).toEqual({ perSecond: 5, reason: 'quota' });
  });

  it.each([
    [7, 0, { perSecond: 7, reason: 'quota' }],
    [1_000, 0, { perSecond: expect.any(Number), reason: 'overload' }],
    [1_000, 60_001, { perSecond: 1_000, reason: 'quota' }],
  ])('of %d binds where the learned rate is higher, %d ms after a cut', (quota, ageMs, expected) => {
    const load = cut(quota);
    load.nowMs += ageMs;
    expect(paceStat(load.limiter, load.nowMs)).toEqual(expected);
    expect(load.sent().waitMs(0)).toBeCloseTo(1_000 / (load.perSecond as number));
  });
});

describe('the rate limit', () => {
  it.each([
    ['nineteen 429s in a row', (load: Load) => load.failed(429, 19)],
    ['a sixth of the answers', (load: Load) => load.failed(undefined, 85).failed(429, 17)],
    ['any number of other failures', (load: Load) => load.failed(undefined, 50)],
    ['answers to requests from before the last cut', (load: Load) => load.failed(429, 50, { tookMs: Infinity })],
  ])('is not cut for %s', (_, answer) => {
    expect(answer(new Load().sent(100).at(500)).perSecond).toBeUndefined();
  });

  it.each([
    ['the twentieth 429 in a row', (load: Load) => load.failed(429, 20)],
    ['a fifth of the answers', (load: Load) => load.failed(undefined, 80).failed(429, 20)],
  ])('is cut for %s', (_, answer) => {
    expect(answer(new Load().sent(100).at(500)).perSecond).toBeDefined();
  });

  it('covers about a second of answers: among many, a burst of twenty 429s is no overload', () => {
    const load = new Load();
    for (; load.nowMs < 3_000; load.nowMs++) load.sent().issued();
    expect(load.failed(429, 100).perSecond).toBeUndefined();
    expect(load.failed(429, 150).perSecond).toBeDefined();
  });

  it.each([
    ['a burst that is shorter than 200 ms counts as that long', 100, (100 * Math.exp(-0.1)) / (1 - Math.exp(-0.2))],
    ['a burst is averaged over the time since it began', 500, (100 * Math.exp(-0.5)) / (1 - Math.exp(-0.5))],
    ['a burst is averaged for two seconds after its end', 2_000, (100 * Math.exp(-2)) / (1 - Math.exp(-2))],
    ['a burst that has long ended is none: at least five a second', 2_001, undefined],
  ])('is cut to what was sent, less the share of 429s: %s', (_, nowMs, sentPerSecond) => {
    const { perSecond } = new Load().sent(100).at(nowMs).overloaded();
    expect(perSecond).toBeCloseTo(sentPerSecond === undefined ? 5 : sentPerSecond * (1 - 12 / 20));
  });

  it('counts what is sent anew after two seconds of silence', () => {
    const rate = (silenceMs: number) => new Load().sent(100).at(silenceMs).sent(50).overloaded().perSecond as number;
    expect(rate(2_001)).toBeCloseTo((50 / (1 - Math.exp(-0.2))) * 0.4);
    expect(rate(2_000)).not.toBeCloseTo(rate(2_001), 0);
  });

  it('is cut again after twenty answers to requests that were sent since, and never below five a second', () => {
    const load = cut();
    const first = load.perSecond as number;
    load.at(600).failed(429, 40, { tookMs: 100 });
    expect(load.perSecond).toBe(first);
    load.overloaded();
    expect(load.perSecond).toBeLessThan(first);
    for (; load.nowMs < 10_000; load.nowMs += 500) load.sent(10).overloaded();
    expect(load.perSecond).toBe(5);
  });

  it('is cut from the learned one where more than that was sent', () => {
    const load = cut();
    const first = load.perSecond as number;
    expect(load.sent(500).at(501).failed(429, 20).perSecond).toBe(5);
    const again = cut().sent(500).at(501).failed(undefined, 10).failed(429, 10);
    expect(again.perSecond).toBeCloseTo(first * 1.2 ** 0.001 * 0.5);
  });

  it.each([
    ['tokens', (load: Load) => load.issued()],
    ['other failures', (load: Load) => load.failed(undefined)],
  ])('rises by a fifth each second while there are %s, without a jump after a silence', (_, answer) => {
    const load = cut();
    const first = load.perSecond as number;
    answer(answer(load.at(1_000)).at(1_500));
    expect(load.perSecond).toBeCloseTo(first * 1.2);
    answer(load.at(9_500));
    expect(load.perSecond).toBeCloseTo(first * 1.2 ** 2);
  });

  it.each([
    ['a token', (load: Load) => load.issued()],
    ['another failure', (load: Load) => load.failed(undefined)],
  ])('returns, with %s after a second cut, to a third of the rate before it', (_, answer) => {
    const load = cut();
    const first = load.perSecond as number;
    expect(load.sent(500).at(501).failed(429, 20).perSecond).toBe(5);
    expect(load.at(600).failed(429).perSecond).toBe(5);
    expect(answer(load).perSecond).toBeCloseTo(first / 3);
    expect(answer(load.at(1_600)).perSecond).toBeCloseTo((first / 3) * 1.2);
  });

  it('does not rise with a 429', () => {
    const load = cut();
    const { perSecond } = load;
    expect(load.at(900).failed(429).perSecond).toBe(perSecond);
  });

  it('is forgotten once a minute has passed since the last cut', () => {
    const load = cut();
    expect([load.at(60_500).perSecond, load.sent().waitMs(0) > 0]).toEqual([expect.any(Number), true]);
    expect([load.at(60_501).perSecond, load.sent().waitMs(0)]).toEqual([undefined, 0]);
  });
});

describe('503s', () => {
  /** An owner got a 503 at second 10, and at second 14 a token for a request that was sent so long after it. */
  const servedAfter = (ms: number) =>
    new Load()
      .sent(100)
      .at(14_000)
      .issued(1, { tookMs: 4_000 - ms, unavailableMs: 10_000 });
  const isCut = (load: Load, nowMs: number) => load.at(nowMs).failed(503, 20).perSecond !== undefined;

  it('cut no rate by themselves', () => {
    expect(isCut(new Load().sent(100).issued(), 100)).toBe(false);
  });

  it.each([
    [500, true],
    [501, false],
  ])('count as 429s if a request sent %i ms after one gets a token, whatever its latency: %s', (ms, expected) => {
    expect(isCut(servedAfter(ms), 14_100)).toBe(expected);
  });

  it('count as 429s for half a second after that', () => {
    expect([isCut(servedAfter(100), 14_499), isCut(servedAfter(100), 14_500)]).toEqual([true, false]);
  });
});
