import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../../helpers/source-files.ts';
import { constantsOf, RULES } from './rules.mjs';

/** The command is not run in CI, so they would stop applying unnoticed when the sources change. */
describe('the source text of a rule', () => {
  it.each(RULES.map(({ name, patches }) => [name, patches] as const))('occurs once: %s', (_, patches) => {
    for (const { file, from, to } of patches) {
      expect(readFileSync(join(ROOT, file), 'utf8').split(from)).toHaveLength(2);
      expect(to).not.toBe(from);
    }
  });
});

it('each number of a constant is halved and doubled', () => {
  const changes = constantsOf(
    'a.ts',
    'const A = 1_000;\nconst B = { c: 2, d: A } as const;\nconst E = { f: 0.5, g: 1 / 3 };\n',
  );
  expect(changes.map(({ name, halved, doubled }) => [name, halved.to, doubled.to])).toEqual([
    ['`A`', 'const A = 500;', 'const A = 2000;'],
    ['`B.c`', 'const B = { c: 1, d: A } as const;', 'const B = { c: 4, d: A } as const;'],
    ['`E.f`', 'const E = { f: 0.25, g: 1 / 3 };', 'const E = { f: 1, g: 1 / 3 };'],
    ['`E.g`', 'const E = { f: 0.5, g: 0.5 / 3 };', 'const E = { f: 0.5, g: 2 / 3 };'],
  ]);
});
