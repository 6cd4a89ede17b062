/**
 * Runs a scenario: causes its situation, observes the integration, restores what it can, and ends with a verdict. It ends
 * early if another one starts, if it is stopped, or if its fault is removed. A rotated secret and revoked tokens remain.
 */

import { ownerOf, removeOwners, seedOwners } from '../world/actions.ts';
import type { RunningScenario, ScenarioRun, ScenarioVerdict, World } from '../world/world.ts';
import { ownTokensOnly } from './expectations.ts';
import { RunRecord } from './run-record.ts';
import { findScenario, type Scenario } from './scenarios.ts';
import { verdictOf } from './verdict.ts';

/** The ids of a scenario's fault rules: of its fault, and of the one that follows while the recovery is observed. */
const FAULT_ID = 'scenario';
const RECOVERY_ID = 'scenario-recovery';

/** Starts a scenario, after ending the running one. */
export function startScenario(world: World, name: string, options: { owner?: string } = {}): RunningScenario {
  const scenario = findScenario(name);
  const [firstOwner] = world.directory.owners.keys();
  const owner = scenario.ofOneOwner ? ownerOf(world, options.owner ?? firstOwner ?? '').id : undefined;
  finishScenario(world, 'another scenario started');
  const removeAdded = addOwners(world, scenario.owners);
  const ownersCovered = world.tokens.coveredOwners(world.clock.now()).size;
  const { fault, undo } = scenario.start(world, owner ?? '', ownersCovered);
  const run = runOf(scenario, world.clock.now(), owner);
  const { startedAtMs, endsAtMs: recoveryAtMs = startedAtMs, verdictAtMs: endsAtMs } = run;
  const inFlight = world.ledger.tokensInFlight;
  const start = { startedAtMs, recoveryAtMs, endsAtMs, owner, faultId: FAULT_ID, ownersCovered, inFlight };
  const running: RunningScenario = {
    run,
    record: new RunRecord(world.clock, start),
    band: world.history.begin('scenario', startedAtMs, scenario.name, endsAtMs),
    timers: [world.clock.setTimeout(() => finishScenario(world), endsAtMs - startedAtMs)],
    ...withVerdict(),
    faultId: fault && FAULT_ID,
    undo: () => {
      undo?.();
      removeAdded();
    },
  };
  if (recoveryAtMs > startedAtMs && recoveryAtMs < endsAtMs) {
    running.timers.push(world.clock.setTimeout(() => endFault(world, running, scenario), recoveryAtMs - startedAtMs));
  }
  world.scenario = running;
  world.ledger.observer = running.record;
  if (fault) {
    world.faults.remove(FAULT_ID);
    world.faults.add({ ...fault, id: FAULT_ID }, run.endsAtMs ?? endsAtMs);
  }
  world.changed('scenario');
  return running;
}

function runOf({ name, faultMs = 0, observeMs }: Scenario, startedAtMs: number, owner?: string): ScenarioRun {
  return {
    name,
    startedAtMs,
    ...(faultMs > 0 && { endsAtMs: startedAtMs + faultMs }),
    verdictAtMs: startedAtMs + faultMs + observeMs,
    ...(owner !== undefined && { owner }),
  };
}

/** Adds owners until there are enough, and returns what removes them again. */
function addOwners(world: World, enough: number): () => void {
  const before = new Set(world.directory.owners.keys());
  if (before.size >= enough) return () => {};
  seedOwners(world, enough);
  const added = [...world.directory.owners.keys()].filter((id) => !before.has(id));
  return () => removeOwners(world, added);
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
  if (running.faultId !== undefined) world.faults.remove(running.faultId);
  running.undo();
  world.history.end(running.band, nowMs);
  const { name, startedAtMs } = running.run;
  const { conditions, expectations } = findScenario(name);
  const verdict: ScenarioVerdict = {
    ...verdictOf(running.record, conditions, [...expectations, ownTokensOnly], interrupted),
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
  const { faultId } = world.scenario ?? {};
  if (faultId !== undefined && !world.faults.has(faultId)) finishScenario(world, 'its fault was removed');
}

/** The fault is over, the observation continues. */
function endFault(world: World, running: RunningScenario, { recovery }: Scenario): void {
  running.faultId = undefined;
  world.faults.remove(FAULT_ID);
  if (recovery) running.faultId = world.faults.add({ ...recovery, id: RECOVERY_ID }, running.run.verdictAtMs);
  world.changed('scenario');
}
