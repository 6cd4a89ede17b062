/** Which stated lifetimes count, and the two instants that a token carries. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { assessLifetime, DEFAULT_LIFETIME_MS, MAX_LIFETIME_MS, planLife } from '../../src/expiry/lifetime.ts';

const NOW_MS = Date.UTC(2030, 0, 1);

it.each([
  [1, 1],
  [0.5, 0.5],
  [3_600_000, 3_600_000],
  [MAX_LIFETIME_MS, MAX_LIFETIME_MS],
  [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY],
])('assessLifetime takes %d as stated', (value, lifetimeMs) => {
  expect(assessLifetime(value)).toEqual({ lifetimeMs });
});

it.each([
  [undefined, 'absent'],
  [Number.NaN, 'unreadable'],
  ['3600', 'unreadable'],
  [null, 'unreadable'],
  [[3600], 'absent'],
  [{}, 'absent'],
  [{ lifetimeMs: '3600' }, 'unreadable'],
  [{ lifetimeMs: 0, refreshAfterMs: 5000 }, 'not_positive'],
  [0, 'not_positive'],
  [-1, 'not_positive'],
  [Number.NEGATIVE_INFINITY, 'not_positive'],
  [MAX_LIFETIME_MS + 1, 'absurd'],
  [Number.MAX_VALUE, 'absurd'],
])('assessLifetime counts %s as the default, because it is %s', (value, problem) => {
  expect(assessLifetime(value)).toEqual({ lifetimeMs: DEFAULT_LIFETIME_MS, problem });
});

it('assessLifetime takes a refresh hint of a second or more that is before the end', () => {
  const hinted = (lifetimeMs: number, refreshAfterMs: unknown) => assessLifetime({ lifetimeMs, refreshAfterMs });
  for (const refreshAfterMs of [1000, 1800_000, 3_599_999.5]) {
    expect(hinted(3_600_000, refreshAfterMs)).toEqual({ lifetimeMs: 3_600_000, refreshAfterMs });
  }
  expect(hinted(Infinity, 5000)).toEqual({ lifetimeMs: Infinity, refreshAfterMs: 5000 });
  for (const unusable of [999, 0, -5, Number.NaN, -Infinity, '1800', null, {}, undefined, 3_600_000, 1e20, Infinity]) {
    expect(hinted(3_600_000, unusable)).toEqual({ lifetimeMs: 3_600_000 });
  }
  expect(hinted(500, 1000)).toEqual({ lifetimeMs: 500 });
  expect(hinted(Infinity, Infinity)).toEqual({ lifetimeMs: Infinity });
});

it('assessLifetime gives a usable lifetime for any value at all', () => {
  fc.assert(
    fc.property(fc.oneof(fc.anything(), fc.double()), (value) => {
      const { lifetimeMs, problem } = assessLifetime(value);
      expect(lifetimeMs).toBeGreaterThan(0);
      expect(lifetimeMs === Number.POSITIVE_INFINITY).toBe(value === Number.POSITIVE_INFINITY);
      if (problem) expect(lifetimeMs).toBe(DEFAULT_LIFETIME_MS);
      else expect(lifetimeMs).toBe(value);
    }),
  );
});

describe('planLife', () => {
  const plan = (lifetimeMs: number, drawn = 0.5, refreshWindow: [number, number] = [0.6, 0.8]) =>
    planLife({ requestedAtMs: NOW_MS, lifetimeMs, refreshWindow, random: () => drawn });

  it('E2: keeps a margin of 5 %, and of no more than 10 s', () => {
    expect(plan(1000).expiresAtMs).toBe(NOW_MS + 950);
    expect(plan(5000).expiresAtMs).toBe(NOW_MS + 4750);
    expect(plan(60_000).expiresAtMs).toBe(NOW_MS + 57_000);
    expect(plan(200_000).expiresAtMs).toBe(NOW_MS + 190_000);
    expect(plan(40 * 86_400_000).expiresAtMs).toBe(NOW_MS + 40 * 86_400_000 - 10_000);
  });

  it('draws the refresh point within the refresh window, counted from the request', () => {
    expect(plan(100_000, 0).refreshAtMs).toBe(NOW_MS + 60_000);
    expect(plan(100_000, 0.5).refreshAtMs).toBe(NOW_MS + 70_000);
    expect(plan(100_000, 1 - 1e-12).refreshAtMs).toBeCloseTo(NOW_MS + 80_000, 0);
  });

  it('draws one random number', () => {
    let draws = 0;
    planLife({ requestedAtMs: 0, lifetimeMs: 1000, refreshWindow: [0.6, 0.8], random: () => ++draws / 10 });
    expect(draws).toBe(1);
  });

  it('never refreshes past the end', () => {
    expect(plan(1000, 0.9, [0.9, 1])).toEqual({ refreshAtMs: NOW_MS + 950, expiresAtMs: NOW_MS + 950 });
  });

  it('ends the refresh window at a refresh hint, shortens it in proportion, and never delays a refresh', () => {
    const hinted = (refreshAfterMs: number, drawn: number, lifetimeMs = 100_000) =>
      planLife({ requestedAtMs: 0, lifetimeMs, refreshAfterMs, refreshWindow: [0.6, 0.8], random: () => drawn });
    expect(hinted(40_000, 0)).toEqual({ refreshAtMs: 30_000, expiresAtMs: 95_000 });
    expect(hinted(40_000, 1).refreshAtMs).toBeCloseTo(40_000, 6);
    expect(hinted(80_000, 0.5).refreshAtMs).toBe(70_000);
    expect(hinted(90_000, 0.5).refreshAtMs).toBe(70_000);
    expect(hinted(40_000, 0, Infinity)).toEqual({ refreshAtMs: 30_000, expiresAtMs: Infinity });
  });

  it('gives a token that is kept until rejected neither a refresh point nor an end', () => {
    for (const drawn of [0, 0.5]) {
      expect(plan(Number.POSITIVE_INFINITY, drawn)).toEqual({
        refreshAtMs: Number.POSITIVE_INFINITY,
        expiresAtMs: Number.POSITIVE_INFINITY,
      });
    }
  });

  it('E3: keeps the refresh point and the end of a token in order, whenever the answer came', () => {
    const share = fc.double({ min: 0, max: 1, noNaN: true });
    const lifetime = fc.double({ min: 1, max: MAX_LIFETIME_MS, noNaN: true });
    fc.assert(
      fc.property(lifetime, fc.tuple(share, share), share, (lifetimeMs, shares, drawn) => {
        const refreshWindow = shares.sort((a, b) => a - b);
        const { refreshAtMs, expiresAtMs } = planLife({
          requestedAtMs: 0,
          lifetimeMs,
          refreshWindow,
          random: () => drawn,
        });
        expect(refreshAtMs).toBeLessThanOrEqual(expiresAtMs);
        expect(refreshAtMs).toBeGreaterThanOrEqual(0);
        expect(expiresAtMs).toBeGreaterThanOrEqual(lifetimeMs * 0.95 - 1e-6);
        expect(expiresAtMs).toBeLessThan(lifetimeMs);
        expect(lifetimeMs - expiresAtMs).toBeLessThanOrEqual(10_000 + 0.001);
        if (refreshAtMs < expiresAtMs) {
          expect(refreshAtMs).toBeGreaterThanOrEqual(lifetimeMs * refreshWindow[0] * (1 - 1e-9));
          expect(refreshAtMs).toBeLessThanOrEqual(lifetimeMs * refreshWindow[1] * (1 + 1e-9));
        }
      }),
    );
  });
});
