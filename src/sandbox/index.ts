/** A local emulator of the token service, for development and tests. */

export type { ScenarioRun, ScenarioView } from './events.ts';
export type { Fact } from './facts.ts';
export { FACTS } from './facts.ts';
export type {
  ActiveFault,
  FaultEffect,
  FaultKind,
  FaultRule,
  FaultTarget,
  FaultWhen,
  SandboxFaults,
} from './fault-rules.ts';
export type { LedgerEntry, LedgerFilter, LedgerKind, LedgerSummary, Outcome, SandboxLedger } from './ledger.ts';
export type { OddShape, Profile, ProfileChanges } from './profile.ts';
export type { Sandbox, SandboxOwner } from './sandbox.ts';
export type { SandboxOptions } from './sandbox-options.ts';
export { SCENARIOS, type ScenarioName } from './scenarios.ts';
export { startSandbox } from './start-sandbox.ts';
export type { VirtualClock } from './virtual-clock.ts';
