/**
 * How many requests may be in flight, how fast they may follow each other, and which failed ones are sent again. All of
 * this is learned from outcomes, because the service states no limits. `concurrency-limit.ts` learns the first part.
 *
 * **429.** While the service issues tokens, it means "too much", not "down". If more requests were in flight than ever
 * succeeded together, the limit shrinks. If not, or if the limit cannot shrink, the service counts requests per second:
 * requests are paced by the rate at which tokens were issued within the last second, if requests had to wait. Each
 * further 429 cuts that rate by a tenth. Each token raises it, by more the longer ago the last 429 was.
 *
 * Without `Retry-After` the request is sent again, a few times at most. Nothing starts for a moment after a 429, unless
 * it is the first in a row and the limit has shrunk. With `Retry-After` the endpoint's circuit opens, and what was
 * learned holds after the pause. If the next 429 comes soon after the pause, the rate follows from all tokens since the
 * last one, pause included: a quota may be spent within a fraction of the time for which it is meant.
 *
 * **Isolated failures.** A request with a transient failure is sent again if the retry budget allows. Ten issued tokens pay
 * for one retry. The budget is empty at the start and saves ten retries, so an outage gets at most ten more requests.
 *
 * **Newcomers** (owners that have never succeeded) slow down while they fail. In an outage they may be the only owners
 * that make requests, because the others still have their tokens. Once any owner has succeeded, failures of newcomers
 * open no circuit, because they may simply have wrong keys. So after an ambiguous failure they start at most one request a
 * second. A token for any newcomer ends the streak, as does the refusal of one (`owner_refused`), and failures of requests
 * that were sent before it no longer count.
 *
 * Where some newcomers always fail, a streak is no sign of an outage, so the registry tolerates streaks about as long as
 * the longest one that was ended so, up to eight. Each further token or refusal lowers this allowance by half a percent.
 */

import type { OwnerStanding } from './circuit-breaker.ts';
import { ConcurrencyLimit, type ConcurrencyRange, type LatencySample } from './concurrency-limit.ts';
import { Pace } from './pace.ts';

export interface FlowOptions {
  readonly concurrency: ConcurrencyRange;
  readonly requestsPerSecond: number | undefined;
}

/** Which requests may start. */
export interface StartLimits {
  /** How many requests may be in flight; 0 until the next one may start. */
  readonly inFlight: number;
  /** Whether requests of newcomers may start. */
  readonly newcomers: boolean;
}

/** A request as it was when it was sent. */
export interface SentPermit {
  /** Counts up in the order in which requests are sent. */
  readonly number: number;
  readonly standing: OwnerStanding;
  /** How many requests were in flight, itself included. */
  readonly inFlight: number;
}

/** A response with a token. */
export interface TokenResponse extends LatencySample {
  /** How many requests were in flight when it came, its own included. */
  readonly inFlight: number;
}

/** A request that was answered with 429. */
export interface RateLimited extends SentPermit {
  readonly nowMs: number;
  /** Whether no other request is in flight. */
  readonly isOnlyRequest: boolean;
  /** The pause that the service asked for. */
  readonly retryAfterMs?: number | undefined;
}

/** How long nothing starts after a 429: the base, doubled with each further 429 without a success in between. */
const QUIET_MS = { base: 50, cap: 1_000 } as const;
/** A 429 cuts the learned rate to this share. */
const AFTER_RATE_LIMIT = 0.9;
/** A learned rate is forgotten after this long without a 429, pauses aside. */
const RATE_VALID_MS = 60_000;
/** A 429 is soon after a pause if that took more than this share of the time since the last 429. */
const PAUSED_SHARE = 1 / 2;
/** What a token adds to the learned rate right after a 429. Grows with the square of the time since. */
const RAISE_PER_SUCCESS = 0.005;
const RAISE_UNIT_MS = 5_000;

/** Tokens that pay for one retry, and how many retries can be saved. */
const SUCCESSES_PER_RETRY = 10;
const MAX_SAVED_RETRIES = 10;

/** The rate of newcomers while more of their requests in a row have failed than is tolerated. */
const NEWCOMERS_PER_SECOND = 1;
/** The longest streak of newcomers' failures that is tolerated. */
const MAX_TOLERATED = 8;
/** Factor applied to the tolerated streak with each token or refusal of a newcomer. */
const TOLERANCE_DECAY = 0.995;

