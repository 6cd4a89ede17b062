/**
 * Whether tokens take much longer than they usually do. The recent latency is a mean over about ten seconds, the usual one over
 * about an hour: of tokens that did not take too long themselves, and while the service is not called slow. So a slow service does
 * not become the usual one.
 *
 * Too long is over four times the usual latency and over a second; before ten tokens, over five seconds. The service is called
 * slow once the recent latency has been too long for 20 seconds, until it has not been for 20 seconds. Both are noticed when a
 * token arrives. Nothing here reads a clock.
 */

/** A mean in which older values count less. */
interface Mean {
  sum: number;
  weight: number;
  atMs: number;
}

export interface SlowService {
  /** How many tokens the usual latency is the mean of. */
  tokens: number;
  readonly usual: Mean;
  readonly recent: Mean;
  /** Whether the recent latency is too long, and since when that has been so. */
  isTooLong: boolean;
  changedAtMs: number;
  /** Since when the service is called slow; undefined while it is not. */
  sinceMs: number | undefined;
}

const HOUR_MS = 3_600_000;
const RECENT_MS = 10_000;
const ENOUGH_TOKENS = 10;
const TOO_LONG = { times: 4, leastMs: 1_000, beforeEnoughMs: 5_000 } as const;
const LASTS_MS = 20_000;

const newMean = (): Mean => ({ sum: 0, weight: 0, atMs: 0 });

export const initialSlowService = (): SlowService => ({
  tokens: 0,
  usual: newMean(),
  recent: newMean(),
  isTooLong: false,
  changedAtMs: 0,
  sinceMs: undefined,
});

/** A token was issued. */
export function noteLatency(service: SlowService, tookMs: number, nowMs: number): void {
  count(service.recent, tookMs, nowMs, RECENT_MS);
  const usualMs = usualLatencyMs(service);
  const limitMs =
    usualMs === undefined ? TOO_LONG.beforeEnoughMs : Math.max(TOO_LONG.leastMs, TOO_LONG.times * usualMs);
  const isTooLong = recentLatencyMs(service) > limitMs;
  if (isTooLong !== service.isTooLong) {
    service.isTooLong = isTooLong;
    service.changedAtMs = nowMs;
  }
  if (nowMs - service.changedAtMs >= LASTS_MS) {
    if (!isTooLong) service.sinceMs = undefined;
    else service.sinceMs ??= service.changedAtMs;
  }
  if (tookMs > limitMs || service.sinceMs !== undefined) return;
  count(service.usual, tookMs, nowMs, HOUR_MS);
  service.tokens++;
}

export const recentLatencyMs = ({ recent }: SlowService): number => recent.sum / recent.weight;

/** Undefined before enough tokens have come. */
export const usualLatencyMs = ({ tokens, usual }: SlowService): number | undefined =>
  tokens < ENOUGH_TOKENS ? undefined : usual.sum / usual.weight;

function count(mean: Mean, value: number, nowMs: number, spanMs: number): void {
  const kept = Math.exp((mean.atMs - nowMs) / spanMs);
  mean.sum = mean.sum * kept + value;
  mean.weight = mean.weight * kept + 1;
  mean.atMs = nowMs;
}
