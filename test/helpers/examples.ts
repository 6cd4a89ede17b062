import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { exportsOf, isEntryPoint, packageName, pathsBelow, ROOT, readSource } from './source-files.ts';

/**
 * One code block of a page. Every `ts` and `js` block is an example that runs as it stands, from its imports to its
 * end. What follows the language says otherwise:
 *
 * - `ts setup`: complete as it stands, and what the `continued` blocks of its page begin with
 * - `ts continued`: continues the page's setup
 * - `ts redis`: needs a running Redis
 * - `ts file:NAME`: a file of a recipe, which the other files of all recipes import; one that promises output runs
 * - `ts no-run`: checked but not run, because it would serve until it is stopped; it may import the files of recipes
 * - `js elsewhere`, `ts elsewhere`: a file of `.ci/projects` or `docs/examples` that runs with the package
 *
 * Each `@example` of a doc comment in `src` is an example too, and each block of `site/examples.md`. It uses every name that the package exports, and those of
 * {@link SURROUNDINGS}, as if they were declared. One marked `ts no-run` is checked but not run, because it needs Redis.
 *
 * A comment `// → text` promises a line of output. The example must print the promised lines in this order, perhaps with
 * others in between; `…` matches any text.
 */
export interface Example {
  readonly page: string;
  /** `README.md:12`: the page and the line where the block's code begins. */
  readonly place: string;
  /** The file that `docs.test.ts` writes and imports. */
  readonly file: string;
  readonly code: string;
  readonly language: string;
  readonly needsRedis: boolean;
  readonly promised: readonly string[];
  readonly runs: boolean;
}

const FLAGS = /^(setup|continued|redis|no-run|file:[\w-]+\.ts)$/;

/** The examples are written here and run. */
export const EXAMPLES_FOLDER = join(ROOT, 'reports/examples');

/** The files of recipes stand side by side, with a `tsconfig.json` that turns on the decorators of NestJS. */
export const RECIPES_FOLDER = join(EXAMPLES_FOLDER, 'recipes');

/** All pages for readers, as paths from the root of the project. */
export function pages(): string[] {
  const docs = readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' });
  const below = docs
    .filter((path) => path.endsWith('.md') && !path.startsWith('site'))
    .map((path) => `docs/${path.replaceAll('\\', '/')}`);
  return ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', ...below.sort()];
}

/** The page whose examples are those of the doc comments and of {@link METHODS}. */
export const REFERENCE = 'docs/api.md';

/** Examples of methods, for the reference. */
const METHODS = 'docs/site/examples.md';

/** The examples of one page that run. */
export function examplesOf(page: string): Example[] {
  if (page === REFERENCE) return [];
  const blocks = blocksOf(page);
  const setup = blocks.find(({ info }) => info === 'ts setup')?.code;
  return blocks
    .filter(({ info }) => /^(ts|js)\b/.test(info) && !info.includes('elsewhere'))
    .map(({ info, code, line }) => {
      const place = `${page}:${line}`;
      const [language = '', ...flags] = info.split(' ');
      const unknown = flags.find((flag) => !FLAGS.test(flag));
      if (unknown) throw new Error(`${place}: unknown flag ${unknown}`);
      const continued = flags.includes('continued');
      if (continued && setup === undefined) throw new Error(`${place}: the page has no \`ts setup\` to continue`);
      const name = flags.find((flag) => flag.startsWith('file:'))?.slice('file:'.length);
      const isOfRecipe = name !== undefined || flags.includes('no-run');
      const promised = promisedIn(code);
      return {
        page,
        place,
        file: join(
          isOfRecipe ? RECIPES_FOLDER : EXAMPLES_FOLDER,
          name ?? `${place.replace(/[^\w.]/g, '-')}.${language}`,
        ),
        code: `${continued ? `${setup}\n` : ''}${code}\nexport {};\n`,
        language,
        needsRedis: flags.includes('redis'),
        promised,
        runs: isOfRecipe ? promised.length > 0 : true,
      };
    });
}