export class Flow {
  readonly #concurrency: ConcurrencyLimit;
  readonly #quota: number;
  readonly #pace: Pace;
  readonly #newcomers = new Pace();
  readonly #recentTokens = new LastSecond();
  /** The number of the request sent last. */
  #sent = 0;
  /** The rate learned from 429s. */
  #perSecond: number | undefined;
  #perSecondUntilMs = Number.NEGATIVE_INFINITY;
  #rateLimitedAtMs = Number.NEGATIVE_INFINITY;
  #tokensSinceRateLimit = 0;
  #quietUntilMs = Number.NEGATIVE_INFINITY;
  /** Whether requests had to wait when the last token came. If not, tokens show the demand, not the service's limit. */
  #isLimitInUse = false;
  /** The most requests in flight of which one succeeded. */
  #mostTogether = 0;
  /** 429s in a row, each to a request sent after the one before. */
  #rateLimitedInARow = 0;
  #rateLimitedUpTo = 0;
  #successesSaved = 0;
  #newcomerSentMs = Number.NEGATIVE_INFINITY;
  /** The current streak of newcomers' failures. */
  #newcomerFailures = 0;
  /** The length of a streak that is tolerated. */
  #toleratedFailures = 0;
  #newestNewcomerAnswer = 0;

  constructor({ concurrency, requestsPerSecond = Number.POSITIVE_INFINITY }: FlowOptions) {
    this.#concurrency = new ConcurrencyLimit(concurrency);
    this.#quota = requestsPerSecond;
    this.#pace = new Pace(requestsPerSecond);
  }

