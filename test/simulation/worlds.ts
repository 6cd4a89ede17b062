/** Series of worlds, and the report of one that breaks. */

import { Broken, World, type WorldOptions } from './world.ts';

/** The outcome of a series of worlds. */
export interface Outcome {
  worlds: number;
  steps: number;
  /** The first world that broke an invariant. */
  broken?: { seed: number; steps: number; what: string };
}

/** Steps of a world. Most worlds are short, because each one has other options. */
export function stepsOf(seed: number): number {
  return seed % 50 === 0 ? 20_000 : 1_000 + ((Math.imul(seed, 2_654_435_761) >>> 0) % 1_500);
}

/** The seed of the n-th world of a run. */
export function seedOf(runSeed: number, n: number): number {
  return (Math.imul(runSeed, 0x9e3779b1) + n) >>> 0;
}

/** Runs one world. `what` describes the broken invariant, if any. */
export async function runWorld(options: WorldOptions): Promise<{ steps: number; what?: string }> {
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => unhandled.push(reason);
  process.on('unhandledRejection', note);
  const world = new World(options);
  try {
    const steps = await world.run();
    // Node reports unhandled rejections when the event loop turns.
    await new Promise((resolve) => setImmediate(resolve));
    if (unhandled.length > 0) return { steps, what: `unhandled rejection: ${String(unhandled[0])}` };
    return { steps };
  } catch (error) {
    const what = error instanceof Broken ? error.message : `step ${world.step}: ${(error as Error).stack}`;
    return { steps: world.step, what };
  } finally {
    process.off('unhandledRejection', note);
  }
}

/** Runs worlds while `goesOn` returns true and none breaks. */
export async function runWorlds(runSeed: number, goesOn: (soFar: Outcome) => boolean, from = 0): Promise<Outcome> {
  const outcome: Outcome = { worlds: 0, steps: 0 };
  // Capturing stacks is slow. One world in 32 has them, because secrets may hide there.
  const framesBefore = Error.stackTraceLimit;
  try {
    for (let n = from; goesOn(outcome); n++) {
      const seed = seedOf(runSeed, n);
      const steps = stepsOf(seed);
      Error.stackTraceLimit = n % 32 === 0 ? framesBefore : 0;
      const ran = await runWorld({ seed, steps });
      outcome.worlds++;
      outcome.steps += ran.steps;
      if (ran.what !== undefined) return { ...outcome, broken: { seed, steps, what: ran.what } };
    }
    return outcome;
  } finally {
    Error.stackTraceLimit = framesBefore;
  }
}

/** The command that replays a world. */
export function replayCommand({ seed, steps }: { seed: number; steps: number }): string {
  return `node test/simulation/run.mjs --world ${seed} --steps ${steps} --trace`;
}
