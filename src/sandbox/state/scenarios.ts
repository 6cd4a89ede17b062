/**
 * The situations that every integration meets sooner or later, one call each. A scenario may cause a fault for a while; then
 * it observes, and ends with a verdict. It ends early if another one starts, if it is stopped, or if its fault is removed.
 * Its changes to owners, tokens and secrets remain.
 */

import { currentKey, firstApp, ownerOf, revokeAccessKey, rotateSecret, seedOwners } from './actions.ts';
import type { FaultRule } from './fault-rules.ts';
import { NotFound } from './problems.ts';
import { RunRecord } from './run-record.ts';
import * as expect from './verdict.ts';
import type { RunningScenario, ScenarioRun, ScenarioVerdict, World } from './world.ts';

/**
 * The names of all scenarios.
 *
 * @example
 * ```ts
 * const name: ScenarioName = 'owner-revoked';
 * sandbox.runScenario(name);
 * ```
 */
export type ScenarioName =
  | 'cold-start'
  | 'mass-expiry'
  | 'outage'
  | 'rate-limit-storm'
  | 'owner-revoked'
  | 'secret-rotated'
  | 'black-hole'
  | 'wrong-owner-token';

/**
 * A scenario in words.
 *
 * @example
 * ```ts
 * const titleOf = ({ name, title }: ScenarioView) => `${title} (--scenario ${name})`;
 * console.log(SCENARIOS.map(titleOf)[2]); // → Outage of 30 seconds (--scenario outage)
 * ```
 */
export interface ScenarioView {
  /** Its name in the API and on the command line. */
  readonly name: ScenarioName;
  /** A short title. */
  readonly title: string;
  /** What happens, and what a good integration does then. */
  readonly description: string;
  /** What starting it changes in the sandbox for good or for a while: shown beside the button. */
  readonly consequence: string;
}

interface Scenario extends ScenarioView {
  /** How long its fault lasts. */
  readonly faultMs?: number;
  /** How long the integration is observed after that. */
  readonly observeMs: number;
  /** Whether it concerns one owner: the given one, else the first. */
  readonly ofOneOwner?: true;
  readonly start: (world: World, owner: string) => FaultRule | undefined;
  readonly expectations: readonly expect.Expectation[];
}

const COLD_OWNERS = 200;

/** Longer than a sensible integration pauses between two attempts: 30 s, and what its last request took. */
const OBSERVED_RECOVERY_MS = 60_000;

/** A limit on requests in flight that leaves room for any sensible one. */
const FEW = 32;

const ALL: readonly Scenario[] = [
  {
    name: 'cold-start',
    title: `Cold start of ${COLD_OWNERS} owners`,
    description:
      `There are ${COLD_OWNERS} owners, and every token is revoked. ` +
      'A good integration sends one request for each owner that it acts for, a few at a time.',
    consequence: `Creates up to ${COLD_OWNERS} owners and revokes every token; then observes for 30 s.`,
    observeMs: 30_000,
    start: (world) => {
      seedOwners(world, Math.max(COLD_OWNERS, world.directory.owners.size));
      world.tokens.revokeWhere(() => true, world.clock.now());
      return undefined;
    },
    expectations: [expect.noWaste, expect.singleFlight, expect.noStampede],
  },
  {
    name: 'mass-expiry',
    title: 'Mass expiry',
    description:
      'Time advances by the lifetime of a token, so that all of them expire together. ' +
      'A good integration sends one request for each owner when it needs a token, not one for each call.',
    consequence: 'Advances the sandbox’s clock by the lifetime of a token; then observes for 30 s.',
    observeMs: 30_000,
    start: (world) => {
      world.clock.advance(world.profile.lifetimeSeconds * 1000);
      return undefined;
    },
    expectations: [expect.noWaste, expect.singleFlight, expect.noStampede],
  },
  {
    name: 'outage',
    title: 'Outage of 30 seconds',
    description:
      'For 30 seconds every connection is refused. A good integration uses the tokens it holds, retries less and less ' +
      'often, and does not return as a stampede.',
    consequence: 'Closes the port of the token service for 30 s; then observes the recovery for 60 s.',
    faultMs: 30_000,
    observeMs: OBSERVED_RECOVERY_MS,
    start: () => ({ kind: 'refuse', when: { schedule: [[0, 30_000]] } }),
    expectations: [expect.noWaste, expect.singleFlight, expect.recovers, expect.calmRecovery(FEW)],
  },
  {
    name: 'rate-limit-storm',
    title: 'Rate-limit storm',
    description:
      'For 60 seconds only 10 requests are answered in each 10 seconds; the others get 429 with Retry-After. ' +
      'A good integration waits as long as it is told to.',
    consequence: 'Limits token requests to 10 in 10 s, for 60 s.',
    faultMs: 60_000,
    observeMs: 0,
    start: () => ({ kind: 'status', status: 429, when: { over: 10, perMs: 10_000 } }),
    expectations: [expect.obeysRetryAfter, expect.noWaste, expect.singleFlight],
  },
  {
    name: 'owner-revoked',
    title: 'One owner revoked',
    description:
      'One access key is revoked together with its tokens. A good integration fails for this owner alone, and retries ' +
      'less and less often.',
    consequence: 'Revokes the access key of one owner for good; then observes for 60 s.',
    observeMs: 60_000,
    ofOneOwner: true,
    start: (world, owner) => {
      const key = currentKey(world, owner, firstApp(world).id);
      if (!key) throw new NotFound('this owner has no access key');
      revokeAccessKey(world, key);
      return undefined;
    },
    expectations: [expect.backsOff(10), expect.othersUnaffected, expect.noWaste],
  },
  {
    name: 'secret-rotated',
    title: 'Secret rotated',
    description:
      'The client secret is replaced and the old one refused at once. A good integration stops requesting for all ' +
      'owners after the first refusals, uses the tokens it holds, and continues with the new secret.',
    consequence: 'Replaces the client secret for good; the old one ends at once. Then observes for 60 s.',
    observeMs: 60_000,
    start: (world) => {
      rotateSecret(world, firstApp(world));
      return undefined;
    },
    expectations: [expect.stopsAfterRefusal(FEW), expect.noWaste],
  },
  {
    name: 'black-hole',
    title: 'Black hole',
    description:
      'For 30 seconds token requests are read and never answered. A good integration gives up in time, and keeps ' +
      'few connections waiting.',
    consequence: 'Leaves token requests unanswered for 30 s; then observes the recovery for 60 s.',
    faultMs: 30_000,
    observeMs: OBSERVED_RECOVERY_MS,
    start: () => ({ kind: 'silence', when: { schedule: [[0, 30_000]] } }),
    expectations: [
      expect.givesUpWithin(30_000),
      expect.fewAtOnce(FEW),
      expect.recovers,
      expect.singleFlight,
      expect.noWaste,
    ],
  },
  {
    name: 'wrong-owner-token',
    title: "Another owner's token",
    description:
      "The next five answers for one owner carry another owner's token. The token itself does not show it; the echo " +
      'resource does, if the caller names the owner it expects. A good integration then drops the token.',
    consequence: "Gives one owner another owner's token five times; observes for 60 s.",
    observeMs: 60_000,
    ofOneOwner: true,
    start: (_world, owner) => ({ kind: 'wrong_owner_token', target: { owner }, when: { next: 5 } }),
    expectations: [expect.asksForOwner, expect.dropsWrongToken],
  },
];

