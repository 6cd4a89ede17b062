/** Every row of the guarantees is named by a test and belongs to a guarantee in the docs. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { pathsBelow, ROOT } from '../helpers/source-files.ts';

const ROWS_PER_PART = {
  A: 6,
  B: 4,
  C: 5,
  D: 6,
  E: 5,
  F: 7,
  G: 3,
  H: 4,
  I: 5,
  J: 5,
  K: 3,
  L: 6,
  M: 8,
  N: 5,
  O: 9,
  P: 6,
};
const rows = Object.entries(ROWS_PER_PART).flatMap(([part, count]) =>
  Array.from({ length: count }, (_, index) => `${part}${index + 1}`),
);

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const tests = pathsBelow('test').filter((path) => /^(guarantees|system|arena)\/.*\.test\.ts$/.test(path));
const titles = tests.flatMap((path) => read(`test/${path}`).match(/(?<=['"`])[A-P]\d(?=\b)/g) ?? []);
const table = read('docs/guarantees.md')
  .split('\n')
  .filter((line) => line.startsWith('| ') && !line.startsWith('| guarantee'))
  .map((line) => line.split('|').map((cell) => cell.trim()));

describe('each row', () => {
  it.each(rows)('is named by a test: %s', (row) => {
    expect(titles).toContain(row);
  });

  it('belongs to a guarantee, and every guarantee has existing rows', () => {
    const promised = table.flatMap(([, , named]) => named?.split(', ') ?? []);
    expect([...new Set(promised)].sort()).toEqual([...rows].sort());
  });
});
