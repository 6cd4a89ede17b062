/** A local emulator of the token service, for development and tests. */

export type { SandboxOptions } from './options.ts';
export type { Sandbox, SandboxOwner, SandboxScenarios } from './sandbox.ts';
export { startSandbox } from './start-sandbox.ts';
export type { Fact } from './state/facts.ts';
export { FACTS } from './state/facts.ts';
export type {
  ActiveFault,
  FaultEffect,
  FaultKind,
  FaultMembers,
  FaultPath,
  FaultRule,
  FaultTarget,
  FaultWhen,
  SandboxFaults,
} from './state/fault-rules.ts';
export type {
  LedgerEntry,
  LedgerFilter,
  LedgerKind,
  LedgerSummary,
  Outcome,
  SandboxLedger,
} from './state/ledger-entry.ts';
export type { OddShape, Profile, ProfileChanges } from './state/profile.ts';
export { SCENARIOS, type ScenarioName, type ScenarioView } from './state/scenarios.ts';
export type { Condition, Finding, Verdict } from './state/verdict.ts';
export type { SandboxClock } from './state/virtual-clock.ts';
export type { ScenarioRun, ScenarioVerdict } from './state/world.ts';
