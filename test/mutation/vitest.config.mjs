import { defineConfig } from 'vitest/config';
import { MUTATED } from './mutated.mjs';

const include = MUTATED[process.env.MUTATED_FILE].map((name) => `test/${name}.test.ts`);

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

/** The tests of the file that `run.mjs` names. A mutant that makes one of them wait for ever is noticed once that times out. */
export default defineConfig({
  test: {
    include,
    restoreMocks: true,
    testTimeout: 5_000,
    pool: 'threads',
    isolate: false,
    sequence: { sequencer: InOrder },
  },
});
