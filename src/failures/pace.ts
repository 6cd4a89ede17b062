/**
 * The rate at which requests are sent. Each event changes the state in place; nothing here reads a clock.
 *
 * If more than 15 % of the answers, counted by distinct owners, say that the service is busy, it is overloaded. The rate is then cut to
 * the rate at which requests were sent, less that share, but never below nine tenths of the rate at which the service recently
 * issued tokens. The share covers about the last second's answers; over a half, the first few are enough. Without such
 * answers the rate rises by a tenth each second, and a minute after the last cut the limit is dropped.
 *
 * A cut must help. If two in a row do not halve the share, as they would for an overloaded service, the limit is dropped. For
 * a while, longer each time, only a share of over a half leads to another cut.
 *
 * A 429 says that the service is busy. A 503 may come from one failing shard, where a lower rate does not help: it counts
 * only for a moment after an owner that got a 503 was issued a token soon afterwards.
 */

import { TRY_AGAIN } from './pauses.ts';

/** Counts events in windows of a second. */
interface WindowCounter {
  sinceMs: number;
  count: number;
  /** The count of the window before. */
  before: number;
}

export interface Pace {
  /** The configured quota. */
  readonly quotaPerSecond: number;
  /** The learned rate. */
  perSecond: number;
  nextStartMs: number;
  /** The answers to requests that were sent since the last cut, and the share of them that say that the service is busy. */
  answers: number;
  busyShare: number;
  /** The owner of the last busy answer: a repeated one of the same owner does not count. */
  lastBusy: unknown;
  cutAtMs: number;
  /** The share before the last cut, until that has shown whether it helps; otherwise 0. */
  shareBefore: number;
  /** Whether the previous cut did not help either. */
  hasNotHelped: boolean;
  /** After two cuts that did not help: until when another takes {@link HIGH_SHARE}, and for how long the next time. */
  tolerateUntilMs: number;
  tolerateMs: number;
  raisedAtMs: number;
  readonly sent: WindowCounter;
  readonly issued: WindowCounter;
  /** The highest rate of tokens issued within a second; fades. */
  bestPerSecond: number;
  bestAtMs: number;
  /** When each of the last owners got a 503. */
  readonly unavailable: Map<unknown, number>;
  /** Until then a 503 says that the service is busy. */
  loadUntilMs: number;
}

const BUSY_SHARE = 0.15;
/** The share covers about a second of answers, but at least this many. */
const LEAST_ANSWERS = 20;
/** A cut helps if it lowers the share to half of what it was. */
const HELPS = 0.5;
/** A share that is high enough for a cut after a few answers, or after cuts that did not help. */
const HIGH_SHARE = 0.5;
const LEAST_PER_SECOND = 5;
const OF_ISSUED = 0.9;
const RAISE_PER_SECOND = 1.1;
const FADE_PER_SECOND = 0.9;
const FORGET_AFTER_MS = 60_000;
/** A burst that is shorter counts as this long. */
const SHORTEST_MS = 200;
/**
 * 503s count as 429s for `withinMs` after a token is issued for a request that was sent within `withinMs` of its owner's 503.
 * If it were seconds, a rolling restart would look like load. `owners` bounds how many 503s are remembered.
 */
const LOAD = { withinMs: 500, owners: 256 } as const;
const NEVER = Number.NEGATIVE_INFINITY;

const newCounter = (): WindowCounter => ({ sinceMs: NEVER, count: 0, before: 0 });

export function initialPace(quotaPerSecond = Number.POSITIVE_INFINITY): Pace {
  return {
    quotaPerSecond,
    perSecond: Number.POSITIVE_INFINITY,
    nextStartMs: NEVER,
    answers: 0,
    busyShare: 0,
    lastBusy: undefined,
    cutAtMs: NEVER,
    shareBefore: 0,
    hasNotHelped: false,
    tolerateUntilMs: NEVER,
    tolerateMs: TRY_AGAIN.baseMs,
    raisedAtMs: NEVER,
    sent: newCounter(),
    issued: newCounter(),
    bestPerSecond: 0,
    bestAtMs: 0,
    unavailable: new Map(),
    loadUntilMs: NEVER,
  };
}

