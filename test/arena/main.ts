/** `npm run arena`: plays scenes and prints how the registry fares beside the baselines. */

import { parseArgs } from 'node:util';
import { judge } from './judge.ts';
import { type Played, play } from './play.ts';
import { randomWorld } from './random-worlds.ts';
import type { Scene } from './scene.ts';
import { SCENES } from './scenes/index.ts';
import { breaker, plain, registry, type Subject } from './subjects.ts';

const USAGE = `Usage: npm run arena -- [part of a scene's name …] [options]
  --seeds 1,2,3      one run of each scene for each seed; default: 1
  --random 300       worlds drawn at random instead, from the first of --seeds on
  --json             a line of JSON for each run
  --list             the names of the scenes
  --subject FILE     a module whose default export plays instead of the registry
SEED=7 npm run arena replays world 7; with a scene's name, that scene with seed 7.`;

const COLUMNS = ['in time %', 'late', 'refused', 'never', 'p50 ms', 'p99 ms', 'sent', 'outage', 'limit', 'dead'];

export async function main(args: readonly string[], seed: string | undefined): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      seeds: { type: 'string', default: seed ?? '1' },
      random: { type: 'string', ...(seed !== undefined && args.length === 0 && { default: '1' }) },
      json: { type: 'boolean', default: false },
      list: { type: 'boolean', default: false },
      subject: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return print(USAGE, 0);
  const seeds = values.seeds.split(',').map(Number);
  const matches = runsOf(seeds, values.random === undefined ? undefined : Number(values.random)).filter(
    ({ scene }) => positionals.length === 0 || positionals.some((part) => scene.name.includes(part)),
  );
  if (matches.length === 0) return print(`no scene has one of these in its name: ${positionals.join(', ')}`, 2);
  if (values.list) return print([...new Set(matches.map(({ scene }) => scene.name))].join('\n'), 0);
  const subject = values.subject ? await subjectOf(values.subject) : registry;
  let failed = 0;
  for (const { scene, seed, replay } of matches) {
    const { worse, runs } = await compare(scene, seed, subject);
    if (worse.length > 0) failed++;
    if (values.json) printJson(runs, worse);
    else printTable(scene, runs, worse, replay);
  }
  if (!values.json) print(`\n${matches.length - failed} of ${matches.length} runs hold`, 0);
  return failed === 0 ? 0 : 1;
}

interface Run {
  readonly scene: Scene;
  readonly seed: number;
  readonly replay: string;
}

function runsOf(seeds: readonly number[], random: number | undefined): Run[] {
  if (random !== undefined) {
    return Array.from({ length: random }, (_, n) => (seeds[0] ?? 1) + n).map((seed) => {
      return { scene: randomWorld(seed), seed, replay: `SEED=${seed} npm run arena` };
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

/** Plays a scene with a subject and with the baselines. */
async function compare(scene: Scene, seed: number, subject: Subject) {
  const run = await play(scene, subject, seed);
  const [unprotected, broken] = [await play(scene, plain, seed), await play(scene, breaker, seed)];
  return { runs: [run, unprotected, broken], worse: judge(run, scene, unprotected, [broken]) };
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
