import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import {
  type Clock,
  elapsedMs,
  type Instant,
  MAX_READING_ERROR_MS,
  onWallClock,
  startTimer,
  stopTimer,
  systemClock,
  Time,
  within,
} from '../src/clock.ts';
import { machine } from './helpers/instants.ts';
import { ManualClock, settle } from './helpers/manual-clock.ts';
import { seeded } from './helpers/seeded.mjs';

const DAY_MS = 86_400_000;

it('the timeline never runs slower than either clock, and never counts a past interval as shorter', () => {
  const random = seeded(11);
  const clock = { wallMs: 1_000_000, monotonicMs: 0 };
  const time = new Time({ now: () => clock.wallMs, monotonic: () => clock.monotonicMs });
  const instants: Instant[] = [];
  for (let step = 0; step < 500; step++) {
    const passedMs = random() < 0.3 ? random() * 1e6 : random() * 3;
    clock.monotonicMs += random() < 0.1 ? 0 : passedMs;
    clock.wallMs += passedMs;
    if (random() < 0.2) clock.wallMs += (random() - 0.5) * 10 ** Math.floor(random() * 8);
    instants.push(time.now());
  }
  for (const [index, since] of instants.entries()) {
    for (const now of instants.slice(index)) {
      const byEither = Math.max(now.wallMs - since.wallMs, now.monotonicMs - since.monotonicMs);
      if (elapsedMs(since, now) < byEither - 1e-3) expect(elapsedMs(since, now)).toBe(byEither);
    }
  }
});

it('the time of a given clock is read anew from both times, for an instant and for a hit', () => {
  const clock = new ManualClock(5_000);
  const time = new Time(clock);
  expect(time.now()).toEqual({ wallMs: 5_000, monotonicMs: 0, timelineMs: 5_000, offsetMs: 0 });
  expect(time.seconds()).toBe(5);
  clock.jumpWall(1_000);
  expect(time.seconds()).toBe(6);
  clock.advance(1_000);
  expect(time.seconds()).toBe(7);
  clock.jumpWall(-5_000);
  expect(time.now()).toEqual({ wallMs: 2_000, monotonicMs: 1_000, timelineMs: 7_000, offsetMs: 5_000 });
  clock.advance(999);
  expect(time.seconds()).toBe(7);
});

it('the time of the system’s own clocks follows a faked Date at once, and forgets it afterwards', () => {
  let monotonicMs = 0;
  vi.useFakeTimers({ toFake: ['Date'], now: 100_000 });
  onTestFinished(() => void vi.useRealTimers());
  vi.spyOn(performance, 'now').mockImplementation(() => monotonicMs);
  vi.spyOn(process.hrtime, 'bigint').mockImplementation(() => BigInt(monotonicMs * 1e6));
  const time = new Time();
  expect(time.seconds()).toBe(100);
  vi.setSystemTime(200_000);
  expect(time.seconds()).toBe(200);
  monotonicMs = DAY_MS;
  expect(time.seconds()).toBe(200 + DAY_MS / 1000);
  vi.useRealTimers();
  monotonicMs = 5_000;
  const second = time.seconds();
  monotonicMs = 6_000;
  expect(time.seconds()).toBe(second + 1);
});

it('a call gets its token although the system’s Date.now has fractions', async () => {
  onTestFinished(() => void vi.restoreAllMocks());
  vi.spyOn(performance, 'now').mockReturnValue(1_000);
  // In place of Node's own, which is recorded at load.
  vi.spyOn(Date, 'now').mockReturnValue(100_995.25);
  vi.resetModules();
  const { OwnerTokenRegistry } = await import('../src/index.ts');
  await using registry = new OwnerTokenRegistry({ source: { requestToken: async () => ({ token: 't' }) } });
  for (const _ of ['miss', 'hit']) expect((await registry.getToken('a')).value).toBe('t');
});

