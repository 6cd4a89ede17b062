/** A fault rule: what goes wrong, for which requests, and when. Deterministic conditions come first, because a test that
 * fails should fail the same way again. */

import type { FaultEffect, FaultPath } from './fault-kinds.ts';

export type { FaultEffect, FaultKind } from './fault-kinds.ts';

/** When a rule applies. */
export type FaultWhen =
  /** To the next N requests that it targets. */
  | { next: number }
  | { always: true }
  /** A rate limit: to each request beyond the first N of a window. A window starts with its first request. */
  | { over: number; perMs: number }
  /** Between these times, in milliseconds since the rule was added; with `everyMs`, repeated at that period. */
  | { schedule: [fromMs: number, toMs: number][]; everyMs?: number }
  /** With this probability, drawn from a generator of the rule's own. Default seed: 1. */
  | { probability: number; seed?: number };

/** The requests that a rule targets. An absent member matches all. */
export interface FaultTarget {
  /** Default: the first of the kind's `paths`, which is `token` for all kinds but `refuse`. */
  path?: FaultPath;
  /** An app's id. */
  app?: string;
  /** An owner's id, as `ownerOf` returns it. */
  owner?: string;
}

/** A fault rule. When several apply to a request, the oldest wins; `latency` adds its delay and lets the next apply. */
export type FaultRule = FaultEffect & {
  /** Default: generated. */
  id?: string;
  /** Default: every token request. */
  target?: FaultTarget;
  /** Default: always. */
  when?: FaultWhen;
};

/** An added rule and its progress. A used-up rule stays listed until it is removed. */
export type ActiveFault = FaultRule & {
  id: string;
  target: FaultTarget;
  when: FaultWhen;
  addedAtMs: number;
  /** How many requests it was applied to. */
  hits: number;
  /** When it will be removed by the scenario that added it. */
  endsAtMs?: number;
  /** What is left: requests of `next`, milliseconds of a schedule. Absent: no end. */
  left?: { requests: number } | { ms: number };
};

/** The fault rules of a sandbox. Removing one restores the behaviour from before, byte for byte. */
export interface SandboxFaults {
  /** Adds a rule and returns its id. Throws `invalid_options` for unknown or invalid members. */
  add(rule: FaultRule): string;
  remove(id: string): void;
  clear(): void;
  list(): ActiveFault[];
}
