import license from 'rollup-plugin-license';
import { defineConfig } from 'tsdown';

/**
 * One ES module for each entry point that exists, laid out as in `src/`, with what several of them share in
 * `dist/shared/`. The three `dependencies` stay imports. Whatever else is imported is bundled, and its licence goes
 * along.
 */
export default defineConfig({
  entry: ['src/index.ts', 'src/{sandbox,redis,otel}/index.ts', 'src/adapters/*.ts', 'src/cli/main.ts'],
  platform: 'node',
  target: 'node20.19',
  format: 'esm',
  fixedExtension: false,
  dts: true,
  hash: false,
  // Every package that may be bundled is named here, so that none slips in: the build fails on any other.
  deps: { onlyBundle: [] },
  outputOptions: { chunkFileNames: 'shared/[name].js' },
  // @ts-expect-error its types are those of an ES module, its code is CommonJS, and both are called `default`
  plugins: [license({ thirdParty: { output: 'dist/THIRD-PARTY-LICENSES.txt' } })],
});
