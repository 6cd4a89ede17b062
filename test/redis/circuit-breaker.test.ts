import { describe, expect, it } from 'vitest';
import { Breaker } from '../../src/redis/circuit-breaker.ts';

function opened(): Breaker {
  const breaker = new Breaker();
  for (let failure = 1; failure <= 4; failure++) expect(breaker.failed(0, false)).toBeUndefined();
  expect(breaker.failed(0, false)).toBe('opened');
  return breaker;
}

describe('the breaker', () => {
  it('opens at the fifth failure in a row, and at none of a hundred with successes between', () => {
    opened();
    const breaker = new Breaker();
    for (let round = 0; round < 100; round++) {
      for (let failure = 1; failure <= 4; failure++) expect(breaker.failed(round, false)).toBeUndefined();
      expect(breaker.succeeded(round)).toBeUndefined();
    }
    expect(breaker.admit(100)).toBe('send');
  });

  it('lets nothing out while open, then one trial at a time', () => {
    const breaker = opened();
    expect(breaker.admit(499)).toBe('refuse');
    expect(breaker.admit(500)).toBe('trial');
    expect(breaker.admit(500)).toBe('refuse');
    expect(breaker.succeeded(510)).toBe('closed');
    expect(breaker.admit(510)).toBe('send');
  });

  it('doubles its pause with each trial that fails, to ten seconds', () => {
    const breaker = opened();
    let nowMs = 0;
    for (const pauseMs of [500, 1000, 2000, 4000, 8000, 10_000, 10_000]) {
      expect(breaker.admit(nowMs + pauseMs - 1)).toBe('refuse');
      nowMs += pauseMs;
      expect(breaker.admit(nowMs)).toBe('trial');
      expect(breaker.failed(nowMs, true)).toBeUndefined();
    }
  });

  it('is not held open by what was sent before it opened', () => {
    const breaker = opened();
    expect(breaker.failed(400, false)).toBeUndefined();
    expect(breaker.admit(500)).toBe('trial');
    expect(breaker.failed(501, false)).toBeUndefined();
    expect(breaker.succeeded(502)).toBe('closed');
  });

  it('forgets the doubling only after half a minute without failure', () => {
    const breaker = opened();
    breaker.admit(500);
    breaker.succeeded(500);
    for (let failure = 0; failure < 5; failure++) breaker.failed(1000, false);
    expect(breaker.admit(1999)).toBe('refuse');
    expect(breaker.admit(2000)).toBe('trial');
    breaker.succeeded(2000);
    breaker.succeeded(40_000);
    for (let failure = 0; failure < 5; failure++) breaker.failed(40_000, false);
    expect(breaker.admit(40_500)).toBe('trial');
  });
});
