/** How far a reader has to walk to follow one call through the core. Lower a bound when its walk gets shorter. */

import { beforeAll, describe, expect, it } from 'vitest';
import { traceWalks, type Walk } from '../helpers/walk.mjs';

let walks: Record<string, Walk>;
beforeAll(async () => {
  ({ walks } = await traceWalks());
});

describe('a call', () => {
  // `node test/helpers/walk.mjs --functions miss` lists the functions. The clock adds a few: it is sampled every 10 ms.
  it.each([
    ['hit', 5, 7],
    ['refused call', 46, 13],
    ['miss', 180, 30],
    ['failure', 259, 31],
    ['401 with a new token', 271, 35],
  ])('that is a %s makes about %i calls at most, in %i files', (kind, mostCalls, mostFiles) => {
    const { calls, files } = walks[kind] as Walk;
    expect(calls).toBeLessThan(mostCalls + 8);
    expect(files).toBeLessThanOrEqual(mostFiles);
  });
});
