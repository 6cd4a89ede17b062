import { describe, expect, it } from 'vitest';
import type { OwnerStanding } from '../../src/failures/circuit-breaker.ts';
import type { LatencySample } from '../../src/failures/concurrency-limit.ts';
import { Flow, type SentPermit } from '../../src/failures/flow.ts';

const FIXED = { initial: 16, min: 16, max: 16 };

/** A flow at a time that the test moves. */
class Stage {
  readonly flow: Flow;
  nowMs = 0;
  #sent = 0;

  constructor({ requestsPerSecond = undefined as number | undefined, concurrency = FIXED } = {}) {
    this.flow = new Flow({ concurrency, requestsPerSecond });
  }

  send(standing: OwnerStanding = 'proven', inFlight = 1): SentPermit {
    const permit = { number: ++this.#sent, standing, inFlight };
    this.flow.sent(permit, this.nowMs);
    return permit;
  }

  /** @param inFlight how many requests were in flight when the token came. */
  succeed(permit: SentPermit, { inFlight = permit.inFlight, isLimitInUse = true } = {}): void {
    const response = { number: permit.number, latencyMs: 20, isLimitInUse, inFlight };
    this.flow.succeeded(permit, this.nowMs, response);
  }

  /** The service answers 429. */
  rateLimited(
    permit: SentPermit,
    { isOnlyRequest = false, retryAfterMs = undefined as number | undefined } = {},
  ): boolean {
    return this.flow.rateLimited({ ...permit, nowMs: this.nowMs, isOnlyRequest, retryAfterMs });
  }

  /** So many requests, one after the other at these intervals, each of which succeeds. */
  succeedEvery(ms: number, count: number): void {
    for (let index = 0; index < count; index++) {
      this.succeed(this.send());
      this.nowMs += ms;
    }
  }

  /** Whether a request may start now. */
  get mayStart(): boolean {
    return this.flow.limitsAt(this.nowMs).inFlight > 0;
  }

  /** The rate at which a long queue is served. */
  get perSecond(): number {
    const all = 1_000_000;
    return (all * 1_000) / this.flow.waitMs(all);
  }

  /** How many requests start within so many milliseconds, each as soon as it may. */
  startsWithin(ms: number): number {
    let starts = 0;
    for (const endMs = this.nowMs + ms; this.nowMs < endMs; ) {
      if (this.mayStart) {
        this.send();
        starts++;
      } else this.nowMs = Math.min(endMs, this.flow.nextStartAtMs(this.nowMs) ?? endMs);
    }
    return starts;
  }
}

describe('a known quota', () => {
  it('spaces all requests evenly, from the first on', () => {
    const stage = new Stage({ requestsPerSecond: 20 });
    expect(stage.startsWithin(5_000)).toBe(100);
  });

  it('bounds the learned rate, too', () => {
    const stage = new Stage({ requestsPerSecond: 20 });
    stage.succeedEvery(50, 20);
    stage.rateLimited(stage.send());
    stage.nowMs += 60_000;
    for (let count = 0; count < 100; count++) stage.succeed(stage.send());
    stage.nowMs += 10_000;
    expect(stage.startsWithin(1_000)).toBe(20);
  });
});

describe('a 429 without a hint', () => {
  it('while more requests were in flight than ever succeeded together shrinks the limit, and nothing waits', () => {
    const stage = new Stage({ concurrency: { initial: 16, min: 1, max: 128 } });
    stage.succeed(stage.send('proven', 10));
    const late = stage.send('proven', 12);
    expect(stage.rateLimited(stage.send('proven', 11))).toBe(true);
    expect(stage.flow.limitsAt(0).inFlight).toBe(12);
    expect(stage.rateLimited(late)).toBe(true);
    expect(stage.flow.limitsAt(0).inFlight).toBe(12);
  });

  it('holds requests back for a moment even then, if it follows another one without a success in between', () => {
    const stage = new Stage({ concurrency: { initial: 16, min: 1, max: 128 } });
    stage.succeed(stage.send('proven', 1));
    stage.rateLimited(stage.send('proven', 16));
    expect(stage.rateLimited(stage.send('proven', 12))).toBe(true);
    expect([stage.flow.limitsAt(99).inFlight, stage.flow.limitsAt(100).inFlight]).toEqual([0, 9]);
    stage.succeed(stage.send('proven', 1));
    stage.rateLimited(stage.send('proven', 9));
    expect(stage.flow.limitsAt(100).inFlight).toBeGreaterThan(0);
  });

  it('otherwise holds requests back for a moment, then paces them by what was issued in the last second', () => {
    const stage = new Stage();
    stage.succeedEvery(20, 50);
    expect(stage.rateLimited(stage.send())).toBe(true);
    expect([stage.mayStart, stage.flow.nextStartAtMs(stage.nowMs)]).toEqual([false, stage.nowMs + 50]);
    stage.nowMs += 50;
    expect(stage.mayStart).toBe(true);
    const starts = stage.startsWithin(10_000);
    expect(starts).toBeGreaterThan(400);
    expect(starts).toBeLessThan(520);
  });

  it('holds them back twice as long each time that none succeeds in between, up to a second', () => {
    const stage = new Stage();
    const holds: number[] = [];
    for (let count = 0; count < 7; count++) {
      // Those of an earlier second still arrive, so that the service is not down.
      for (let late = 0; late < 50; late++) stage.succeed({ number: 0, standing: 'proven', inFlight: 1 });
      stage.rateLimited(stage.send());
      const untilMs = stage.flow.nextStartAtMs(stage.nowMs) as number;
      holds.push(untilMs - stage.nowMs);
      stage.nowMs = untilMs;
    }
    expect(holds).toEqual([50, 100, 200, 400, 800, 1_000, 1_000]);
    stage.succeed(stage.send());
    stage.nowMs += 2_000;
    stage.succeed({ number: 0, standing: 'proven', inFlight: 1 });
    stage.rateLimited(stage.send());
    expect((stage.flow.nextStartAtMs(stage.nowMs) as number) - stage.nowMs).toBe(50);
  });

  it('counts once for all requests that were sent before it', () => {
    const stage = new Stage();
    stage.succeedEvery(20, 50);
    const [first, second] = [stage.send(), stage.send()];
    stage.rateLimited(first);
    const untilMs = stage.flow.nextStartAtMs(stage.nowMs);
    stage.rateLimited(second);
    expect(stage.flow.nextStartAtMs(stage.nowMs)).toBe(untilMs);
  });

  it('cuts a learned rate by a tenth; tokens raise it again, the faster the longer ago the last 429 was', () => {
    const stage = new Stage();
    stage.succeedEvery(10, 200);
    stage.rateLimited(stage.send());
    stage.nowMs += 1_000;
    const paced = () => {
      const perSecond: number[] = [];
      for (let second = 0; second < 10; second++) {
        let starts = 0;
        for (const endMs = stage.nowMs + 1_000; stage.nowMs < endMs; ) {
          if (stage.mayStart) {
            stage.succeed(stage.send());
            starts++;
          } else stage.nowMs = Math.min(endMs, stage.flow.nextStartAtMs(stage.nowMs) ?? endMs);
        }
        perSecond.push(starts);
      }
      return perSecond;
    };
    const [first = 0, second = 0, ...rest] = paced();
    expect(first).toBeLessThan(90);
    expect(second - first).toBeLessThan(2);
    expect((rest.at(-1) as number) - (rest.at(-2) as number)).toBeGreaterThan(2);
    const before = rest.at(-1) as number;
    stage.rateLimited(stage.send());
    stage.nowMs += 50;
    const [after = 0] = paced();
    expect(after).toBeLessThan(before);
    expect(after).toBeGreaterThan(before * 0.8);
  });

  it('is an outage when nothing else is in flight and nothing was issued within the last second', () => {
    const stage = new Stage();
    expect(stage.rateLimited(stage.send(), { isOnlyRequest: true })).toBe(false);
    expect(stage.rateLimited(stage.send(), { isOnlyRequest: false })).toBe(true);
    stage.succeed(stage.send());
    expect(stage.rateLimited(stage.send(), { isOnlyRequest: true })).toBe(true);
    stage.nowMs += 1_000;
    expect(stage.rateLimited(stage.send(), { isOnlyRequest: true })).toBe(false);
  });

  it('without any token to learn from sets no rate', () => {
    const stage = new Stage();
    stage.succeed(stage.send());
    stage.nowMs += 5_000;
    stage.rateLimited(stage.send());
    stage.nowMs += 1_000;
    for (let count = 0; count < 100; count++) {
      expect(stage.mayStart).toBe(true);
      stage.send();
    }
  });

  it('is forgotten by resume', () => {
    const stage = new Stage();
    stage.succeedEvery(500, 4);
    stage.rateLimited(stage.send());
    stage.nowMs += 10_000;
    stage.send();
    expect(stage.mayStart).toBe(false);
    stage.flow.resume();
    for (let count = 0; count < 100; count++) {
      expect(stage.mayStart).toBe(true);
      stage.send();
    }
  });
});

describe('the learned rate', () => {
  it('is nine tenths of that at which tokens were issued within the last second', () => {
    const stage = new Stage();
    // Counted in tenths of a second: 45 of these 50 are less than ten tenths old.
    stage.succeedEvery(20, 50);
    stage.rateLimited(stage.send());
    expect(stage.perSecond).toBeCloseTo(0.9 * 45);
    const later = new Stage();
    later.succeedEvery(20, 50);
    later.nowMs += 500;
    later.rateLimited(later.send());
    expect(later.perSecond).toBeCloseTo(0.9 * 20);
  });

  it('counts from the first of these tokens', () => {
    const stage = new Stage();
    stage.succeedEvery(20, 10);
    stage.rateLimited(stage.send());
    expect(stage.perSecond).toBeCloseTo((0.9 * 10) / 0.3);
  });

  it('counts none twice, and none of an earlier second', () => {
    const stage = new Stage();
    for (const nowMs of [0, 50, 950, 1_050, 1_850]) {
      stage.nowMs = nowMs;
      stage.succeed(stage.send());
    }
    stage.nowMs = 1_950;
    stage.rateLimited(stage.send());
    expect(stage.perSecond).toBeCloseTo(0.9 * 2);
  });

  it('is cut by a tenth by each further 429, or to what was issued meanwhile, but is at least one', () => {
    const stage = new Stage();
    stage.succeedEvery(20, 50);
    stage.rateLimited(stage.send());
    stage.rateLimited(stage.send());
    expect(stage.perSecond).toBeCloseTo(0.9 * 0.9 * 45);
    stage.nowMs += 700;
    stage.rateLimited(stage.send());
    expect(stage.perSecond).toBeCloseTo(9);
    stage.nowMs += 200;
    for (let count = 0; count < 40; count++) stage.rateLimited(stage.send());
    expect(stage.perSecond).toBeCloseTo(1);
  });

  it('is raised by each token that comes while requests wait, by the square of the time since the last 429', () => {
    const stage = new Stage();
    stage.succeedEvery(20, 50);
    stage.rateLimited(stage.send());
    const raisedBy = (response: Partial<LatencySample> | undefined) => {
      const before = stage.perSecond;
      const permit = stage.send();
      const { number } = permit;
      const full = { number, latencyMs: 20, isLimitInUse: true, inFlight: 1, ...response };
      stage.flow.succeeded(permit, stage.nowMs, response && full);
      return stage.perSecond - before;
    };
    expect(raisedBy({})).toBeCloseTo(0.005, 6);
    stage.nowMs += 5_000;
    expect(raisedBy({})).toBeCloseTo(0.02, 6);
    expect(raisedBy({ isLimitInUse: false })).toBe(0);
    expect(raisedBy(undefined)).toBe(0);
  });

  it('is not there before the first 429, whatever succeeds', () => {
    const stage = new Stage();
    stage.succeed(stage.send());
    // Latency and limit alone: 16 at once, 20 ms each.
    expect(stage.perSecond).toBeCloseTo(800);
  });
});

describe('a 429 with Retry-After', () => {
  const refuse = (stage: Stage, retryAfterMs: number) => stage.rateLimited(stage.send(), { retryAfterMs });

  it('teaches the rate like one without', () => {
    const stage = new Stage();
    stage.succeedEvery(20, 50);
    refuse(stage, 1_000);
    expect(stage.perSecond).toBeCloseTo(0.9 * 45);
  });

  it('soon after the last pause teaches the rate over both, because a quota may be spent within a moment', () => {
    const perSecondAfter = (restMs: number, retryAfterMs: number) => {
      const stage = new Stage();
      stage.succeedEvery(5, 20);
      refuse(stage, retryAfterMs);
      stage.nowMs += restMs - 100;
      stage.succeedEvery(5, 20);
      refuse(stage, retryAfterMs);
      return stage.perSecond;
    };
    expect(perSecondAfter(1_999, 1_000)).toBeCloseTo(10, 1);
    // The pause was no more than half of the time since: nine tenths of what was learned before.
    expect(perSecondAfter(2_000, 1_000)).toBeCloseTo(0.9 * 90.2, 1);
    // After resume(), say, the time since may be shorter than the pause that was asked for.
    expect(perSecondAfter(100, 10_000)).toBeCloseTo(2);
  });

  it('counts the tokens since the last one alone', () => {
    const stage = new Stage();
    stage.succeedEvery(5, 200);
    refuse(stage, 1_000);
    stage.nowMs += 900;
    stage.succeedEvery(5, 20);
    refuse(stage, 1_000);
    expect(stage.perSecond).toBeCloseTo(20);
  });

  it('shrinks the limit, which after the pause grows no faster than by one in eight rounds', () => {
    const stage = new Stage({ concurrency: { initial: 16, min: 1, max: 128 } });
    const refused = stage.send('proven', 16);
    stage.rateLimited(refused, { retryAfterMs: 1_000 });
    stage.flow.restart(refused.number);
    const limitAfter = (count: number) => {
      for (let each = 0; each < count; each++) stage.succeed(stage.send());
      return stage.flow.limitsAt(10_000).inFlight;
    };
    expect([limitAfter(0), limitAfter(11), limitAfter(8 * 32 - 1), limitAfter(2)]).toEqual([1, 12, 12, 13]);
  });
});

describe('a 429 without Retry-After', () => {
  it('shrinks the limit, which then grows by one per round', () => {
    const stage = new Stage({ concurrency: { initial: 16, min: 1, max: 128 } });
    stage.rateLimited(stage.send('proven', 16));
    const limitAfter = (count: number) => {
      for (let each = 0; each < count; each++) stage.succeed(stage.send());
      return stage.flow.limitsAt(10_000).inFlight;
    };
    expect([limitAfter(31), limitAfter(2)]).toEqual([12, 13]);
  });
});

describe('tokens that came while no request waited', () => {
  it('show the demand, and teach no rate', () => {
    const stage = new Stage();
    stage.succeedEvery(200, 4);
    const permit = stage.send();
    stage.succeed(permit, { isLimitInUse: false });
    stage.rateLimited(stage.send());
    stage.nowMs += 50;
    stage.send();
    expect(stage.mayStart).toBe(true);
    // The wait follows from latency and limit alone.
    expect(stage.perSecond).toBeCloseTo(800);
  });
});

describe('a token that another replica obtained', () => {
  it('teaches no rate', () => {
    const stage = new Stage();
    stage.flow.succeeded(stage.send(), 0, undefined);
    stage.rateLimited(stage.send());
    stage.nowMs += 50;
    stage.send();
    expect(stage.mayStart).toBe(true);
  });
});

describe('a learned rate is forgotten', () => {
  const isPacedAfter = (ms: number, retryAfterMs?: number) => {
    const stage = new Stage();
    stage.succeedEvery(500, 4);
    stage.rateLimited(stage.send(), { retryAfterMs });
    stage.nowMs += ms;
    stage.send();
    return !stage.mayStart;
  };

  it('a minute after the last 429', () => {
    expect([isPacedAfter(60_000), isPacedAfter(60_001)]).toEqual([true, false]);
  });

  it('a minute after the pause that the 429 asked for', () => {
    expect([isPacedAfter(90_000, 30_000), isPacedAfter(90_001, 30_000)]).toEqual([true, false]);
  });
});

describe('a request with no more in flight than have succeeded together', () => {
  it('that gets a 429 leaves the limit as it is, and requests wait', () => {
    const stage = new Stage({ concurrency: { initial: 16, min: 1, max: 128 } });
    stage.succeed(stage.send('proven', 10));
    stage.succeed(stage.send('proven', 2));
    stage.rateLimited(stage.send('proven', 10));
    expect(stage.mayStart).toBe(false);
    stage.nowMs += 50;
    expect(stage.flow.limitsAt(stage.nowMs).inFlight).toBe(16);
  });

  it('is compared with those in flight both when a request was sent and when its token came', () => {
    const limitAfter = (sent: number, came: number) => {
      const stage = new Stage({ concurrency: { initial: 16, min: 1, max: 128 } });
      stage.succeed(stage.send('proven', sent), { inFlight: came });
      stage.rateLimited(stage.send('proven', 10));
      return stage.flow.limitsAt(10_000).inFlight;
    };
    expect([limitAfter(10, 10), limitAfter(10, 9), limitAfter(9, 10)]).toEqual([16, 12, 12]);
  });

  it('is not compared with those whose token another replica obtained', () => {
    const stage = new Stage({ concurrency: { initial: 16, min: 1, max: 128 } });
    stage.flow.succeeded(stage.send('proven', 10), 0, undefined);
    stage.rateLimited(stage.send('proven', 10));
    expect(stage.flow.limitsAt(10_000).inFlight).toBe(12);
  });
});

describe('a hold', () => {
  it('does not end before the pace lets the next request start', () => {
    const stage = new Stage({ requestsPerSecond: 1 });
    stage.succeed(stage.send());
    stage.rateLimited(stage.send());
    const nextAtMs = stage.flow.nextStartAtMs(0) as number;
    expect(nextAtMs).toBe(2_000);
    expect([stage.flow.limitsAt(1_999).inFlight, stage.flow.limitsAt(2_000).inFlight]).toEqual([0, 16]);
    expect(stage.flow.nextStartAtMs(2_000)).toBeUndefined();
  });

  it('ends before the pace of newcomers lets the next of them start', () => {
    const stage = new Stage();
    for (let count = 0; count < 20; count++) stage.flow.newcomerFailed(stage.send('new').number);
    stage.send('new');
    stage.rateLimited(stage.send());
    expect(stage.flow.nextStartAtMs(0)).toBe(50);
    expect(stage.flow.limitsAt(50)).toEqual({ inFlight: 16, newcomers: false });
    expect(stage.flow.nextStartAtMs(50)).toBeGreaterThan(50);
  });

  it('is not shortened by the success of a request that was sent before the last 429', () => {
    const stage = new Stage();
    const holdMs = () => {
      stage.rateLimited(stage.send());
      return (stage.flow.nextStartAtMs(stage.nowMs) as number) - stage.nowMs;
    };
    stage.succeedEvery(1, 50);
    const [refused, last] = [stage.send(), stage.send()];
    stage.rateLimited(refused);
    stage.succeed(last);
    expect(holdMs()).toBe(100);
    stage.flow.resume();
    expect(holdMs()).toBe(50);
  });
});

describe('503 responses', () => {
  it('shrink the limit if many requests get one', () => {
    const stage = new Stage({ concurrency: { initial: 16, min: 1, max: 16 } });
    // The first requests do not count.
    stage.succeedEvery(0, 16);
    for (let count = 1; count <= 29; count++) {
      const permit = stage.send();
      if (count % 5 === 0) stage.flow.overloaded(permit.number);
      else stage.succeed(permit);
    }
    expect(stage.flow.limitsAt(0).inFlight).toBe(12);
    stage.flow.resume();
    expect(stage.flow.limitsAt(0).inFlight).toBe(16);
  });
});

describe('resume', () => {
  it('keeps a known quota, though it forgets what was learned beside it', () => {
    const stage = new Stage({ requestsPerSecond: 20 });
    stage.succeedEvery(500, 4);
    stage.rateLimited(stage.send());
    stage.flow.resume();
    stage.nowMs += 1_000;
    expect(stage.startsWithin(5_000)).toBe(100);
  });
});

describe('the budget of retries', () => {
  it('is empty at first, gets one for ten tokens, and holds ten', () => {
    const stage = new Stage();
    const taken = () => {
      let count = 0;
      while (stage.flow.takeRetry(stage.send())) count++;
      return count;
    };
    expect(taken()).toBe(0);
    stage.succeedEvery(1, 9);
    expect(taken()).toBe(0);
    stage.succeedEvery(1, 1);
    expect(taken()).toBe(1);
    stage.succeedEvery(1, 25);
    expect(taken()).toBe(2);
    stage.succeedEvery(1, 1_000);
    expect(taken()).toBe(10);
  });

  it.each([
    ['new', false],
    ['proven', true],
  ] as const)('covers newcomers, whose retried failures still count: %s', (standing, mayNewcomersStart) => {
    const stage = new Stage();
    stage.succeedEvery(1, 100);
    stage.flow.takeRetry(stage.send(standing));
    expect(stage.flow.limitsAt(stage.nowMs).newcomers).toBe(mayNewcomersStart);
  });
});

describe('newcomers', () => {
  const failNewcomers = (stage: Stage, count: number) => {
    for (let index = 0; index < count; index++) stage.flow.newcomerFailed(stage.send('new').number);
  };

  it('start one request a second from the first failure on', () => {
    const stage = new Stage();
    const intervals: number[] = [];
    for (let count = 0; count < 4; count++) {
      failNewcomers(stage, 1);
      stage.nowMs += 10_000;
      stage.send('new');
      intervals.push((stage.flow.nextStartAtMs(stage.nowMs) ?? stage.nowMs) - stage.nowMs);
    }
    expect(intervals).toEqual([1_000, 1_000, 1_000, 1_000]);
  });

  it('are spaced from the newcomer request sent last', () => {
    const stage = new Stage();
    const { number } = stage.send('new');
    stage.nowMs += 300;
    stage.send('new');
    stage.send('proven');
    stage.nowMs += 100;
    stage.flow.newcomerFailed(number);
    expect(stage.flow.nextStartAtMs(stage.nowMs)).toBe(1_300);
  });

  it('alone wait', () => {
    const stage = new Stage();
    failNewcomers(stage, 6);
    stage.send('unproven');
    expect(stage.flow.limitsAt(stage.nowMs)).toEqual({ inFlight: 16, newcomers: false });
    // Their pace says nothing about how long they will wait: one success ends it.
    expect(stage.flow.waitMs(100)).toBe(0);
  });

  it('start again as soon as their pace lets them', () => {
    const stage = new Stage();
    failNewcomers(stage, 6);
    stage.nowMs += 10_000;
    stage.send('new');
    const nextAtMs = stage.flow.nextStartAtMs(stage.nowMs) as number;
    expect(nextAtMs).toBe(stage.nowMs + 1_000);
    expect([stage.flow.limitsAt(nextAtMs - 1), stage.flow.limitsAt(nextAtMs)]).toMatchObject([
      ...[{ newcomers: false }, { newcomers: true }],
    ]);
    expect(stage.flow.nextStartAtMs(nextAtMs)).toBeUndefined();
  });

  it('neither wait for requests of other owners, nor are sped up by their success', () => {
    const stage = new Stage();
    failNewcomers(stage, 6);
    stage.nowMs += 10_000;
    stage.succeed(stage.send('proven'));
    expect(stage.flow.limitsAt(stage.nowMs).newcomers).toBe(true);
    stage.send('new');
    expect(stage.flow.limitsAt(stage.nowMs).newcomers).toBe(false);
  });

  /** How many of them fail in a row until the others have to wait; then one succeeds. */
  const failuresUntilSlow = (stage: Stage) => {
    let count = 0;
    for (; stage.flow.limitsAt(stage.nowMs).newcomers; count++) failNewcomers(stage, 1);
    stage.succeed(stage.send('new'));
    return count;
  };

  it('slow down at the first failure beyond the tolerated streak, which is at most eight', () => {
    const stage = new Stage();
    failNewcomers(stage, 3);
    stage.succeed(stage.send('new'));
    // A success after a shorter streak does not lower the allowance to that streak's length.
    failNewcomers(stage, 1);
    stage.succeed(stage.send('new'));
    expect(failuresUntilSlow(stage)).toBe(4);
    failNewcomers(stage, 100);
    stage.succeed(stage.send('new'));
    expect(failuresUntilSlow(stage)).toBe(9);
  });

  it('tolerate shorter streaks with each success', () => {
    const stage = new Stage();
    failNewcomers(stage, 8);
    stage.succeed(stage.send('new'));
    const counts = [100, 200, 400].map((successes) => {
      for (let count = 0; count < successes; count++) stage.succeed(stage.send('new'));
      return failuresUntilSlow(stage);
    });
    expect(counts).toEqual([6, 3, 1]);
  });

  it('do not once one of them succeeds or is refused, or after resume', () => {
    const stage = new Stage();
    failNewcomers(stage, 6);
    stage.succeed(stage.send('new'));
    expect(stage.flow.limitsAt(stage.nowMs).newcomers).toBe(true);
    failNewcomers(stage, 9);
    stage.flow.refused(stage.send('proven'));
    expect(stage.flow.limitsAt(stage.nowMs).newcomers).toBe(false);
    stage.flow.refused(stage.send('new'));
    expect(stage.flow.limitsAt(stage.nowMs).newcomers).toBe(true);
    failNewcomers(stage, 10);
    stage.send('new');
    stage.flow.resume();
    expect(stage.flow.limitsAt(stage.nowMs).newcomers).toBe(true);
  });

  it('do not slow down for one that was sent before another one that has succeeded', () => {
    const stage = new Stage();
    const early = Array.from({ length: 6 }, () => stage.send('new'));
    stage.succeed(stage.send('new'));
    // The success of an even earlier one changes nothing.
    stage.succeed({ number: 0, standing: 'new', inFlight: 1 });
    for (const { number } of early) stage.flow.newcomerFailed(number);
    stage.send('new');
    expect(stage.flow.limitsAt(stage.nowMs).newcomers).toBe(true);
  });
});

describe('a slow request', () => {
  it('lets one more start, until a latency is known', () => {
    const stage = new Stage({ concurrency: { initial: 16, min: 1, max: 128 } });
    const limit = () => {
      stage.flow.slowed();
      return stage.flow.limitsAt(0).inFlight;
    };
    expect([limit(), limit()]).toEqual([17, 18]);
    const permit = stage.send();
    stage.flow.succeeded(permit, 0, { number: 1, latencyMs: 20, isLimitInUse: false, inFlight: 1 });
    expect(limit()).toBe(18);
  });

  it('is one that takes 0.3 s, until latencies are known', () => {
    const stage = new Stage();
    expect(stage.flow.slowAfterMs).toBe(300);
  });
});

describe('the wait', () => {
  it('follows from the pace, or from latency and limit', () => {
    const quota = new Stage({ requestsPerSecond: 5 });
    expect(quota.flow.waitMs(100)).toBe(20_000);
    const { flow } = new Stage();
    const response = { number: 1, latencyMs: 800, isLimitInUse: true, inFlight: 1 };
    flow.succeeded({ number: 1, standing: 'new', inFlight: 1 }, 0, response);
    expect(flow.waitMs(160)).toBe(8_000);
  });
});
