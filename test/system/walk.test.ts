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
    ['hit', 9, 5, 6],
    ['refused call', 48, 12, 26],
    ['miss', 232, 34, 145],
    ['failure', 316, 34, 178],
    ['401 with a new token', 351, 38, 226],
    ["leader's miss", 376, 46, 231],
    ["follower's miss", 383, 46, 239],
  ])('a %s makes at most %i calls, in %i files, and moves at most %i times between them', (kind, ...most) => {
    const { calls, files, moves } = walks[kind] as Walk;
    const [mostCalls, mostFiles, mostMoves] = most;
    expect(calls).toBeLessThanOrEqual(mostCalls);
    expect(files).toBeLessThanOrEqual(mostFiles);
    expect(moves).toBeLessThanOrEqual(mostMoves);
  });
});