/**
 * The rate that limits token requests now.
 *
 * @example
 * ```ts
 * const pace: PaceStat | undefined = registry.stats().pace;
 * console.log(pace?.reason ?? 'not limited'); // → not limited
 * ```
 */
export interface PaceStat {
  /** Requests per second. */
  readonly perSecond: number;
  /** `quota`: the option `requestsPerSecond`. `overload`: learned from 429s and 503s. */
  readonly reason: 'quota' | 'overload';
}

/** The rate that limits requests now; undefined if none does. */
export function paceStat(pace: Pace, nowMs: number): PaceStat | undefined {
  const { quotaPerSecond } = pace;
  const learned = learnedAt(pace, nowMs);
  const least = Math.min(learned, quotaPerSecond);
  if (least === Number.POSITIVE_INFINITY) return undefined;
  return { perSecond: least, reason: learned < quotaPerSecond ? 'overload' : 'quota' };
}

/** The learned rate, which is dropped a minute after the last cut. */
const learnedAt = ({ perSecond, cutAtMs }: Pace, nowMs: number): number =>
  nowMs - cutAtMs > FORGET_AFTER_MS ? Number.POSITIVE_INFINITY : perSecond;

/** Whether the rate allows a request now. */
export const paceAllows = ({ nextStartMs }: Pace, nowMs: number): boolean => nowMs >= nextStartMs;

/** Whether a learned rate limits requests. */
export const hasLearnedRate = ({ perSecond }: Pace): boolean => perSecond < Number.POSITIVE_INFINITY;

/** A request starts. */
export function paceSent(pace: Pace, nowMs: number): void {
  pace.perSecond = learnedAt(pace, nowMs);
  const intervalMs = 1_000 / Math.min(pace.perSecond, pace.quotaPerSecond);
  // Not counted from the last `nextStartMs`: trials do not wait for it, and those of an outage would move it hours ahead.
  pace.nextStartMs = nowMs + intervalMs;
  countEvent(pace.sent, nowMs);
}

/** The service issued a token. */
export function paceIssued(pace: Pace, owner: unknown, sentMs: number, nowMs: number): void {
  showLoad(pace, owner, sentMs, nowMs);
  countEvent(pace.issued, nowMs);
  const perSecond = rateOf(pace.issued, nowMs, 1_000);
  if (perSecond >= bestAt(pace, nowMs)) {
    pace.bestPerSecond = perSecond;
    pace.bestAtMs = nowMs;
  }
  answered(pace, false, sentMs, nowMs);
}

/** Drops the learned rate. */
export function paceRestarted(pace: Pace): void {
  pace.perSecond = Number.POSITIVE_INFINITY;
  pace.shareBefore = 0;
  pace.answers = 0;
  pace.busyShare = 0;
}

/** The owner was removed. */
export function paceForgotten({ unavailable }: Pace, owner: unknown): void {
  unavailable.delete(owner);
}

/** A request failed. @param busy 429, or 503 if that came without `Retry-After`. */
export function paceFailed(
  pace: Pace,
  owner: unknown,
  busy: 429 | 503 | undefined,
  sentMs: number,
  nowMs: number,
): void {
  if (busy === 503) {
    pace.unavailable.delete(owner);
    pace.unavailable.set(owner, nowMs);
    if (pace.unavailable.size > LOAD.owners) pace.unavailable.delete(pace.unavailable.keys().next().value);
  }
  if (busy === undefined || (busy === 503 && nowMs >= pace.loadUntilMs)) answered(pace, false, sentMs, nowMs);
  else if (owner !== pace.lastBusy) {
    pace.lastBusy = owner;
    answered(pace, true, sentMs, nowMs);
  }
}

