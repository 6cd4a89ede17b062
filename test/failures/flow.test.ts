import { describe, expect, it } from 'vitest';
import type { OwnerStanding } from '../../src/failures/circuit-breaker.ts';
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

  succeed(permit: SentPermit): void {
    const response = { number: permit.number, latencyMs: 20, isLimitInUse: true };
    this.flow.succeeded(permit, this.nowMs, response);
  }

  /** The service answers 429. */
  rateLimited(permit: SentPermit, isOnlyRequest = false): boolean {
    return this.flow.rateLimited({ ...permit, nowMs: this.nowMs, isOnlyRequest });
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
    expect(first).toBeLessThan(110);
    expect(second - first).toBeLessThan(10);
    expect(rest.at(-1)).toBeGreaterThan(2 * first);
    const before = rest.at(-1) as number;
    stage.rateLimited(stage.send());
    stage.nowMs += 50;
    const [after = 0] = paced();
    expect(after).toBeLessThan(before);
    expect(after).toBeGreaterThan(before * 0.8);
  });

  it('is an outage when nothing else is in flight and nothing was issued within the last second', () => {
    const stage = new Stage();
    expect(stage.rateLimited(stage.send(), true)).toBe(false);
    expect(stage.rateLimited(stage.send(), false)).toBe(true);
    stage.succeed(stage.send());
    expect(stage.rateLimited(stage.send(), true)).toBe(true);
    stage.nowMs += 1_000;
    expect(stage.rateLimited(stage.send(), true)).toBe(false);
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
    stage.flow.resume();
    for (let count = 0; count < 100; count++) {
      expect(stage.mayStart).toBe(true);
      stage.send();
    }
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
      while (stage.flow.takeRetry()) count++;
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
});

describe('newcomers', () => {
  const failNewcomers = (stage: Stage, count: number) => {
    for (let index = 0; index < count; index++) stage.flow.newcomerFailed(stage.send('new').number);
  };

  it('slow down from the third failure in a row on, to one a second', () => {
    const stage = new Stage();
    const intervals: number[] = [];
    for (let count = 0; count < 8; count++) {
      failNewcomers(stage, 1);
      stage.nowMs += 10_000;
      stage.send('new');
      intervals.push((stage.flow.nextStartAtMs(stage.nowMs) ?? stage.nowMs) - stage.nowMs);
    }
    expect(intervals).toEqual([0, 0, 125, 250, 500, 1_000, 1_000, 1_000]);
  });

  it('alone wait', () => {
    const stage = new Stage();
    failNewcomers(stage, 6);
    stage.send('unproven');
    expect(stage.flow.limitsAt(stage.nowMs)).toEqual({ inFlight: 16, newcomers: false });
    expect(stage.flow.waitMs('new', { all: 100, newcomers: 90 })).toBe(90_000);
    expect(stage.flow.waitMs('proven', { all: 100, newcomers: 90 })).toBe(0);
  });

  it('do not once one of them succeeds, or after resume', () => {
    const stage = new Stage();
    failNewcomers(stage, 6);
    stage.succeed(stage.send('new'));
    expect(stage.flow.limitsAt(stage.nowMs).newcomers).toBe(true);
    failNewcomers(stage, 6);
    stage.send('new');
    stage.flow.resume();
    expect(stage.flow.limitsAt(stage.nowMs).newcomers).toBe(true);
  });

  it('do not slow down for one that was sent before another one that has succeeded', () => {
    const stage = new Stage();
    const early = Array.from({ length: 6 }, () => stage.send('new'));
    stage.succeed(stage.send('new'));
    for (const { number } of early) stage.flow.newcomerFailed(number);
    stage.send('new');
    expect(stage.flow.limitsAt(stage.nowMs).newcomers).toBe(true);
  });
});

describe('the wait', () => {
  it('follows from the pace, or from latency and limit', () => {
    const quota = new Stage({ requestsPerSecond: 5 });
    expect(quota.flow.waitMs('proven', { all: 100, newcomers: 0 })).toBe(20_000);
    const { flow } = new Stage();
    flow.succeeded({ number: 1, standing: 'new', inFlight: 1 }, 0, { number: 1, latencyMs: 800, isLimitInUse: true });
    expect(flow.waitMs('proven', { all: 160, newcomers: 0 })).toBe(8_000);
  });
});
