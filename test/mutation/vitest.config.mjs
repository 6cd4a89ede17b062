import { defineConfig } from 'vitest/config';
import { MUTATED } from './mutated.mjs';

/** Each file against its own unit tests alone: what the simulation or the guarantees would notice does not count here. */
export default defineConfig({
  test: { include: MUTATED.map((name) => `test/${name}.test.ts`), restoreMocks: true, testTimeout: 1_000 },
});
