/** The pages against the code: every example runs (`types.test.ts` checks its types), and every link leads somewhere. */

import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { format } from 'node:util';
import { Application, TSConfigReader, TypeDocReader } from 'typedoc';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { referenceOf } from '../docs/site/reference.mjs';
import { ENDPOINT_OPTIONS } from '../src/endpoint/options.ts';
import { ERROR_CODES, ERRORS } from '../src/errors/owner-token-error.ts';
import { OwnerTokenRegistry, TokenEndpoint } from '../src/index.ts';
import type { OptionRule } from '../src/option-check.ts';
import { METRICS } from '../src/otel/metrics.ts';
import { SHARING_EVENTS } from '../src/redis/diagnostics.ts';
import { REGISTRY_OPTIONS, type RegistrySettings, registrySettings } from '../src/registry/options.ts';
import { LOG_EVENTS } from '../src/reporting/log-events.ts';
import { logField } from '../src/reporting/logger.ts';
import { OPERATIONS } from '../src/sandbox/control/operations.ts';
import { type Sandbox, startSandbox } from '../src/sandbox/index.ts';
import { FAULT_RULE } from '../src/sandbox/state/world/fault-rules.ts';
import { DEFAULT_PROFILE } from '../src/sandbox/state/world/profile.ts';
import { docsOf as boardDocsOf } from './bench/board/docs.mjs';
import { docsOf, WORKLOADS } from './bench/speed/docs.mjs';
import { pagesWithFigures } from './bench/stored.mjs';
import { breakerTransitions } from './helpers/breaker-transitions.ts';
import { startCorporateNetwork } from './helpers/corporate-network.ts';
import {
  anchorsOf,
  brokenPromise,
  docCommentExamples,
  EXAMPLES_FOLDER,
  examplesOf,
  linksOf,
  namesIn,
  pages,
  RECIPES_FOLDER,
  REFERENCE,
  rowsOf,
} from './helpers/examples.ts';
import { FIELDS_OF_EVENTS } from './helpers/log-lines.ts';
import { recipesInJavaScript } from './helpers/recipe-files.ts';
import { noRedis, type RedisServer, startRedis } from './helpers/redis-server.ts';
import { commentsOf, membersOf, pathsBelow, ROOT } from './helpers/source-files.ts';
import { runCommand } from './helpers/terminal.ts';
import { tokenLifePicture } from './helpers/token-life-picture.ts';

const textOf = (page: string) => readFileSync(join(ROOT, page), 'utf8');
/** The names in backticks in a cell of a table. */
const namesOf = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name ?? '');
const en = (value: number) => value.toLocaleString('en');

const written = [...pages().flatMap(examplesOf), ...docCommentExamples()];
const recipes = recipesInJavaScript();
const examples = [...written, ...recipes].filter(({ runs }) => runs);

/** What an example prints from now on, with `console.log` or pino. */
function capturePrinted(): string[] {
  const printed: string[] = [];
  vi.spyOn(console, 'log').mockImplementation((...values: unknown[]) => void printed.push(format(...values)));
  vi.spyOn(console, 'warn').mockImplementation(() => {}); // recipes log failures with it
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => printed.push(String(text).trimEnd()) > 0);
  return printed;
}

