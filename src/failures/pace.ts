/**
 * The rate at which requests are sent. A pure reducer.
 *
 * If more than 15 % of the recent responses, counted by distinct owners, are 429 or 503, the service is overloaded. The rate is
 * then cut to the rate at which requests were sent, less that share, but never below nine tenths of the rate at which the
 * service recently issued tokens. Without such responses the rate rises by a tenth each second, and a minute after the last
 * cut the limit is dropped. A trickle of 429s changes nothing.
 */

/** Counts events in windows of a second. */
interface Meter {
  readonly sinceMs: number;
  readonly count: number;
  /** The count of the window before. */
  readonly before: number;
}

export interface Pace {
  /** The configured quota. */
  readonly quotaPerSecond: number;
  /** The learned rate. */
  readonly perSecond: number;
  readonly nextStartMs: number;
  /** The share of 429s and 503s, as a moving average. */
  readonly busyShare: number;
  /** The owner of the last such response: a repeated one of the same owner does not count. */
  readonly lastBusy: unknown;
  readonly cutAtMs: number;
  readonly raisedAtMs: number;
  readonly sent: Meter;
  readonly issued: Meter;
  /** The highest rate of tokens issued within a second; fades. */
  readonly best: { readonly perSecond: number; readonly atMs: number };
}

const BUSY_SHARE = 0.15;
/** The moving average counts about this many answers. */
const ANSWERS_AVERAGED = 20;
const LEAST_PER_SECOND = 5;
const CUT_INTERVAL_MS = 500;
const OF_ISSUED = 0.9;
const RAISE_PER_SECOND = 1.1;
const FADE_PER_SECOND = 0.9;
const FORGET_AFTER_MS = 60_000;
/** A burst that is shorter counts as this long. */
const SHORTEST_MS = 200;
const NEVER = Number.NEGATIVE_INFINITY;
const NO_METER: Meter = Object.freeze({ sinceMs: NEVER, count: 0, before: 0 });

export function initialPace(quotaPerSecond = Number.POSITIVE_INFINITY): Pace {
  return {
    quotaPerSecond,
    perSecond: Number.POSITIVE_INFINITY,
    nextStartMs: NEVER,
    busyShare: 0,
    lastBusy: undefined,
    cutAtMs: NEVER,
    raisedAtMs: NEVER,
    sent: NO_METER,
    issued: NO_METER,
    best: { perSecond: 0, atMs: 0 },
  };
}

/** Whether a learned rate limits requests. */
export const isPaced = ({ perSecond }: Pace): boolean => perSecond < Number.POSITIVE_INFINITY;

/** A request starts. */
export function paceSent(pace: Pace, nowMs: number): Pace {
  const isForgotten = nowMs - pace.cutAtMs > FORGET_AFTER_MS;
  const perSecond = isForgotten ? Number.POSITIVE_INFINITY : pace.perSecond;
  const intervalMs = 1_000 / Math.min(perSecond, pace.quotaPerSecond);
  return {
    ...pace,
    perSecond,
    sent: counted(pace.sent, nowMs),
    nextStartMs: Math.max(nowMs, pace.nextStartMs) + intervalMs,
  };
}

/** The service issued a token. */
export function paceIssued(pace: Pace, nowMs: number): Pace {
  const issued = counted(pace.issued, nowMs);
  const perSecond = rateOf(issued, nowMs, 1_000);
  const best = perSecond >= bestAt(pace, nowMs) ? { perSecond, atMs: nowMs } : pace.best;
  return paceAnswered({ ...pace, issued, best }, false, nowMs);
}

/** Drops the learned rate. */
export function paceRestarted(pace: Pace): Pace {
  const nextStartMs = Number.isFinite(pace.quotaPerSecond) ? pace.nextStartMs : NEVER;
  return { ...pace, perSecond: Number.POSITIVE_INFINITY, nextStartMs, busyShare: 0 };
}

/** A request failed. @param busy the owner, if the response was a 429 or 503; undefined otherwise. */
export function paceFailed(pace: Pace, busy: unknown, nowMs: number): Pace {
  if (busy === undefined) return paceAnswered(pace, false, nowMs);
  return busy === pace.lastBusy ? pace : paceAnswered({ ...pace, lastBusy: busy }, true, nowMs);
}

function paceAnswered(pace: Pace, isBusy: boolean, nowMs: number): Pace {
  const busyShare = pace.busyShare + ((isBusy ? 1 : 0) - pace.busyShare) / ANSWERS_AVERAGED;
  if (busyShare > BUSY_SHARE && nowMs - pace.cutAtMs >= CUT_INTERVAL_MS) return cut(pace, busyShare, nowMs);
  if (isBusy || pace.perSecond === Number.POSITIVE_INFINITY) return { ...pace, busyShare };
  const seconds = Math.min(1, (nowMs - pace.raisedAtMs) / 1_000);
  return { ...pace, busyShare, perSecond: pace.perSecond * RAISE_PER_SECOND ** seconds, raisedAtMs: nowMs };
}

function cut(pace: Pace, busyShare: number, nowMs: number): Pace {
  const sentPerSecond = rateOf(pace.sent, nowMs, SHORTEST_MS);
  const least = Math.max(LEAST_PER_SECOND, OF_ISSUED * bestAt(pace, nowMs));
  const perSecond = Math.max(least, Math.min(pace.perSecond, sentPerSecond) * (1 - busyShare));
  return { ...pace, perSecond, cutAtMs: nowMs, raisedAtMs: nowMs, busyShare: 0 };
}

const bestAt = ({ best }: Pace, nowMs: number) => best.perSecond * FADE_PER_SECOND ** ((nowMs - best.atMs) / 1_000);

function counted(meter: Meter, nowMs: number): Meter {
  const ageMs = nowMs - meter.sinceMs;
  if (ageMs < 1_000) return { ...meter, count: meter.count + 1 };
  return ageMs < 2_000
    ? { sinceMs: meter.sinceMs + 1_000, count: 1, before: meter.count }
    : { sinceMs: nowMs, count: 1, before: 0 };
}

/** Events in the last second; if counting began less than a second ago, the rate over that time, or `leastMs` if longer. */
function rateOf({ sinceMs, count, before }: Meter, nowMs: number, leastMs: number): number {
  const ageMs = Math.max(0, nowMs - sinceMs);
  if (ageMs >= 1_000) return ageMs < 2_000 ? count : 0;
  if (before > 0) return count + before * (1 - ageMs / 1_000);
  return (count * 1_000) / Math.max(leastMs, ageMs);
}
