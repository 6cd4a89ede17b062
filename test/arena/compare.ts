import { judge } from './judge.ts';
import { type Played, play } from './play.ts';
import type { Scene } from './scene.ts';
import { plain, type Subject } from './subjects.ts';

/** How a subject fared in a scene, and others with the same seed: plain first. */
export interface Comparison {
  readonly run: Played;
  readonly baselines: readonly Played[];
  /** What is worse than with a baseline, as sentences. */
  readonly worse: readonly string[];
}

/** Plays a scene with a subject, with plain and with other baselines. */
export async function compare(scene: Scene, seed: number, subject: Subject, others: readonly Subject[] = []) {
  const run = await play(scene, subject, seed);
  const unprotected = await play(scene, plain, seed);
  const rest: Played[] = [];
  for (const other of others) rest.push(await play(scene, other, seed));
  return { run, baselines: [unprotected, ...rest], worse: judge(run, scene, unprotected, rest) } satisfies Comparison;
}
