/**
 * Runs simulated worlds in plain node, from a bundle made here of the sources as they are.
 *
 *   node test/simulation/run.mjs --seconds 60            a fresh random slice
 *   node test/simulation/run.mjs --seed 7 --million 100  10^8 steps of run 7, reproducible; --from N goes on from world N
 *   node test/simulation/run.mjs --world 123 --steps 1500 --trace   one world, step by step
 */

import { parseArgs } from 'node:util';
import { bundled } from '../helpers/bundle.mjs';

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    seconds: { type: 'string' },
    million: { type: 'string' },
    from: { type: 'string', default: '0' },
    world: { type: 'string' },
    steps: { type: 'string' },
    trace: { type: 'boolean', default: false },
    always: { type: 'string' },
  },
});

const { replayCommand, runWorld, runWorlds, stepsOf } = await bundled('test/simulation/worlds.ts');

if (values.world !== undefined) {
  const seed = Number(values.world);
  const steps = Number(values.steps ?? stepsOf(seed));
  const trace = values.trace ? (line) => console.log(line) : undefined;
  const { what } = await runWorld({ seed, steps, trace, always: values.always });
  console.log(what ?? 'no invariant was broken');
  process.exit(what ? 1 : 0);
}

const runSeed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 32));
const most = Number(values.million ?? (values.seconds ? Number.POSITIVE_INFINITY : 1)) * 1e6;
const endsAtMs = Date.now() + Number(values.seconds ?? Number.POSITIVE_INFINITY) * 1000;
const from = Number(values.from);
const startedAtMs = Date.now();
const startedCpu = process.cpuUsage();
let toldAtMs = startedAtMs;

console.log(`run ${runSeed}, from world ${from}`);
const outcome = await runWorlds(
  runSeed,
  (soFar) => {
    if (Date.now() - toldAtMs > 15_000) {
      toldAtMs = Date.now();
      console.log(tell(soFar));
    }
    return soFar.steps < most && Date.now() < endsAtMs;
  },
  from,
);
console.log(tell(outcome));
if (outcome.broken) {
  console.log(`BROKEN: ${outcome.broken.what}\nreplay: ${replayCommand(outcome.broken)}`);
  process.exit(1);
}

function tell({ worlds, steps }) {
  const { user, system } = process.cpuUsage(startedCpu);
  const perSecond = Math.round(steps / ((user + system) / 1e6));
  const seconds = Math.round((Date.now() - startedAtMs) / 1000);
  return `${steps} steps in ${worlds} worlds (next: world ${from + worlds}), ${seconds} s, ${perSecond} steps per CPU second`;
}
