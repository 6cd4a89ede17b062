/**
 * Learns the token lifetime, which the service does not document, from the tokens of all owners that are accepted and
 * rejected.
 *
 * A token accepted at some age shows that tokens live longer than that. A rejection shows less: the token may have
 * expired or been revoked, or the service may be wrong. The difference is that tokens expire at one age and are revoked
 * at any age. A token accepted at age a and rejected at age r ended in between, which is an interval-censored
 * observation. The intervals of expired tokens share one point; those of other rejections are scattered, and tokens
 * that live on contradict them.
 *
 * So each candidate lifetime, one per bin of a logarithmic scale, has a score. The score falls when a token is accepted
 * beyond the candidate, and when a token is rejected in an interval that does not contain it. Scores are relative to
 * the best one and bounded by a floor. The floor makes the learner forget: however long the lifetime stayed the same,
 * about ten tokens suffice to show that it has changed. The candidates close to the best score are possible, and the
 * shortest of them is the estimate: an estimate that is too short costs an extra request, one that is too long costs a
 * failed call.
 *
 * Tokens that are refreshed at 0.6 to 0.8 of the stated lifetime never show what lies beyond, so a few of them, the
 * explorers, get a longer lifetime. Each may cost a call that has to be repeated. A budget, the credit, pays for that:
 * it grows by a share of the successful calls, falls by one with each rejection beyond the estimate, and bounds the
 * number of explorers. An explorer that outlives the estimate no longer counts against it, so exploring continues while
 * all do.
 */

import { LRUCache } from 'lru-cache';
import { systemClock } from '../clock.ts';
import { checkOptions, type OptionRule, type OptionRules } from '../option-check.ts';
import type { IssuedToken } from '../token.ts';
import type {
  LearnedLifetime,
  LearnedLifetimeOptions,
  LearnedLifetimeSnapshot,
  LearnedLifetimeStats,
} from './learned-lifetime-types.ts';
import { DEFAULT_LIFETIME_MS, MAX_LIFETIME_MS, type TokenAge } from './lifetime.ts';
import { areScores, Candidates, MIN_MS, nextEdgeMs } from './lifetime-candidates.ts';

/**
 * A policy that starts with a guess and learns the lifetime, which is assumed to be the same for all owners, from the
 * ages at which tokens are accepted and rejected. Both must be reported (`ownerFetch` does so).
 *
 * @throws {OwnerTokenError} `invalid_options`
 *
 * @example
 * ```ts
 * const expiry = learnedLifetime();
 * const source = new TokenEndpoint({ baseUrl, clientId, clientSecret });
 * await using tokens = new OwnerTokenRegistry({ source, expiry });
 * await tokens.ownerFetch(accessKey)(`${baseUrl}/echo`);
 * console.log(expiry.stats().evidence.survivals); // → 1
 * ```
 */
export function learnedLifetime(options: LearnedLifetimeOptions = {}): LearnedLifetime {
  return new Learner(options);
}

/** The largest factor by which a single observation moves the estimate. */
const MAX_STEP = 1.25;
/** A token that was never accepted, and rejected before this share of the estimate, was fresh. */
const FRESH_SHARE = 0.1;
/** One in this many tokens is an explorer. `OPEN`: no upper bound is known, or the lifetime seems to have risen. */
const EXPLORERS_OPEN = 2;
const EXPLORERS_KNOWN = 16;
/** The most explorers that the credit covers at once. `OPEN`: no upper bound is known. */
const CREDIT_OPEN = 16;
const CREDIT_KNOWN = 4;
/** How long credit stays reserved for an explorer that is never reported, as a multiple of the estimate. */
const RESERVED_ESTIMATES = 1.5;
/** Calls with one token count as one within this share of the estimate, but at most within `MAX_MOMENT_MS`. */
const MOMENT_SHARE = 0.002;
const MAX_MOMENT_MS = 1000;
/** Only explorers reach an age beyond this multiple of the estimate. */
const BEYOND = 1.1;
/** The most owners whose token is tracked, and tokens whose stated lifetime is remembered. Each place takes 22 bytes. */
const MAX_TRACKED = 10_000;
const MAX_STATED = 256;

/** The most recent token of an owner. */
interface Tracked {
  readonly token: string;
  /** The ages that the owner's earlier tokens reached, in all. */
  readonly earlierMs: number;
  /** The age that this one reached. */
  reachedMs: number;
  /** What both came to when an ending of this owner last counted. */
  countedMs: number;
  acceptedMs: number;
  /** Where the next bin begins; an acceptance below it adds no evidence. */
  nextBinMs: number;
  /** The age from which acceptances earn credit again: concurrent calls fail together, so they earn only once. */
  earnsAgainMs: number;
  beyond: boolean;
}

