import { describe, expect, it } from 'vitest';
import { play, playInput, SERIES } from './play.ts';
import { CORPUS, TARGETS } from './targets/index.ts';

describe.runIf(CORPUS.length > 0)('what fuzzing found', () => {
  it.each(CORPUS)('in $target does not happen again: $was', async ({ target, input }) => {
    const found = TARGETS.find(({ name }) => name === target);
    expect(found && (await playInput(found, input))).toBeUndefined();
    expect(found).toBeDefined();
  });
});

describe('a series of random inputs', () => {
  const seed = Number(process.env.FUZZ_SEED ?? 1);

  it.each(TARGETS)(`finds nothing: $name (FUZZ_SEED=${seed})`, async (target) => {
    expect(await play(target, seed, (inputs) => inputs === 0)).toEqual({ inputs: SERIES });
  });
});
