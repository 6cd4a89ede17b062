import { describe, expect, it } from 'vitest';
import { OwnerTokenError, type OwnerTokenErrorCode, type OwnerTokenErrorOptions } from '../../src/errors.ts';
import { drawLength, drawPause, type PauseRange } from '../../src/failures/backoff.ts';

const RANGE = { baseMs: 500, capMs: 30_000 };

const error = (code: OwnerTokenErrorCode, options: OwnerTokenErrorOptions = {}) =>
  new OwnerTokenError(code, 'it failed', options);
const timedOut = error('endpoint_unavailable');

describe('how long a pause is', () => {
  it('may be drawn by itself', () => {
    expect([1, 2, 9].map((count) => drawLength(count, RANGE, () => 0))).toEqual([250, 500, 15_000]);
  });

  const lengths = (range: PauseRange, random: number) =>
    [1, 2, 3, 20, 2000].map((count) => drawPause(timedOut, count, range, 100, () => random).retryAtMonotonicMs - 100);

  it('doubles up to the cap, of which jitter takes up to half', () => {
    expect(lengths({ baseMs: 1_000, capMs: 5_000 }, 0)).toEqual([500, 1000, 2000, 2500, 2500]);
    expect(lengths({ baseMs: 1_000, capMs: 5_000 }, 0.5)).toEqual([750, 1500, 3000, 3750, 3750]);
  });

  it.each([
    [2_000, 2_000],
    [0, 1_000],
    [-5, 1_000],
    [1e9, 3_600_000],
  ])('follows a Retry-After of %d ms as %d ms', (retryAfterMs, lengthMs) => {
    const pause = drawPause(error('rate_limited', { retryAfterMs }), 7, RANGE, 100, () => 0.5);
    expect(pause).toMatchObject({ count: 7, retryAtMonotonicMs: 100 + lengthMs });
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY])('does not follow one of %d', (retryAfterMs) => {
    const nonsense = error('rate_limited', { retryAfterMs });
    expect(drawPause(nonsense, 1, RANGE, 0, () => 0.5).retryAtMonotonicMs).toBe(375);
  });
});
