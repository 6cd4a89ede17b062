import { defineConfig, mergeConfig } from 'vitest/config';
import base from '../../../vitest.config.ts';
import { patching } from '../../helpers/bundle.mjs';

const { projects, ...test } = base.test;
const { exclude, ...unit } = projects[0].test;

/** The guarantees, against sources that are changed as `guarantees.mjs` says. */
export default mergeConfig(
  { ...base, test },
  defineConfig({
    plugins: [{ ...patching(JSON.parse(process.env.PATCHES)), enforce: 'pre' }],
    test: { ...unit, exclude, include: ['test/guarantees/*.test.ts'], maxWorkers: 1, testTimeout: 60_000 },
  }),
);
