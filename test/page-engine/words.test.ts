import { describe, expect, it } from 'vitest';
import { plural, spanWord } from '../../src/page-engine/words.ts';

describe('in words', () => {
  it.each([
    [0, '0 ms'],
    [0.42, '0.4 ms'],
    [850, '850 ms'],
    [1500, '1.5 s'],
    [12_400, '12 s'],
    [59_999, '60 s'],
    [180_000, '3 min'],
    [4_800_000, '1 h 20 min'],
    [7_200_000, '2 h'],
    [86_400_000 * 3, '3 days'],
  ])('a duration of %d ms is %s', (ms, word) => expect(spanWord(ms)).toBe(word));

  it('a count is followed by the singular or the plural', () => {
    expect([plural(1, 'owner'), plural(0, 'owner'), plural(1200, 'owner')]).toEqual([
      '1 owner',
      '0 owners',
      '1,200 owners',
    ]);
  });
});
