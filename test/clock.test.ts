import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  elapsedMs,
  type Instant,
  inSlices,
  nextTurn,
  onWallClock,
  settledWithin,
  startTimer,
  systemClock,
  Time,
  Timeline,
} from '../src/clock.ts';
import { machine } from './helpers/instants.ts';
import { ManualClock } from './helpers/manual-clock.ts';
import { seeded } from './helpers/seeded.mjs';

const DAY_MS = 86_400_000;

describe('the timeline', () => {
  /** Feeds the samples to one timeline, each as the advances of wall and monotonic clock, and returns its advances. */
  function advances(...samples: [wallMs: number, monotonicMs: number][]): number[] {
    const timeline = new Timeline();
    let [wallMs, monotonicMs] = [1_000_000, 5_000];
    let before = timeline.at(wallMs, monotonicMs).timelineMs;
    return samples.map(([wall, monotonic]) => {
      wallMs += wall;
      monotonicMs += monotonic;
      const { timelineMs } = timeline.at(wallMs, monotonicMs);
      const advance = timelineMs - before;
      before = timelineMs;
      return advance;
    });
  }

  it('starts as wall-clock time', () => {
    expect(new Timeline().at(1_000_000, 5)).toEqual({
      ...{ wallMs: 1_000_000, monotonicMs: 5, timelineMs: 1_000_000, aheadMs: 0 },
    });
  });

  it.each<[string, [number, number], number]>([
    ['neither clock', [0, 0], 0],
    ['both clocks', [1_000, 1_000], 1_000],
    ['the wall clock, while the machine sleeps', [1_000, 0], 1_000],
    ['the monotonic clock, while the wall clock stands', [0, 1_000], 1_000],
    ['the monotonic clock, while the wall clock is set back', [-9_000, 1_000], 1_000],
    ['the wall clock, while it is set forward', [9_000, 1_000], 9_000],
  ])('advances with %s', (_, sample, expected) => {
    expect(advances(sample, sample)).toEqual([expected, expected]);
  });

  it('does not give back what the wall clock gained, nor what it lost', () => {
    expect(advances([9_000, 0], [-9_000, 0], [10, 10])).toEqual([9_000, 0, 10]);
    expect(advances([-9_000, 0], [9_000, 0], [10, 10])).toEqual([0, 9_000, 10]);
  });

  it('says how far it is ahead of the wall clock', () => {
    const timeline = new Timeline();
    timeline.at(1_000_000, 0);
    expect(timeline.at(999_000, 100)).toMatchObject({ timelineMs: 1_000_100, aheadMs: 1_100 });
    expect(timeline.at(2_000_000, 100)).toMatchObject({ timelineMs: 2_001_100, aheadMs: 1_100 });
  });

  it('does not add up what rounding makes of clocks that agree', () => {
    const timeline = new Timeline();
    const start = timeline.at(1_000_000, 0);
    // A wall clock in whole milliseconds, and a monotonic one that ticks between them, each read ten times in a millisecond.
    let now = start;
    for (let tenth = 1; tenth <= 36_000; tenth++) {
      now = timeline.at(1_000_000 + Math.floor(tenth / 10), Math.floor(tenth / 10 + 0.5));
    }
    expect(now.timelineMs - start.timelineMs).toBeLessThanOrEqual(3_601);
    expect(now.aheadMs).toBeGreaterThanOrEqual(-1);
  });

  it('counts a life from the earlier clock to the later, so that it is too long by neither', () => {
    for (const gapMs of [-20, -7, 7, 20]) {
      const timeline = new Timeline();
      timeline.at(0, 0);
      const [before, start] = [timeline.at(1_000, 1_000), timeline.at(1_000 + gapMs, 1_000)];
      expect(start.timelineMs - before.timelineMs).toBe(Math.max(0, gapMs));
      expect(start.aheadMs).toBe(Math.min(0, -gapMs));
      expect(elapsedMs(start, timeline.at(1_500 + gapMs, 1_500))).toBe(500 + Math.abs(gapMs));
    }
  });

  it('never runs slower than either clock, and never takes a life for shorter than it was', () => {
    const random = seeded(11);
    const clock = { wallMs: 1_000_000, monotonicMs: 0 };
    const timeline = new Timeline();
    const instants: Instant[] = [];
    for (let step = 0; step < 500; step++) {
      const passedMs = random() < 0.3 ? random() * 1e6 : random() * 3;
      clock.monotonicMs += random() < 0.1 ? 0 : passedMs;
      clock.wallMs += passedMs;
      if (random() < 0.2) clock.wallMs += (random() - 0.5) * 10 ** Math.floor(random() * 8);
      instants.push(timeline.at(clock.wallMs, clock.monotonicMs));
    }
    for (const [index, since] of instants.entries()) {
      for (const now of instants.slice(index)) {
        const byEither = Math.max(now.wallMs - since.wallMs, now.monotonicMs - since.monotonicMs);
        if (elapsedMs(since, now) < byEither - 1e-3) expect(elapsedMs(since, now)).toBe(byEither);
      }
    }
  });
});

