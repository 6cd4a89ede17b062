/**
 * How the portal's page is made: one script for browsers out of `src/sandbox/portal/page`, beside its style sheet, and in
 * place of `src/sandbox/portal/built.ts` a module that gives both. The same plugin serves the build, where they become
 * files of the package, and the tests, where they are held in memory: what tests look at is what is shipped.
 */

import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { type Plugin, rolldown } from 'rolldown';
import { type LicenseInfo, licensePlugin } from 'rolldown-license-plugin';

const source = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const BUILT = source('built.ts');

export interface Page {
  readonly script: string;
  readonly style: string;
  /** What of other packages is in the script. */
  readonly bundled: readonly LicenseInfo[];
}

/** Makes the page. Fails for a package that is not named. */
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
  const style = await readFile(source('page/page.css'), 'utf8');
  return { script: output[0].code, style, bundled };
}

/** @param into `files` beside the module that reads them, or `memory`. */
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
