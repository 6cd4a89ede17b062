import { defineConfig } from 'vitest/config';
import { DRAWN, MUTATED } from './mutated.mjs';

const { MUTATED_FILE } = process.env;
const include = (MUTATED_FILE ? MUTATED[MUTATED_FILE] : DRAWN.tests).map((name) => `test/${name}.test.ts`);

/** As listed: the first test that fails ends the run of a mutant. */
class InOrder {
  sort(files) {
    const placeOf = ({ moduleId }) => include.findIndex((path) => moduleId.endsWith(`/${path}`));
    return files.toSorted((a, b) => placeOf(a) - placeOf(b));
  }

  shard(files) {
    return files;
  }
}

/** The tests of the file that `run.mjs` names, or of drawn mutants. A mutant that makes one of them wait for ever is noticed once that times out. */
export default defineConfig({
  test: {
    include,
    restoreMocks: true,
    unstubEnvs: true,
    setupFiles: ['test/helpers/own-fetch.ts'],
    testTimeout: MUTATED_FILE ? 20_000 : 60_000,
    pool: 'threads',
    isolate: false,
    sequence: { sequencer: InOrder },
  },
});
