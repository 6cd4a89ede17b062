/** A fault rule: what goes wrong, for which requests, and when. Deterministic conditions come first, because a test that
 * fails should fail the same way again. */

import * as v from 'valibot';
import { nearest } from '../../../nearest.ts';
import { FAULT_KIND_NAMES, FAULT_KINDS, type FaultEffect, type FaultPath, faultMembers } from './fault-kinds.ts';
import { between, integer, maybe, object, oneOf, type Schema, string, text } from './schema.ts';

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
  /** An owner's id, as `ownerOf` returns it. */
  owner?: string;
  /** A part of the owners, 0 to 1, and always the same ones: 0.2 is every fifth, by the number at the end of the id. */
  share?: number;
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

const MAX_SPAN_MS = 30 * 86_400_000;

const IN_ORDER = 'expected a list of [fromMs, toMs], in order and without overlap';

const TIME = v.number(IN_ORDER);
const isTime = (ms: number) => Number.isInteger(ms) && ms <= MAX_SPAN_MS;

const SCHEDULE = v.pipe(
  v.array(v.strictTuple([TIME, TIME], IN_ORDER), IN_ORDER),
  v.minLength(1, IN_ORDER),
  v.maxLength(1000, IN_ORDER),
  v.check((spans) => {
    const times = spans.flat();
    return times.every((ms, n) => isTime(ms) && ms >= (times[n - 1] ?? 0) + (n % 2));
  }, IN_ORDER),
);

const SHARE = between(0, 1, 'a number from 0 to 1');

/** By the member that names each condition. */
const CONDITIONS = {
  always: object({ always: v.literal(true, 'expected true') }),
  next: object({ next: integer(1, 1e9) }),
  over: object({ over: integer(0, 1e9), perMs: between(1, MAX_SPAN_MS, 'milliseconds, at least 1') }),
  schedule: v.pipe(
    object({ schedule: SCHEDULE, everyMs: maybe(integer(1, MAX_SPAN_MS, 'milliseconds')) }),
    v.forward(
      v.check(
        ({ schedule, everyMs = MAX_SPAN_MS }) => everyMs >= (schedule.at(-1)?.[1] ?? 0),
        'expected no less than the last toMs',
      ),
      ['everyMs'],
    ),
  ),
  probability: object({
    probability: SHARE,
    seed: maybe(integer(0, 0xffff_ffff)),
  }),
};

const FAULT_WHEN = v.union(Object.values(CONDITIONS), `expected exactly one of ${Object.keys(CONDITIONS).join(', ')}`);

/** The condition that is named, or nearly named, so that only its problems are reported. */
const WHEN = v.lazy((given) => {
  if (typeof given !== 'object' || given === null) return FAULT_WHEN;
  const names = Object.keys(CONDITIONS) as (keyof typeof CONDITIONS)[];
  const named = names.filter((name) => name in given);
  const [meant] =
    named.length > 0 ? named : Object.keys(given).map((name) => nearest(name, names) as (typeof names)[0]);
  return meant && named.length < 2 ? CONDITIONS[meant] : FAULT_WHEN;
});

const targetOf = (paths: readonly FaultPath[]) =>
  object({ path: maybe(oneOf(paths)), owner: maybe(string), share: maybe(SHARE) });

const KIND = oneOf(FAULT_KIND_NAMES);

/** Checks a rule: a variant for each kind. */
export const FAULT_RULE = v.variant(
  'kind',
  FAULT_KIND_NAMES.map((kind) =>
    object({
      kind: v.literal(kind),
      ...Object.fromEntries(faultMembers(kind)),
      id: maybe(text(/^[\w-]{1,40}$/, 'up to 40 letters, digits, - and _')),
      target: maybe(targetOf(FAULT_KINDS[kind].paths)),
      when: maybe(WHEN),
    }),
  ),
  (issue) => (issue.path ? KIND.message(issue as never) : 'expected an object'),
) as Schema as Schema<FaultRule>;
