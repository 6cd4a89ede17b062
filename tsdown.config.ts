import { licensePlugin } from 'rolldown-license-plugin';
import { defineConfig } from 'tsdown';
import { bundlePage, type Page, portalPlugin } from './src/sandbox/portal/bundle.ts';

// What the portal's script may bundle, named like what `deps.onlyBundle` allows everything else: nothing.
const page = once(() => bundlePage(['preact']));

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
  plugins: [
    portalPlugin('files', page),
    licensePlugin({
      failOnUnlicensed: true,
      async done(bundled, context) {
        const texts = [...bundled, ...(await page()).bundled].map(({ name, version, license, licenseText }) =>
          [`${name} ${version} (${license})`, licenseText.trim()].join('\n\n'),
        );
        const heading =
          texts.length > 0 ? 'What is bundled here, and its licences.' : 'No other package is bundled here.';
        const source = [heading, ...texts].join('\n\n---\n\n');
        context.emitFile({ type: 'asset', fileName: 'THIRD-PARTY-LICENSES.txt', source: `${source}\n` });
      },
    }),
  ],
});

function once(make: () => Promise<Page>): () => Promise<Page> {
  let made: Promise<Page> | undefined;
  return () => {
    made ??= make();
    return made;
  };
}
