import fc from 'fast-check';
import type { Target } from './target.ts';

/** An input for which something does not hold. */
export interface Broken {
  readonly input: unknown;
  readonly problem: string;
  /** Of the series that ended with it. */
  readonly seed: number;
}

export interface Played {
  readonly inputs: number;
  readonly broken?: Broken;
}

/** Inputs drawn from one seed. Small, because a series is played to its end, and again from its seed. */
export const SERIES = 10;

/** Far more than any input needs on a slow machine, and far less than a regular expression that backtracks takes. */
const MOST_CPU_MS = 2_000;

/** Plays one series after another while it may go on, with the next seed each time, or until something does not hold. */
export async function play(
  target: Target<unknown>,
  seed: number,
  mayGoOn: (inputs: number, seed: number) => boolean,
): Promise<Played> {
  const opened = await target.open();
  let inputs = 0;
  try {
    for (let next = seed; mayGoOn(inputs, next); next++) {
      const property = fc.asyncProperty(target.inputs, (input) => within(() => opened.check(input)));
      const { numRuns, counterexample, errorInstance } = await fc.check(property, { seed: next, numRuns: SERIES });
      inputs += numRuns;
      if (counterexample)
        return { inputs, broken: { input: counterexample[0], problem: told(errorInstance), seed: next } };
    }
    return { inputs };
  } finally {
    await opened.close?.();
  }
}

/** Checks one input, such as one of the corpus. Returns what does not hold. */
export async function playInput(target: Target<unknown>, input: unknown): Promise<string | undefined> {
  const opened = await target.open();
  try {
    await within(() => opened.check(input));
    return undefined;
  } catch (error) {
    return told(error);
  } finally {
    await opened.close?.();
  }
}

/** CPU time, because how long an input takes otherwise depends on what else the machine does. */
async function within(check: () => void | Promise<void>): Promise<void> {
  const before = process.cpuUsage();
  await check();
  const { user, system } = process.cpuUsage(before);
  const ms = Math.round((user + system) / 1_000);
  if (ms > MOST_CPU_MS) throw new Error(`the input took ${ms} ms of CPU time`);
}

const told = (error: unknown): string => (error instanceof Error ? (error.stack ?? error.message) : String(error));
