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
    ['hit', 7, 5, 4],
    ['refused call', 39, 8, 16],
    ['miss', 148, 22, 84],
    ['failure', 214, 25, 109],
    ['401 with a new token', 239, 27, 136],
    ["leader's miss", 243, 33, 152],
    ["follower's miss", 239, 33, 155],
  ])('a %s makes at most %i calls, in %i files, and moves at most %i times between them', (kind, ...most) => {
    const { calls, files, moves } = walks[kind] as Walk;
    const [mostCalls, mostFiles, mostMoves] = most;
    expect(calls).toBeLessThanOrEqual(mostCalls);
    expect(files).toBeLessThanOrEqual(mostFiles);
    expect(moves).toBeLessThanOrEqual(mostMoves);
  });
});
