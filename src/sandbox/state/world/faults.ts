import type { FaultSpan } from '../ledger/history.ts';
import type { LedgerKind } from '../ledger/ledger-entry.ts';
import { FAULT_KINDS } from './fault-kinds.ts';
import {
  type ActiveFault,
  FAULT_RULE,
  type FaultEffect,
  type FaultRule,
  type FaultTarget,
  type FaultWhen,
  type SandboxFaults,
} from './fault-rules.ts';
import { BadRequest } from './problems.ts';
import { checked } from './schema.ts';

/** What is known of a request when a fault is looked up for it. */
interface FaultSubject {
  readonly kind: LedgerKind;
  readonly owner?: string;
}

/** A fault that replaces or spoils the answer; latency only delays it. */
export type AnswerFault = Exclude<FaultEffect, { kind: 'latency' }>;

/** What is to happen to one request. */
export interface FaultDecision {
  /** The rule that spoils the answer, or the last one that delays it. */
  readonly id: string;
  readonly delayMs: number;
  /** Absent: the correct answer, after the delay. */
  readonly effect?: AnswerFault;
  /** For a rate limit: milliseconds until its window ends. */
  readonly windowEndsInMs?: number;
}

/** A rule with its counters. */
interface RuleState {
  readonly rule: ActiveFault;
  readonly addedMs: number;
  readonly random: () => number;
  windowStartMs: number;
  windowCount: number;
}

const MAX_RULES = 1000;

/** Decides which fault applies to a request. `service/fault-effects.ts` carries it out. */
export class Faults implements SandboxFaults {
  readonly #clock: { now(): number; monotonic(): number };
  readonly #rules = new Map<string, RuleState>();
  /** By the ids that a rule may target. */
  readonly #owners: ReadonlyMap<string, unknown>;
  #lastId = 0;
  /** Called when rules were added, removed or used up (true), and when one was applied (false). */
  onChange: ((rules: boolean) => void) | undefined;

  constructor(clock: { now(): number; monotonic(): number }, owners: ReadonlyMap<string, unknown>) {
    this.#clock = clock;
    this.#owners = owners;
  }

  /** @param endsAtMs when the rule will be removed, where that is known. */
  add(given: FaultRule, endsAtMs?: number): string {
    const rule = structuredClone(checked('fault rule', FAULT_RULE, given));
    this.#checkTarget(rule.target);
    const id = rule.id ?? `fault-${++this.#lastId}`;
    if (this.#rules.has(id)) throw new BadRequest(`a fault rule ${id} exists already`);
    if (this.#rules.size >= MAX_RULES) throw new BadRequest(`there are ${MAX_RULES} fault rules already`);
    const when = rule.when ?? { always: true };
    const target = { path: FAULT_KINDS[rule.kind].paths[0], ...rule.target };
    this.#rules.set(id, {
      rule: {
        ...rule,
        id,
        when,
        target,
        addedAtMs: this.#clock.now(),
        hits: 0,
        ...(endsAtMs !== undefined && { endsAtMs }),
      },
      addedMs: this.#clock.monotonic(),
      random: seededRandom('probability' in when ? (when.seed ?? 1) : 1),
      windowStartMs: Number.NEGATIVE_INFINITY,
      windowCount: 0,
    });
    this.onChange?.(true);
    return id;
  }

  has(id: string): boolean {
    return this.#rules.has(id);
  }

