/**
 * What happens to every integration sooner or later, each in one call. A scenario that lasts ends by the sandbox's clock,
 * when the next one starts, or when it is stopped; its faults go with it. What it did to owners, tokens and secrets stays.
 */

import { currentKey, firstApp, ownerOf, revokeAccessKey, rotateSecret, seedOwners } from './actions.ts';
import type { FaultRule } from './fault-rules.ts';
import { NotFound } from './problems.ts';
import type { ScenarioRun, World } from './world.ts';

export interface ScenarioView {
  name: string;
  title: string;
  /** What happens, and what a good integration does then. */
  description: string;
}

interface Scenario extends ScenarioView {
  readonly durationMs?: number;
  /** Whether it is about one owner: the one that is given, or else the first. */
  readonly ofOneOwner?: true;
  readonly start: (world: World, owner: string) => void;
}

const COLD_OWNERS = 200;

export const SCENARIOS = [
  {
    name: 'cold-start',
    title: `Cold start of ${COLD_OWNERS} owners`,
    description:
      `There are ${COLD_OWNERS} owners, and no token that was given out is known any more. ` +
      'A good integration makes one request for each owner that it acts for, a few at a time.',
    start: (world) => {
      seedOwners(world, Math.max(COLD_OWNERS, world.directory.owners.size));
      world.tokens.revokeWhere(() => true, world.clock.now());
    },
  },
  {
    name: 'mass-expiry',
    title: 'Mass expiry',
    description:
      'Time jumps on by the lifetime of a token, so that all of them end together. ' +
      'A good integration makes one request for each owner as it is needed, not one for each call.',
    start: (world) => world.clock.advance(world.profile.lifetimeSeconds * 1000),
  },
  {
    name: 'outage',
    title: 'Outage of 30 seconds',
    description:
      'For 30 seconds every connection is refused. A good integration goes on with the tokens it holds, tries again ' +
      'ever more rarely, and does not come back as a stampede.',
    durationMs: 30_000,
    start: (world) => strike(world, { kind: 'refuse', when: { schedule: [[0, 30_000]] } }),
  },
  {
    name: 'rate-limit-storm',
    title: 'Rate-limit storm',
    description:
      'For 60 seconds only 10 requests are answered in each 10 seconds; the others get 429 with Retry-After. ' +
      'A good integration waits as long as it is told to.',
    durationMs: 60_000,
    start: (world) => strike(world, { kind: 'status', status: 429, when: { over: 10, perMs: 10_000 } }),
  },
  {
    name: 'owner-revoked',
    title: 'One owner revoked',
    description:
      'One access key is revoked, and its tokens end. A good integration fails for this owner alone, quietly and ' +
      'ever more rarely.',
    ofOneOwner: true,
    start: (world, owner) => {
      const key = currentKey(world, owner, firstApp(world).id);
      if (!key) throw new NotFound('this owner has no access key');
      revokeAccessKey(world, key);
    },
  },
  {
    name: 'secret-rotated',
    title: 'Secret rotated',
    description:
      'The client secret is replaced and the old one is refused at once. A good integration stops asking for all ' +
      'owners after the first refusal, serves the tokens it holds, and goes on when it has the new secret.',
    start: (world) => {
      rotateSecret(world, firstApp(world));
    },
  },
  {
    name: 'black-hole',
    title: 'Black hole',
    description:
      'For 30 seconds token requests are read and never answered. A good integration gives up in time, and keeps ' +
      'few connections waiting.',
    durationMs: 30_000,
    start: (world) => strike(world, { kind: 'silence' }),
  },
  {
    name: 'wrong-owner-token',
    title: "Another owner's token",
    description:
      "The next five answers for one owner carry another owner's token. No integration can see that in the token " +
      'itself; the echo resource tells, if it is told which owner was meant.',
    ofOneOwner: true,
    start: (world, owner) => strike(world, { kind: 'wrong_owner_token', target: { owner }, when: { next: 5 } }),
  },
] as const satisfies readonly Scenario[];

export type ScenarioName = (typeof SCENARIOS)[number]['name'];

/** Starts a scenario, after ending the one that runs. */
export function startScenario(world: World, name: string, options: { owner?: string } = {}): ScenarioRun {
  const scenario: Scenario | undefined = SCENARIOS.find((candidate) => candidate.name === name);
  if (!scenario)
    throw new NotFound(`there is no such scenario; there are ${SCENARIOS.map((one) => one.name).join(', ')}`);
  const [firstOwner] = world.directory.owners.keys();
  const owner = scenario.ofOneOwner ? ownerOf(world, options.owner ?? firstOwner ?? '').id : '';
  stopScenario(world);
  const startedAtMs = world.clock.now();
  const { durationMs } = scenario;
  const cancel = durationMs === undefined ? () => {} : world.clock.setTimeout(() => stopScenario(world), durationMs);
  const run: ScenarioRun = {
    name: scenario.name,
    startedAtMs,
    ...(durationMs !== undefined && { endsAtMs: startedAtMs + durationMs }),
    ...(scenario.ofOneOwner && { owner }),
  };
  world.scenario = { run, cancel };
  scenario.start(world, owner);
  world.changed('scenario');
  return run;
}

/** Ends the scenario that runs, and removes its faults; false where there was none. */
export function stopScenario(world: World): boolean {
  if (!world.scenario) return false;
  world.scenario.cancel();
  world.scenario = undefined;
  world.faults.remove(FAULT_ID);
  world.changed('scenario');
  return true;
}

const FAULT_ID = 'scenario';

function strike(world: World, rule: FaultRule): void {
  world.faults.remove(FAULT_ID);
  world.faults.add({ ...rule, id: FAULT_ID });
}
