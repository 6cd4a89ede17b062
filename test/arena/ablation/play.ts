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
  readonly inTime: number;
  readonly unwanted: number;
  /** What is worse than with a baseline. */
  readonly worse: readonly string[];
}

/** The baselines' runs, which no change of the registry affects, by the name of the scene. */
export type Baselines = Map<string, Played | readonly ApiPlayed[]>;

type ApiScene = Parameters<typeof playApi>[0];

const SEED = 1;

/** A scene that is to be played. */
export interface Playable {
  readonly name: string;
  outcome(): Promise<Outcome>;
}

/** @param parts of the scenes' names; empty: all. @param worlds how many random ones of each kind. */
export function playables(baselines: Baselines, parts: readonly string[], worlds: number): Playable[] {
  const services = [...scenes(), ...randomScenes(worlds)].map(({ scene, seed }) => ({
    name: scene.name,
    outcome: () => serviceOutcome(baselines, scene, seed),
  }));
  const apis = Object.values(API_SCENES)
    .flat()
    .map((scene) => ({ name: scene.name, outcome: () => apiOutcome(baselines, scene) }));
  return [...services, ...apis].filter(({ name }) => parts.length === 0 || parts.some((part) => name.includes(part)));
}

async function serviceOutcome(baselines: Baselines, scene: Scene, seed: number): Promise<Outcome> {
  const id = `${scene.name} ${seed}`;
  const plainly = (baselines.get(id) as Played | undefined) ?? (await play(scene, plain, seed));
  baselines.set(id, plainly);
  const run = await play(scene, registry, seed);
  const unwanted = run.outage + run.limit + run.dead;
  return { inTime: run.inTime, unwanted, worse: judge(run, scene, plainly) };
}

async function apiOutcome(baselines: Baselines, scene: ApiScene): Promise<Outcome> {
  const played = (baselines.get(scene.name) as readonly ApiPlayed[] | undefined) ?? (await playBaselines(scene));
  baselines.set(scene.name, played);
  const run = await playApi(scene, apiRegistry, SEED);
  return { inTime: run.servedPercent, unwanted: run.tokenRequests, worse: judgeApi(run, scene, played) };
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

async function playBaselines(scene: ApiScene): Promise<ApiPlayed[]> {
  const played: ApiPlayed[] = [];
  for (const baseline of [keep, renew, renewOld]) played.push(await playApi(scene, baseline, SEED));
  return played;
}
