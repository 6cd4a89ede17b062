/**
 * How many token requests may be in flight. The service states no limit, so it is learned from outcomes:
 *
 * | evidence                                                 | the limit                                             |
 * | -------------------------------------------------------- | ----------------------------------------------------- |
 * | successes while all permits are in use, latency normal   | grows by a quarter per round trip (doubles up to the  |
 * |                                                          | initial limit), or near a ceiling by one per round;   |
 * |                                                          | by less the higher the latency                        |
 * | a slow request, before any latency is known              | grows by one, up to twice the initial limit           |
 * | a 429 that `flow.ts` attributes to concurrency           | shrinks by a quarter, which marks a ceiling           |
 * | more than a tenth of the responses are 503               | likewise                                              |
 * | latency over 1.5 times the best                          | stays                                                 |
 * | latency of twice the best, or over 1.5 times for three   | shrinks by a seventh, which marks a ceiling           |
 * | rounds in a row                                          |                                                       |
 * | high latency even after three such steps, or at the      | stays: the service itself has become slower, so this  |
 * | lowest limit                                             | is the best latency from now on                       |
 * | a pause ended                                            | starts again at one                                   |
 * | an owner was refused, no ceiling is known                | grows by one, up to the initial limit                 |
 *
 * A 429 with `Retry-After` pauses all requests, so the ceiling that it marks is approached more slowly, and outlasts the
 * pause.
 *
 * Latencies are averaged over a round, a set of requests sent one after the other. An outlier is capped before it
 * counts, and a fast round moves the best latency by only a quarter of the difference: after one lucky round, normal
 * latency would look like congestion. Requests sent before the limit last changed are not evidence about the new limit.
 */

/** Bounds of the number of token requests in flight. */
export interface ConcurrencyRange {
  /** The limit of a new registry; `min` to `max`. Default: 16, or what is nearest to it. */
  readonly initial: number;
  /** The limit never shrinks below this, except after a pause; 1 to `max`. Default: 1. */
  readonly min: number;
  /** The limit never grows beyond this; 1 to 10,000. Default: 128, or `initial` if that is more. */
  readonly max: number;
}

/** The latency of a request that returned a token. */
export interface LatencySample {
  /** Permits are numbered in the order in which requests are sent. */
  readonly number: number;
  readonly latencyMs: number;
  /** Whether requests had to wait because of the limit. */
  readonly isLimitInUse: boolean;
}

/** What a success adds to the limit beyond the initial one while no ceiling is known: a quarter per round trip. */
const GROWTH = 1 / 4;
/** A round has as many requests as may be in flight, and at least this many: an average of fewer is mostly noise. */
const MIN_ROUND = 32;
/** A round ends when this share of it has been answered, so that it does not wait for the slowest. */
const ANSWERED = 0.9;
/** Latency that counts as congestion, as a multiple of the best. The event loop alone may add some milliseconds. */
const CONGESTED = 1.5;
/** Congestion this strong, or in this many rounds in a row, shrinks the limit. */
const STRONGLY_CONGESTED = 2;
const CONGESTED_ROUNDS = 3;
const NOISE_MS = 10;
/** A slower response counts as one that took this many times the best latency. */
const OUTLIER = 4;
/** What remains of the limit after a 429 or overload, and after congestion. */
const AFTER_RATE_LIMIT = 0.75;
const AFTER_CONGESTION = 0.85;
/** After this many steps without effect the high latency is attributed to the service itself. */
const INEFFECTIVE_STEPS = 3;
/** A step had an effect if it left less than this share of the latency. */
const EFFECT = 0.9;
/** A larger share of 503 responses in a round counts as overload. */
const OVERLOAD_SHARE = 0.1;
/** How much of the difference a round moves the best latency: down, and up at the same limit. */
const FASTER = 1 / 4;
const SLOWER = 1 / 50;
/** How many rounds it takes to add one near a ceiling that costs a pause. */
const COSTLY_ROUNDS = 8;
/** Until a latency is known, slow requests raise the limit up to this multiple of the initial one. */
const WIDEST_BLIND = 2;
/** A limit that exceeds its ceiling by a tenth without congestion has refuted it. */
const REFUTED = 1.1;
/** The tail is the 95th percentile: each response beyond it raises it by nearly a fifth. */
const TAIL_STEP = 0.2;
const TAIL = 0.95;
/** A request counts as slow after this long, or after this multiple of the tail if that is later. */
const SLOW_MS = 500;
const SLOW = 3;
/** As long as no latency is known, less: nothing starts meanwhile if hanging owners were asked first. */
const SLOW_BLIND_MS = 300;

