import type { Plugin } from 'rolldown';
import { minify } from 'rolldown/utils';
import { licensePlugin } from 'rolldown-license-plugin';
import { defineConfig, type UserConfig } from 'tsdown';
import { bundlePage, LIVE_VIEW, type Page, PORTAL, pagePlugin } from './src/picture/bundle.ts';

// What the pages' scripts may bundle, named like what `deps.onlyBundle` allows everything else: nothing.
const portal = once(() => bundlePage(PORTAL, ['preact', 'valibot']));
const liveView = once(() => bundlePage(LIVE_VIEW, ['preact']));

// What checks and describes the JSON of the sandbox: bundled, so that it costs no user of the library a dependency.
const SCHEMAS = ['valibot', '@valibot/to-json-schema'];

const ENTRY_POINTS = [
  'src/index.ts',
  'src/{sandbox,redis,otel,live-view}/index.ts',
  'src/otel/{instrumentation,prom-client}.ts',
  'src/adapters/*.ts',
];

/** What the main entry consists of, in one file: Node takes about half a millisecond to find and link each. */
const core = {
  groups: [{ name: 'core', test: /\/src\/((registry|failures|endpoint|expiry|calling)\/)?[\w-]+\.ts$/ }],
};

/** Minifies what runs on developers' machines only. The rest stays readable, because it appears in stack traces. */
const minifiedTools: Plugin = {
  name: 'minified-tools',
  async generateBundle(_options, bundle) {
    for (const file of Object.values(bundle)) {
      if (file.type !== 'chunk' || !/(?<!\.d)\.c?js$/.test(file.fileName) || !isTool(file.moduleIds)) continue;
      file.code = (await minify(file.fileName, file.code, { module: file.fileName.endsWith('.js') })).code;
    }
  },
};

function isTool(moduleIds: string[]): boolean {
  const own = moduleIds.flatMap((id) => /\/src\/(\w+)\//.exec(id)?.[1] ?? []);
  return own.length > 0 && own.every((folder) => ['sandbox', 'cli', 'picture'].includes(folder));
}

const shared = {
  platform: 'node',
  target: 'node20.19',
  fixedExtension: false,
  dts: true,
  hash: false,
} satisfies UserConfig;

/** The doc comments are in the declarations; in the code they would be a third of what Node has to read. */
const comments = { legal: true, annotation: true, jsdoc: false };

/**
 * Two builds of each entry point, laid out as in `src/`, with what several of them share in `dist/shared/`: ES modules for
 * Node and bundlers, CommonJS for what cannot `require()` an ES module (Jest, TypeScript's older resolvers). The three
 * `dependencies` stay imports, except that the CommonJS build bundles p-limit, which is an ES module only. The build
 * fails on any other package that would be bundled.
 */
export default defineConfig([
  {
    ...shared,
    entry: [...ENTRY_POINTS, 'src/cli/main.ts'],
    format: 'esm',
    deps: { onlyBundle: SCHEMAS },
    outputOptions: { chunkFileNames: 'shared/[name].js', codeSplitting: core, comments },
    plugins: [pagePlugin(PORTAL, portal), pagePlugin(LIVE_VIEW, liveView), minifiedTools],
  },
  {
    ...shared,
    entry: ENTRY_POINTS,
    copy: 'src/edge.cjs',
    format: 'cjs',
    deps: { alwaysBundle: ['p-limit', 'yocto-queue'], onlyBundle: ['p-limit', 'yocto-queue', ...SCHEMAS] },
    outputOptions: { chunkFileNames: 'shared/[name].cjs', codeSplitting: core, comments },
    plugins: [
      pagePlugin(PORTAL, portal),
      pagePlugin(LIVE_VIEW, liveView),
      minifiedTools,
      licensePlugin({
        failOnUnlicensed: true,
        async done(bundled, context) {
          const texts = [...bundled, ...(await portal()).bundled].map(({ name, version, license, licenseText }) =>
            [`${name} ${version} (${license})`, licenseText.trim()].join('\n\n'),
          );
          const source = ['What is bundled here, and its licences.', ...new Set(texts)].join('\n\n---\n\n');
          context.emitFile({ type: 'asset', fileName: 'THIRD-PARTY-LICENSES.txt', source: `${source}\n` });
        },
      }),
    ],
  },
]);

function once(make: () => Promise<Page>): () => Promise<Page> {
  let made: Promise<Page> | undefined;
  return () => {
    made ??= make();
    return made;
  };
}
