import { describe, expect, it } from 'vitest';
import { SCENARIOS } from '../../src/sandbox/index.ts';
import { OUTCOMES } from '../../src/sandbox/state/ledger/ledger-entry.ts';
import { FAULT_KIND_NAMES } from '../../src/sandbox/state/world/fault-kinds.ts';
import { DEFAULT_PROFILE } from '../../src/sandbox/state/world/profile.ts';
import { namesIn } from '../helpers/examples.ts';
import { membersOf } from '../helpers/source-files.ts';

describe('the tables of the sandbox in the docs', () => {
  const pageOf = (heading: string) => (heading === '| scenario |' ? 'docs/scenarios.md' : 'docs/sandbox.md');
  const tables: [heading: string, there: readonly string[]][] = [
    ['| option |', membersOf('SandboxOptions')],
    ['| setting |', Object.keys(DEFAULT_PROFILE)],
    ['| kind |', FAULT_KIND_NAMES],
    ['| outcome |', OUTCOMES],
    ['| scenario |', SCENARIOS.map(({ name }) => name)],
  ];

  it.each(tables)('have a row for each one there is, and no other: %s', (heading, there) => {
    expect(namesIn(pageOf(heading), heading).sort()).toEqual([...there].sort());
  });
});