/** An owner that got a 503 and requested again soon afterwards was issued a token: 503s come from load. */
function showLoad(pace: Pace, owner: unknown, sentMs: number, nowMs: number): void {
  const afterMs = sentMs - (pace.unavailable.get(owner) ?? NEVER);
  if (afterMs >= 0 && afterMs <= LOAD.withinMs) pace.loadUntilMs = nowMs + LOAD.withinMs;
  pace.unavailable.delete(owner);
}

function answered(pace: Pace, isBusy: boolean, sentMs: number, nowMs: number): void {
  // A request from before the last cut says nothing about the rate since.
  if (sentMs <= pace.cutAtMs) return;
  const enough = Math.max(LEAST_ANSWERS, rateOf(pace.issued, nowMs, 1_000));
  pace.answers++;
  pace.busyShare += (Number(isBusy) - pace.busyShare) / Math.min(pace.answers, enough);
  if (pace.answers >= enough && pace.shareBefore > 0) judgeCut(pace, nowMs);
  const most = pace.answers < enough || nowMs < pace.tolerateUntilMs ? HIGH_SHARE : BUSY_SHARE;
  if (pace.answers >= LEAST_ANSWERS && pace.busyShare > most) cut(pace, nowMs);
  else if (!isBusy && pace.shareBefore === 0 && hasLearnedRate(pace)) {
    const seconds = Math.min(1, (nowMs - pace.raisedAtMs) / 1_000);
    pace.perSecond *= RAISE_PER_SECOND ** seconds;
    pace.raisedAtMs = nowMs;
  }
}

function cut(pace: Pace, nowMs: number): void {
  const { busyShare } = pace;
  const sentPerSecond = Math.min(pace.perSecond, rateOf(pace.sent, nowMs, SHORTEST_MS));
  const least = Math.max(LEAST_PER_SECOND, OF_ISSUED * bestAt(pace, nowMs));
  pace.perSecond = Math.max(least, sentPerSecond * (1 - busyShare));
  // An overloaded service issues as many tokens as before.
  const shareExpected = 1 - (sentPerSecond * (1 - busyShare)) / pace.perSecond;
  pace.shareBefore = shareExpected < HELPS * busyShare ? busyShare : 0;
  pace.answers = 0;
  pace.busyShare = 0;
  pace.cutAtMs = nowMs;
  pace.raisedAtMs = nowMs;
}

/** Decides by the answers since the last cut whether it helps. */
function judgeCut(pace: Pace, nowMs: number): void {
  const { busyShare, shareBefore, hasNotHelped } = pace;
  pace.shareBefore = 0;
  pace.hasNotHelped = busyShare > HELPS * shareBefore;
  if (!pace.hasNotHelped) pace.tolerateMs = TRY_AGAIN.baseMs;
  else if (hasNotHelped && busyShare < HIGH_SHARE) {
    paceRestarted(pace);
    pace.tolerateUntilMs = nowMs + pace.tolerateMs;
    pace.tolerateMs = Math.min(2 * pace.tolerateMs, TRY_AGAIN.capMs);
  }
}

const bestAt = ({ bestPerSecond, bestAtMs }: Pace, nowMs: number) =>
  bestPerSecond * FADE_PER_SECOND ** ((nowMs - bestAtMs) / 1_000);

function countEvent(counter: WindowCounter, nowMs: number): void {
  const ageMs = nowMs - counter.sinceMs;
  if (ageMs < 1_000) {
    counter.count++;
    return;
  }
  counter.before = ageMs < 2_000 ? counter.count : 0;
  counter.sinceMs = ageMs < 2_000 ? counter.sinceMs + 1_000 : nowMs;
  counter.count = 1;
}

/** Events in the last second; if counting began less than a second ago, the rate over that time, or `leastMs` if longer. */
function rateOf({ sinceMs, count, before }: WindowCounter, nowMs: number, leastMs: number): number {
  const ageMs = Math.max(0, nowMs - sinceMs);
  if (ageMs >= 1_000) return ageMs < 2_000 ? count : 0;
  if (before > 0) return count + before * (1 - ageMs / 1_000);
  return (count * 1_000) / Math.max(leastMs, ageMs);
}
