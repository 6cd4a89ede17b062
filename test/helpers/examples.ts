import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { ROOT } from './source-files.ts';

/**
 * One code block of a page. Every `ts` and `js` block is an example that runs as it stands, from its imports to its
 * end. What follows the language says otherwise:
 *
 * - `ts no-run`: a fragment or a signature that is neither checked nor run
 * - `ts registry`: a fragment that uses `registry`, `sandbox` and `accessKey` as if they were declared above it
 * - `ts decorators`: uses TypeScript's experimental decorators
 *
 * A comment `// → text` promises a line of output. The example must print the promised lines in this order, perhaps with
 * others in between; `…` matches any text.
 */
export interface Example {
  /** `README.md:12`: the page and the line where the block's code begins. */
  readonly place: string;
  /** The file that `docs.test.ts` writes and imports. */
  readonly file: string;
  readonly code: string;
  readonly language: string;
  readonly promised: readonly string[];
}

/** The examples are written here and run. */
export const EXAMPLES_FOLDER = join(ROOT, 'reports/examples');

/** Examples with experimental decorators have a folder of their own, with a `tsconfig.json` that turns them on. */
export const DECORATORS_FOLDER = join(EXAMPLES_FOLDER, 'decorators');

/** Declares what a `ts registry` fragment uses. */
const REGISTRY = `
import { OwnerTokenRegistry as Registry_, TokenEndpoint as Endpoint_ } from 'owner-token-registry';
import { startSandbox as startSandbox_ } from 'owner-token-registry/sandbox';
await using sandbox = await startSandbox_();
const { url: baseUrl, clientId, clientSecret } = sandbox;
await using registry = new Registry_({ source: new Endpoint_({ baseUrl, clientId, clientSecret }) });
const accessKey = sandbox.accessKeys[0] ?? '';
`;

/** All pages for readers, as paths from the root of the project. */
export function pages(): string[] {
  const docs = readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' });
  const below = docs.filter((path) => path.endsWith('.md')).map((path) => `docs/${path.replaceAll('\\', '/')}`);
  return ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', ...below.sort()];
}

/** The examples of one page that run. */
export function examplesOf(page: string): Example[] {
  return blocksOf(page)
    .filter(({ info }) => /^(ts|js)\b/.test(info) && !info.includes('no-run'))
    .map(({ info, code, line }) => {
      const place = `${page}:${line}`;
      const language = info.slice(0, 2);
      const hasDecorators = info.includes('decorators');
      return {
        place,
        file: join(hasDecorators ? DECORATORS_FOLDER : EXAMPLES_FOLDER, `${place.replace(/[^\w.]/g, '-')}.${language}`),
        code: `${info.includes('registry') ? REGISTRY : ''}${code}\nexport {};\n`,
        language,
        promised: [...code.matchAll(/\/\/ → (.*)/g)].map(([, text]) => text?.trim() ?? ''),
      };
    });
}

function blocksOf(page: string): { info: string; code: string; line: number }[] {
  const blocks: { info: string; code: string; line: number }[] = [];
  let open: { fence: string; info: string; from: number } | undefined;
  const lines = readFileSync(join(ROOT, page), 'utf8').split('\n');
  lines.forEach((text, index) => {
    const [, fence, info] = /^\s*(`{3,})(.*)$/.exec(text) ?? [];
    if (fence === undefined) return;
    if (!open) {
      open = { fence, info: (info ?? '').trim(), from: index + 1 };
    } else if (fence.length >= open.fence.length && info?.trim() === '') {
      blocks.push({ info: open.info, code: lines.slice(open.from, index).join('\n'), line: open.from + 1 });
      open = undefined;
    }
  });
  if (open) throw new Error(`${page}:${open.from}: this code block has no end`);
  return blocks;
}

/** Links of a page to other files of the project, as paths from its root. */
export function linksOf(page: string): string[] {
  const text = readFileSync(join(ROOT, page), 'utf8').replace(/^\s*```[\s\S]*?^\s*```/gm, '');
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target]) => (target ?? '').replace(/#.*$/, ''))
    .filter((target) => target !== '' && !/^[a-z]+:/.test(target))
    .map((target) => relative(ROOT, join(ROOT, dirname(page), target)));
}

/** The names in the first column of every table of a page whose heading row begins like this. */
export function namesIn(page: string, heading: string): string[] {
  return rowsOf(page, heading).flatMap(([first = '']) =>
    [...first.matchAll(/`([^`]+)`/g)].map(([, name]) => name ?? ''),
  );
}

/** The cells of every row of the tables of a page whose heading row begins like this. */
export function rowsOf(page: string, heading: string): string[][] {
  const rows: string[][] = [];
  let within = false;
  for (const line of readFileSync(join(ROOT, page), 'utf8').split('\n')) {
    if (line.startsWith(heading)) within = true;
    else if (!line.startsWith('|')) within = false;
    else if (within && !line.startsWith('|---'))
      rows.push(
        line
          .split('|')
          .slice(1, -1)
          .map((cell) => cell.trim()),
      );
  }
  return rows;
}

/** The first promised line that the output lacks, in the promised order; undefined if all are there. */
export function brokenPromise(promised: readonly string[], printed: readonly string[]): string | undefined {
  let from = 0;
  for (const promise of promised) {
    const pattern = new RegExp(`^${promise.split('…').map(escapeRegExp).join('.*')}$`, 's');
    const at = printed.findIndex((line, index) => index >= from && pattern.test(line));
    if (at < 0) return promise;
    from = at + 1;
  }
  return undefined;
}

const escapeRegExp = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