  /** Which requests may start now. */
  limitsAt(nowMs: number): StartLimits {
    return {
      inFlight: nowMs < Math.max(this.#pace.nextAtMs, this.#quietUntilMs) ? 0 : this.#concurrency.limit,
      newcomers: nowMs >= this.#newcomers.nextAtMs,
    };
  }

  /** When a pace next lets a request start; undefined if none delays a request now. */
  nextStartAtMs(nowMs: number): number | undefined {
    const times = [Math.max(this.#pace.nextAtMs, this.#quietUntilMs), this.#newcomers.nextAtMs].filter(
      (ms) => nowMs < ms,
    );
    return times.length > 0 ? Math.min(...times) : undefined;
  }

  /** A request that takes longer than this is slow: far slower than its peers. */
  get slowAfterMs(): number {
    return this.#concurrency.slowAfterMs;
  }

  /**
   * How long a request will wait behind this many others at the current pace. The pace of newcomers does not count,
   * because the next token or refusal of one ends it.
   */
  waitMs(ahead: number): number {
    return Math.max((ahead * 1_000) / this.#pace.perSecond, this.#concurrency.waitMs(ahead));
  }

  /** A request is slow, and has given its permit back. */
  slowed(): void {
    this.#concurrency.slowed();
  }

  sent({ number, standing }: SentPermit, nowMs: number): void {
    this.#sent = number;
    if (nowMs > this.#perSecondUntilMs) this.#forgetRate();
    this.#pace.sent(nowMs);
    if (!isNewcomer(standing)) return;
    this.#newcomers.sent(nowMs);
    this.#newcomerSentMs = nowMs;
  }

  /** @param response undefined if its latency is not the service's: another replica obtained the token. */
  succeeded(permit: SentPermit, nowMs: number, response: TokenResponse | undefined): void {
    const { number, inFlight } = permit;
    this.#recentTokens.add(nowMs);
    this.#tokensSinceRateLimit++;
    this.#successesSaved = Math.min(this.#successesSaved + 1, SUCCESSES_PER_RETRY * MAX_SAVED_RETRIES);
    if (number > this.#rateLimitedUpTo) this.#rateLimitedInARow = 0;
    this.#endStreak(permit);
    if (!response) return;
    this.#isLimitInUse = response.isLimitInUse;
    // The lower number, because those whose responses are on their way here have ended at the service.
    this.#mostTogether = Math.max(this.#mostTogether, Math.min(inFlight, response.inFlight));
    this.#concurrency.succeeded(response, this.#sent);
    if (this.#perSecond !== undefined && response.isLimitInUse) {
      const clean = 1 + (nowMs - this.#rateLimitedAtMs) / RAISE_UNIT_MS;
      this.#pacedBy(this.#perSecond + RAISE_PER_SUCCESS * clean * clean);
    }
  }

  /** A newcomer's request failed ambiguously. */
  newcomerFailed(number: number): void {
    if (number <= this.#newestNewcomerAnswer) return;
    this.#newcomerFailures++;
    if (this.#newcomerFailures <= Math.round(this.#toleratedFailures)) return;
    this.#newcomers.set(NEWCOMERS_PER_SECOND, this.#newcomerSentMs);
  }

  /** The service refused the owner of a request, which proves that it works. */
  refused(permit: SentPermit): void {
    this.#concurrency.refused(permit.number);
    this.#endStreak(permit);
  }

  /** The service answered 503. */
  overloaded(number: number): void {
    this.#concurrency.overloaded(number, this.#sent);
  }

  /** A request got a 429. Returns whether the service merely wants fewer requests. */
  rateLimited({ number, nowMs, inFlight, isOnlyRequest, retryAfterMs: pauseMs = 0 }: RateLimited): boolean {
    const { count, perSecond } = this.#recentTokens.at(nowMs);
    if (isOnlyRequest && count === 0) return false;
    const isConcurrency =
      inFlight > this.#mostTogether && this.#concurrency.rateLimited(number, this.#sent, pauseMs > 0);
    if (number <= this.#rateLimitedUpTo) return true;
    this.#rateLimitedUpTo = this.#sent;
    const before = this.#rateLimitedInARow++;
    if (!isConcurrency || before > 0) this.#quietUntilMs = nowMs + Math.min(QUIET_MS.cap, QUIET_MS.base * 2 ** before);
    if (!isConcurrency) {
      const sinceMs = nowMs - this.#rateLimitedAtMs;
      const isSoon = pauseMs > sinceMs * PAUSED_SHARE;
      const overPause = (this.#tokensSinceRateLimit * 1_000) / Math.max(sinceMs, pauseMs);
      const issued = isSoon ? overPause : perSecond * AFTER_RATE_LIMIT;
      const learned = count > 0 && this.#isLimitInUse ? issued : Number.POSITIVE_INFINITY;
      this.#pacedBy(Math.min(learned, (this.#perSecond ?? Number.POSITIVE_INFINITY) * AFTER_RATE_LIMIT));
    }
    this.#perSecondUntilMs = nowMs + pauseMs + RATE_VALID_MS;
    this.#rateLimitedAtMs = nowMs;
    this.#tokensSinceRateLimit = 0;
    return true;
  }

  /**
   * Takes one retry from the budget for this failed request. Returns false if the budget is empty. A newcomer's failure
   * that is retried extends the streak at once.
   */
  takeRetry({ number, standing }: SentPermit): boolean {
    if (this.#successesSaved < SUCCESSES_PER_RETRY) return false;
    this.#successesSaved -= SUCCESSES_PER_RETRY;
    if (isNewcomer(standing)) this.newcomerFailed(number);
    return true;
  }

  /** A pause has ended. @param number of the request whose response ended it. */
  restart(number: number): void {
    this.#concurrency.restart(number);
  }

  /** A pause began, which admits only trial requests. */
  paused(): void {
    this.#concurrency.raiseToInitial();
  }

  /** `resume()` ended all pauses. */
  resume(): void {
    this.#concurrency.raiseToInitial();
    this.#resetNewcomers();
    this.#rateLimitedInARow = 0;
    this.#quietUntilMs = Number.NEGATIVE_INFINITY;
    this.#forgetRate();
  }

  #forgetRate(): void {
    this.#perSecond = undefined;
    if (this.#quota === Number.POSITIVE_INFINITY) this.#pace.removeBound();
    else this.#pace.set(this.#quota);
  }

  #pacedBy(perSecond: number): void {
    this.#perSecond = Math.max(1, perSecond);
    this.#pace.set(Math.min(this.#quota, this.#perSecond));
  }

  /** The service answered a request as a working one does. If a newcomer's, that ends the streak of their failures. */
  #endStreak({ number, standing }: SentPermit): void {
    if (!isNewcomer(standing)) return;
    this.#newestNewcomerAnswer = Math.max(this.#newestNewcomerAnswer, number);
    const streak = Math.min(this.#newcomerFailures, MAX_TOLERATED);
    this.#toleratedFailures = Math.max(streak, this.#toleratedFailures * TOLERANCE_DECAY);
    this.#resetNewcomers();
  }

  #resetNewcomers(): void {
    this.#newcomerFailures = 0;
    this.#newcomers.removeBound();
  }
}

/** Whether no request of an owner with this standing has ever succeeded. */
export function isNewcomer(standing: OwnerStanding): boolean {
  return standing === 'new' || standing === 'unproven';
}

const PART_MS = 100;
const PARTS = 10;

/** Counts events of the last second, to a tenth of it. */
class LastSecond {
  readonly #counts = new Array<number>(PARTS).fill(0);
  #newestPart = 0;

  add(nowMs: number): void {
    this.#advanceTo(nowMs);
    const part = this.#newestPart % PARTS;
    this.#counts[part] = (this.#counts[part] as number) + 1;
  }

  /** How many there were, and at what rate since the first of them. */
  at(nowMs: number): { count: number; perSecond: number } {
    this.#advanceTo(nowMs);
    const byAge = this.#counts.map((_, age) => this.#counts[(this.#newestPart - age + PARTS) % PARTS] as number);
    const count = byAge.reduce((sum, each) => sum + each);
    const oldest = byAge.findLastIndex((each) => each > 0);
    return { count, perSecond: (count * PARTS) / Math.max(1, oldest + 1) };
  }

  #advanceTo(nowMs: number): void {
    const part = Math.floor(nowMs / PART_MS);
    const last = Math.max(this.#newestPart, part - PARTS);
    for (let each = last + 1; each <= part; each++) this.#counts[each % PARTS] = 0;
    this.#newestPart = Math.max(this.#newestPart, part);
  }
}
