/**
 * The rate at which requests are sent. Each event changes the state in place; nothing here reads a clock.
 *
 * If more than 15 % of the recent responses, counted by distinct owners, say that the service is busy, it is overloaded. The rate is
 * then cut to the rate at which requests were sent, less that share, but never below nine tenths of the rate at which the
 * service recently issued tokens. Without such responses the rate rises by a tenth each second, and a minute after the last
 * cut the limit is dropped. A trickle of 429s changes nothing.
 *
 * A 429 says that the service is busy. A 503 may be a failure of that part of the service which its owner is on, where a lower rate
 * helps nobody: it counts only after many answers were 503s, and an owner that got one was served soon after it.
 */

/** Counts events in windows of a second. */
interface Meter {
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
  /** The share of responses that say that the service is busy, as a moving average. */
  busyShare: number;
  /** The owner of the last such response: a repeated one of the same owner does not count. */
  lastBusy: unknown;
  cutAtMs: number;
  raisedAtMs: number;
  readonly sent: Meter;
  readonly issued: Meter;
  /** The highest rate of tokens issued within a second; fades. */
  bestPerSecond: number;
  bestAtMs: number;
  /** The share of 503s, as a moving average, and when each of the last owners got one. */
  unavailableShare: number;
  readonly unavailable: Map<unknown, number>;
  /** Until then a 503 says that the service is busy. */
  loadUntilMs: number;
}

const BUSY_SHARE = 0.15;
/** The moving average counts about this many answers. */
const ANSWERS_AVERAGED = 20;
/** In a burst, which is so many tokens within a second, the rate follows the latest answers. */
const BURST = { tokens: 50, answersAveraged: 5, busyShare: 0.3, cutIntervalMs: 100 } as const;
const LEAST_PER_SECOND = 5;
const CUT_INTERVAL_MS = 500;
const OF_ISSUED = 0.9;
const RAISE_PER_SECOND = 1.1;
const FADE_PER_SECOND = 0.9;
const FORGET_AFTER_MS = 60_000;
/** A burst that is shorter counts as this long. */
const SHORTEST_MS = 200;
/** Load: this share of 503s, and an owner served within so long of one. For so long after it was shown, 503s count as 429s do. */
const LOAD = { share: 0.3, servedWithinMs: 2_000, lastsMs: 5_000, owners: 256 } as const;
const NEVER = Number.NEGATIVE_INFINITY;

const newMeter = (): Meter => ({ sinceMs: NEVER, count: 0, before: 0 });

