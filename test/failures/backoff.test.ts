import { describe, expect, it } from 'vitest';
import { OwnerTokenError, type OwnerTokenErrorCode, type OwnerTokenErrorOptions } from '../../src/errors.ts';
import { drawLength, drawPause, type PauseRange } from '../../src/failures/backoff.ts';

const RANGE = { baseMs: 500, capMs: 30_000 };

const error = (code: OwnerTokenErrorCode, options: OwnerTokenErrorOptions = {}) =>
  new OwnerTokenError(code, 'it failed', options);
const timedOut = error('endpoint_unavailable');

describe('how long a pause is', () => {
  it('is what a source that shares failures says, and leaves the count of failures as it was', () => {
    const pause = drawPause(error('endpoint_unavailable', { pauseMs: 1_234 }), 7, RANGE, 100, () => 0.5);
    expect(pause).toMatchObject({ count: 6, retryAtMonotonicMs: 1_334 });
  });

  it('may be drawn by itself', () => {
    expect([0, 1, 8].map((doublings) => drawLength(doublings, RANGE, () => 0))).toEqual([250, 500, 15_000]);
  });

  const lengths = (range: PauseRange, random: number) =>
    [1, 2, 3, 20, 2000].map((count) => drawPause(timedOut, count, range, 100, () => random).retryAtMonotonicMs - 100);

  it('doubles up to the cap, of which jitter takes up to half', () => {
    expect(lengths({ baseMs: 1_000, capMs: 5_000 }, 0)).toEqual([500, 1000, 2000, 2500, 2500]);
    expect(lengths({ baseMs: 1_000, capMs: 5_000 }, 0.5)).toEqual([750, 1500, 3000, 3750, 3750]);
  });

  const asked = (options: OwnerTokenErrorOptions, code: OwnerTokenErrorCode = 'endpoint_unavailable') =>
    drawPause(error(code, options), 7, RANGE, 100, () => 0.5);

  it.each([
    [2_000, 2_000],
    [0, 1_000],
    [-5, 1_000],
    [1e9, 3_600_000],
  ])('is what a 429 or a 503 asks for: %d ms as %d ms', (retryAfterMs, lengthMs) => {
    for (const pause of [
      ...[asked({ status: 503, retryAfterMs }), asked({ status: 429, retryAfterMs }, 'owner_refused')],
      asked({ retryAfterMs }, 'rate_limited'),
    ]) {
      expect(pause).toMatchObject({ count: 7, retryAtMonotonicMs: 100 + lengthMs });
    }
  });

  it.each([
    [2_000, 2_000],
    [0, 1_000],
    [1e9, 30_000],
  ])('is what another failure asks for, up to the cap: %d ms as %d ms', (retryAfterMs, lengthMs) => {
    for (const pause of [asked({ status: 500, retryAfterMs }), asked({ status: 400, retryAfterMs }, 'owner_refused')]) {
      expect(pause.retryAtMonotonicMs).toBe(100 + lengthMs);
    }
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])('is drawn where %d is asked for', (odd) => {
    expect(asked({ status: 503, retryAfterMs: odd }).retryAtMonotonicMs).toBe(100 + 22_500);
  });
});
