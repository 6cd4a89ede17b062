import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../helpers/source-files.ts';
import { BROKEN_CORES } from './broken-cores.mjs';

const cores = Object.entries(BROKEN_CORES).flatMap(([file, breaks]) =>
  breaks.map(([name, from, to]) => ({ name, file: `src/${file}.ts`, from, to })),
);

/** Nothing runs these changes in CI, so they would stop applying unnoticed when the sources change. */
describe('source text that is replaced', () => {
  it.each(cores)('occurs once: broken core "$name"', ({ file, from, to }) => {
    expect(readFileSync(join(ROOT, file), 'utf8').split(from)).toHaveLength(2);
    expect(to).not.toBe(from);
  });
});
