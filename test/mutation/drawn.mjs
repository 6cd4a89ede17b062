/**
 * A checker for Stryker that draws one mutant in so many, by seed: the others count as if they did not compile. A mutant is
 * drawn by what it is, so that a change elsewhere draws no others.
 */

import { createHash } from 'node:crypto';
import { declareFactoryPlugin, PluginKind } from '@stryker-mutator/api/plugin';
import { DRAWN } from './mutated.mjs';

function isDrawn({ fileName, mutatorName, replacement, location: { start, end } }) {
  const path = fileName.slice(fileName.lastIndexOf('/src/'));
  const identity = [DRAWN.seed, path, mutatorName, replacement, start.line, start.column, end.line, end.column];
  return createHash('sha256').update(identity.join('\n')).digest().readUInt32BE() % DRAWN.oneIn === 0;
}

const checker = {
  async init() {},
  group: async (mutants) => [mutants.map(({ id }) => id)],
  check: async (mutants) =>
    Object.fromEntries(
      mutants.map((mutant) => [
        mutant.id,
        isDrawn(mutant) ? { status: 'passed' } : { status: 'compileError', reason: 'not drawn' },
      ]),
    ),
};

export const strykerPlugins = [declareFactoryPlugin(PluginKind.Checker, 'drawn', () => checker)];
