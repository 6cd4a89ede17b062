import { describe, expect, it } from 'vitest';
import { type Bar, countsBetween, liveBar, type Second } from '../../src/page-engine/data.ts';

it('a span counts the seconds that begin in it, so that adjacent spans count each second once', () => {
  const seconds = new Map<number, Second>([9, 10, 11, 12].map((second) => [second, [second, 100]]));
  expect(countsBetween(seconds, 10_000, 12_000)[0]).toBe(200);
  expect(countsBetween(seconds, 9001, 10_001)[0]).toBe(100);
  expect(countsBetween(seconds, 13_000, 20_000)[0]).toBe(0);
});

describe('the live bar', () => {
  const bar = (id: string, toMs: number): Bar => ({ id, fromMs: 0, toMs, cut: false });

  it('is the one that lasts longest', () => {
    expect(liveBar({ bars: [bar('t', 1000), bar('u', 2000), bar('v', 1500)] }, 500)?.id).toBe('u');
  });

  it('stops being live in the millisecond in which it ends', () => {
    expect(liveBar({ bars: [bar('t', 1000)] }, 999)).toBeDefined();
    expect(liveBar({ bars: [bar('t', 1000)] }, 1000)).toBeUndefined();
  });
});