export function initialPace(quotaPerSecond = Number.POSITIVE_INFINITY): Pace {
  return {
    quotaPerSecond,
    perSecond: Number.POSITIVE_INFINITY,
    nextStartMs: NEVER,
    busyShare: 0,
    lastBusy: undefined,
    cutAtMs: NEVER,
    raisedAtMs: NEVER,
    sent: newMeter(),
    issued: newMeter(),
    bestPerSecond: 0,
    bestAtMs: 0,
    unavailableShare: 0,
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
export function paceStat({ perSecond, quotaPerSecond, cutAtMs }: Pace, nowMs: number): PaceStat | undefined {
  const learned = nowMs - cutAtMs > FORGET_AFTER_MS ? Number.POSITIVE_INFINITY : perSecond;
  const least = Math.min(learned, quotaPerSecond);
  if (least === Number.POSITIVE_INFINITY) return undefined;
  return { perSecond: least, reason: learned < quotaPerSecond ? 'overload' : 'quota' };
}

/** Whether a learned rate limits requests. */
export const isPaced = ({ perSecond }: Pace): boolean => perSecond < Number.POSITIVE_INFINITY;

/** A request starts. */
export function paceSent(pace: Pace, nowMs: number): void {
  if (nowMs - pace.cutAtMs > FORGET_AFTER_MS) pace.perSecond = Number.POSITIVE_INFINITY;
  const intervalMs = 1_000 / Math.min(pace.perSecond, pace.quotaPerSecond);
  pace.nextStartMs = Math.max(nowMs, pace.nextStartMs) + intervalMs;
  count(pace.sent, nowMs);
}

/** The service issued a token. */
export function paceIssued(pace: Pace, owner: unknown, nowMs: number): void {
  showLoad(pace, owner, nowMs);
  count(pace.issued, nowMs);
  const perSecond = rateOf(pace.issued, nowMs, 1_000);
  if (perSecond >= bestAt(pace, nowMs)) {
    pace.bestPerSecond = perSecond;
    pace.bestAtMs = nowMs;
  }
  answered(pace, false, nowMs);
}

/** Drops the learned rate. */
export function paceRestarted(pace: Pace): void {
  pace.perSecond = Number.POSITIVE_INFINITY;
  pace.busyShare = 0;
  if (pace.quotaPerSecond === Number.POSITIVE_INFINITY) pace.nextStartMs = NEVER;
}

/** A request failed. @param busy whether the response was a 429, or a 503 that does not say for how long. */
export function paceFailed(pace: Pace, owner: unknown, busy: 429 | 503 | undefined, nowMs: number): void {
  pace.unavailableShare += (Number(busy === 503) - pace.unavailableShare) / ANSWERS_AVERAGED;
  if (busy === 503) {
    pace.unavailable.delete(owner);
    pace.unavailable.set(owner, nowMs);
    if (pace.unavailable.size > LOAD.owners) pace.unavailable.delete(pace.unavailable.keys().next().value);
  }
  if (busy === undefined || (busy === 503 && nowMs >= pace.loadUntilMs)) answered(pace, false, nowMs);
  else if (owner !== pace.lastBusy) {
    pace.lastBusy = owner;
    answered(pace, true, nowMs);
  }
}

/** Whether the 503s of late come from load: an owner that got one is served soon after. */
function showLoad(pace: Pace, owner: unknown, nowMs: number): void {
  const failedMs = pace.unavailable.get(owner);
  const isServedSoon = failedMs !== undefined && nowMs - failedMs <= LOAD.servedWithinMs;
  if (isServedSoon && pace.unavailableShare >= LOAD.share) pace.loadUntilMs = nowMs + LOAD.lastsMs;
  pace.unavailable.delete(owner);
  pace.unavailableShare -= pace.unavailableShare / ANSWERS_AVERAGED;
}

function answered(pace: Pace, isBusy: boolean, nowMs: number): void {
  const isBurst = rateOf(pace.issued, nowMs, 1_000) >= BURST.tokens;
  pace.busyShare += (Number(isBusy) - pace.busyShare) / (isBurst ? BURST.answersAveraged : ANSWERS_AVERAGED);
  const cutAgainMs = pace.cutAtMs + (isBurst ? BURST.cutIntervalMs : CUT_INTERVAL_MS);
  if (pace.busyShare > (isBurst ? BURST.busyShare : BUSY_SHARE) && nowMs >= cutAgainMs) cut(pace, nowMs);
  else if (!isBusy && pace.perSecond < Number.POSITIVE_INFINITY) {
    const seconds = Math.min(1, (nowMs - pace.raisedAtMs) / 1_000);
    pace.perSecond *= RAISE_PER_SECOND ** seconds;
    pace.raisedAtMs = nowMs;
  }
}

function cut(pace: Pace, nowMs: number): void {
  const sentPerSecond = rateOf(pace.sent, nowMs, SHORTEST_MS);
  const least = Math.max(LEAST_PER_SECOND, OF_ISSUED * bestAt(pace, nowMs));
  pace.perSecond = Math.max(least, Math.min(pace.perSecond, sentPerSecond) * (1 - pace.busyShare));
  pace.busyShare = 0;
  pace.cutAtMs = nowMs;
  pace.raisedAtMs = nowMs;
}

const bestAt = ({ bestPerSecond, bestAtMs }: Pace, nowMs: number) =>
  bestPerSecond * FADE_PER_SECOND ** ((nowMs - bestAtMs) / 1_000);

function count(meter: Meter, nowMs: number): void {
  const ageMs = nowMs - meter.sinceMs;
  if (ageMs < 1_000) {
    meter.count++;
    return;
  }
  meter.before = ageMs < 2_000 ? meter.count : 0;
  meter.sinceMs = ageMs < 2_000 ? meter.sinceMs + 1_000 : nowMs;
  meter.count = 1;
}

/** Events in the last second; if counting began less than a second ago, the rate over that time, or `leastMs` if longer. */
function rateOf({ sinceMs, count, before }: Meter, nowMs: number, leastMs: number): number {
  const ageMs = Math.max(0, nowMs - sinceMs);
  if (ageMs >= 1_000) return ageMs < 2_000 ? count : 0;
  if (before > 0) return count + before * (1 - ageMs / 1_000);
  return (count * 1_000) / Math.max(leastMs, ageMs);
}
