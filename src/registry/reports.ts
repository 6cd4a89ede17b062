/** What `describe()`, `owners()` and `eachOwner()` return: plain data, owners by label or fingerprint, no secrets. */

import { type Instant, onWallClock, pastOnWallClock } from '../clock.ts';
import type { OwnerTokenErrorCode } from '../errors/owner-token-error.ts';
import { checkOptions, integer, type OptionRules } from '../option-check.ts';
import type { OwnerTable } from './owners/owner-table.ts';
import { type Conditions, isLive, laterPause, type Phase, phaseOf, type Slot, troubleOf } from './owners/slot.ts';
import type { WithoutService } from './owners/without-service.ts';

/**
 * What is known about one owner: "which customer is this, and why does it not work?"
 *
 * @example
 * ```ts
 * await registry.getToken('a wrong key').catch(() => {});
 * const { phase, code }: OwnerState = registry.describe('a wrong key');
 * console.log(phase, code); // → backing-off owner_refused
 * ```
 */
export interface OwnerState {
  /** What a call for this owner would get now. */
  readonly phase: Phase;
  /** Epoch ms: expiry of the cached token; `Infinity` if it is kept until rejected. */
  readonly expiresAtMs?: number;
  /** Code of the cached failure. */
  readonly code?: OwnerTokenErrorCode;
  /** Epoch ms: no request starts before this. */
  readonly retryAtMs?: number;
}

/**
 * Selects the owners that `owners()` returns.
 *
 * @example
 * ```ts
 * const options: OwnersOptions = { limit: 20, state: 'failing' };
 * ```
 */
export interface OwnersOptions {
  /** The most owners to return, 1 to 100,000. Default: 100. */
  limit?: number | undefined;
  /**
   * `failing`: owners whose last request failed.
   * `rejected`: owners whose newest tokens the API rejects, see {@link PauseStats.rejected}. `working`: the other owners with
   * a token. Default: all, in this order.
   */
  state?: 'failing' | 'rejected' | 'working' | undefined;
}

/**
 * Why an owner fails.
 *
 * @example
 * ```ts
 * await registry.getToken('a wrong key').catch(() => {});
 * const failure: OwnerFailure | undefined = registry.owners({ state: 'failing' })[0]?.failure;
 * console.log(failure?.code, failure?.failures); // → owner_refused 1
 * ```
 */
export interface OwnerFailure {
  /** Code of the last failure. */
  readonly code: OwnerTokenErrorCode;
  /** What failed, in words. */
  readonly message: string;
  /** The HTTP status of the last response. */
  readonly status?: number;
  /** The `error` of an OAuth error response. */
  readonly oauthError?: string;
  /** Epoch ms: when the first failure in a row happened. */
  readonly sinceMs: number;
  /** Epoch ms: when the last failure happened. */
  readonly failedAtMs: number;
  /** Failures in a row. */
  readonly failures: number;
  /** Epoch ms: no request of this owner starts before this. */
  readonly retryAtMs: number;
}

/**
 * One owner in the list of `owners()`. `phase`, `code` and `retryAtMs` are what a call would get now, from the owner's own
 * failure or an open circuit.
 *
 * @example
 * ```ts
 * await registry.getToken(accessKey);
 * const [report]: OwnerReport[] = registry.owners();
 * console.log(report?.phase, report?.owner === registry.fingerprint(accessKey)); // → fresh true
 * ```
 */
export interface OwnerReport extends OwnerState {
  /** Label or fingerprint of the owner. */
  readonly owner: string;
  /** Epoch ms: when the last issued token was requested, if that is still known. */
  readonly issuedAtMs?: number;
  /** Why its last request failed, or its last call in the queue, or else that the API rejected its tokens in a row. */
  readonly failure?: OwnerFailure;
  /** Set while the owner is without service; see {@link RegistryStats.withoutService}. */
  readonly withoutService?: {
    /** Epoch ms: its first call that was not served. */
    readonly sinceMs: number;
    /** Epoch ms: its last one. */
    readonly failedAtMs: number;
    /** Whether nobody has called it for two hours, so that it no longer counts. */
    readonly hasLapsed: boolean;
  };
}

/**
 * One owner as `eachOwner()` finds it. Its names are computed when they are read, which costs more than all the rest.
 *
 * @example
 * ```ts
 * const names = (known: Iterable<KnownOwner>) => Array.from(known, ({ owner }) => owner);
 * await registry.getToken(accessKey);
 * console.log(names(registry.eachOwner()).length); // → 1
 * ```
 */
export interface KnownOwner extends OwnerReport {
  /** The owner's fingerprint, even if `owner` is its label. */
  readonly fingerprint: string;
}

/** What a report needs in addition to the slot. */
interface ReportContext {
  readonly owners: OwnerTable;
  /** What else a decision about an owner depends on. */
  conditionsOf(slot: Slot, now: Instant): Conditions;
  /** When an owner's outage began, on the monotonic clock. */
  failingSinceMs(slot: Slot): number | undefined;
}