describe('the time of a given clock', () => {
  it('is read anew from both times, for an instant and for a hit', () => {
    const clock = new ManualClock(5_000);
    const time = new Time(clock);
    expect(time.now()).toEqual({ wallMs: 5_000, monotonicMs: 0, timelineMs: 5_000, aheadMs: 0 });
    expect(time.seconds()).toBe(5);
    clock.suspend(1_000);
    expect(time.seconds()).toBe(6);
    clock.advance(1_000);
    expect(time.seconds()).toBe(7);
    clock.jumpWall(-5_000);
    expect(time.now()).toEqual({ wallMs: 2_000, monotonicMs: 1_000, timelineMs: 7_000, aheadMs: 5_000 });
    clock.advance(999);
    expect(time.seconds()).toBe(7);
  });
});

describe('the time of the system’s own clocks', () => {
  let monotonicMs = 0;
  let timeOfSystem: () => Time;

  beforeEach(async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 100_000 });
    // Loaded anew, it takes the fake for the system's clock.
    vi.resetModules();
    const loaded = await import('../src/clock.ts');
    timeOfSystem = () => new loaded.Time();
    monotonicMs = 0;
    vi.spyOn(performance, 'now').mockImplementation(() => monotonicMs);
    vi.spyOn(process.hrtime, 'bigint').mockImplementation(() => BigInt(monotonicMs * 1e6));
  });
  afterEach(() => {
    vi.useRealTimers();
    // Other files of the worker must not get the module with the fake.
    vi.resetModules();
  });

  /** Sets the clocks. */
  function set(wallMs: number, atMonotonicMs: number): void {
    vi.setSystemTime(wallMs);
    monotonicMs = atMonotonicMs;
  }

  it('is read from both for an instant, in whole milliseconds', () => {
    const time = timeOfSystem();
    expect(time.now()).toMatchObject({ wallMs: 100_000, monotonicMs: 0 });
    set(107_000, 1.7);
    expect(time.now()).toMatchObject({ wallMs: 107_000, monotonicMs: 1 });
  });

  it('samples both clocks at least once in 10 ms for a hit', () => {
    const time = timeOfSystem();
    expect(time.seconds()).toBe(100);
    set(107_000, 8.9);
    expect(time.seconds()).toBe(100);
    monotonicMs = 9;
    expect(time.seconds()).toBe(107);
  });

  it('knows the next second to the millisecond, whatever was sampled', () => {
    const time = timeOfSystem();
    set(100_994, 0.9);
    expect(time.seconds()).toBe(100);
    monotonicMs = 5.8;
    expect(time.seconds()).toBe(100);
    for (const atMs of [5.9, 6]) {
      monotonicMs = atMs;
      expect(time.seconds()).toBe(atMs === 6 ? 101 : 100);
    }
  });

  it('goes on while the wall clock stands still', () => {
    const time = timeOfSystem();
    for (const atMs of [0, 999, 1_000, 1_999, 2_000, DAY_MS]) {
      monotonicMs = atMs;
      expect(time.seconds()).toBe(100 + Math.floor(atMs / 1000));
    }
  });

  it('notices at once that a test sets a faked Date, and forgets its time afterwards', () => {
    const time = new Time();
    expect(time.seconds()).toBe(100);
    set(200_000, 0);
    expect(time.seconds()).toBe(200);
    monotonicMs = DAY_MS;
    expect(time.seconds()).toBe(200 + DAY_MS / 1000);
    vi.useRealTimers();
    monotonicMs = 5_000;
    const second = time.seconds();
    monotonicMs = 6_000;
    expect(time.seconds()).toBe(second + 1);
  });

  it('is what the system clock tells', () => {
    monotonicMs = 12.5;
    expect([systemClock.now(), systemClock.monotonic()]).toEqual([100_000, 12.5]);
    expect(Object.isFrozen(systemClock)).toBe(true);
  });
});

