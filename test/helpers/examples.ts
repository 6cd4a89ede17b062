import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { ROOT } from './source-files.ts';

/**
 * One code block of a page. Every `ts` and `js` block is an example that runs as it stands, from its imports to its
 * end. What follows the language says otherwise:
 *
 * - `ts no-run`: a fragment or a signature, only to be read
 * - `ts registry`: a fragment that finds a `registry` on a running `sandbox`, and an `accessKey`, as if declared above
 * - `ts decorators`: has the decorators that were there before the language's own, and is set up as a project with them
 *
 * A comment `// → text` in an example promises a line of output. The promised lines come in this order among what the
 * example logs; `…` in one stands for anything.
 */
export interface Example {
  /** `README.md:12`: the page and the line where the block's code begins. */
  readonly place: string;
  readonly code: string;
  readonly language: string;
  readonly needsRegistry: boolean;
  readonly hasOldDecorators: boolean;
  readonly promised: readonly string[];
}

/** All pages that are written for readers, from the root of the project. */
export function pages(): string[] {
  const docs = readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' });
  const below = docs.filter((path) => path.endsWith('.md')).map((path) => `docs/${path.replaceAll('\\', '/')}`);
  return ['README.md', 'CHANGELOG.md', ...below.sort()];
}

/** The examples of one page that are to be run. */
export function examplesOf(page: string): Example[] {
  return blocksOf(page)
    .filter(({ info }) => /^(ts|js)\b/.test(info) && !info.includes('no-run'))
    .map(({ info, code, line }) => ({
      place: `${page}:${line}`,
      code,
      language: info.slice(0, 2),
      needsRegistry: info.includes('registry'),
      hasOldDecorators: info.includes('decorators'),
      promised: [...code.matchAll(/\/\/ → (.*)/g)].map(([, text]) => text?.trim() ?? ''),
    }));
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
  const names: string[] = [];
  let within = false;
  for (const line of readFileSync(join(ROOT, page), 'utf8').split('\n')) {
    within = line.startsWith(heading) || (within && line.startsWith('|'));
    const [, first = ''] = within ? line.split('|') : [];
    names.push(...[...first.matchAll(/`([^`]+)`/g)].map(([, name]) => name ?? ''));
  }
  return names;
}

/** The first promised line that the output does not have where it should; undefined when all is as promised. */
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
