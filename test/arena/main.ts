/** `npm run arena`: plays scenes and prints how the registry fares beside the baselines. */

import { parseArgs } from 'node:util';
import { compare } from './compare.ts';
import { renewPage } from './docs.ts';
import type { Played } from './play.ts';
import { randomApiWorld } from './random/api.ts';
import { randomWorld } from './random/index.ts';
import { randomLoadWorld } from './random/load.ts';
import { randomMachineWorld } from './random/machine.ts';
import { apiMain } from './resource/main.ts';
import type { Scene } from './scene.ts';
import { SCENES } from './scenes/index.ts';
import { breaker, keeping, registry, type Subject } from './subjects.ts';

const USAGE = `Usage: npm run arena -- [part of a scene's name …] [options]
  resource           first: only the scenes in which the API misbehaves; takes --seeds, --json and --list
  --seeds 1,2,3      one run of each scene for each seed; default: 1
  --random 300       worlds drawn at random instead, from the first of --seeds on
  --api              the random worlds with an API that refuses some calls for no fault of their tokens
  --machine          the random worlds with clocks that differ, a process that stands still, and repeated tokens
  --load             the random worlds with a part of the service that fails, or a service that slows down with load
  --json             a line of JSON for each run
  --list             the names of the scenes
  --docs             plays all scenes beside two more libraries, and writes the results into docs/internals/arena.md
  --subject FILE     a module whose default export plays instead of the registry
SEED=7 npm run arena replays world 7; with a scene's name, that scene with seed 7.`;

const COLUMNS = ['in time %', 'late', 'refused', 'never', 'p50 ms', 'p99 ms', 'sent', 'outage', 'limit', 'dead'];

/** The kinds of random worlds that an option names. */
const WORLDS = { api: randomApiWorld, machine: randomMachineWorld, load: randomLoadWorld };
type Kind = keyof typeof WORLDS;
const KINDS = Object.keys(WORLDS) as readonly Kind[];

/** @param seed `SEED` of the environment. */
export async function main(args: readonly string[], seed: string | undefined): Promise<number> {
  let options: Options;
  try {
    options = optionsOf(args, seed);
  } catch (error) {
    return print(`${(error as Error).message}\n\n${USAGE}`, 2);
  }
  const { help, docs, list, json, random, seeds, parts, kind } = options;
  if (help) return print(USAGE, 0);
  if (docs) {
    await renewPage(random ?? 300);
    return print('docs/internals/arena.md is renewed', 0);
  }
  if (parts[0] === 'resource') return apiMain({ ...options, parts: parts.slice(1) });
  const runs = runsOf(seeds, random, kind).filter(({ scene }) => isNamed(scene, parts));
  if (runs.length === 0) return print(`no scene has ${parts.map((part) => `"${part}"`).join(' or ')} in its name`, 2);
  if (list) return print([...new Set(runs.map(({ scene }) => scene.name))].join('\n'), 0);
  const subject = options.subject ? await subjectOf(options.subject) : registry;
  let held = 0;
  for (const { scene, seed, replay } of runs) {
    const { run, baselines, worse } = await compare(scene, seed, subject, [kind === 'api' ? keeping : breaker]);
    if (worse.length === 0) held++;
    if (json) printJson([run, ...baselines], worse);
    else printTable(scene, [run, ...baselines], worse, replay);
  }
  if (!json) print(`\n${held} of ${runs.length} runs hold`, 0);
  return held === runs.length ? 0 : 1;
}

export type Options = ReturnType<typeof optionsOf>;

function optionsOf(args: readonly string[], seed: string | undefined) {
  const flag = { type: 'boolean', default: false } as const;
  const { values, positionals: parts } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      json: flag,
      list: flag,
      docs: flag,
      api: flag,
      machine: flag,
      load: flag,
      help: flag,
      seeds: { type: 'string', default: seed ?? '1' },
      random: { type: 'string' },
      subject: { type: 'string' },
    },
  });
  const replayed = seed !== undefined && parts.length === 0 ? 1 : undefined;
  return {
    ...values,
    kind: KINDS.find((each) => values[each]),
    parts,
    seeds: values.seeds.split(',').map((text) => integer(text, '--seeds or SEED')),
    random: values.random === undefined ? replayed : integer(values.random, '--random'),
  };
}

function integer(text: string, option: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new Error(`${option}: "${text}" is not an integer from 0 to 999999999`);
}

const isNamed = ({ name }: Scene, parts: readonly string[]) =>
  parts.length === 0 || parts.some((part) => name.includes(part));

interface Run {
  readonly scene: Scene;
  readonly seed: number;
  readonly replay: string;
}

function runsOf(seeds: readonly number[], random: number | undefined, kind: Kind | undefined): Run[] {
  if (random !== undefined) {
    const worldOf = kind ? WORLDS[kind] : randomWorld;
    return Array.from({ length: random }, (_, n) => (seeds[0] ?? 1) + n).map((seed) => {
      const option = kind ? ` -- --${kind}` : '';
      return { scene: worldOf(seed), seed, replay: `SEED=${seed} npm run arena${option}` };
    });
  }
  return Object.values(SCENES)
    .flat()
    .flatMap((scene) =>
      seeds.map((seed) => ({ scene, seed, replay: `SEED=${seed} npm run arena -- '${scene.name}'` })),
    );
}

async function subjectOf(file: string): Promise<Subject> {
  const { default: subject } = await import(file.startsWith('/') ? file : `${process.cwd()}/${file}`);
  return subject;
}

function printJson(runs: readonly Played[], worse: readonly string[]): void {
  for (const [index, { waitsMs, ...run }] of runs.entries()) {
    print(JSON.stringify({ ...run, served: waitsMs.length, ...(index === 0 && { worse }) }), 0);
  }
}

function printTable(scene: Scene, runs: readonly Played[], worse: readonly string[], replay: string): void {
  const row = (name: string, cells: readonly (string | number)[]) =>
    name.padEnd(10) + cells.map((cell) => String(cell).padStart(11)).join('');
  const ideal = scene.ideal === undefined ? '' : ` (ideal: ${scene.ideal.toFixed(1)} %)`;
  print(`\n${scene.name}${ideal}\n${row('', COLUMNS)}`, 0);
  for (const { subject, inTime, late, refused, never, p50Ms, p99Ms, sent, outage, limit, dead } of runs) {
    const times = [p50Ms, p99Ms].map(Math.round);
    print(row(subject, [inTime.toFixed(2), late, refused, never, ...times, sent, outage, limit, dead]), 0);
  }
  for (const sentence of worse) print(`  worse: ${sentence}`, 0);
  if (worse.length > 0) print(`  replay: ${replay}`, 0);
}

function print(text: string, status: number): number {
  console.log(text);
  return status;
}