class Learner implements LearnedLifetime {
  readonly #minMs: number;
  readonly #maxMs: number;
  readonly #share: number;
  readonly #candidates: Candidates;
  readonly #tracked = new LRUCache<string, Tracked>({ max: MAX_TRACKED });
  /** By the token's hash, because a source that stores asks about the same token again. */
  readonly #stated = new LRUCache<number, number>({ max: MAX_STATED });
  readonly #evidence = { survivals: 0, endings: 0, ignored: 0, explorers: 0 };
  #estimateMs: number;
  #credit: number;
  /** Request times (epoch ms) of the explorers not reported yet; each may cost credit. */
  #reserved: number[] = [];
  /** Whether the last token beyond the estimate was accepted there. */
  #risen = false;

  constructor(options: LearnedLifetimeOptions) {
    const { guessMs, minMs, maxMs, exploration, snapshot } = withDefaults(checkedOptions(options));
    this.#minMs = minMs;
    this.#maxMs = maxMs;
    this.#share = exploration;
    this.#candidates = new Candidates(guessMs, snapshot?.scores);
    this.#estimateMs = Math.min(maxMs, Math.max(minMs, snapshot?.estimateMs ?? guessMs));
    this.#credit = exploration === 0 ? 0 : (snapshot?.credit ?? CREDIT_OPEN);
  }

  lifetimeMs({ token, requestedAtMs = systemClock.now() }: IssuedToken): number {
    const hash = hashOf(token);
    const before = this.#stated.get(hash);
    if (before !== undefined) return before;
    const statedMs = this.#newLifetimeMs(hash, requestedAtMs);
    this.#stated.set(hash, statedMs);
    return statedMs;
  }

