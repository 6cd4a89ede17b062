import { describe, expect, it } from 'vitest';
import { OPERATIONS } from '../../src/sandbox/control/operations.ts';
import { SCENARIOS, startSandbox } from '../../src/sandbox/index.ts';
import { FAULT_KIND_NAMES } from '../../src/sandbox/state/fault-kinds.ts';
import { OUTCOMES } from '../../src/sandbox/state/ledger-entry.ts';
import { DEFAULT_PROFILE } from '../../src/sandbox/state/profile.ts';
import { fuzz } from '../bench/sandbox-fuzz/requests.mjs';
import { namesIn } from '../helpers/examples.ts';
import { membersOf } from '../helpers/source-files.ts';
import { askToken } from './client.ts';

const operations = Object.values(OPERATIONS).map(({ method, path }) => `${method} ${path}`);

describe('the sandbox as a whole', () => {
  it('the sandbox takes random requests at both planes without a crash, a hang or a secret in an answer', async () => {
    await using sandbox = await startSandbox({ owners: 5, seed: 1 });
    const { url, portalUrl, clientId, clientSecret, accessKeys } = sandbox;
    const secrets = [clientSecret, ...accessKeys];

    const seed = Number(process.env.FUZZ_SEED ?? Date.now() % 1_000_000);
    const fuzzed = { url, portalUrl, clientId, clientSecret, accessKeys, secrets, operations };
    const report = await fuzz({ sandbox: fuzzed, count: 400, seed });
    expect(report.problems, `FUZZ_SEED=${seed}`).toEqual([]);
    // A fault that closes the port of the token plane leaves the control plane to answer.
    expect(report.answered).toBeGreaterThan(80);
    sandbox.reset();
    expect((await askToken(sandbox)).status).toBe(200);
  });
});

describe('its pages in the docs', () => {
  const pageOf = (heading: string) => (heading === '| scenario |' ? 'docs/scenarios.md' : 'docs/sandbox.md');
  const tables: [heading: string, there: readonly string[]][] = [
    ['| option |', membersOf('SandboxOptions')],
    ['| setting |', Object.keys(DEFAULT_PROFILE)],
    ['| kind |', FAULT_KIND_NAMES],
    ['| outcome |', OUTCOMES],
    ['| scenario |', SCENARIOS.map(({ name }) => name)],
  ];

  it.each(tables)('the table in the docs that begins with %s has all there are, and no other', (heading, there) => {
    expect(namesIn(pageOf(heading), heading).sort()).toEqual([...there].sort());
  });
});