  /** The rules as the time rail shows them. */
  spans(): FaultSpan[] {
    return [...this.#rules.values()].map(({ rule: { id, kind, when, hits, endsAtMs, addedAtMs } }) => ({
      id,
      kind,
      used: 'next' in when && hits >= when.next,
      endsAtMs: endsAtMs ?? scheduleEndOf(when, addedAtMs),
    }));
  }

  remove(id: string): void {
    if (this.#rules.delete(id)) this.onChange?.(true);
  }

  clear(): void {
    this.#rules.clear();
    this.onChange?.(true);
  }

  list(): ActiveFault[] {
    return [...this.#rules.values()].map((state) => {
      const left = leftOf(state, this.#clock.monotonic());
      return { ...structuredClone(state.rule), ...(left && { left }) };
    });
  }

  /** The fault for a request: the oldest rule that applies, after the delays of the older latency rules. */
  decide(subject: FaultSubject): FaultDecision | undefined {
    if (this.#rules.size === 0) return undefined;
    let decision: FaultDecision | undefined;
    let usedUp = false;
    for (const state of this.#rules.values()) {
      if (!targets(state.rule.target, subject) || !this.#applies(state)) continue;
      const { rule } = state;
      rule.hits++;
      usedUp ||= 'next' in rule.when && rule.hits === rule.when.next;
      const delayMs = decision?.delayMs ?? 0;
      if (rule.kind === 'latency') {
        decision = { id: rule.id, delayMs: delayMs + rule.ms };
        continue;
      }
      const windowEndsInMs = windowEndOf(state, this.#clock.monotonic());
      decision = { id: rule.id, delayMs, effect: rule, ...(windowEndsInMs !== undefined && { windowEndsInMs }) };
      break;
    }
    if (decision) this.onChange?.(usedUp);
    return decision;
  }

  /** Whether a rule keeps the port closed now, and in how many milliseconds that may change. */
  portClosed(): { closed: boolean; changesInMs: number } {
    const nowMs = this.#clock.monotonic();
    let closed = false;
    let changesInMs = Number.POSITIVE_INFINITY;
    for (const { rule, addedMs } of this.#rules.values()) {
      if (!closesPort(rule)) continue;
      const span = 'schedule' in rule.when ? spanAt(rule.when, nowMs - addedMs) : { on: true, changesInMs };
      closed ||= span.on;
      changesInMs = Math.min(changesInMs, span.changesInMs);
    }
    return { closed, changesInMs };
  }

  /** The message does not repeat the id: it may be an access key given by mistake. */
  #checkTarget({ owner }: FaultTarget = {}): void {
    if (owner !== undefined && !this.#owners.has(owner)) throw new BadRequest('target.owner: no owner has this id');
  }

  #applies(state: RuleState): boolean {
    const { when, hits } = state.rule;
    const nowMs = this.#clock.monotonic();
    if ('always' in when) return true;
    if ('next' in when) return hits < when.next;
    if ('schedule' in when) return spanAt(when, nowMs - state.addedMs).on;
    if ('probability' in when) return state.random() < when.probability;
    if (nowMs >= state.windowStartMs + when.perMs) {
      state.windowStartMs = nowMs;
      state.windowCount = 0;
    }
    return ++state.windowCount > when.over;
  }
}

function targets(target: FaultTarget, { kind, owner }: FaultSubject): boolean {
  if (target.path !== 'all' && target.path !== kind) return false;
  if (target.share !== undefined && !isInShare(target.share, owner)) return false;
  return target.owner === undefined || target.owner === owner;
}

/** Spread evenly over the owners, so that few of them suffice. */
function isInShare(share: number, owner = ''): boolean {
  const number = Number(/\d+$/.exec(owner)?.[0]);
  return Math.floor(number * share) > Math.floor((number - 1) * share);
}

/** Closing the port affects every request for a span of time, so only such rules are carried out that way. */
function closesPort({ kind, target, when }: ActiveFault): boolean {
  const everything = target.path === 'all' && target.owner === undefined && target.share === undefined;
  return kind === 'refuse' && everything && ('always' in when || 'schedule' in when);
}

function windowEndOf({ rule, windowStartMs }: RuleState, nowMs: number): number | undefined {
  return 'over' in rule.when ? windowStartMs + rule.when.perMs - nowMs : undefined;
}

function scheduleEndOf(when: FaultWhen, addedAtMs: number): number | undefined {
  if (!('schedule' in when) || when.everyMs !== undefined) return undefined;
  return addedAtMs + (when.schedule.at(-1)?.[1] ?? 0);
}

function leftOf({ rule, addedMs }: RuleState, nowMs: number): ActiveFault['left'] {
  const { when, hits } = rule;
  if ('next' in when) return { requests: when.next - hits };
  if (!('schedule' in when) || when.everyMs !== undefined) return undefined;
  return { ms: Math.max(0, (when.schedule.at(-1)?.[1] ?? 0) - (nowMs - addedMs)) };
}

type Schedule = Extract<FaultWhen, { schedule: unknown }>;

/** Whether a schedule is on at this age, and in how many milliseconds that changes. */
function spanAt(when: Schedule, ageMs: number): { on: boolean; changesInMs: number } {
  const { schedule, everyMs } = when;
  // Rounded to microseconds, so that a timer due at the end of a span finds the span ended.
  const wholeMs = Math.round(ageMs * 1000) / 1000;
  const atMs = everyMs === undefined ? wholeMs : wholeMs % everyMs;
  for (const [fromMs, toMs] of schedule) {
    if (atMs < fromMs) return { on: false, changesInMs: fromMs - atMs };
    if (atMs < toMs) return { on: true, changesInMs: toMs - atMs };
  }
  const againMs = everyMs === undefined ? Number.POSITIVE_INFINITY : everyMs - atMs + (schedule[0]?.[0] ?? 0);
  return { on: false, changesInMs: againMs };
}

/** Mulberry32. */
function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
