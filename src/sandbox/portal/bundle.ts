/**
 * Bundles the portal's page: one browser script from `src/sandbox/portal/page` and its style sheet, and a module that
 * returns both in place of `src/sandbox/portal/built.ts`. The build, which writes them to files of the package, and the
 * tests, which hold them in memory, use the same plugin, so the tests see what is shipped.
 */

import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { type Plugin, rolldown } from 'rolldown';
import { type LicenseInfo, licensePlugin } from 'rolldown-license-plugin';

const source = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const BUILT = source('built.ts');

/** The style sheets, in their order. */
const STYLES = [
  ...['page/styles/base.css', 'page/styles/controls.css', '../../picture/picture.css'],
  ...['page/styles/live.css', 'page/styles/screens.css'],
];

export interface Page {
  readonly script: string;
  readonly style: string;
  /** The packages that the script contains. */
  readonly bundled: readonly LicenseInfo[];
}

/** Bundles the page. Fails if it contains a package that is not in the list. */
export async function bundlePage(onlyBundle: readonly string[]): Promise<Page> {
  let bundled: readonly LicenseInfo[] = [];
  const build = await rolldown({
    input: source('page/main.tsx'),
    platform: 'browser',
    tsconfig: source('page/tsconfig.json'),
    treeshake: { moduleSideEffects: false },
    plugins: [
      licensePlugin({
        failOnUnlicensed: true,
        done: (found) => {
          bundled = found;
        },
      }),
    ],
  });
  const { output } = await build.generate({ format: 'esm', minify: true, codeSplitting: false });
  await build.close();
  const unnamed = bundled.filter(({ name }) => !onlyBundle.includes(name)).map(({ name }) => name);
  if (unnamed.length > 0) throw new Error(`the portal bundles ${unnamed.join(', ')}: name it, or do without`);
  const style = (await Promise.all(STYLES.map((path) => readFile(source(path), 'utf8')))).join('\n');
  return { script: output[0].code, style, bundled };
}

/** @param into write `files` beside the module that reads them, or hold the texts in `memory`. */
export function portalPlugin(into: 'files' | 'memory', page: () => Promise<Page>): Plugin {
  return {
    name: 'portal',
    async load(id) {
      if (id !== BUILT) return null;
      const { script, style } = await page();
      if (into === 'memory') return inMemory({ script, style });
      const emit = (fileName: string, text: string) =>
        `import.meta.ROLLUP_FILE_URL_${this.emitFile({ type: 'asset', fileName: `sandbox/portal/${fileName}`, source: text })}`;
      return [
        "import { readFileSync } from 'node:fs';",
        `export const script = () => readFileSync(new URL(${emit('portal.js', script)}), 'utf8');`,
        `export const style = () => readFileSync(new URL(${emit('portal.css', style)}), 'utf8');`,
      ].join('\n');
    },
  };
}

const inMemory = (texts: Record<string, string>): string =>
  Object.entries(texts)
    .map(([name, text]) => `export const ${name} = () => ${JSON.stringify(text)};`)
    .join('\n');
