import { describe, expect, it } from 'vitest';
import { compare } from './compare.ts';
import { randomWorld } from './random/index.ts';
import { registry } from './subjects.ts';

/**
 * Twenty worlds, the same ones each time, so that a test that begins to fail is due to a change. `SEED=` plays another;
 * `npm run arena -- --random 300 --seeds 1000` plays many.
 */
const SEEDS = process.env.SEED ? [Number(process.env.SEED)] : Array.from({ length: 20 }, (_, index) => index + 1);

describe('random worlds', () => {
  const worlds = SEEDS.map((seed) => ({ seed, scene: randomWorld(seed) }));
  it.each(worlds)('no healthy tenant is worse off than with plain: $scene.name', async ({ seed, scene }) => {
    const { worse } = await compare(scene, seed, registry);
    expect(worse, `replay: SEED=${seed} npm run arena`).toEqual([]);
  });
});
