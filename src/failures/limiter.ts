/**
 * When the next request may be sent: how many may run at once, and how many may start each second. Each event changes the state in
 * place; nothing here reads a clock.
 *
 * **Concurrency limit.** 16 requests at once, one more with each token and each 10 ms, up to 32, or until the first token, 429 or 503 comes: a
 * service that is far away or cold answers late, however many requests wait for it. Beyond that the limit rises while it is reached,
 * by half within about one latency, as long as answers take less than one and a half times as long as usual: a service that can do more
 * at once answers as fast as before, an overloaded one takes as much longer. Otherwise it returns to 32, and rises again
 * after five seconds.
 *
 * **Rate limit.** None, until more than a share of the answers say that the service is busy. Then requests
 * are spaced at the rate at which they were sent, less that share. Without such answers the limit rises by a fifth each second,
 * starting from at least a third of the rate at which requests were sent before the cut: 429s after a second's quota is used up say
 * nothing about the next second. A minute after the last cut the limit is dropped.
 *
 * A 429 says that the service is busy. A 503 may come from one failing shard, where a lower rate limit does not help: it counts only for
 * a moment after an owner that got a 503 was issued a token soon afterwards.
 */

/** Events a second: a moving average over about the last second. */
interface Meter {
  sinceMs: number;
  atMs: number;
  /** Not corrected for the time before `sinceMs`, in which nothing was counted. */
  perSecond: number;
}

export interface Limiter {
  /** The option `concurrency`. */
  readonly most: number;
  /** The concurrency limit after the ramp, undefined until the first answer. */
  atOnce: number | undefined;
  /** For the ramp: how many tokens came, and when the first request was sent. */
  issuedCount: number;
  firstSentMs: number | undefined;
  /** Moving averages of the latency: with at most {@link AT_ONCE} requests running, and at a concurrency limit beyond that. */
  usualMs: number | undefined;
  fullMs: number | undefined;
  /** When the concurrency limit may rise again. */
  raisesAtMs: number;
  /** The configured quota, and the learned rate limit. */
  readonly quotaPerSecond: number;
  perSecond: number;
  /** The first answer that does not say that the service is busy brings the learned rate limit back to at least this. */
  returnsToPerSecond: number;
  nextStartMs: number;
  /** The answers to requests that were sent since the last cut, and the share of them that say that the service is busy. */
  answers: number;
  busyShare: number;
  cutAtMs: number;
  raisedAtMs: number;
  readonly sent: Meter;
  /** Until then a 503 says that the service is busy. */
  loadUntilMs: number;
}

/** How many requests run at once without any evidence that more would help. */
const AT_ONCE = 32;
/** How many a new registry runs at once, and after how many milliseconds it adds one. */
const RAMP = { atFirst: 16, msPerRequest: 10 } as const;
/** At the limit, this many answers raise it by one. */
const ANSWERS_PER_RAISE = 2;
/** The limit is too high once answers take this much longer than usual. */
const TOO_SLOW = 1.5;
/** For so long it does not rise after it was too high. */
const RAISES_AFTER_MS = 5_000;
/** Roughly how many recent latencies a moving average covers. */
export const LATENCIES_AVERAGED = 20;

const BUSY_SHARE = 0.18;
/** The share covers about a second of answers, but at least this many. */
const LEAST_ANSWERS = 20;
const LEAST_PER_SECOND = 5;
const RAISE_PER_SECOND = 1.2;
/** Of the rate before a cut. Twenty 429s in a row may only mean that the quota of this second is used up. */
const KEPT_SHARE = 1 / 3;
const FORGET_AFTER_MS = 60_000;
/** A burst that is shorter counts as this long. */
const SHORTEST_MS = 200;
/** If it were seconds, a rolling restart would look like load. */
const LOAD_MS = 500;
const NEVER = Number.NEGATIVE_INFINITY;

const newMeter = (): Meter => ({ sinceMs: NEVER, atMs: NEVER, perSecond: 0 });

export function initialLimiter(most: number, quotaPerSecond = Number.POSITIVE_INFINITY): Limiter {
  return {
    most,
    atOnce: undefined,
    issuedCount: 0,
    firstSentMs: undefined,
    usualMs: undefined,
    fullMs: undefined,
    raisesAtMs: NEVER,
    quotaPerSecond,
    perSecond: Number.POSITIVE_INFINITY,
    returnsToPerSecond: 0,
    nextStartMs: NEVER,
    answers: 0,
    busyShare: 0,
    cutAtMs: NEVER,
    raisedAtMs: NEVER,
    sent: newMeter(),
    loadUntilMs: NEVER,
  };
}

/**
 * The rate limit on token requests.
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

/** The rate limit in force; undefined if there is none. */
export function paceStat(limiter: Limiter, nowMs: number): PaceStat | undefined {
  const { quotaPerSecond } = limiter;
  const learned = learnedAt(limiter, nowMs);
  const least = Math.min(learned, quotaPerSecond);
  if (least === Number.POSITIVE_INFINITY) return undefined;
  return { perSecond: least, reason: learned < quotaPerSecond ? 'overload' : 'quota' };
}

const learnedAt = ({ perSecond, cutAtMs }: Limiter, nowMs: number): number =>
  nowMs - cutAtMs > FORGET_AFTER_MS ? Number.POSITIVE_INFINITY : perSecond;

/** When one more request may start beside those that run; infinite until one of them has ended. */
export function startsAtMs(limiter: Limiter, running: number, nowMs: number): number {
  const { most, atOnce = most, issuedCount, firstSentMs = nowMs, nextStartMs } = limiter;
  const ramp = RAMP.atFirst + issuedCount + Math.floor((nowMs - firstSentMs) / RAMP.msPerRequest);
  if (running >= atOnce) return Number.POSITIVE_INFINITY;
  return running < ramp ? Math.max(nowMs, nextStartMs) : Math.max(nowMs + RAMP.msPerRequest, nextStartMs);
}

