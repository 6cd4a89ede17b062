import { basename } from 'node:path';
import type { Plugin } from 'rolldown';
import { minify } from 'rolldown/utils';
import { licensePlugin } from 'rolldown-license-plugin';
import { defineConfig, type UserConfig } from 'tsdown';
import { bundlePage, LIVE_VIEW, type Page, PORTAL, pagePlugin } from './src/page-engine/bundle.ts';

// What the pages' scripts may bundle, named like what `deps.onlyBundle` allows everything else: nothing.
const portal = once(() => bundlePage(PORTAL, ['preact', 'valibot']));
const liveView = once(() => bundlePage(LIVE_VIEW, ['preact']));

// What checks the JSON of the sandbox: bundled, so that it costs no user of the library a dependency.
const SCHEMAS = ['valibot'];

/** Entry points that are built as ES modules and as CommonJS. */
const BUILT_TWICE = [
  'src/index.ts',
  'src/{redis,otel,live-view}/index.ts',
  'src/otel/{instrumentation,prom-client}.ts',
  'src/adapters/*.ts',
];

/** What the main entry consists of, in one file: Node takes about half a millisecond to find and link each. */
const core = {
  groups: [
    {
      name: 'core',
      test: /\/src\/((registry(\/\w+)?|failures|endpoint|expiry|calling|errors|reporting)\/)?[\w-]+\.ts$/,
    },
  ],
};

/**
 * Replaces the core's imports of built-in modules with lookups: importing one takes Node 0.3 ms, because it wraps it in an
 * ES module, and a lookup takes a tenth of that. The list has no module that older Cloudflare Workers lack, because
 * bundlers polyfill imports and not lookups. `node:http` is not in it for another reason too: instrumentation hooks imports.
 */
const builtinLookups: Plugin = {
  name: 'builtin-lookups',
  renderChunk(code, { name }) {
    if (name !== 'core') return null;
    const imports =
      /^import (\w+|\{ [^}]+ \}) from ("node:(?:async_hooks|buffer|diagnostics_channel|timers|url|util)");$/gm;
    return code.replace(imports, (_, names: string, builtin) => {
      return `const ${names.replaceAll(' as ', ': ')} = process.getBuiltinModule(${builtin});`;
    });
  },
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
  return own.length > 0 && own.every((folder) => ['sandbox', 'cli', 'page-engine'].includes(folder));
}

/**
 * Re-exports from CommonJS what is stored once: the declarations, so that objects of one build fit the other's types, and the
 * sandbox, which nobody needs tree-shaken.
 */
const fromCommonJs: Plugin = {
  name: 'from-common-js',
  resolveId: (id) => (id.endsWith('/sandbox/index.ts') ? { id: 'owner-token-registry/sandbox', external: true } : null),
  generateBundle(_options, bundle) {
    const modules = Object.values(bundle).filter(
      (file) => file.type === 'chunk' && file.isEntry && file.exports.length > 0,
    );
    const declarations = modules.map(({ fileName }) => fileName.replace(/js$/, 'd.ts'));
    for (const fileName of [...declarations, 'sandbox/index.d.ts', 'sandbox/index.js']) {
      const [name] = basename(fileName).split('.');
      this.emitFile({ type: 'asset', fileName, source: `export * from './${name}.cjs';\n` });
    }
  },
};

const shared = {
  platform: 'node',
  target: 'node20.19',
  fixedExtension: false,
  hash: false,
} satisfies UserConfig;

/** The doc comments are in the declarations; in the code they would be a third of what Node has to read. */
const comments = { legal: true, annotation: true, jsdoc: false };

/**
 * Two builds, laid out as in `src/`, with what several entry points share in `dist/shared/`: ES modules for Node and
 * bundlers, CommonJS for what cannot `require()` an ES module (Jest, TypeScript's older resolvers). The three
 * `dependencies` stay imports, except that the CommonJS build bundles p-limit, which is an ES module only. The build
 * fails on any other package that would be bundled.
 */
export default defineConfig([
  {
    ...shared,
    entry: [...BUILT_TWICE, 'src/cli/main.ts'],
    format: 'esm',
    deps: { onlyBundle: [] },
    outputOptions: { chunkFileNames: 'shared/[name].js', codeSplitting: core, comments },
    dts: false,
    plugins: [pagePlugin(LIVE_VIEW, liveView), builtinLookups, minifiedTools, fromCommonJs],
  },
  {
    ...shared,
    entry: [...BUILT_TWICE, 'src/sandbox/index.ts'],
    copy: 'src/edge.cjs',
    format: 'cjs',
    dts: true,
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
