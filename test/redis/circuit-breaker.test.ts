import { describe, expect, it } from 'vitest';
import { RedisCircuitBreaker } from '../../src/redis/circuit-breaker.ts';

const closed = (random = () => 1) => new RedisCircuitBreaker(random);

function opened(random?: () => number): RedisCircuitBreaker {
  const breaker = closed(random);
  for (let failure = 1; failure <= 4; failure++) expect(breaker.failed(0, false)).toBeUndefined();
  expect(breaker.failed(0, false)).toBe('opened');
  return breaker;
}

describe('the circuit breaker of Redis', () => {
  it('opens at the fifth failure in a row, and at none of a hundred with successes between', () => {
    opened();
    const breaker = closed();
    for (let round = 0; round < 100; round++) {
      for (let failure = 1; failure <= 4; failure++) expect(breaker.failed(round, false)).toBeUndefined();
      expect(breaker.succeeded(round)).toBeUndefined();
    }
    expect(breaker.admit(100)).toBe('send');
  });

  it('refuses while open; then lets one trial through, for which others wait', () => {
    const breaker = opened();
    expect(breaker.admit(499)).toBe('refuse');
    expect(breaker.admit(500)).toBe('trial');
    expect(breaker.admit(500)).toBe('await');
    expect(breaker.isClosed).toBe(false);
    expect(breaker.succeeded(510)).toBe('closed');
    expect(breaker.admit(510)).toBe('send');
  });

  it('doubles its pause with each trial that fails, to five seconds', () => {
    const breaker = opened();
    let nowMs = 0;
    for (const pauseMs of [500, 1000, 2000, 4000, 5000, 5000]) {
      expect(breaker.admit(nowMs + pauseMs - 1)).toBe('refuse');
      nowMs += pauseMs;
      expect(breaker.admit(nowMs)).toBe('trial');
      expect(breaker.failed(nowMs, true)).toBeUndefined();
    }
  });

  it('takes up to half of a pause off, so that replicas do not try in step', () => {
    expect(opened(() => 0).admit(249)).toBe('refuse');
    expect(opened(() => 0).admit(250)).toBe('trial');
    expect(opened(() => 0.5).admit(374)).toBe('refuse');
    expect(opened(() => 0.5).admit(375)).toBe('trial');
  });

  it('is not held open by operations that were sent before it opened', () => {
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

  it('opens at an operation without a reply in time, once none has had one for eight seconds', () => {
    const breaker = closed();
    for (let sentAtMs = 0; sentAtMs < 7_750; sentAtMs += 10) {
      expect(breaker.unanswered(sentAtMs, sentAtMs + 250, 8_000, false)).toBeUndefined();
    }
    expect(breaker.unanswered(7_749, 7_999, 8_000, false)).toBeUndefined();
    expect(breaker.unanswered(7_750, 8_000, 8_000, false)).toBe('opened');
    // No change: it was sent before.
    expect(breaker.unanswered(7_751, 8_001, 8_000, false)).toBeUndefined();
    // The longest pause at once.
    expect(breaker.admit(12_999)).toBe('refuse');
    expect(breaker.admit(13_000)).toBe('trial');
    expect(breaker.unanswered(8_000, 13_001, 8_000, false)).toBeUndefined();
    expect(breaker.succeeded(13_002)).toBe('closed');
  });

  it('counts the silence from the last reply, late or not', () => {
    const breaker = closed();
    breaker.unanswered(0, 250, 8_000, false);
    breaker.succeeded(5_600);
    // Sent before that reply came.
    expect(breaker.unanswered(5_500, 13_599, 8_000, false)).toBeUndefined();
    expect(breaker.unanswered(5_700, 13_600, 8_000, false)).toBe('opened');
    expect(breaker.succeeded(13_700)).toBe('closed');
    expect(breaker.unanswered(13_800, 21_799, 8_000, false)).toBeUndefined();
    expect(breaker.unanswered(13_900, 21_800, 8_000, false)).toBe('opened');
  });

  it('takes a trial without a reply in time for a failure at once', () => {
    const breaker = opened();
    expect(breaker.admit(500)).toBe('trial');
    breaker.unanswered(500, 750, 8_000, true);
    expect(breaker.admit(5_749)).toBe('refuse');
    expect(breaker.admit(5_750)).toBe('trial');
  });
});