export class ConcurrencyLimit {
  readonly #range: ConcurrencyRange;
  #limit: number;
  /** The limit at which congestion was last seen; infinite if that is unknown. */
  #ceiling = Number.POSITIVE_INFINITY;
  /** Whether a 429 with `Retry-After` marked the last ceiling: each attempt to exceed it may cost a pause. */
  #isCeilingCostly: boolean | undefined;
  /** Responses to this and earlier requests say nothing about the limit. */
  #changedAt = 0;
  #best: { ms: number; atLimit: number } | undefined;
  #recentMs: number | undefined;
  #tailMs = 0;
  #round: Round;
  /** Steps made in a row because of latency, and the highest latency since. */
  #steps = 0;
  #highestMs = 0;
  #congestedRounds = 0;

  constructor(range: ConcurrencyRange) {
    this.#range = range;
    this.#limit = range.initial;
    // The first requests are slow, because connections are opened and code is compiled.
    this.#round = this.#roundAfter(range.initial);
  }

  get limit(): number {
    return Math.floor(this.#limit);
  }

  /** A request that takes longer than this is slow: far slower than its peers. */
  get slowAfterMs(): number {
    return this.#tailMs === 0 ? SLOW_BLIND_MS : Math.max(SLOW_MS, SLOW * this.#tailMs);
  }

  /** How long a request waits behind this many others; 0 if that is unknown. */
  waitMs(ahead: number): number {
    const limit = Math.max(this.#limit, Math.min(this.#range.max, this.#ceiling * AFTER_RATE_LIMIT));
    return (ahead * (this.#recentMs ?? 0)) / limit;
  }

  /** @param sent the number of the request sent last. */
  succeeded({ number, latencyMs, isLimitInUse }: LatencySample, sent: number): void {
    this.#tailMs = tailAfter(this.#tailMs, latencyMs);
    if (number <= this.#changedAt) return;
    const ms = Math.min(latencyMs, OUTLIER * Math.max(this.#best?.ms ?? Number.POSITIVE_INFINITY, NOISE_MS));
    this.#recentMs = this.#recentMs === undefined ? ms : this.#recentMs + (ms - this.#recentMs) / 4;
    if (isLimitInUse) this.#grow(this.#recentMs);
    if (isIn(this.#round, number)) {
      this.#round.responses++;
      this.#round.sumMs += ms;
      if (isLimitInUse) this.#round.inUse++;
    }
    this.#endRound(number, sent);
  }

  /**
   * The service refused the owner. That proves that it works, so the limit grows back after a pause, even if it meets
   * many wrong keys. It may refuse an owner faster than it issues a token, so the latency says nothing.
   */
  refused(number: number): void {
    if (number <= this.#changedAt) return;
    this.#limit = Math.max(this.#limit, Math.min(this.#range.initial, this.#limit + this.#step));
  }

  /** The service answered 503. */
  overloaded(number: number, sent: number): void {
    if (isIn(this.#round, number)) this.#round.overloads++;
    this.#endRound(number, sent);
  }

  /**
   * The service answered 429, because too many requests were in flight. Returns false if the limit cannot shrink any
   * further. Does nothing for a request that was sent before the limit last shrank.
   */
  rateLimited(number: number, sent: number, hasRetryAfter: boolean): boolean {
    if (number <= this.#changedAt) return true;
    if (this.#limit <= this.#range.min) return false;
    this.#shrink(AFTER_RATE_LIMIT, sent);
    this.#isCeilingCostly = hasRetryAfter;
    return true;
  }

  /**
   * A request is slow. Until a latency is known, one more may start for it: if hanging owners are asked first, the
   * healthy ones behind them are reached sooner. After a pause this must not take the place of successes.
   */
  slowed(): void {
    const { initial, max } = this.#range;
    const mayWiden = this.#tailMs === 0 && this.#limit >= initial && this.#limit < WIDEST_BLIND * initial;
    if (mayWiden) this.#limit = Math.min(max, this.#limit + 1);
  }

  /** A pause has ended. @param number of the request whose response ended it. */
  restart(number: number): void {
    this.#limit = 1;
    if (!this.#isCeilingCostly) this.#ceiling = Number.POSITIVE_INFINITY;
    this.#changedAt = number;
    this.#round = this.#roundAfter(number);
  }

  /** A pause began, which admits only trial requests, or `resume()` ended all pauses. */
  raiseToInitial(): void {
    this.#limit = Math.max(this.#limit, this.#range.initial);
  }

  #grow(recentMs: number): void {
    if (this.#limit > this.#ceiling * REFUTED) this.#ceiling = Number.POSITIVE_INFINITY;
    this.#limit = Math.min(this.#range.max, this.#limit + this.#step * this.#headroom(recentMs));
  }

  /** What a success adds to the limit if latency is the best. */
  get #step(): number {
    if (this.#limit < this.#ceiling * AFTER_RATE_LIMIT) return this.#limit < this.#range.initial ? 1 : GROWTH;
    return 1 / (this.#round.size * (this.#isCeilingCostly ? COSTLY_ROUNDS : 1));
  }

  /** Ends the round if most of it has been answered, or if responses are already a whole round ahead. */
  #endRound(number: number, sent: number): void {
    const { after, size, responses, overloads, sumMs, inUse } = this.#round;
    const answered = responses + overloads;
    if (answered < size * ANSWERED && number <= after + 2 * size) return;
    this.#round = this.#roundAfter(sent);
    if (overloads > answered * OVERLOAD_SHARE) this.#shrink(AFTER_RATE_LIMIT, sent);
    else if (responses > 0) this.#judge(sumMs / responses, inUse * 2 > responses, sent);
  }

  /** @param ms the average latency of a round. */
  #judge(ms: number, isLimitInUse: boolean, sent: number): void {
    const best = this.#best;
    // If the limit is not in use, it cannot be the cause of the latency.
    if (!best || !isLimitInUse) {
      this.#learn(ms, FASTER);
    } else if (!isCongested(ms, best.ms)) {
      this.#steps = 0;
      this.#congestedRounds = 0;
      if (ms < best.ms) this.#learn(ms, FASTER);
      else if (this.#limit <= best.atLimit * REFUTED) best.ms += (ms - best.ms) * SLOWER;
    } else if (this.#limit <= this.#range.min || this.#isIneffective(ms)) {
      this.#steps = 0;
      this.#ceiling = Number.POSITIVE_INFINITY;
      this.#learn(ms, 1);
    } else if (ms >= best.ms * STRONGLY_CONGESTED || ++this.#congestedRounds >= CONGESTED_ROUNDS) {
      this.#congestedRounds = 0;
      this.#highestMs = this.#steps++ === 0 ? ms : Math.max(this.#highestMs, ms);
      this.#shrink(AFTER_CONGESTION, sent);
    }
  }

  #isIneffective(ms: number): boolean {
    return this.#steps >= INEFFECTIVE_STEPS && ms > this.#highestMs * EFFECT;
  }

  /** From 1 at the best latency to 0 at the one that counts as congestion. */
  #headroom(recentMs: number): number {
    if (this.#best === undefined || this.#limit < this.#range.min) return 1;
    const roomMs = Math.max(this.#best.ms * (CONGESTED - 1), NOISE_MS);
    return Math.min(1, Math.max(0, 1 - (recentMs - this.#best.ms) / roomMs));
  }

  #learn(ms: number, share: number): void {
    const knownMs = this.#best?.ms ?? ms;
    this.#best = { ms: knownMs + (ms - knownMs) * share, atLimit: this.#limit };
  }

  #shrink(share: number, sent: number): void {
    this.#ceiling = this.#limit;
    this.#isCeilingCostly = false;
    this.#limit = Math.max(Math.min(this.#limit, this.#range.min), this.#limit * share);
    this.#changedAt = sent;
    this.#round = this.#roundAfter(sent);
  }

  #roundAfter(number: number): Round {
    const size = Math.max(MIN_ROUND, this.limit);
    return { after: number, size, responses: 0, overloads: 0, sumMs: 0, inUse: 0 };
  }
}

/** The outcomes of the requests with the numbers that follow `after`. */
interface Round {
  readonly after: number;
  readonly size: number;
  responses: number;
  overloads: number;
  sumMs: number;
  inUse: number;
}

function isCongested(ms: number, bestMs: number): boolean {
  return ms > Math.max(bestMs * CONGESTED, bestMs + NOISE_MS);
}

function isIn({ after, size }: Round, number: number): boolean {
  return number > after && number <= after + size;
}

function tailAfter(tailMs: number, latencyMs: number): number {
  if (tailMs === 0) return latencyMs;
  return latencyMs > tailMs ? tailMs * (1 + TAIL_STEP * TAIL) : tailMs * (1 - TAIL_STEP * (1 - TAIL));
}
