import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { onWallClock, settledWithin, startTimer, systemClock, type Time, timeOf } from '../src/clock.ts';
import { ManualClock } from './helpers/manual-clock.ts';

const DAY_MS = 86_400_000;

describe('the instant', () => {
  it('is read anew from both times of a given clock', () => {
    const clock = new ManualClock(5_000);
    const read = timeOf(clock).now;
    expect(read()).toEqual({ wallMs: 5_000, monotonicMs: 0 });
    clock.advance(1);
    clock.jumpWall(-100);
    expect(read()).toEqual({ wallMs: 4_901, monotonicMs: 1 });
  });
});

describe('the instant of the system’s own clocks', () => {
  let monotonicMs = 0;
  let nowOf: () => Time['now'];

  beforeEach(async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 100_000 });
    // Loaded anew, it takes the fake for the system's clock.
    vi.resetModules();
    const loaded = await import('../src/clock.ts');
    nowOf = () => loaded.timeOf(undefined).now;
    monotonicMs = 0;
    vi.spyOn(performance, 'now').mockImplementation(() => monotonicMs);
  });
  afterEach(() => void vi.useRealTimers());

  /** Reads with the wall clock at one time and the monotonic at another. */
  function readAt(read: Time['now'], wallMs: number, atMonotonicMs: number) {
    vi.setSystemTime(wallMs);
    monotonicMs = atMonotonicMs;
    return read();
  }

  it('reads the wall clock once in 10 ms, and reckons on from there', () => {
    const read = nowOf();
    expect(readAt(read, 100_000, 0)).toEqual({ wallMs: 100_000, monotonicMs: 0 });
    expect(readAt(read, 107_000, 1.7)).toEqual({ wallMs: 100_001, monotonicMs: 1 });
    expect(readAt(read, 107_000, 10.9)).toEqual({ wallMs: 100_010, monotonicMs: 10 });
    expect(readAt(read, 107_000, 11)).toEqual({ wallMs: 107_000, monotonicMs: 11 });
    expect(readAt(read, 107_000, 21)).toEqual({ wallMs: 107_010, monotonicMs: 21 });
  });

  it.each([-DAY_MS, -1, 0, 1, DAY_MS])('knows within 10 ms of a wall clock that was set by %i ms', (jumpMs) => {
    const read = nowOf();
    readAt(read, 100_000, 0);
    expect(readAt(read, 100_011 + jumpMs, 11)).toEqual({ wallMs: 100_011 + jumpMs, monotonicMs: 11 });
  });

  it('goes on while the wall clock stands still', () => {
    const read = nowOf();
    for (let atMs = 0; atMs < 100; atMs++) expect(readAt(read, 100_000, atMs).monotonicMs).toBe(atMs);
    expect(readAt(read, 100_000, DAY_MS)).toEqual({ wallMs: 100_000, monotonicMs: DAY_MS });
  });

  it('gives the same object within a millisecond, so that a hit makes none', () => {
    const read = nowOf();
    expect(readAt(read, 100_003, 3)).toBe(readAt(read, 100_003, 3.4));
  });

  it('notices at once that a test sets a faked Date', () => {
    const read = timeOf(undefined).now;
    expect(readAt(read, 100_000, 0)).toEqual({ wallMs: 100_000, monotonicMs: 0 });
    expect(readAt(read, 200_000, 0)).toEqual({ wallMs: 200_000, monotonicMs: 0 });
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
    await settledWithin(timeOf(clock), 1000, Promise.resolve('done'));
    expect(clock.pendingTimers).toBe(0);
  });

  it('fails with the promise, and leaves no timer', async () => {
    const clock = new ManualClock();
    await expect(settledWithin(timeOf(clock), 1000, Promise.reject(new Error('no')))).rejects.toThrow('no');
    expect(clock.pendingTimers).toBe(0);
  });

  it('ends when the time is up', async () => {
    const clock = new ManualClock();
    let over = false;
    const waiting = settledWithin(timeOf(clock), 1000, new Promise(() => {})).then(() => {
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

describe('a moment to come', () => {
  it('is told by the wall clock, never early, and never before now', () => {
    expect([5_000, 5_000.1, 6_000, 0].map((ms) => onWallClock(ms, { wallMs: 1_005_000, monotonicMs: 5_000 }))).toEqual([
      ...[1_005_000, 1_005_001, 1_006_000, 1_005_000],
    ]);
  });
});
