import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { compare } from './compare.ts';
import { cellOf } from './judge.ts';
import type { Played } from './play.ts';
import { SCENES } from './scenes/index.ts';
import { registry } from './subjects.ts';

const SEED = Number(process.env.SEED ?? 1);
const PAGE = readFileSync('docs/internals/arena.md', 'utf8');

/** Tests every scene under these headings that is judged. Two files share the headings, because each file is one thread's work. */
export function testScenes(isHere: (heading: string) => boolean): void {
  for (const [heading, scenes] of Object.entries(SCENES)) {
    const judged = scenes.filter(({ informative }) => !informative);
    if (judged.length === 0 || !isHere(heading)) continue;
    describe(heading, () => {
      it.each(judged)(
        'no healthy tenant is worse off than with the plain client, and docs/internals/arena.md agrees: $name',
        async (scene) => {
          const { run, baselines, worse } = await compare(scene, SEED, registry);
          expect(worse, `replay: SEED=${SEED} npm run arena -- '${scene.name}'`).toEqual([]);
          const [plain] = baselines as [Played];
          const row = `| ${scene.name} | ${cellOf(run, scene, plain)} | ${cellOf(plain, scene, plain)} |`;
          if (SEED === 1) expect(PAGE, 'renew the page: npm run arena -- --docs').toContain(row);
        },
      );
    });
  }
}

/** The headings of scenes in which the amount of requests is the trouble. */
export const LOAD: readonly string[] = ['Limits', 'Batches', 'Latency and volume'];
