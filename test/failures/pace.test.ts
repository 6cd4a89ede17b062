import { describe, expect, it } from 'vitest';
import { Pace } from '../../src/failures/pace.ts';

/** Sends as many requests as the pace lets start until `endMs`, with a timer that fires late by `lateMs`. */
function sendUntil(pace: Pace, endMs: number, lateMs = 0): number[] {
  const sentMs: number[] = [];
  for (let nowMs = 0; nowMs < endMs; nowMs = Math.max(nowMs, pace.nextAtMs + lateMs)) {
    pace.sent(nowMs);
    sentMs.push(nowMs);
  }
  return sentMs;
}

describe('a pace', () => {
  it('spaces requests evenly', () => {
    expect(sendUntil(new Pace(4), 1_000)).toEqual([0, 250, 500, 750]);
  });

  it('loses nothing to timers that fire a little late', () => {
    expect(sendUntil(new Pace(100), 10_000, 3)).toHaveLength(1_000);
  });

  it('starts anew after a request that is more than 10 ms late', () => {
    const pace = new Pace(10);
    for (const nowMs of [0, 110]) pace.sent(nowMs);
    expect(pace.nextAtMs).toBe(200);
    pace.sent(211);
    expect(pace.nextAtMs).toBe(311);
  });

  it('saves nothing up while nothing is sent', () => {
    const pace = new Pace(10);
    pace.sent(0);
    pace.sent(5_000);
    expect(pace.nextAtMs).toBe(5_100);
  });

  it('without a bound never holds a request back', () => {
    const pace = new Pace();
    pace.sent(1_000);
    expect(pace.nextAtMs).toBe(Number.NEGATIVE_INFINITY);
  });

  it('applies a new rate to the requests that follow', () => {
    const pace = new Pace(1);
    pace.sent(0);
    pace.set(10);
    expect([pace.perSecond, pace.nextAtMs]).toEqual([10, 1_000]);
    pace.sent(1_000);
    expect(pace.nextAtMs).toBe(1_100);
    pace.removeBound();
    expect([pace.perSecond, pace.nextAtMs]).toEqual([Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]);
  });

  it('applies a new rate to the next request when given the time of the last one', () => {
    const pace = new Pace();
    pace.set(4, 1_000);
    expect(pace.nextAtMs).toBe(1_250);
    pace.set(2, 1_000);
    expect(pace.nextAtMs).toBe(1_500);
    // Never earlier than before.
    pace.set(10, 1_000);
    expect(pace.nextAtMs).toBe(1_500);
  });
});