  /**
   * The estimate, or more for an explorer: at least twice as much, so that it is still in use beyond the estimate when
   * its refresh begins. The factor varies widely, because an owner that calls rarely is seldom seen near one fixed age.
   */
  #newLifetimeMs(hash: number, nowMs: number): number {
    const highestMs = Math.min(this.#maxMs, this.#candidates.highestMs);
    const open = highestMs > 1.5 * this.#estimateMs;
    if (!open) this.#credit = Math.min(this.#credit, CREDIT_KNOWN);
    const oneIn = open || this.#risen ? EXPLORERS_OPEN : EXPLORERS_KNOWN;
    const reservedMs = RESERVED_ESTIMATES * this.#estimateMs;
    this.#reserved = this.#reserved.filter((atMs) => Math.abs(nowMs - atMs) < reservedMs);
    if (this.#credit - this.#reserved.length < 1 || hash % oneIn !== 0) return this.#estimateMs;
    this.#reserved.push(nowMs);
    this.#evidence.explorers++;
    const draw = (hash >>> 8) / 2 ** 24;
    const further = open ? (highestMs / this.#estimateMs) ** draw : 2 ** Math.floor(-Math.log2(1 - draw));
    return Math.min(this.#maxMs, 2 * this.#estimateMs * further);
  }

  accepted({ owner, token, ageMs }: TokenAge): void {
    if (!isAge(ageMs)) return;
    const tracked = this.#track(owner, token);
    if (ageMs >= tracked.earnsAgainMs) {
      this.#credit = Math.min(CREDIT_OPEN, this.#credit + this.#share);
      tracked.earnsAgainMs = ageMs + Math.min(MAX_MOMENT_MS, this.#estimateMs * MOMENT_SHARE);
    }
    if (ageMs > this.#estimateMs * BEYOND && !tracked.beyond) {
      tracked.beyond = true;
      this.#risen = true;
      this.#reserved.shift();
    }
    if (ageMs >= tracked.nextBinMs) {
      this.#candidates.outlived(tracked.acceptedMs, ageMs);
      tracked.nextBinMs = nextEdgeMs(ageMs);
      this.#evidence.survivals++;
      this.#moveEstimate();
    }
    tracked.acceptedMs = Math.max(tracked.acceptedMs, ageMs);
    tracked.reachedMs = Math.max(tracked.reachedMs, ageMs);
  }

  /**
   * The first ending of an owner counts fully, each later one by the share of the estimate that the owner's tokens have
   * lived since. So all owners weigh the same, however many tokens they go through, and no minority decides for the
   * others. If the token was never accepted its ending counts half, because only one end of its interval is known, and
   * nothing if the token was fresh.
   */
  rejected({ owner, token, ageMs }: TokenAge): void {
    if (!isAge(ageMs)) return;
    const wasAccepted = this.#tracked.peek(owner)?.token === token;
    const tracked = this.#track(owner, token);
    if (ageMs > this.#estimateMs) {
      this.#risen = false;
      this.#credit = Math.max(0, this.#credit - 1);
      if (!tracked.beyond) this.#reserved.shift();
    }
    tracked.reachedMs = Math.max(tracked.reachedMs, ageMs);
    const livedMs = tracked.earlierMs + tracked.reachedMs;
    const certainty = wasAccepted ? 1 : ageMs < this.#estimateMs * FRESH_SHARE ? 0 : 0.5;
    const weight = certainty * Math.min(1, (livedMs - tracked.countedMs) / this.#estimateMs);
    if (weight === 0) {
      this.#evidence.ignored++;
      return;
    }
    tracked.countedMs = livedMs;
    this.#candidates.ended(tracked.acceptedMs, ageMs, weight);
    this.#evidence.endings++;
    this.#moveEstimate();
  }

  stats(): LearnedLifetimeStats {
    const { lowestMs, highestMs } = this.#candidates;
    return {
      estimateMs: this.#estimateMs,
      betweenMs: [Math.max(this.#minMs, lowestMs), Math.min(this.#maxMs, highestMs)],
      confidence: this.#candidates.likelihoodNear(this.#estimateMs),
      evidence: { ...this.#evidence },
    };
  }

  snapshot(): LearnedLifetimeSnapshot {
    return {
      version: 1,
      estimateMs: this.#estimateMs,
      credit: this.#credit,
      scores: Array.from(this.#candidates.scores, (score) => Math.round(score * 100) / 100),
    };
  }

  #track(owner: string, token: string): Tracked {
    const last = this.#tracked.get(owner);
    if (last?.token === token) return last;
    const earlierMs = last ? last.earlierMs + last.reachedMs : 0;
    const countedMs = last?.countedMs ?? Number.NEGATIVE_INFINITY;
    const spans = { earlierMs, reachedMs: 0, countedMs };
    const tracked: Tracked = { token, ...spans, acceptedMs: 0, nextBinMs: 0, earnsAgainMs: 0, beyond: false };
    this.#tracked.set(owner, tracked);
    return tracked;
  }

  #moveEstimate(): void {
    const targetMs = Math.min(this.#maxMs, Math.max(this.#minMs, this.#candidates.lowestMs));
    this.#estimateMs = Math.min(this.#estimateMs * MAX_STEP, Math.max(this.#estimateMs / MAX_STEP, targetMs));
  }
}

const isAge = (ageMs: number): boolean => ageMs >= 0 && ageMs < Number.POSITIVE_INFINITY;

/** FNV-1a with a finalizer: distributes tokens evenly. It need not be hard to forge. */
function hashOf(token: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < token.length; at++) hash = Math.imul(hash ^ token.charCodeAt(at), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

function withDefaults(options: LearnedLifetimeOptions) {
  const { minMs = MIN_MS, maxMs = 30 * 86_400_000, exploration = 0.003, snapshot } = options;
  const { guessMs = Math.min(maxMs, Math.max(minMs, DEFAULT_LIFETIME_MS)) } = options;
  return { guessMs, minMs, maxMs, exploration, snapshot };
}

const LIFETIME: OptionRule = {
  passes: (value) => isNumberIn(value, MIN_MS, MAX_LIFETIME_MS),
  expected: 'milliseconds from 1000 to ten years',
};

const OPTIONS: OptionRules<LearnedLifetimeOptions> = {
  guessMs: LIFETIME,
  minMs: LIFETIME,
  maxMs: LIFETIME,
  exploration: { passes: (value) => isNumberIn(value, 0, 0.05), expected: 'a share from 0 to 0.05' },
  snapshot: { passes: isSnapshot, expected: 'what snapshot() returned' },
};

function checkedOptions(options: LearnedLifetimeOptions): LearnedLifetimeOptions {
  return checkOptions('learnedLifetime', options, OPTIONS, (given, problems) => {
    const { guessMs, minMs, maxMs } = withDefaults(given as LearnedLifetimeOptions);
    if (minMs > maxMs) problems.push('minMs: expected no more than maxMs');
    else if (guessMs < minMs || guessMs > maxMs) problems.push('guessMs: expected milliseconds from minMs to maxMs');
  });
}

function isNumberIn(value: unknown, min: number, max: number): value is number {
  return typeof value === 'number' && value >= min && value <= max;
}

function isSnapshot(value: unknown): value is LearnedLifetimeSnapshot {
  if (typeof value !== 'object' || value === null) return false;
  const { version, estimateMs, credit, scores } = value as Partial<Record<keyof LearnedLifetimeSnapshot, unknown>>;
  if (version !== 1 || !isNumberIn(estimateMs, MIN_MS, MAX_LIFETIME_MS)) return false;
  return isNumberIn(credit, 0, CREDIT_OPEN) && areScores(scores);
}