describe('examples', () => {
  let sandbox: Sandbox;
  let network: Awaited<ReturnType<typeof startCorporateNetwork>>;
  let redis: RedisServer | undefined;

  beforeAll(async () => {
    rmSync(EXAMPLES_FOLDER, { recursive: true, force: true });
    mkdirSync(RECIPES_FOLDER, { recursive: true });
    const config = { extends: join(ROOT, 'tsconfig.json'), compilerOptions: { experimentalDecorators: true } };
    writeFileSync(join(RECIPES_FOLDER, 'tsconfig.json'), JSON.stringify({ ...config, include: ['*'] }));
    for (const { file, code } of written) writeFileSync(file, code);
    sandbox = await startSandbox();
    network = await startCorporateNetwork();
    if (!noRedis) redis = await startRedis();
  });
  afterAll(async () => {
    await sandbox.close();
    await network[Symbol.asyncDispose]();
    await redis?.kill();
  });

  it('are found in the docs', () => expect(examples.length).toBeGreaterThan(0));

  for (const example of examples) {
    it.skipIf(noRedis && example.needsRedis)(`run and print what they promise: ${example.place}`, async ({ task }) => {
      // Or a retry would get the module that has run already.
      if (task.result?.retryCount) vi.resetModules();
      const env = {
        OTR_BASE_URL: sandbox.url,
        OTR_CLIENT_ID: sandbox.clientId,
        OTR_CLIENT_SECRET: sandbox.clientSecret,
        OTR_ACCESS_KEY: sandbox.accessKeys[0],
        OTR_SEALING_KEY: '0123456789abcdef'.repeat(4),
        OTR_FINGERPRINT_KEY: 'fedcba9876543210'.repeat(4),
        // Without Redis, the fleet examples fall back to the endpoint, as a replica would.
        REDIS_URL: redis?.url ?? 'redis://127.0.0.1:1',
        ...(example.page === 'docs/networking.md' && network.env),
      };
      for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
      const printed = capturePrinted();
      await import(example.file);
      expect(brokenPromise(example.promised, printed), `printed:\n${printed.join('\n')}`).toBeUndefined();
    });
  }
});

describe('recipes', () => {
  it.each(recipes)('are the same in JavaScript without the types: $place', async ({ file, code }) => {
    await expect(code).toMatchFileSnapshot(file);
  });

  it.each([
    ['the token service hangs', { kind: 'silence' }],
    ['the API hangs', { kind: 'silence', target: { path: 'echo' } }],
  ] as const)('blame neither side for a call that ends at its deadline while %s', async (_, fault) => {
    const { answerOf } = await import(join(ROOT, 'docs/examples/recipes/answer.mjs'));
    await using sandbox = await startSandbox();
    const { url: baseUrl, clientId, clientSecret, accessKeys } = sandbox;
    await using registry = new OwnerTokenRegistry({ source: new TokenEndpoint({ baseUrl, clientId, clientSecret }) });
    sandbox.faults.add(fault);
    const deadline = new AbortController();
    vi.spyOn(AbortSignal, 'timeout').mockReturnValue(deadline.signal);
    const answer = answerOf(registry.ownerFetch(accessKeys[0] ?? ''), `${baseUrl}/echo`, () => {});
    await vi.waitFor(() => expect(sandbox.faults.list()[0]?.hits).toBe(1));
    deadline.abort(new DOMException('the deadline', 'TimeoutError'));
    expect(await answer).toMatchObject({ status: 504, body: '{"error":"timeout"}' });
  });

  it('log nothing for a call that a failed token request fails, which the registry has logged', async () => {
    const { answerOf } = await import(join(ROOT, 'docs/examples/recipes/answer.mjs'));
    await using sandbox = await startSandbox();
    const { url: baseUrl, clientId, clientSecret, accessKeys } = sandbox;
    const logger = { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() };
    const source = new TokenEndpoint({ baseUrl, clientId, clientSecret });
    await using registry = new OwnerTokenRegistry({ source, logger });
    const warn = vi.fn();
    const call = (accessKey: string) => answerOf(registry.ownerFetch(accessKey), `${baseUrl}/echo`, warn);
    sandbox.faults.add({ kind: 'status', status: 503, target: { path: 'token' } });
    for (let round = 0; round < 20; round++) await Promise.all(accessKeys.map(call));
    expect(warn).not.toHaveBeenCalled();
    expect(logger.warn.mock.calls.length).toBeGreaterThan(0);
    expect(logger.warn.mock.calls.length).toBeLessThan(20);

    sandbox.faults.clear();
    registry.resume();
    sandbox.faults.add({ kind: 'refuse', target: { path: 'echo' } });
    await Promise.all(accessKeys.map(call));
    expect(warn).toHaveBeenCalledTimes(accessKeys.length);
  });
});

