/** `npm run fuzz`: draws inputs for one target after another, until the time is up or something does not hold. */

import { parseArgs } from 'node:util';
import { type Broken, play, playInput } from './play.ts';
import type { Target } from './target.ts';
import { CORPUS, TARGETS } from './targets/index.ts';

const USAGE = `Usage: npm run fuzz -- [options]
  --seconds 3600    how long, all targets together; default: 10
  --target NAME     one target alone; a part of its name will do
  --seed 7          the first seed; default: a random one
  --list            the names of the targets
Prints the seed of what it finds. The corpus is played first.`;

export async function main(args: readonly string[]): Promise<number> {
  const string = { type: 'string' } as const;
  const flag = { type: 'boolean' } as const;
  const options = { seconds: string, target: string, seed: string, list: flag, help: flag };
  const { values } = parseArgs({ args: [...args], options });
  const targets = TARGETS.filter(({ name }) => name.includes(values.target ?? ''));
  const seconds = Number(values.seconds ?? 10);
  const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
  if (values.help || targets.length === 0 || !(seconds > 0) || !Number.isInteger(seed))
    return say(USAGE, values.help ? 0 : 2);
  if (values.list) return say(targets.map(({ name }) => name).join('\n'), 0);
  let broken = 0;
  for (const target of targets) {
    for (const { input, was } of CORPUS.filter((entry) => entry.target === target.name)) {
      const problem = await playInput(target, input);
      if (problem === undefined) continue;
      broken++;
      say(`${target.name}: again: ${was}\n  ${problem}`, 1);
    }
  }
  say(`fuzz: seed ${seed}, ${seconds} s`, 0);
  const endsAtMs = performance.now() + seconds * 1_000;
  let replay = '';
  // Thrown where no caller can catch it, which ends a process.
  process.on('uncaughtException', (error) => process.exit(say(`${error.stack}\n  replay: ${replay}`, 1)));
  for (const [index, target] of targets.entries()) {
    const shareMs = (endsAtMs - performance.now()) / (targets.length - index);
    const targetEndsAtMs = performance.now() + shareMs;
    const played = await play(target, seed, (inputs, next) => {
      replay = replayOf(target, next);
      return inputs === 0 || performance.now() < targetEndsAtMs;
    });
    say(`${target.name.padEnd(28)} ${played.inputs.toLocaleString('en-US').padStart(12)} inputs`, 0);
    if (!played.broken) continue;
    broken++;
    report(target, played.broken);
  }
  return broken === 0 ? 0 : 1;
}

const replayOf = ({ name }: Target<unknown>, seed: number): string =>
  `npm run fuzz -- --target '${name}' --seed ${seed} --seconds 1`;

function report(target: Target<unknown>, { input, problem, seed }: Broken): void {
  const entry = { target: target.name, was: 'in a sentence', input };
  say(`${problem}\n  replay: ${replayOf(target, seed)}\n  for corpus.json: ${JSON.stringify(entry)}`, 1);
}

function say(text: string, status: number): number {
  console.log(text);
  return status;
}