/** What the examples of doc comments use without declaring it. */
const SURROUNDINGS = `
import { OwnerTokenRegistry as Registry_, TokenEndpoint as Endpoint_ } from 'owner-token-registry';
import { startSandbox as startSandbox_ } from 'owner-token-registry/sandbox';
await using sandbox = await startSandbox_();
const { url: baseUrl, clientId, clientSecret } = sandbox;
await using registry = new Registry_({ source: new Endpoint_({ baseUrl, clientId, clientSecret }) });
const accessKey = sandbox.accessKeys[0] ?? '';
`;

/** The examples of all doc comments, and those of methods. */
export function docCommentExamples(): Example[] {
  const origins = new Map(
    readSource()
      .filter(({ path }) => isEntryPoint(path))
      .flatMap((file) => exportsOf(file).map((name) => [name, packageName(file.path)] as const)),
  );
  return [...pathsBelow('src').map((path) => `src/${path}`), METHODS].flatMap((page) => {
    return blocksOf(page, (line) => line.replace(/^ *\* ?/, '')).map(({ info, code, line }) => {
      const words = new Set(code.match(/\w+/g));
      const imports = [...origins]
        .filter(([name]) => words.has(name.replace('type ', '')))
        .map(([name, from]) => `import { ${name} } from '${from}';`);
      const [own, rest] = [true, false].map((isImport) =>
        code.split('\n').filter((text) => text.startsWith('import ') === isImport),
      ) as [string[], string[]];
      const place = `${page}:${line}`;
      return {
        page,
        place,
        file: join(EXAMPLES_FOLDER, `${place.replace(/[^\w.]/g, '-')}.ts`),
        // In a block, so that it may declare the surrounding names again.
        code: [...own, ...imports, SURROUNDINGS, '{', ...rest, '}', 'export {};', ''].join('\n'),
        language: 'ts',
        needsRedis: false,
        promised: promisedIn(code),
        runs: !info.includes('no-run'),
      };
    });
  });
}

const promisedIn = (code: string): string[] => [...code.matchAll(/\/\/ → (.*)/g)].map(([, text]) => text?.trim() ?? '');

function blocksOf(page: string, strip = (line: string) => line): { info: string; code: string; line: number }[] {
  const blocks: { info: string; code: string; line: number }[] = [];
  let open: { fence: string; info: string; from: number } | undefined;
  const lines = readFileSync(join(ROOT, page), 'utf8').split('\n').map(strip);
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

/** Links and pictures of a page: files of the project, and headings in them, as paths from its root: `docs/errors.md#pauses`. */
export function linksOf(page: string): string[] {
  return [...proseOf(page).matchAll(/\]\(([^)\s]+)\)| src(?:set)?="([^"\s]+)"/g)]
    .map(([, target, picture]) => target ?? picture ?? '')
    .filter((target) => !/^[a-z]+:/.test(target))
    .map((target) => {
      const [path = '', anchor] = target.split('#');
      const file = path === '' ? page : relative(ROOT, join(ROOT, dirname(page), path));
      return anchor === undefined ? file : `${file}#${anchor}`;
    });
}

/** The anchors of a page: `<a name>`, and those of headings as GitHub and npm derive them, numbered where they repeat. */
export function anchorsOf(page: string): string[] {
  const named = [...proseOf(page).matchAll(/<a name="([\w-]+)">/g)].map(([, name]) => name ?? '');
  const headings = [...proseOf(page).matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    (heading ?? '')
      .toLowerCase()
      .replace(/[^\p{Letter}\p{Number}\p{Mark}_\- ]/gu, '')
      .replaceAll(' ', '-'),
  );
  const counts = new Map<string, number>();
  const numbered = headings.map((slug) => {
    const count = counts.get(slug) ?? 0;
    counts.set(slug, count + 1);
    return count === 0 ? slug : `${slug}-${count}`;
  });
  return [...named, ...numbered];
}

/** The text of a page without its code blocks. */
function proseOf(page: string): string {
  return readFileSync(join(ROOT, page), 'utf8').replace(/^\s*```[\s\S]*?^\s*```/gm, '');
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
