import { describe, expect, it } from 'vitest';
import { SlowStart } from '../../src/failures/slow-start.ts';

const permit = (number: number) => ({ number, standing: 'proven' as const, doubtful: false });

describe('slow start', () => {
  it('allows the full concurrency until it begins', () => {
    const slowStart = new SlowStart(6);
    slowStart.succeeded(permit(1));
    expect(slowStart.limit).toBe(6);
  });

  it('allows one request, then twice as many after each success, up to the full concurrency', () => {
    const slowStart = new SlowStart(6);
    slowStart.begin(permit(1));
    const limits = [slowStart.limit];
    for (let number = 2; number < 6; number++) {
      slowStart.succeeded(permit(number));
      limits.push(slowStart.limit);
    }
    expect(limits).toEqual([1, 2, 4, 6, 6]);
  });

  it('does not count successes of requests sent before the pause ended', () => {
    const slowStart = new SlowStart(6);
    slowStart.begin(permit(4));
    slowStart.succeeded(permit(3));
    expect(slowStart.limit).toBe(1);
  });

  it('ends at once when it is told to, and begins anew', () => {
    const slowStart = new SlowStart(6);
    slowStart.begin(permit(1));
    slowStart.end();
    expect(slowStart.limit).toBe(6);
    slowStart.begin(permit(2));
    expect(slowStart.limit).toBe(1);
  });
});