/**
 * All scenarios, in words.
 *
 * @example
 * ```ts
 * console.log(SCENARIOS.map(({ name }) => name)); // → […'cold-start',…
 * ```
 */
export const SCENARIOS: readonly ScenarioView[] = Object.freeze(
  ALL.map(({ name, title, description, consequence }) => Object.freeze({ name, title, description, consequence })),
);

/** The id of a scenario's fault rule. */
const FAULT_ID = 'scenario';

export function findScenario(name: string): Scenario {
  const scenario = ALL.find((candidate) => candidate.name === name);
  if (scenario) return scenario;
  throw new NotFound(`there is no such scenario; there are ${SCENARIOS.map((one) => one.name).join(', ')}`);
}

/** Starts a scenario, after ending the one that runs. */
export function startScenario(world: World, name: string, options: { owner?: string } = {}): RunningScenario {
  const scenario = findScenario(name);
  const [firstOwner] = world.directory.owners.keys();
  const owner = scenario.ofOneOwner ? ownerOf(world, options.owner ?? firstOwner ?? '').id : undefined;
  finishScenario(world, 'another scenario started');
  const fault = scenario.start(world, owner ?? '');
  const startedAtMs = world.clock.now();
  const { faultMs = 0, observeMs } = scenario;
  const record = new RunRecord(world.clock, startedAtMs + faultMs, world.ledger.tokensInFlight);
  const run: ScenarioRun = {
    name: scenario.name,
    startedAtMs,
    ...(faultMs > 0 && { endsAtMs: startedAtMs + faultMs }),
    verdictAtMs: startedAtMs + faultMs + observeMs,
    ...(owner !== undefined && { owner }),
  };
  const timers = [world.clock.setTimeout(() => finishScenario(world), faultMs + observeMs)];
  if (faultMs > 0) timers.push(world.clock.setTimeout(() => removeFault(world), faultMs));
  const running: RunningScenario = {
    run,
    record,
    band: world.history.begin('scenario', startedAtMs, scenario.name, run.verdictAtMs),
    timers,
    ...withVerdict(),
    hasFault: false,
  };
  world.scenario = running;
  world.ledger.observer = record;
  if (fault) {
    world.faults.remove(FAULT_ID);
    world.faults.add({ ...fault, id: FAULT_ID }, run.endsAtMs ?? run.verdictAtMs);
    running.hasFault = true;
  }
  world.changed('scenario');
  return running;
}

function withVerdict(): Pick<RunningScenario, 'verdict' | 'resolve'> {
  let resolve: (verdict: ScenarioVerdict) => void = () => {};
  const verdict = new Promise<ScenarioVerdict>((settle) => {
    resolve = settle;
  });
  return { verdict, resolve };
}

/** Ends the running scenario with its verdict; false if none runs. `interrupted`: why it ends before its time. */
export function finishScenario(world: World, interrupted?: string): boolean {
  const running = world.scenario;
  if (!running) return false;
  world.scenario = undefined;
  world.ledger.observer = undefined;
  for (const cancel of running.timers) cancel();
  const nowMs = world.clock.now();
  if (running.hasFault) world.faults.remove(FAULT_ID);
  world.history.end(running.band, nowMs);
  const { name, startedAtMs, owner } = running.run;
  const verdict: ScenarioVerdict = {
    ...expect.verdictOf(running.record, findScenario(name).expectations, owner, interrupted),
    startedAtMs,
    endedAtMs: nowMs,
  };
  world.verdicts.set(name, verdict);
  running.resolve(verdict);
  world.changed('scenario');
  return true;
}

/** Ends a scenario whose fault was removed by hand: without it there is nothing to observe. */
export function finishWithoutFault(world: World): void {
  if (world.scenario?.hasFault && !world.faults.has(FAULT_ID)) finishScenario(world, 'its fault was removed');
}

/** The fault is over, the observation continues. */
function removeFault(world: World): void {
  if (!world.scenario) return;
  world.scenario.hasFault = false;
  world.faults.remove(FAULT_ID);
  world.changed('scenario');
}
