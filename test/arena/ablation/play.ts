/** Plays the registry of this bundle, which may be changed, in all scenes. */

import { judge } from '../judge.ts';
import { type Played, play } from '../play.ts';
import { randomWorld } from '../random/index.ts';
import { randomLoadWorld } from '../random/load.ts';
import { randomMachineWorld } from '../random/machine.ts';
import { judgeApi } from '../resource/judge.ts';
import { type ApiPlayed, playApi } from '../resource/play.ts';
import { API_SCENES } from '../resource/scenes/index.ts';
import { apiRegistry, keep, renew, renewOld } from '../resource/subjects.ts';
import type { Scene } from '../scene.ts';
import { SCENES } from '../scenes/index.ts';
import { plain, registry } from '../subjects.ts';

/** How the registry fared in one scene. */
export interface Outcome {
  readonly scene: string;
  readonly inTime: number;
  readonly unwanted: number;
  /** What is worse than with a baseline. */
  readonly worse: readonly string[];
}

/** The baselines' runs, which no change of the registry affects, by the name of the scene. */
export type Baselines = Map<string, Played | readonly ApiPlayed[]>;

const SEED = 1;

/** @param parts of the scenes' names; empty: all. @param worlds how many random ones of each kind. */
export async function playAll(baselines: Baselines, parts: readonly string[], worlds: number): Promise<Outcome[]> {
  const isNamed = ({ name }: { readonly name: string }) =>
    parts.length === 0 || parts.some((part) => name.includes(part));
  const outcomes: Outcome[] = [];
  for (const { scene, seed } of [...scenes(), ...randomScenes(worlds)].filter(({ scene }) => isNamed(scene))) {
    const id = `${scene.name} ${seed}`;
    const plainly = (baselines.get(id) as Played | undefined) ?? (await play(scene, plain, seed));
    baselines.set(id, plainly);
    const run = await play(scene, registry, seed);
    const unwanted = run.outage + run.limit + run.dead;
    outcomes.push({ scene: scene.name, inTime: run.inTime, unwanted, worse: judge(run, scene, plainly) });
  }
  for (const scene of Object.values(API_SCENES).flat().filter(isNamed)) {
    const played = (baselines.get(scene.name) as readonly ApiPlayed[] | undefined) ?? (await playBaselines(scene));
    baselines.set(scene.name, played);
    const run = await playApi(scene, apiRegistry, SEED);
    const worse = judgeApi(run, scene, played);
    outcomes.push({ scene: scene.name, inTime: run.servedPercent, unwanted: run.tokenRequests, worse });
  }
  return outcomes;
}

const scenes = () =>
  Object.values(SCENES)
    .flat()
    .map((scene) => ({ scene, seed: SEED }));

function randomScenes(count: number): { scene: Scene; seed: number }[] {
  const kinds = { world: randomWorld, load: randomLoadWorld, machine: randomMachineWorld };
  return Object.entries(kinds).flatMap(([kind, worldOf]) =>
    Array.from({ length: count }, (_, n) => {
      const seed = SEED + n;
      return { scene: { ...worldOf(seed), name: `random ${kind} ${seed}` }, seed };
    }),
  );
}

async function playBaselines(scene: Parameters<typeof playApi>[0]): Promise<ApiPlayed[]> {
  const played: ApiPlayed[] = [];
  for (const baseline of [keep, renew, renewOld]) played.push(await playApi(scene, baseline, SEED));
  return played;
}
