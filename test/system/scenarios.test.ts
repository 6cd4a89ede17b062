import { describe, expect, it } from 'vitest';
import { SCENARIOS, type ScenarioName, startSandbox, type Verdict } from '../../src/sandbox/index.ts';
import {
  type Defect,
  handwrittenIntegration,
  type Integration,
  registryIntegration,
  resultOf,
  type Service,
  type Stage,
} from '../helpers/integrations.ts';

type Make = (service: Service) => Integration;

const NAMES = SCENARIOS.map(({ name }) => name);

/** The verdict of `sandbox.scenarios.run`, while the integration acts for `owners` owners. */
async function verdictOf(make: Make, name: ScenarioName): Promise<Verdict> {
  // Short lifetimes, so that tokens end while a scenario runs; but a cold start is not to become a mass expiry.
  const options = name === 'cold-start' ? { owners: 200 } : { owners: 10, lifetimeSeconds: 20 };
  await using sandbox = await startSandbox(options);
  const { url, clientId, clock } = sandbox;
  clock.freeze();
  const stage: Stage = {
    url,
    clientId,
    clock,
    owners: sandbox.owners.slice(0, 100),
    advance: (ms) => clock.advance(ms),
    secret: () => sandbox.clientSecret,
  };
  return await resultOf(make, stage, () => sandbox.scenarios.run(name));
}

const failuresOf = ({ findings }: Verdict) =>
  findings.filter(({ passed }) => !passed).map(({ expectation }) => expectation);

/** Each takes seconds of processor time, and this machine may be busy. */
const PATIENT = { timeout: 120_000 };

describe.each<[string, Make]>([
  ['the registry', registryIntegration],
  ['an integration written by hand with care', handwrittenIntegration],
])('%s', (_, make) => {
  it.each(NAMES)('passes the scenario %s', PATIENT, async (name) => {
    const { verdict, conditions, findings } = await verdictOf(make, name);
    expect(findings.filter(({ passed }) => !passed)).toEqual([]);
    expect(conditions.every(({ met }) => met)).toBe(true);
    expect(verdict).toBe('passed');
  });
});

/** In these nobody is refused, so only a missing cache or a mix-up can show. A cold start takes long: it is played for the first. */
const NO_REFUSALS = new Set<ScenarioName>(['cold-start', 'mass-expiry', 'wrong-owner-token']);

const WASTE = 'Does not request a token for an owner that already has a valid one';
const MIXED_UP = "Calls /echo with an owner's token for that owner only";

const GROWING = 'Waits longer after each attempt: the later waits are at least 1.5 times the earlier';
const BOUNDED = 'Sends at most 12 attempts for one owner in the 30 s';

/** What each defect fails, and why. It passes every other scenario. */
const FAILURES: Readonly<Record<Defect, Partial<Record<ScenarioName, string[]>>>> = {
  'no back-off': {
    outage: [GROWING, BOUNDED],
    'partial-outage': [GROWING, BOUNDED],
    'owner-revoked': ['Requests a token for owner-001 at most 10 times in the minute'],
    'secret-rotated': ['Sends at most 32 requests with the old secret'],
  },
  'ignores Retry-After': {
    'rate-limit-storm': ['Sends nothing for an owner before its Retry-After has passed'],
  },
  'stops for all owners': {
    'partial-outage': ['Has tokens when the fault ends, for at least half of the owners that it did not meet'],
  },
  'mixes up owners': Object.fromEntries(NAMES.map((name) => [name, [WASTE, MIXED_UP]])),
  'never stops using an old secret': {
    'secret-rotated': ['Carries on with the new secret, and with it alone for the last 30 s'],
  },
  'no cache': Object.fromEntries(NAMES.map((name) => [name, [WASTE]])),
  'no deadline': {
    'black-hole': [
      'Gives up on a request within 30 s',
      'Gets tokens again once the fault is over, for at least half of the owners that it met',
    ],
  },
};

describe.each(Object.entries(FAILURES) as [Defect, (typeof FAILURES)[Defect]][])(
  'an integration with the defect "%s"',
  (defect, all) => {
    const names = NAMES.filter((name) =>
      name === 'cold-start' ? defect === 'no cache' : name in all || !NO_REFUSALS.has(name),
    );
    it.each(names.map((name) => [name in all ? 'fails' : 'passes', name] as const))(
      '%s the scenario %s',
      PATIENT,
      async (_, name) => {
        const verdict = await verdictOf((service) => handwrittenIntegration(service, defect), name);
        expect(failuresOf(verdict)).toEqual(all[name] ?? []);
        expect(verdict.verdict).toBe(name in all ? 'failed' : 'passed');
      },
    );
  },
);
