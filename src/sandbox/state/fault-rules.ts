/** A fault rule: what goes wrong, for which requests, and when. Deterministic conditions come first, because a test that
 * fails should fail the same way again. */

import type { FaultEffect, FaultPath } from './fault-kinds.ts';

export type { FaultEffect, FaultKind, FaultMembers, FaultPath } from './fault-kinds.ts';

/**
 * When a rule applies.
 *
 * @example
 * ```ts
 * const when: FaultWhen = { schedule: [[0, 2_000]], everyMs: 60_000 };
 * sandbox.faults.add({ kind: 'silence', when });
 * ```
 */
export type FaultWhen =
  | {
      /** To this many of the next requests that it targets. */
      next: number;
    }
  | {
      /** To every request that it targets. */
      always: true;
    }
  | {
      /** A rate limit: to each request beyond this many in a window, which starts with its first request. */
      over: number;
      /** Length of the window in milliseconds. */
      perMs: number;
    }
  | {
      /** Between these times, in milliseconds since the rule was added. */
      schedule: [fromMs: number, toMs: number][];
      /** Repeats the schedule with this period, in milliseconds. Default: never. */
      everyMs?: number;
    }
  | {
      /** To each request with this probability, 0 to 1. */
      probability: number;
      /** Seed of the rule's own random numbers. Default: 1. */
      seed?: number;
    };

/**
 * The requests that a rule targets. An absent member matches all.
 *
 * @example
 * ```ts
 * const target: FaultTarget = { owner: sandbox.ownerOf(accessKey) ?? '' };
 * sandbox.faults.add({ kind: 'status', status: 429, target });
 * ```
 */
export interface FaultTarget {
  /** Default: the first of the kind's `paths`, which is `token` for all kinds but `refuse`. */
  path?: FaultPath;
  /** An app's id. */
  app?: string;
  /** An owner's id, as `ownerOf` returns it. */
  owner?: string;
}

/**
 * A fault rule. When several apply to a request, the oldest wins; `latency` adds its delay and lets the next apply.
 *
 * @example
 * ```ts
 * const rule: FaultRule = { kind: 'latency', ms: 250, when: { next: 3 } };
 * sandbox.faults.add(rule);
 * ```
 */
export type FaultRule = FaultEffect & {
  /** Default: generated. */
  id?: string;
  /** Default: every token request. */
  target?: FaultTarget;
  /** Default: always. */
  when?: FaultWhen;
};

/**
 * An added rule and its progress. A used-up rule stays listed until it is removed.
 *
 * @example
 * ```ts
 * sandbox.faults.add({ kind: 'status', status: 503, when: { next: 2 } });
 * const [fault]: ActiveFault[] = sandbox.faults.list();
 * console.log(fault?.hits, fault?.left); // → 0 { requests: 2 }
 * ```
 */
export type ActiveFault = FaultRule & {
  /** The given or generated id. */
  id: string;
  /** The requests that it targets. */
  target: FaultTarget;
  /** When it applies. */
  when: FaultWhen;
  /** Epoch ms of the sandbox's clock. */
  addedAtMs: number;
  /** How many requests it was applied to. */
  hits: number;
  /** When it will be removed by the scenario that added it. */
  endsAtMs?: number;
  /** What is left: requests of `next`, milliseconds of a schedule. Absent: no end. */
  left?: { /** Requests. */ requests: number } | { /** Milliseconds. */ ms: number };
};

/**
 * The fault rules of a sandbox. Removing one restores the behaviour from before, byte for byte.
 *
 * @example
 * ```ts
 * const { faults }: { faults: SandboxFaults } = sandbox;
 * const id = faults.add({ kind: 'status', status: 503 });
 * const error: unknown = await registry.getToken(accessKey).catch((thrown: unknown) => thrown);
 * console.log(isOwnerTokenError(error) && error.code); // → endpoint_unavailable
 * faults.remove(id);
 * ```
 */
export interface SandboxFaults {
  /** Adds a rule and returns its id. Throws `invalid_options` for unknown or invalid members. */
  add(rule: FaultRule): string;
  /** Removes a rule. Unknown ids are ignored. */
  remove(id: string): void;
  /** Removes all rules. */
  clear(): void;
  /** All rules with their progress, oldest first. */
  list(): ActiveFault[];
}
