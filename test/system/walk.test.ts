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
    ['hit', 5, 5, 4],
    ['refused call', 41, 8, 16],
    ['miss', 151, 22, 84],
    ['failure', 238, 25, 117],
    ['401 with a new token', 240, 27, 132],
    ["leader's miss", 248, 33, 152],
    ["follower's miss", 244, 33, 153],
  ])('a %s makes at most about %i calls, in %i files, and moves %i times between them', (kind, ...most) => {
    const { calls, files, moves } = walks[kind] as Walk;
    const [mostCalls, mostFiles, mostMoves] = most;
    expect(calls).toBeLessThan(mostCalls + 8);
    expect(files).toBeLessThanOrEqual(mostFiles);
    expect(moves).toBeLessThan(mostMoves + 5);
  });
});
