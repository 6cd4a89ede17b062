import { describe, expect, it } from 'vitest';
import { compare } from './compare.ts';
import { SCENES } from './scenes/index.ts';
import { registry } from './subjects.ts';

const SEED = Number(process.env.SEED ?? 1);

describe.each(Object.entries(SCENES))('%s', (_heading, scenes) => {
  it.each(scenes)('no healthy tenant is worse off than with plain p-limit and lru-cache: $name', async (scene) => {
    const { worse } = await compare(scene, SEED, registry);
    expect(worse, `replay: SEED=${SEED} npm run arena -- '${scene.name}'`).toEqual([]);
  });
});
