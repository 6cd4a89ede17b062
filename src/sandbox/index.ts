/** A local emulator of the token service, for development and tests. */

export type { SandboxOptions } from './options.ts';
export type { Sandbox, SandboxOwner, SandboxScenarios } from './sandbox.ts';
export { startSandbox } from './start-sandbox.ts';
export { SCENARIOS, type ScenarioName, type ScenarioView } from './state/judge/scenarios.ts';
export type { Condition, Finding, Verdict } from './state/judge/verdict.ts';
export type {
  LedgerEntry,
  LedgerFilter,
  LedgerKind,
  LedgerSummary,
  Outcome,
  SandboxLedger,
} from './state/ledger/ledger-entry.ts';
export type { Fact } from './state/world/facts.ts';
export { FACTS } from './state/world/facts.ts';
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
} from './state/world/fault-rules.ts';
export type { OddShape, Profile, ProfileChanges } from './state/world/profile.ts';
export type { SandboxClock } from './state/world/virtual-clock.ts';
export type { ScenarioRun, ScenarioVerdict } from './state/world/world.ts';
