/** What the pages say, held against the code: every example is type-checked and run, and every link leads somewhere. */

import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { format } from 'node:util';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { ERROR_CODES } from '../src/errors.ts';
import { type Sandbox, startSandbox } from '../src/sandbox/index.ts';
import { brokenPromise, type Example, examplesOf, linksOf, namesIn, pages } from './helpers/examples.ts';
import { membersOf, pathsBelow, ROOT } from './helpers/source-files.ts';

const WORKPLACE = join(ROOT, 'reports/examples');

/** What stands before a fragment that asks for a registry. */
const REGISTRY = `
import { OwnerTokenRegistry as Registry_, TokenEndpoint as Endpoint_ } from 'owner-token-registry';
import { startSandbox as startSandbox_ } from 'owner-token-registry/sandbox';
await using sandbox = await startSandbox_();
const { url: baseUrl, clientId, clientSecret } = sandbox;
await using registry = new Registry_({ source: new Endpoint_({ baseUrl, clientId, clientSecret }) });
const accessKey = sandbox.accessKeys[0] ?? '';
`;

/** What a project with old decorators sets otherwise: told to the type check, and to the run by a tsconfig.json. */
const OLD_DECORATORS = { experimentalDecorators: true, erasableSyntaxOnly: false };
const OLD_DECORATORS_PLACE = join(WORKPLACE, 'decorators');

const examples = pages().flatMap(examplesOf);
const fileOf = ({ place, language, hasOldDecorators }: Example) =>
  join(hasOldDecorators ? OLD_DECORATORS_PLACE : WORKPLACE, `${place.replace(/[^\w.]/g, '-')}.${language}`);

describe('examples', () => {
  let sandbox: Sandbox;

  beforeAll(async () => {
    rmSync(WORKPLACE, { recursive: true, force: true });
    mkdirSync(OLD_DECORATORS_PLACE, { recursive: true });
    const config = { extends: join(ROOT, 'tsconfig.json'), compilerOptions: OLD_DECORATORS, include: ['*'] };
    writeFileSync(join(OLD_DECORATORS_PLACE, 'tsconfig.json'), JSON.stringify(config));
    for (const example of examples) {
      writeFileSync(fileOf(example), `${example.needsRegistry ? REGISTRY : ''}${example.code}\nexport {};\n`);
    }
    sandbox = await startSandbox();
  });
  afterAll(() => sandbox.close());

  it('there are some', () => expect(examples.length).toBeGreaterThan(0));

  const typed = (old: boolean) =>
    examples.filter(({ language, hasOldDecorators }) => language === 'ts' && hasOldDecorators === old).map(fileOf);

  it('pass the type check', { timeout: 60_000 }, () => {
    expect(typeErrorsIn(typed(false))).toEqual([]);
  });

  it('with old decorators pass it too', { timeout: 60_000 }, () => {
    expect(typeErrorsIn(typed(true), OLD_DECORATORS)).toEqual([]);
  });

  for (const example of examples) {
    it(`${example.place} runs and prints what it promises`, async () => {
      vi.stubEnv('OTR_BASE_URL', sandbox.url);
      // A fleet's example does without its Redis, as a replica would.
      vi.stubEnv('REDIS_URL', 'redis://127.0.0.1:1');
      vi.stubEnv('OTR_CLIENT_ID', sandbox.clientId);
      vi.stubEnv('OTR_CLIENT_SECRET', sandbox.clientSecret);
      vi.stubEnv('OTR_ACCESS_KEY', sandbox.accessKeys[0]);
      const printed: string[] = [];
      vi.spyOn(console, 'log').mockImplementation((...values: unknown[]) => void printed.push(format(...values)));
      await import(fileOf(example));
      expect(brokenPromise(example.promised, printed), `printed:\n${printed.join('\n')}`).toBeUndefined();
    });
  }
});

describe('pages', () => {
  it('link to files that are there', () => {
    const dead = pages().flatMap((page) =>
      linksOf(page)
        .filter((target) => !existsSync(join(ROOT, target)))
        .map((target) => `${page}: ${target}`),
    );
    expect(dead).toEqual([]);
  });
});

describe('tables', () => {
  const codesOf = (page: string) => namesIn(page, '| code |');

  it('the README and the page of errors have every code, and no other', () => {
    expect(codesOf('README.md').sort()).toEqual([...ERROR_CODES].sort());
    expect(codesOf('docs/errors.md').sort()).toEqual([...ERROR_CODES].sort());
  });

  it('the README has every option, and no other', () => {
    const documented = namesIn('README.md', '| option |').sort();
    const there = [...membersOf('OwnerTokenRegistryOptions'), ...membersOf('TokenEndpointOptions')];
    expect(documented).toEqual(there.sort());
  });
});

/** Checks examples as a user's project would, with the package's names leading to the sources. */
function typeErrorsIn(files: string[], otherwise: ts.CompilerOptions = {}): string[] {
  const config = ts.readConfigFile(join(ROOT, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config.config, ts.sys, ROOT);
  const entryPoints = pathsBelow('src').filter((path) => /^(index|\w+\/index|adapters\/[\w-]+)\.ts$/.test(path));
  const paths = Object.fromEntries(
    entryPoints.map((path) => {
      const name = path.replace(/\/?index\.ts$|\.ts$/, '');
      return [`owner-token-registry${name && `/${name}`}`, [join(ROOT, 'src', path)]];
    }),
  );
  const program = ts.createProgram(files, { ...options, ...otherwise, paths, noEmit: true, noUnusedLocals: false });
  return files.flatMap((file) => {
    const found = program.getSemanticDiagnostics(program.getSourceFile(file));
    return found.map(({ messageText }) => `${file}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`);
  });
}