describe('the log line of a failure', () => {
  it("on the observability page is the one that the example logs, except for times and this machine's names", async () => {
    const page = 'docs/observability.md';
    const [, shown = ''] = /```json\n([^`]*)```/.exec(textOf(page)) ?? [];
    const [example] = examplesOf(page);
    mkdirSync(EXAMPLES_FOLDER, { recursive: true });
    const file = example?.file.replace('.ts', '-log.ts') ?? '';
    writeFileSync(file, example?.code ?? '');
    const printed = capturePrinted();
    await import(file);
    const logged = JSON.parse(printed.find((line) => line.includes('pause.began')) ?? '');
    const line = JSON.parse(shown);
    const own = ['time', 'pid', 'hostname', ...['owner', 'durationMs', 'retryInMs', 'retryAt'].map(logField)];
    expect({ ...logged, ...Object.fromEntries(own.map((name) => [name, line[name]])) }).toEqual(line);
    expect(Object.keys(logged)).toEqual(Object.keys(line));
    expect(Object.keys(line).length).toBeGreaterThan(15);
  });
});

describe('pages', () => {
  it('link to files and headings that exist', () => {
    const anchors = new Map(pages().map((page) => [page, anchorsOf(page)]));
    const isThere = (target: string) => {
      const [file = '', anchor] = target.split('#');
      return existsSync(join(ROOT, file)) && (anchor === undefined || anchors.get(file)?.includes(anchor));
    };
    const links = pages().flatMap((page) => linksOf(page).map((target) => ({ page, target })));
    expect(links.length).toBeGreaterThan(100);
    expect(links.filter(({ target }) => !isThere(target))).toEqual([]);
  });

  it('link to the glossary if they use one of its terms of two words', () => {
    const [, glossary = ''] = textOf('docs/architecture.md').split('## Glossary');
    const terms = [...glossary.matchAll(/^\| (\w+ \w+) \|/gm)].map(([, term]) => term);
    expect(terms).toContain('access key');
    const used = new RegExp(`\\b(${terms.join('|')})s?\\b`, 'i');
    // A recipe links to the page that all recipes share; the reference explains each name where it stands.
    const read = pages().filter((page) => /^(README|docs\/[\w-]+)\.md$/.test(page) && page !== REFERENCE);
    const proseOf = (page: string) => textOf(page).replace(/^```.*?^```$/gms, '');
    expect(read.filter((page) => used.test(proseOf(page)) && !/# ?glossary/i.test(textOf(page)))).toEqual([]);
  });

  it('can be reached from the README', () => {
    const all = pages();
    const reached = new Set(['README.md']);
    for (const page of reached) {
      for (const target of linksOf(page)) {
        const [file = ''] = target.split('#');
        if (all.includes(file)) reached.add(file);
        // A link to a folder shows the files in it.
        for (const below of all) if (below.startsWith(`${file.replace(/\/$/, '')}/`)) reached.add(below);
      }
    }
    expect(all.filter((page) => !reached.has(page))).toEqual([]);
  });
});

describe('the reference of the API', () => {
  it('matches the doc comments, which nothing public lacks (after a change: npm run docs:api)', async () => {
    const reading = await Application.bootstrap({ options: join(ROOT, 'typedoc.json') }, [
      new TypeDocReader(),
      new TSConfigReader(),
    ]);
    const project = await reading.convert();
    if (!project) throw new Error('TypeDoc cannot read the sources');
    reading.validate(project);
    expect(referenceOf(project)).toBe(textOf(REFERENCE));
    expect(reading.logger.hasErrors() || reading.logger.hasWarnings()).toBe(false);
  }, 300_000); // TypeDoc takes ten seconds of processor time, which other tests may have

  it('describes each method of the registry with an example', () => {
    const sections = textOf(REFERENCE).split(/^####? /m);
    const methods = sections.filter((section) => section.startsWith('OwnerTokenRegistry.'));
    expect(methods.length).toBeGreaterThan(10);
    // The signature is the first block of code.
    expect(methods.filter((section) => section.split('```ts').length < 3)).toEqual([]);
  });
});

describe('the page of runtimes', () => {
  it('shows the Worker that runs with the package', () => {
    const code = textOf('.ci/projects/worker/worker.js');
    expect(textOf('docs/runtimes.md')).toContain(`\`\`\`js elsewhere\n${code}\`\`\``);
  });
});

