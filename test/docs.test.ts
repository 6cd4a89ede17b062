/** The pages against the code: every example runs (`types.test.ts` checks its types), and every link leads somewhere. */

import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { format } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { LOG_EVENTS } from '../src/diagnostics.ts';
import { ERROR_CODES, ERRORS } from '../src/errors.ts';
import { SHARING_EVENTS } from '../src/redis/diagnostics.ts';
import { type Sandbox, startSandbox } from '../src/sandbox/index.ts';
import {
  brokenPromise,
  DECORATORS_FOLDER,
  EXAMPLES_FOLDER,
  examplesOf,
  linksOf,
  namesIn,
  pages,
  rowsOf,
} from './helpers/examples.ts';
import { membersOf, ROOT } from './helpers/source-files.ts';

const examples = pages().flatMap(examplesOf);

describe('examples', () => {
  let sandbox: Sandbox;

  beforeAll(async () => {
    rmSync(EXAMPLES_FOLDER, { recursive: true, force: true });
    mkdirSync(DECORATORS_FOLDER, { recursive: true });
    const config = { extends: join(ROOT, 'tsconfig.json'), compilerOptions: { experimentalDecorators: true } };
    writeFileSync(join(DECORATORS_FOLDER, 'tsconfig.json'), JSON.stringify({ ...config, include: ['*'] }));
    for (const { file, code } of examples) writeFileSync(file, code);
    sandbox = await startSandbox();
  });
  afterAll(() => sandbox.close());

  it('there are some', () => expect(examples.length).toBeGreaterThan(0));

  for (const example of examples) {
    it(`${example.place} runs and prints what it promises`, async () => {
      vi.stubEnv('OTR_BASE_URL', sandbox.url);
      // There is no Redis here: the fleet examples fall back to the endpoint, as a replica would.
      vi.stubEnv('REDIS_URL', 'redis://127.0.0.1:1');
      vi.stubEnv('OTR_CLIENT_ID', sandbox.clientId);
      vi.stubEnv('OTR_CLIENT_SECRET', sandbox.clientSecret);
      vi.stubEnv('OTR_ACCESS_KEY', sandbox.accessKeys[0]);
      const printed: string[] = [];
      vi.spyOn(console, 'log').mockImplementation((...values: unknown[]) => void printed.push(format(...values)));
      await import(example.file);
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

  it('the page of errors says of each code what the code says', () => {
    const expected = Object.entries(ERRORS).map(([code, facts]) => {
      const {
        scope = 'none',
        escalatesTo,
        retryable,
        meaning,
      } = { escalatesTo: undefined, scope: undefined, ...facts };
      const scopes = escalatesTo ? `${scope}, then ${escalatesTo}` : scope;
      return [`\`${code}\``, scopes, retryable ? 'yes' : 'no', meaning];
    });
    expect(rowsOf('docs/errors.md', '| code |').map((row) => row.slice(0, 4))).toEqual(expected);
  });

  it('the page of observability has every log event with its level, message and fields', () => {
    const expected = Object.entries({ ...LOG_EVENTS, ...SHARING_EVENTS }).map(([event, { level, message, fields }]) => [
      ...[`\`${event}\``, level, message],
      fields.map((field) => `\`${field}\``).join(', '),
    ]);
    expect(rowsOf('docs/observability.md', '| event |')).toEqual(expected);
  });

  it('the README has every option, and no other', () => {
    const documented = namesIn('README.md', '| option |').sort();
    const there = [...membersOf('OwnerTokenRegistryOptions'), ...membersOf('TokenEndpointOptions')];
    expect(documented).toEqual(there.sort());
  });
});