describe('a timer', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
  afterEach(() => void vi.useRealTimers());

  it('runs on the given clock, where that has timers', () => {
    const clock = new ManualClock();
    const fn = vi.fn();
    startTimer(clock, fn, 10);
    const cancel = startTimer(clock, fn, 20);
    clock.advance(10);
    expect(fn).toHaveBeenCalledTimes(1);
    cancel();
    clock.advance(10);
    expect(fn).toHaveBeenCalledTimes(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('is cancelled, although the clock returns what Node’s own setTimeout does', () => {
    const fn = vi.fn();
    const clock = { ...systemClock, setTimeout: (called: () => void, ms: number) => setTimeout(called, ms) as never };
    const cancel = startTimer(clock, fn, 10);
    cancel();
    cancel();
    vi.advanceTimersByTime(10);
    expect(fn).not.toHaveBeenCalled();
    startTimer({ ...systemClock, setTimeout: () => undefined as never }, fn, 10)();
  });

  it.each([
    ['no clock', undefined],
    ['a clock without timers', { now: () => 0, monotonic: () => 0 }],
  ])('is a real one with %s, and runs once', (_, clock) => {
    const fn = vi.fn();
    startTimer(clock, fn, 10);
    vi.advanceTimersByTime(9);
    expect(fn).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(fn).toHaveBeenCalledTimes(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  it.each([24, 25, 50, 365])('of %i days runs on that very day', (days) => {
    const fn = vi.fn();
    startTimer(undefined, fn, days * DAY_MS);
    vi.advanceTimersByTime(days * DAY_MS - 1);
    expect(fn).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(fn).toHaveBeenCalledTimes(1);
  });

  it('is cancelled in any of its parts', () => {
    const fn = vi.fn();
    const cancel = startTimer(undefined, fn, 60 * DAY_MS);
    vi.advanceTimersByTime(30 * DAY_MS);
    cancel();
    expect(vi.getTimerCount()).toBe(0);
    vi.advanceTimersByTime(60 * DAY_MS);
    expect(fn).not.toHaveBeenCalled();
  });
});

describe('waiting no longer than', () => {
  it('ends with the promise, and leaves no timer', async () => {
    const clock = new ManualClock();
    await settledWithin(new Time(clock), 1000, Promise.resolve('done'));
    expect(clock.pendingTimers).toBe(0);
  });

  it('fails with the promise, and leaves no timer', async () => {
    const clock = new ManualClock();
    await expect(settledWithin(new Time(clock), 1000, Promise.reject(new Error('no')))).rejects.toThrow('no');
    expect(clock.pendingTimers).toBe(0);
  });

  it('ends when the time is up', async () => {
    const clock = new ManualClock();
    let over = false;
    const waiting = settledWithin(new Time(clock), 1000, new Promise(() => {})).then(() => {
      over = true;
    });
    clock.advance(999);
    await Promise.resolve();
    expect(over).toBe(false);
    clock.advance(1);
    await waiting;
    expect(over).toBe(true);
  });
});

describe('many items', () => {
  it('are handled in slices, the first at once and one more in each turn of the event loop', async () => {
    const handled: number[] = [];
    const whenDone = vi.fn();
    inSlices(Array(600).keys(), (item) => handled.push(item), whenDone);
    const counts = [handled.length];
    while (whenDone.mock.calls.length === 0) {
      await nextTurn();
      counts.push(handled.length);
    }
    expect(counts).toEqual([256, 512, 600]);
    expect(handled).toEqual([...Array(600).keys()]);
  });

  it('are none: that is done at once', () => {
    const whenDone = vi.fn();
    inSlices([], () => {}, whenDone);
    expect(whenDone).toHaveBeenCalledTimes(1);
  });
});

describe('a moment to come', () => {
  it('is told by the wall clock, never early, and never before now', () => {
    expect([5_000, 5_000.1, 6_000, 0].map((ms) => onWallClock(ms, machine()(5_000)))).toEqual([
      ...[1_005_000, 1_005_001, 1_006_000, 1_005_000],
    ]);
  });
});
