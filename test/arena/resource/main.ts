/** `npm run arena -- resource`: plays the scenes in which the API misbehaves. */

import type { Options } from '../main.ts';
import { compareApi } from './compare.ts';
import type { ApiPlayed } from './play.ts';
import { API_SCENES } from './scenes/index.ts';

const COLUMNS = ['served %', '401', 'failed', 'back s', 'tokens', 'in fault', 'API/call'];

export async function apiMain({ parts, seeds, list, json }: Pick<Options, 'parts' | 'seeds' | 'list' | 'json'>) {
  const scenes = Object.values(API_SCENES)
    .flat()
    .filter(({ name }) => parts.length === 0 || parts.some((part) => name.includes(part)));
  if (list) {
    console.log(scenes.map(({ name }) => name).join('\n'));
    return 0;
  }
  let held = 0;
  for (const scene of scenes) {
    if (!json) console.log(`\n${scene.name}\n${row('', COLUMNS)}`);
    for (const seed of seeds) {
      const { run, baselines, worse } = await compareApi(scene, seed);
      if (worse.length === 0) held++;
      if (json) for (const each of [{ ...run, worse }, ...baselines]) console.log(JSON.stringify(each));
      else print([run, ...baselines], worse, `SEED=${seed} npm run arena -- resource '${scene.name}'`);
    }
  }
  const runs = scenes.length * seeds.length;
  if (!json) console.log(`\n${held} of ${runs} runs hold`);
  return held === runs && runs > 0 ? 0 : 1;
}

function print(runs: readonly ApiPlayed[], worse: readonly string[], replay: string): void {
  for (const { subject, servedPercent, refused, failed, backMs, tokenRequests, inFault, apiCalls, made } of runs) {
    const back = Number.isFinite(backMs) ? (backMs / 1_000).toFixed(1) : 'never';
    const cells = [
      servedPercent.toFixed(2),
      refused,
      failed,
      back,
      tokenRequests,
      inFault,
      (apiCalls / made).toFixed(2),
    ];
    console.log(row(subject, cells));
  }
  for (const sentence of worse) console.log(`  worse: ${sentence}`);
  if (worse.length > 0) console.log(`  replay: ${replay}`);
}

const row = (name: string, cells: readonly (string | number)[]) =>
  name.padEnd(10) + cells.map((cell) => String(cell).padStart(10)).join('');
