import { judgeApi } from './judge.ts';
import { type ApiPlayed, playApi } from './play.ts';
import type { ApiScene } from './scene.ts';
import { type ApiSubject, apiRegistry, keep, renew, renewOld } from './subjects.ts';

/** How a subject fared in a scene, beside the three baselines with the same seed. */
export interface ApiComparison {
  readonly run: ApiPlayed;
  readonly baselines: readonly ApiPlayed[];
  /** What is worse than with the baselines, as sentences. */
  readonly worse: readonly string[];
}

export async function compareApi(
  scene: ApiScene,
  seed: number,
  subject: ApiSubject = apiRegistry,
): Promise<ApiComparison> {
  const run = await playApi(scene, subject, seed);
  const baselines: ApiPlayed[] = [];
  for (const baseline of [keep, renew, renewOld]) baselines.push(await playApi(scene, baseline, seed));
  return { run, baselines, worse: judgeApi(run, scene, baselines) };
}