it('the monotonic time never goes back: while its clock lags, it advances with the wall clock', () => {
  const clock = { wallMs: 1_000_000, monotonicMs: 5_000 };
  const time = new Time({ now: () => clock.wallMs, monotonic: () => clock.monotonicMs });
  const at = (wallMs: number, monotonicMs: number) => {
    Object.assign(clock, { wallMs, monotonicMs });
    return time.now().monotonicMs;
  };
  expect(at(1_000_000, 5_000)).toBe(5_000);
  expect(at(1_000_100, 4_900)).toBe(5_100);
  expect(at(1_000_100, 4_800)).toBe(5_100);
  expect(at(900_000, 4_700)).toBe(5_100);
  expect(at(900_300, 4_800)).toBe(5_400);
  expect(at(900_301, 5_401)).toBe(5_401);
});

describe('a timer', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
  afterEach(() => void vi.useRealTimers());

  it.each([
    [24, 24],
    [365, 24.8],
  ])('of %i days runs after %f days', (days, expectedDays) => {
    const fn = vi.fn();
    startTimer(undefined, fn, days * DAY_MS);
    vi.advanceTimersByTime(expectedDays * DAY_MS - 1);
    expect(fn).not.toHaveBeenCalled();
    vi.advanceTimersByTime(0.1 * DAY_MS);
    expect(fn).toHaveBeenCalledTimes(1);
  });

  it('is cancelled, although the clock returns what Node’s own setTimeout does', () => {
    const fn = vi.fn();
    const clock = { ...systemClock, setTimeout: (called: () => void, ms: number) => setTimeout(called, ms) as never };
    const timer = startTimer(clock, fn, 10);
    stopTimer(timer);
    stopTimer(timer);
    vi.advanceTimersByTime(10);
    expect(fn).not.toHaveBeenCalled();
    stopTimer(startTimer({ ...systemClock, setTimeout: () => undefined as never }, fn, 10));
  });
});

it('a future time is stated by the wall clock, never early, and never before now', () => {
  expect([5_000, 5_000.1, 6_000, 0].map((ms) => onWallClock(ms, machine()(5_000)))).toEqual([
    ...[1_005_000, 1_005_001, 1_006_000, 1_005_000],
  ]);
});

describe('work within a time limit', () => {
  const given = async (clock: Clock, work: Promise<string>) => within(work, 10, clock, 30);

  /** What comes of work that never ends: nothing, until it is given up. */
  const unfinished = (clock: Clock) => {
    const seen: unknown[] = [];
    void given(clock, new Promise(() => {})).then((result) => seen.push(result));
    return seen;
  };
  const expectGivenUpAfter10Ms = async (clock: ManualClock, seen: unknown[]) => {
    clock.advance(9);
    await settle();
    expect(seen).toEqual([]);
    clock.advance(1);
    await settle();
    expect(seen).toEqual([undefined]);
  };

  it('is given up when the time is up, although the event loop was idle', async () => {
    const clock = new ManualClock();
    await expectGivenUpAfter10Ms(clock, unfinished(clock));
  });

  it('is given the same time once more while the event loop is busy, but not for ever', async () => {
    let finish = (_: string) => {};
    const startedMs = performance.now();
    // Never idle: each turn of the loop has something to do.
    const busyUntil = async (ms: number) => {
      while (performance.now() - startedMs < ms) await new Promise((resolve) => setImmediate(resolve));
    };
    const done = given(
      systemClock,
      new Promise((resolve) => {
        finish = resolve;
      }),
    );
    await busyUntil(18);
    finish('in time');
    expect(await done).toBe('in time');
    const late = given(systemClock, new Promise(() => {}));
    await busyUntil(200);
    expect(await late).toBeUndefined();
  });

  it('is given the same time once more if its timer is late: the process got no CPU time', async () => {
    const clock = new ManualClock();
    const seen = unfinished(clock);
    clock.standStill(10 + MAX_READING_ERROR_MS + 1);
    clock.advance(0);
    // A late limit lets the event loop read for many turns first.
    for (let round = 0; round < 10; round++) await settle();
    await expectGivenUpAfter10Ms(clock, seen);
  });

  it('is given up when the time is up, in a runtime that does not report idle time', async () => {
    onTestFinished(() => void vi.unstubAllGlobals());
    vi.stubGlobal('performance', { now: performance.now.bind(performance) });
    expect(await given(systemClock, new Promise(() => {}))).toBeUndefined();
  });
});
