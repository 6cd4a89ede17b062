import { describe, expect, it } from 'vitest';
import { NewcomerPace } from '../../src/failures/newcomer-pace.ts';

describe('the pace of newcomers', () => {
  it('is free until three have failed in a row', () => {
    const pace = new NewcomerPace();
    pace.failed();
    pace.failed();
    pace.sent(0);
    expect(pace.nextAtMs).toBeLessThan(0);
  });

  it('halves with each failure from there, down to one a second, counted from when a request is sent', () => {
    const pace = new NewcomerPace();
    pace.failed();
    pace.failed();
    const next = [100, 200, 300, 400, 500].map((nowMs) => {
      pace.failed();
      pace.sent(nowMs);
      return pace.nextAtMs - nowMs;
    });
    expect(next).toEqual([125, 250, 500, 1_000, 1_000]);
  });

  it('is free again after a reset', () => {
    const pace = new NewcomerPace();
    for (let n = 0; n < 3; n++) pace.failed();
    pace.sent(0);
    expect(pace.nextAtMs).toBe(125);
    pace.reset();
    expect(pace.nextAtMs).toBeLessThan(0);
    pace.sent(0);
    expect(pace.nextAtMs).toBeLessThan(0);
  });
});
