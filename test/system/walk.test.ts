/** How far a reader has to walk to follow one call through the core. Lower a bound when its walk gets shorter. */

import { beforeAll, describe, expect, it } from 'vitest';
import { traceWalks, type Walk } from '../helpers/walk.mjs';

let walks: Record<string, Walk>;
beforeAll(async () => {
  ({ walks } = await traceWalks());
});

describe('a call', () => {
  // `node test/helpers/walk.mjs --functions miss` lists the functions.
  it.each([
    ['hit', 8, 5, 4],
    ['refused call', 47, 11, 23],
    ['miss', 198, 29, 122],
    ['failure', 294, 30, 161],
    ['401 with a new token', 313, 34, 196],
    ["leader's miss", 314, 40, 196],
    ["follower's miss", 318, 40, 205],
  ])('a %s makes at most %i calls, in %i files, and moves at most %i times between them', (kind, ...most) => {
    const { calls, files, moves } = walks[kind] as Walk;
    const [mostCalls, mostFiles, mostMoves] = most;
    expect(calls).toBeLessThanOrEqual(mostCalls);
    expect(files).toBeLessThanOrEqual(mostFiles);
    expect(moves).toBeLessThanOrEqual(mostMoves);
  });
});