describe('in a picture or a table of states', () => {
  it("the picture of a token's life is drawn with the instants that the code computes", async () => {
    await expect(tokenLifePicture()).toMatchFileSnapshot('../docs/pictures/token-life.svg');
  });

  it('the picture of the circuit has the phases and transitions of the code, and no other', () => {
    const [, diagram = ''] = /```mermaid\nstateDiagram-v2\n([^`]*)```/.exec(textOf('docs/resilience.md')) ?? [];
    const drawn = [...diagram.matchAll(/^ *(\w+) --> (\w+): (.*)$/gm)].map(
      ([, from, to, event]) => `${from} ${to}: ${event}`,
    );
    expect(drawn.sort()).toEqual(breakerTransitions().sort());
  });

  it('the table of phases names those of the code, and no other', () => {
    const named = namesIn('docs/architecture.md', '| phase |');
    const [, phases = ''] = /export type Phase = (.*);/.exec(textOf('src/registry/owners/slot.ts')) ?? [];
    expect(named.sort()).toEqual([...phases.matchAll(/'([\w-]+)'/g)].map(([, name]) => name).sort());
  });

  it('the pictures of the architecture name files and folders that exist', () => {
    const named = [...textOf('docs/architecture.md').matchAll(/([a-z-]+\/)?\b([a-z-]+(?:\.test)?\.ts)\b/g)].map(
      ([, , name]) => name ?? '',
    );
    const there = new Set(
      pathsBelow('src')
        .concat(pathsBelow('test'))
        .map((path) => path.split('/').at(-1)),
    );
    expect(named.length).toBeGreaterThan(20);
    expect(named.filter((name) => !there.has(name))).toEqual([]);
  });
});

describe('figures', () => {
  /** What a figure's unit makes of the code's number. A unit that is not here is only measured. */
  const CODE_UNITS: Record<string, number> = {
    ms: 1,
    s: 1_000,
    '%': 0.01,
    bytes: 1,
    KiB: 1_024,
    MiB: 1_048_576,
    MB: 1e6,
  };
  const FIGURE =
    /(?<![\w`.,#-])(?:([\d.,]*\d) to )?([\d.,]*\d)(?: ?(%|×)|[ -](ms|s|bytes?|[KM]iB|[kKMG]B|ns|µs|times)(?!\w))/g;
  /** Other tests compare these with stored results, or with a new run, and run the code. */
  const COMPARED = /<!-- [\w-]+(?: \w+)? -->.*?<!-- end -->|<!-- results: .*|^```.*?^```$/gms;

  function figuresOf(page: string): string[] {
    const text = textOf(page).replace(COMPARED, '');
    return [...text.matchAll(FIGURE)].map(([figure]) => figure);
  }

  function numbersOfCode(): Set<number> {
    const sources = ['src', 'test/arena'].flatMap((folder) => pathsBelow(folder).map((path) => `${folder}/${path}`));
    const code = [...sources, 'docs/monitoring/prometheus-alerts.yaml'].map(textOf).join('\n');
    const withoutComments = code.replace(/^\s*(\/?\*|\/\/).*$/gm, '');
    return new Set(
      [...withoutComments.matchAll(/(?<![\w.])\d[\d_]*(\.\d+)?/g)].map(([text]) => Number(text.replaceAll('_', ''))),
    );
  }

  it('with a unit come from a stored result, or are numbers of the code', () => {
    const numbers = numbersOfCode();
    const figures = pages().flatMap((page) => figuresOf(page).map((figure) => ({ page, figure })));
    expect(figures.length).toBeGreaterThan(50);
    const isOfCode = ({ figure }: { figure: string }) => {
      const [[, least, most, sign, unit = sign ?? ''] = []] = figure.matchAll(FIGURE);
      const scale = CODE_UNITS[unit];
      const values = [least, most].flatMap((text) => (text === undefined ? [] : [Number(text.replaceAll(',', ''))]));
      return scale !== undefined && values.every((value) => numbers.has(Number((value * scale).toPrecision(10))));
    };
    expect(figures.filter((each) => !isOfCode(each))).toEqual([]);
  });

  it('stand in blocks only on pages that are compared with stored results', () => {
    const board = boardDocsOf(JSON.parse(textOf('test/bench/board/results.json')));
    const filled = [
      ...Object.keys(board),
      ...Object.keys(pagesWithFigures()),
      'docs/performance.md',
      'docs/observability.md', // Of log events, and of the incidents of test/alerts.test.ts.
      'docs/sandbox.md', // Of operations.
    ];
    expect(pages().filter((page) => textOf(page).includes('<!-- end -->'))).toEqual(filled.sort());
  });

  it('are absent from decisions, because nobody measures them again', () => {
    expect(figuresOf('docs/internals/decisions.md')).toEqual([]);
  });
});