/** A request starts. */
export function limiterSent(limiter: Limiter, nowMs: number): void {
  limiter.firstSentMs ??= nowMs;
  limiter.perSecond = learnedAt(limiter, nowMs);
  // Not counted from the last `nextStartMs`: trials do not wait for it, and those of an outage would move it hours ahead.
  limiter.nextStartMs = nowMs + 1_000 / Math.min(limiter.perSecond, limiter.quotaPerSecond);
  count(limiter.sent, nowMs);
}

/** An answer, and how many requests ran, the answered one included. */
interface Answer {
  readonly tookMs: number;
  readonly running: number;
}

/**
 * The service issued a token.
 *
 * @param unavailableMs when the owner's request before this one got a 503, if it did.
 */
export function limiterIssued(
  limiter: Limiter,
  { tookMs, running }: Answer,
  unavailableMs: number | undefined,
  nowMs: number,
): void {
  limiter.issuedCount++;
  fitConcurrency(limiter, tookMs, running, nowMs);
  const sentMs = nowMs - tookMs;
  if (unavailableMs !== undefined && sentMs - unavailableMs <= LOAD_MS) limiter.loadUntilMs = nowMs + LOAD_MS;
  answered(limiter, false, sentMs, nowMs);
}

/** A request failed. @param busy the status, if it is 429 or 503. */
export function limiterFailed(
  limiter: Limiter,
  { tookMs, running }: Answer,
  busy: 429 | 503 | undefined,
  nowMs: number,
): void {
  if (busy !== undefined) limiter.atOnce ??= firstLimit(limiter, running);
  const sentMs = nowMs - tookMs;
  if (busy === undefined || (busy === 503 && nowMs >= limiter.loadUntilMs)) answered(limiter, false, sentMs, nowMs);
  else answered(limiter, true, sentMs, nowMs);
}

/** The concurrency limit once the first answer comes: as many as ran by then, but at least {@link AT_ONCE}. */
const firstLimit = ({ most }: Limiter, running: number): number => Math.min(most, Math.max(AT_ONCE, running));

function fitConcurrency(limiter: Limiter, tookMs: number, running: number, nowMs: number): void {
  limiter.atOnce ??= firstLimit(limiter, running);
  const { most, atOnce, usualMs: before } = limiter;
  const averaged = (ms = tookMs) => ms + (tookMs - ms) / LATENCIES_AVERAGED;
  const usualMs = running <= AT_ONCE || before === undefined ? averaged(before) : before;
  limiter.usualMs = usualMs;
  // At `most` it stays: a service that is slow for seconds would be slow for longer with only 32 at once.
  if (running < atOnce || atOnce === most || nowMs < limiter.raisesAtMs) return;
  limiter.fullMs = averaged(limiter.fullMs ?? usualMs);
  if (atOnce > AT_ONCE && limiter.fullMs > TOO_SLOW * usualMs) {
    limiter.atOnce = AT_ONCE;
    limiter.fullMs = undefined;
    limiter.raisesAtMs = nowMs + RAISES_AFTER_MS;
  } else limiter.atOnce = Math.min(most, atOnce + 1 / ANSWERS_PER_RAISE);
}

function answered(limiter: Limiter, isBusy: boolean, sentMs: number, nowMs: number): void {
  // A request from before the last cut says nothing about the rate limit since.
  if (sentMs <= limiter.cutAtMs) return;
  limiter.answers++;
  const enough = Math.max(LEAST_ANSWERS, rateOf(limiter.sent, nowMs));
  limiter.busyShare += (Number(isBusy) - limiter.busyShare) / Math.min(limiter.answers, enough);
  if (limiter.answers >= LEAST_ANSWERS && limiter.busyShare > BUSY_SHARE) cut(limiter, nowMs);
  else if (!isBusy) {
    const seconds = Math.min(1, (nowMs - limiter.raisedAtMs) / 1_000);
    limiter.perSecond = Math.max(limiter.returnsToPerSecond, limiter.perSecond * RAISE_PER_SECOND ** seconds);
    limiter.raisedAtMs = nowMs;
  }
}

function cut(limiter: Limiter, nowMs: number): void {
  const sentPerSecond = Math.min(limiter.perSecond, rateOf(limiter.sent, nowMs));
  limiter.perSecond = Math.max(LEAST_PER_SECOND, sentPerSecond * (1 - limiter.busyShare));
  limiter.returnsToPerSecond = sentPerSecond * KEPT_SHARE;
  limiter.answers = 0;
  limiter.busyShare = 0;
  limiter.cutAtMs = nowMs;
  limiter.raisedAtMs = nowMs;
}

const decayed = ({ perSecond, atMs }: Meter, nowMs: number) => perSecond * Math.exp((atMs - nowMs) / 1_000);

function count(meter: Meter, nowMs: number): void {
  meter.perSecond = nowMs - meter.atMs > 2_000 ? 1 : decayed(meter, nowMs) + 1;
  if (meter.perSecond === 1) meter.sinceMs = nowMs;
  meter.atMs = nowMs;
}

function rateOf(meter: Meter, nowMs: number): number {
  if (nowMs - meter.atMs > 2_000) return 0;
  const counted = 1 - Math.exp(-Math.max(SHORTEST_MS, nowMs - meter.sinceMs) / 1_000);
  return decayed(meter, nowMs) / counted;
}
