import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { compare } from './compare.ts';
import { cellOf } from './judge.ts';
import type { Played } from './play.ts';
import { SCENES } from './scenes/index.ts';
import { registry } from './subjects.ts';

const SEED = Number(process.env.SEED ?? 1);
const PAGE = readFileSync('docs/arena.md', 'utf8');

const JUDGED = Object.entries(SCENES).filter(([, scenes]) => scenes.some(({ informative }) => !informative));

describe.each(JUDGED)('O1 %s', (_heading, scenes) => {
  it.each(scenes.filter(({ informative }) => !informative))(
    'no healthy tenant is worse off than with the plain client, and docs/arena.md agrees: $name',
    async (scene) => {
      const { run, baselines, worse } = await compare(scene, SEED, registry);
      expect(worse, `replay: SEED=${SEED} npm run arena -- '${scene.name}'`).toEqual([]);
      const [plain] = baselines as [Played];
      const row = `| ${scene.name} | ${cellOf(run, scene, plain)} | ${cellOf(plain, scene, plain)} |`;
      if (SEED === 1) expect(PAGE, 'renew the page: npm run arena -- --docs').toContain(row);
    },
  );
});
