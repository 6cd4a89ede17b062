import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCommandLine } from '../../src/cli/commands.ts';
import { type SandboxOptions, SCENARIOS, type ScenarioName, startSandbox } from '../../src/sandbox/index.ts';
import {
  type Integration,
  naiveIntegration,
  registryIntegration,
  resultOf,
  type Service,
  type Stage,
} from '../helpers/integrations.ts';
import { ManualClock } from '../helpers/manual-clock.ts';

type Make = (service: Service) => Integration;

const OPTIONS: SandboxOptions = {
  owners: 20,
  // Short, so that tokens end while a scenario runs.
  lifetimeSeconds: 20,
  // Without latency a request would be answered before the next is sent.
  faults: [{ kind: 'latency', ms: 300 }],
};

const NAMES = SCENARIOS.map(({ name }) => name);

/** The verdict of `sandbox.scenarios.run`: the expectations that failed. */
async function failuresOf(make: Make, name: ScenarioName): Promise<string[]> {
  await using sandbox = await startSandbox(OPTIONS);
  const { url, clientId, clock, owners } = sandbox;
  clock.freeze();
  const stage: Stage = {
    ...{ url, clientId, clock, owners },
    advance: (ms) => clock.advance(ms),
    secret: () => sandbox.clientSecret,
  };
  const { passed, findings } = await resultOf(make, stage, () => sandbox.scenarios.run(name));
  const failures = findings.filter((finding) => !finding.passed);
  expect(passed).toBe(failures.length === 0);
  return failures.map(({ expectation }) => expectation);
}

/** Each takes seconds of processor time, and this machine may be busy. */
const PATIENT = { timeout: 120_000 };

describe('an integration with the registry', PATIENT, () => {
  it.each(NAMES)('passes %s', async (name) => {
    expect(await failuresOf(registryIntegration, name)).toEqual([]);
  });
});

describe('an integration with a map and fetch', PATIENT, () => {
  const WASTE = 'Does not request a token for an owner that already has a valid one';
  const DUPLICATES = 'Has at most one token request in flight for each owner';
  const expected: Record<ScenarioName, string[]> = {
    'cold-start': [WASTE, DUPLICATES],
    'mass-expiry': [WASTE, DUPLICATES],
    outage: [WASTE, DUPLICATES],
    'rate-limit-storm': ['Sends nothing before Retry-After has passed', DUPLICATES],
    'owner-revoked': ['Repeats the refused request at most 10 times a minute', WASTE],
    'secret-rotated': ['Sends at most 32 requests with the old secret', WASTE],
    'black-hole': ['Gives up on a request within 30 s', 'Gets a token again once the service is back', DUPLICATES],
    'wrong-owner-token': ['Drops a token that a resource flagged as of another owner'],
  };
  it.each(NAMES)('fails %s, for what it does wrong', async (name) => {
    expect(await failuresOf(naiveIntegration, name)).toEqual(expect.arrayContaining(expected[name]));
  });
});

describe('sandbox --scenario NAME --exit-code', PATIENT, () => {
  const folder = mkdtempSync(join(tmpdir(), 'scenarios-'));
  const config = join(folder, 'sandbox.json');
  beforeAll(() => writeFileSync(config, JSON.stringify(OPTIONS)));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  /** Runs the command against an integration that knows only what the command prints. */
  async function exitCodeOf(make: Make, name: string): Promise<number> {
    let ended: Promise<number> = Promise.resolve(0);
    const printed = await new Promise<string>((resolve) => {
      const out = {
        write(text: string | Uint8Array) {
          resolve(String(text));
          return true;
        },
      };
      const args = ['--json', '--port=0', '--portal-port=0', '--config', config, '--scenario', name, '--exit-code'];
      const { signal } = new AbortController();
      ended = runCommandLine(['sandbox', ...args], { env: {}, out, err: out, signal });
    });
    return await resultOf(make, await stageBehind(JSON.parse(printed)), () => ended);
  }

  it.each(['outage', 'secret-rotated'])('%s: 0 with the registry, 1 with a map and fetch', async (name) => {
    expect(await exitCodeOf(registryIntegration, name)).toBe(0);
    expect(await exitCodeOf(naiveIntegration, name)).toBe(1);
  });
});

/** A sandbox known by its addresses: its clock moves through the control plane, and ours with it. */
async function stageBehind(printed: { url: string; portalUrl: string; clientId: string }): Promise<Stage> {
  const { url, portalUrl, clientId } = printed;
  const clock = new ManualClock();
  const read = async (path: string) => (await fetch(`${portalUrl}/api/${path}`)).json();
  const changeClock = (body: object) => {
    const headers = { 'content-type': 'application/json' };
    return fetch(`${portalUrl}/api/clock`, { method: 'POST', headers, body: JSON.stringify(body) });
  };
  const credentialsOf = (id: string) =>
    read(`credentials?owner=${id}`) as Promise<{ clientSecret: string; accessKey: string }>;
  await changeClock({ frozen: true });
  const ids = ((await read('owners')) as { id: string }[]).map(({ id }) => id);
  const owners = await Promise.all(ids.map(async (id) => ({ id, accessKey: (await credentialsOf(id)).accessKey })));
  return {
    ...{ url, clientId, clock, owners },
    async advance(advanceMs) {
      clock.advance(advanceMs);
      // Once it has the verdict, the command closes the sandbox.
      await changeClock({ advanceMs }).catch(() => {});
    },
    secret: async () => (await credentialsOf(ids[0] ?? '').catch(() => undefined))?.clientSecret ?? '',
  };
}
