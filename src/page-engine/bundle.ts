/**
 * Bundles a page, the sandbox's portal or the live view: one browser script and its style sheet, and a module that exports both
 * in place of a placeholder. The build and the tests use the same plugins, so the tests see what is shipped.
 */

import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync } from 'node:zlib';
import { type Plugin, rolldown } from 'rolldown';
import { type LicenseInfo, licensePlugin } from 'rolldown-license-plugin';

const source = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url));

/** A page by its files, as paths below `src`. */
interface PageFiles {
  readonly name: string;
  readonly placeholder: string;
  readonly script: string;
  /** In their order. */
  readonly styles: readonly string[];
}

export const PORTAL: PageFiles = {
  name: 'the portal',
  placeholder: 'sandbox/portal/built-page.ts',
  script: 'sandbox/portal/page/main.tsx',
  styles: [
    ...['sandbox/portal/page/styles/base.css', 'sandbox/portal/page/styles/controls.css', 'page-engine/picture.css'],
    ...['sandbox/portal/page/styles/live.css', 'sandbox/portal/page/styles/screens.css'],
  ],
};

export const LIVE_VIEW: PageFiles = {
  name: 'the live view',
  placeholder: 'live-view/built-page.ts',
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
    tsconfig: source('page-engine/tsconfig.json'),
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
  return { script: output[0].code, style: withoutSpace(style), bundled };
}

/** A style sheet without comments, and without the space that says nothing. None of its strings has more than one space in a row. */
const withoutSpace = (css: string): string =>
  css
    .replace(/\/\*.*?\*\//gs, '')
    .replace(/\s+/g, ' ')
    .replace(/ ?([{};,]) ?/g, '$1')
    .replaceAll(';}', '}');

/**
 * Puts a page in place of its placeholder: as text, because an application that serves it may be bundled, without files beside it.
 * The text is compressed, because the package has it twice, for either kind of module.
 */
export function pagePlugin(files: PageFiles, page: () => Promise<Page>): Plugin {
  const placeholder = source(files.placeholder);
  return {
    name: files.name,
    async load(id) {
      if (id !== placeholder) return null;
      const { script, style } = await page();
      const { version } = JSON.parse(await readFile(source('../package.json'), 'utf8')) as { version: string };
      const packed = (text: string) => JSON.stringify(brotliCompressSync(text).toString('base64'));
      return [
        "import { brotliDecompressSync } from 'node:zlib';",
        "const unpacked = (text) => brotliDecompressSync(Buffer.from(text, 'base64')).toString();",
        `export const script = unpacked(${packed(script)});`,
        `export const style = unpacked(${packed(style)});`,
        `export const version = ${JSON.stringify(version)};`,
      ].join('\n');
    },
  };
}
