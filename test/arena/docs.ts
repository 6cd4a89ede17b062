/** The tables of `docs/internals/arena.md`, renewed from a run of all scenes by `npm run arena -- --docs`. */

import { readFileSync, writeFileSync } from 'node:fs';
import { compare } from './compare.ts';
import { cellOf, WORSE } from './judge.ts';
import { peers } from './peers.ts';
import type { Played } from './play.ts';
import { randomWorld } from './random/index.ts';
import type { Scene } from './scene.ts';
import { SCENES } from './scenes/index.ts';
import { breaker, plain, registry } from './subjects.ts';

const PAGE = `${process.cwd()}/docs/internals/arena.md`;
/** What follows it on the page is written here. */
const MARK = '<!-- results: written by npm run arena -- --docs -->';
const SUBJECTS = [registry, plain, breaker, ...peers];
const HEAD = [
  `| scene | ${SUBJECTS.map(({ name }) => name).join(' | ')} |`,
  `| --- |${SUBJECTS.map(() => ' ---: |').join('')}`,
];

/** Plays every scene with seed 1, and random worlds from seed 1 on; writes the page. */
export async function renewPage(randomWorlds: number): Promise<void> {
  const scenes = Object.values(SCENES)
    .flat()
    .filter(({ informative }) => !informative).length;
  const held = new Map(SUBJECTS.map(({ name }) => [name, 0]));
  const tables: string[] = [];
  for (const [heading, group] of Object.entries(SCENES)) {
    tables.push(`### ${heading}`, '', ...HEAD, ...(await rows(group, held)), '');
  }
  const counts = [...held].map(([subject, count]) => `${subject} in ${count}`).join(', ');
  const worlds = await worldsHeld(randomWorlds);
  const page = readFileSync(PAGE, 'utf8');
  const lines = [
    ...[page.slice(0, page.indexOf(MARK) + MARK.length), '', '## Results', ''],
    "The percentage of healthy tenants' calls served in time, and the requests that the service did not want. ✗: worse than",
    'plain by the rules above. CI plays **registry** and **plain** again and compares their cells; the other columns are from the last',
    'run with `--docs`.',
    '',
    `Of ${scenes} scenes (seed 1), the rules hold against plain for ${counts}.`,
    `Of ${randomWorlds} random worlds, they hold for the registry against plain and the breaker in ${worlds}.`,
    ...['', ...tables, '<!-- end -->'],
  ];
  writeFileSync(PAGE, `${lines.join('\n')}\n`);
}

async function rows(scenes: readonly Scene[], held: Map<string, number>): Promise<string[]> {
  const lines = [];
  for (const scene of scenes) {
    const { run, baselines } = await compare(scene, 1, registry, [breaker, ...peers]);
    const [plain] = baselines as [Played];
    const cells = [run, ...baselines].map((each) => {
      const cell = cellOf(each, scene, plain);
      if (!scene.informative && !cell.endsWith(WORSE)) held.set(each.subject, (held.get(each.subject) ?? 0) + 1);
      return cell;
    });
    lines.push(`| ${scene.name} | ${cells.join(' | ')} |`);
  }
  return lines;
}

async function worldsHeld(count: number): Promise<number> {
  let held = 0;
  for (let seed = 1; seed <= count; seed++) {
    const { worse } = await compare(randomWorld(seed), seed, registry, [breaker]);
    if (worse.length === 0) held++;
  }
  return held;
}