describe('in the docs', () => {
  const codesOf = (page: string) => namesIn(page, '| code |');

  it('the page of errors has every code, and no other', () => {
    expect(codesOf('docs/errors.md').sort()).toEqual([...ERROR_CODES].sort());
  });

  it('the page of errors says of each code what the source says', () => {
    const expected = Object.entries(ERRORS).map(([code, facts]) => {
      const { escalatesTo = '–', retryable } = facts;
      return [`\`${code}\``, escalatesTo === 'owner' ? 'never' : escalatesTo, retryable ? 'yes' : 'no'];
    });
    expect(rowsOf('docs/errors.md', '| code |').map((row) => row.slice(0, 3))).toEqual(expected);
  });

  /** The page with these rows in its table. */
  const filled = (page: string, name: string, head: string[], rows: string[][]) => {
    const table = [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
    const block = new RegExp(`(<!-- ${name} -->\n)[\\s\\S]*?(?=\\n<!-- end -->)`);
    expect(textOf(page), `the page has a table of ${name}`).toMatch(block);
    return textOf(page).replace(block, (_all, begin) => `${begin}\n${table}\n`);
  };

  it('the page of observability has every log event with its level, message and fields (after a change: vitest -u)', async () => {
    const rows = Object.entries({ ...LOG_EVENTS, ...SHARING_EVENTS }).map(([event, { level, message }]) => [
      ...[`\`${event}\``, level, message],
      FIELDS_OF_EVENTS.get(event)
        ?.map((field) => `\`${logField(field)}\``)
        .join(', ') ?? '',
    ]);
    expect(rows.length).toBeGreaterThan(20);
    const page = filled('docs/observability.md', 'events', ['event', 'level', 'message', 'fields'], rows);
    await expect(page).toMatchFileSnapshot('../docs/observability.md');
  });

  it('the page of observability has every metric with its attributes, and no other', () => {
    const rows = rowsOf('docs/observability.md', '| metric |').flatMap(([names = '', , attributes = '']) =>
      namesOf(names).map((name) => [
        name,
        namesOf(attributes)
          .filter((each) => !/^[a-z_]+$/.test(each))
          .sort(),
      ]),
    );
    expect(Object.fromEntries(rows)).toEqual(
      Object.fromEntries(Object.entries(METRICS).map(([name, { attributes }]) => [name, [...attributes].sort()])),
    );
  });

  it('the page of the command line shows what --help prints', async () => {
    let page = textOf('docs/command-line.md');
    for (const command of ['demo', 'sandbox', 'token']) {
      const { out } = await runCommand([command, '--help']);
      const block = new RegExp(`(## \`${command}\`\n\n\`\`\`text\n)[^\`]*(?=\`\`\`)`);
      expect(page).toMatch(block);
      page = page.replace(block, (_, heading: string) => heading + out);
    }
    await expect(page).toMatchFileSnapshot('../docs/command-line.md');
  });

  it('the page of the command line names each flag of the doctor, most of them for token', async () => {
    const { out } = await runCommand(['doctor', '--help']);
    const flags = [...out.matchAll(/--[a-z-]+/g)].map(([flag]) => flag);
    expect(flags.length).toBeGreaterThan(10);
    const page = textOf('docs/command-line.md');
    const [, shared = ''] = /\n## `token`\n([\s\S]*?)\n## /.exec(page) ?? [];
    const [, own = ''] = /\n## `doctor`\n([\s\S]*)/.exec(page) ?? [];
    expect(flags.filter((flag) => !new RegExp(`${flag}\\b`).test(shared + own))).toEqual([]);
  });

  it('every flag of a command that a page shows exists', async () => {
    const lines = pages().flatMap((page) => [...textOf(page).matchAll(/owner-token-registry (\w+)((?: [^\s`)]+)*)/g)]);
    const uses = lines.flatMap(([, command = '', rest = '']) =>
      [...rest.matchAll(/(?<= )--[a-z-]+/g)].map(([flag]) => ({ command, flag })),
    );
    expect(uses.length).toBeGreaterThan(5);
    for (const { command, flag } of uses) expect((await runCommand([command, '--help'])).out).toContain(flag);
  });

  it('the behaviour board and the README show the stored run, in which every library played every scene', () => {
    const run = JSON.parse(textOf('test/bench/board/results.json'));
    const rendered = Object.entries(boardDocsOf(run));
    expect(rendered.map(([path]) => path)).toEqual(['docs/internals/behaviour-board.md', 'README.md']);
    for (const [path, text] of rendered) expect(textOf(path)).toBe(text);
    const { keys } = run.outcomes;
    const mixture = { ...run, outcomes: { keys: { 'owner-token-registry': keys['owner-token-registry'] } } };
    expect(() => boardDocsOf(mixture)).toThrow('lacks keys: badgateway');
  });

  it('the performance page shows the stored run, in its tables and pictures', () => {
    const rendered = Object.entries(docsOf(JSON.parse(textOf('test/bench/speed/results.json'))));
    expect(rendered.length).toBeGreaterThan(4);
    for (const [path, text] of rendered) expect(textOf(`docs/${path}`)).toBe(text);
  });

  it('the performance page refuses a run that lacks a workload or a library, or shared the machine', () => {
    const alone = Object.fromEntries(WORKLOADS.map((name) => [name, { others: 0.1, tables: [] }]));
    const docsWith = (changes: object) => () => docsOf({ workloads: { ...alone, ...changes } });
    const failed = { others: 0, tables: [{ rows: [{ name: 'badgateway', failure: 'timed out' }] }] };
    expect(docsWith({ fill: undefined })).toThrow(/^the run lacks fill: run npm run bench -- speed --docs/);
    expect(docsWith({ hit: failed })).toThrow(/^the run lacks badgateway in hit:/);
    expect(docsWith({ memory: { others: 0.11, tables: [] } })).toThrow(
      /^other processes used more than 10 % of the CPU \(11 % around memory\): .* on an idle machine$/,
    );
  });

  it('every page that is rendered from stored results shows their figures', () => {
    const rendered = Object.entries(pagesWithFigures());
    expect(rendered.length).toBeGreaterThan(4);
    for (const [path, text] of rendered) {
      expect(text).toMatch(/[Mm]easured 20/);
      expect(textOf(path)).toBe(text);
    }
  });

  it.each([
    ['docs/options.md', ['OwnerTokenRegistryOptions', 'TokenEndpointOptions']],
    ['docs/fleet-setup.md', ['SharedTokensOptions']],
    ['docs/calling.md', ['OwnerFetchOptions']],
    ['docs/expiry.md', ['LearnedLifetimeOptions']],
    ['docs/observability.md', ['InstrumentOptions']],
    ['docs/live-view.md', ['LiveViewOptions']],
  ])('%s has every option, and no other', (page, interfaces) => {
    // Hardly anyone needs it, since leases grow: the reference has it.
    const named = interfaces.flatMap(membersOf).filter((name) => name !== 'leaseMs');
    expect(namesIn(page, '| option |').sort()).toEqual(named.sort());
  });

  it.each([
    ['docs/fleet-setup.md', '| option |', 1],
    ['docs/sandbox.md', '| option |', 2],
  ])('%s gives the numbers that the code falls back to', (page, heading, column) => {
    const sources = pathsBelow('src').map((path) => textOf(`src/${path}`).replace(/(?<=\d)_(?=\d)/g, ''));
    const stated = rowsOf(page, heading).flatMap((row) => {
      const [, number] = /^([\d,.]+)$/.exec(row[column] ?? '') ?? [];
      return number === undefined ? [] : namesOf(row[0] ?? '').map((name) => [name, number.replaceAll(',', '')]);
    });
    expect(stated.length).toBeGreaterThan(0);
    const isThere = ([name, number]: string[]) => {
      const fallback = new RegExp(`\\b${name}(\\?\\.\\w+)? *(=|\\?\\?|:) *${number?.replace('.', '\\.')}\\b`);
      return sources.some((source) => fallback.test(source));
    };
    expect(stated.filter((each) => !isThere(each))).toEqual([]);
  });

  it('the page of the sandbox lists the operations of its control plane (after a change: vitest -u)', async () => {
    const named = ({ entries }: { entries?: object | undefined }) =>
      Object.entries(entries ?? {}).map(([name, { type }]) => `\`${name}${type === 'exact_optional' ? '?' : ''}\``);
    const rows = OPERATIONS.map(({ method, path, summary, query, body }) => {
      const inQuery = query ? [`query: ${named(query).join(', ')}`] : [];
      const members = body && (body === FAULT_RULE ? ['a [fault rule](#faults)'] : named(body as object));
      return [`\`${method} ${path}\``, summary, [...inQuery, ...(members ?? [])].join(', ')];
    });
    const page = filled('docs/sandbox.md', 'operations', ['operation', 'what it does', 'input'], rows);
    await expect(page).toMatchFileSnapshot('../docs/sandbox.md');
  });

  it('the settings of the sandbox begin with the defaults of the code', () => {
    for (const [setting = '', values = ''] of rowsOf('docs/sandbox.md', '| setting |')) {
      const value = DEFAULT_PROFILE[setting.replaceAll('`', '') as keyof typeof DEFAULT_PROFILE];
      if (typeof value !== 'object') expect(values.replaceAll('`', '')).toMatch(new RegExp(`^${value}\\b`));
    }
  });

  it.each([
    ['OwnerTokenRegistryOptions', REGISTRY_OPTIONS],
    ['TokenEndpointOptions', ENDPOINT_OPTIONS],
  ])('the page of options and the doc comments of %s give the ranges and defaults that are checked', (type, rules) => {
    const rows = new Map(rowsOf('docs/options.md', '| option |').map(([name = '', ...cells]) => [name, cells]));
    const comments = commentsOf(type);
    const numbers = Object.entries(rules as Record<string, OptionRule>).filter(([, { range }]) => range);
    expect(numbers.length).toBeGreaterThan(1);
    for (const [name, { range = [], fallback }] of numbers) {
      const [legal, standard] = [range.map(en).join(' to '), en(fallback as number)];
      expect([name, ...(rows.get(`\`${name}\``) ?? []).slice(0, 2)]).toEqual([name, standard, legal]);
      expect(comments[name]?.replace(/\s+\*? */g, ' ')).toContain(legal);
      expect(comments[name]).toMatch(new RegExp(`default:? ${standard}[.;]`, 'i'));
    }
  });

  it('the page of options gives the defaults that the code has', () => {
    const source = { requestToken: () => Promise.reject(new Error()) };
    const { pauses, ...there } = { ...registrySettings({ source }) } as RegistrySettings & Record<string, unknown>;
    const wrong = rowsOf('docs/options.md', '| option |').filter(([option = '', text = '']) => {
      const name = option.replaceAll('`', '');
      if (name === 'pauses') {
        const ranges = Object.entries(pauses).map(
          ([scope, { baseMs, capMs }]) => `${scope} ${en(baseMs)} to ${en(capMs)}`,
        );
        return text !== ranges.join('; ');
      }
      const value = there[name];
      if (typeof value === 'number') return text !== en(value);
      if (typeof value === 'string') return text !== `\`${value}\``;
      return Array.isArray(value) && text !== `\`[${value.join(', ')}]\``;
    });
    expect(wrong).toEqual([]);
  });
});
