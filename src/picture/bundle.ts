/**
 * Bundles a page, the sandbox's portal or the live view: one browser script and its style sheet, and a module that exports both
 * in place of a placeholder. The build and the tests use the same plugins, so the tests see what is shipped.
 */

import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { type Plugin, rolldown } from 'rolldown';
import { type LicenseInfo, licensePlugin } from 'rolldown-license-plugin';

const source = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url));

/** A page by its files, as paths below `src`. */
interface PageFiles {
  readonly name: string;
  readonly script: string;
  /** In their order. */
  readonly styles: readonly string[];
}

export const PORTAL: PageFiles = {
  name: 'the portal',
  script: 'sandbox/portal/page/main.tsx',
  styles: [
    ...['sandbox/portal/page/styles/base.css', 'sandbox/portal/page/styles/controls.css', 'picture/picture.css'],
    ...['sandbox/portal/page/styles/live.css', 'sandbox/portal/page/styles/screens.css'],
  ],
};

export const LIVE_VIEW: PageFiles = {
  name: 'the live view',
  script: 'live-view/page/main.tsx',
  styles: [...PORTAL.styles.slice(0, 4), 'live-view/page/live-view.css'],
};

export interface Page {
  readonly script: string;
  readonly style: string;
  /** The packages that the script contains. */
  readonly bundled: readonly LicenseInfo[];
}

/** Bundles a page. Fails if it contains a package that is not in the list. */
export async function bundlePage(files: PageFiles, onlyBundle: readonly string[]): Promise<Page> {
  let bundled: readonly LicenseInfo[] = [];
  const build = await rolldown({
    input: source(files.script),
    platform: 'browser',
    tsconfig: source('picture/tsconfig.json'),
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
  if (unnamed.length > 0) throw new Error(`${files.name} bundles ${unnamed.join(', ')}: name it, or do without`);
  const style = (await Promise.all(files.styles.map((path) => readFile(source(path), 'utf8')))).join('\n');
  return { script: output[0].code, style, bundled };
}

/** @param into write `files` beside the module that reads them, or hold the texts in `memory`. */
export function portalPlugin(into: 'files' | 'memory', page: () => Promise<Page>): Plugin {
  return replacing('sandbox/portal/built.ts', async (emit) => {
    const { script, style } = await page();
    if (into === 'memory') return constants({ script, style }, (text) => `() => ${text}`);
    const read = (fileName: string, text: string) => {
      const url = `import.meta.ROLLUP_FILE_URL_${emit(`sandbox/portal/${fileName}`, text)}`;
      return `() => readFileSync(new URL(${url}), 'utf8');`;
    };
    return [
      "import { readFileSync } from 'node:fs';",
      `export const script = ${read('portal.js', script)}`,
      `export const style = ${read('portal.css', style)}`,
    ].join('\n');
  });
}

/** Always in memory: applications that mount the live view are bundled themselves, without files beside them. */
export function liveViewPlugin(page: () => Promise<Page>): Plugin {
  return replacing('live-view/built-page.ts', async () => {
    const { script, style } = await page();
    const { version } = JSON.parse(await readFile(source('../package.json'), 'utf8')) as { version: string };
    return constants({ script, style, version }, (text) => text);
  });
}

/** Loads other code in place of a module of ours. */
function replacing(path: string, code: (emit: (fileName: string, text: string) => string) => Promise<string>): Plugin {
  const replaced = source(path);
  return {
    name: path,
    load(id) {
      if (id !== replaced) return null;
      return code((fileName, text) => this.emitFile({ type: 'asset', fileName, source: text }));
    },
  };
}

const constants = (texts: Record<string, string>, as: (literal: string) => string): string =>
  Object.entries(texts)
    .map(([name, text]) => `export const ${name} = ${as(JSON.stringify(text))};`)
    .join('\n');
