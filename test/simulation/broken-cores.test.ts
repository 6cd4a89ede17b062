import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { RULES } from '../bench/escalation/rules.mjs';
import { ROOT } from '../helpers/source-files.ts';
import { BROKEN_CORES } from './broken-cores.mjs';

const cores = Object.entries(BROKEN_CORES).flatMap(([file, breaks]) =>
  breaks.map(([name, from, to]) => ({ name, file: `src/${file}.ts`, from, to })),
);
const rules = Object.entries(RULES).flatMap(([name, changes]) => changes.map((change) => ({ name, ...change })));

/** Nothing runs these changes in CI, so they would stop applying unnoticed when the sources change. */
describe('source text that is replaced', () => {
  it.each(cores)('occurs once: broken core "$name"', ({ file, from, to }) => {
    expect(readFileSync(join(ROOT, file), 'utf8').split(from)).toHaveLength(2);
    expect(to).not.toBe(from);
  });

  it.each(rules)('occurs once: escalation with "$name"', ({ file, from }) => {
    expect(readFileSync(join(ROOT, file), 'utf8').split(from)).toHaveLength(2);
  });
});
