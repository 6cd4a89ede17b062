import { defineConfig } from 'vitest/config';
import { TESTS } from './mutated.mjs';

/** Each file against its own unit tests alone: what the simulation or the guarantees would notice does not count here. */
export default defineConfig({
  test: { include: TESTS.map((name) => `test/${name}.test.ts`), restoreMocks: true },
});