interface WalkContext extends ReportContext {
  fingerprintOf(accessKey: string): string;
  now(): Instant;
}

/** One owner's state. */
export function ownerState(slot: Slot, now: Instant, conditions: Conditions): OwnerState {
  const pause = laterPause(conditions.circuit, troubleOf(slot));
  return {
    phase: phaseOf(slot, now, conditions),
    ...(isLive(slot, now) && { expiresAtMs: slot.held.expiresAtMs }),
    ...(pause && { code: pause.error.code, retryAtMs: onWallClock(pause.retryAtMonotonicMs, now) }),
  };
}

const OWNERS_OPTIONS: OptionRules<OwnersOptions> = {
  limit: integer(1, 100_000, 100),
  state: {
    passes: (value) => ['failing', 'rejected', 'working'].includes(value as string),
    expected: '`failing`, `rejected` or `working`',
  },
};

/**
 * The owners that fail, the longest failing first, those without a token before those with one; then those whose tokens the
 * API rejects; then the others with a token, the most recently used first.
 */
export function ownerReports(context: ReportContext, given: OwnersOptions, now: Instant): OwnerReport[] {
  const { owners } = context;
  const { limit, state } = checkOptions('owners', given, OWNERS_OPTIONS) as OwnersOptions & { limit: number };
  const lists = { failing: worstFirst(owners.failing), rejected: owners.rejected, working: owners.working() };
  const slots = new Set<Slot>();
  for (const list of state ? [lists[state]] : Object.values(lists)) take(list, limit, slots);
  // Only now, because a label is computed by the user's function, which may call the registry.
  return [...slots].map((slot) => ({ owner: slot.owner, ...reportFacts(context, slot, now) }));
}

/** All owners, in no order. The registry may change between two steps. */
export function* eachOwner(context: WalkContext): Generator<KnownOwner> {
  for (const slot of context.owners.all()) {
    const now = context.now();
    yield knownOwner(context, slot, now);
  }
}

const knownOwner = (context: WalkContext, slot: Slot, now: Instant): KnownOwner => ({
  get owner() {
    return slot.owner;
  },
  get fingerprint() {
    return context.fingerprintOf(slot.accessKey);
  },
  ...reportFacts(context, slot, now),
});

/** Those without a token before those with one. */
function* worstFirst(failing: ReadonlySet<Slot>): Generator<Slot> {
  for (const slot of failing) if (!slot.held) yield slot;
  for (const slot of failing) if (slot.held) yield slot;
}

function take(from: Iterable<Slot>, limit: number, into: Set<Slot>): void {
  if (into.size === limit) return;
  for (const slot of from) if (into.add(slot).size === limit) return;
}

function reportFacts(context: ReportContext, slot: Slot, now: Instant): Omit<OwnerReport, 'owner'> {
  const issuedAtMs = slot.held?.issuedAtMs ?? slot.history.issuedAtMs;
  const failure = failureReport(context, slot, now);
  return {
    ...ownerState(slot, now, context.conditionsOf(slot, now)),
    ...(issuedAtMs !== undefined && { issuedAtMs }),
    ...(failure && { failure }),
    ...withoutServiceReport(context, slot, now),
  };
}

function withoutServiceReport(
  { owners }: ReportContext,
  slot: Slot,
  now: Instant,
): Pick<OwnerReport, 'withoutService'> {
  const unserved = owners.withoutService.of(slot);
  if (!unserved) return {};
  const { sinceMs, failedAtMs, hasLapsed } = unserved;
  const onWall = (ms: number) => pastOnWallClock(ms, now);
  return { withoutService: { sinceMs: onWall(sinceMs), failedAtMs: onWall(failedAtMs), hasLapsed } };
}

/** The owner is not paused: the queue or an open circuit failed its last call, or its pause was lifted. */
function unservedReport(unserved: ReturnType<WithoutService['of']>, now: Instant): OwnerFailure | undefined {
  if (!unserved) return undefined;
  const { code, message, status } = unserved.error;
  const failedAtMs = pastOnWallClock(unserved.failedAtMs, now);
  const sinceMs = pastOnWallClock(unserved.sinceMs, now);
  return {
    code,
    message,
    ...(status !== undefined && { status }),
    sinceMs,
    failedAtMs,
    failures: 1,
    retryAtMs: failedAtMs,
  };
}

function failureReport({ failingSinceMs, owners }: ReportContext, slot: Slot, now: Instant): OwnerFailure | undefined {
  const trouble = troubleOf(slot);
  if (!trouble) return unservedReport(owners.withoutService.of(slot), now);
  const sinceMs = failingSinceMs(slot);
  const { error, count: failures, retryAtMonotonicMs } = trouble;
  const { code, message, status, oauthError, failedAtMs } = error;
  return {
    code,
    message,
    ...(status !== undefined && { status }),
    ...(oauthError !== undefined && { oauthError }),
    sinceMs: sinceMs === undefined ? failedAtMs : pastOnWallClock(sinceMs, now),
    failedAtMs,
    failures,
    retryAtMs: onWallClock(retryAtMonotonicMs, now),
  };
}
