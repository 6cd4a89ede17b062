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
 * Tokens that are refreshed at 0.6 to 0.8 of the stated lifetime never show what lies beyond, so some of them, the
 * explorers, get a longer lifetime. Each may cost a call that has to be repeated. A budget, the credit, pays for that:
 * it grows by a share of the acceptances at an age that is new for their token, falls by one with each rejection beyond the
 * estimate, and bounds the number of explorers.
 */

import { LRUCache } from 'lru-cache';
import { systemClock } from '../clock.ts';
import { checkOptions, type OptionRule, type OptionRules } from '../option-check.ts';
import type { IssuedToken } from '../token-source.ts';
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
  return new Learner(checkedOptions(options));
}

/** One in this many tokens is an explorer, while there is credit for it. */
const ONE_EXPLORER_IN = 2;
/** The most explorers at once: at first, to find the lifetime; and later, to notice that it has risen. */
const INITIAL_CREDIT = 16;
const EARNED_CREDIT = 4;
/** The fractional parts of its multiples are spread evenly, even for the similar hashes of similar tokens. */
const GOLDEN_RATIO = 1.618033988749895;
/** An explorer occupies credit for this multiple of the estimate, because its end may never be reported. */
const EXPLORED_ESTIMATES = 1.5;
/** The most owners whose token is tracked, and tokens whose stated lifetime is remembered. Each place takes 22 bytes. */
const MAX_TRACKED = 10_000;
const MAX_STATED = 256;

/** The most recent token of an owner. */
interface Tracked {
  readonly token: string;
  /** The age that it is known to have reached. */
  reachedMs: number;
  /** Where the next bin begins; an acceptance below it adds no evidence. 0 if it was never accepted. */
  nextBinMs: number;
  /** How long the owner's earlier tokens lived since its last ending that counted; once this token's has, minus its age. */
  livedMs: number;
}

class Learner implements LearnedLifetime {
  readonly #options: CheckedOptions;
  readonly #candidates: Candidates;
  readonly #tracked = new LRUCache<string, Tracked>({ max: MAX_TRACKED });
  /** By the token's hash, because a source that stores tokens asks about the same one again. */
  readonly #stated = new LRUCache<number, number>({ max: MAX_STATED });
  readonly #evidence = { survivals: 0, endings: 0, ignored: 0, explorers: 0 };
  #estimateMs: number;
  #credit: number;
  /** Request times (epoch ms) of the explorers that occupy credit. */
  #explorers: number[] = [];

  constructor(options: CheckedOptions) {
    const { guessMs, exploration, snapshot } = options;
    this.#options = options;
    this.#candidates = new Candidates(guessMs, snapshot?.scores);
    this.#estimateMs = this.#within(snapshot?.estimateMs ?? guessMs);
    this.#credit = exploration === 0 ? 0 : (snapshot?.credit ?? INITIAL_CREDIT);
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
    const exploredMs = EXPLORED_ESTIMATES * this.#estimateMs;
    this.#explorers = this.#explorers.filter((atMs) => Math.abs(nowMs - atMs) < exploredMs);
    if (this.#credit - this.#explorers.length < 1 || hash % ONE_EXPLORER_IN !== 0) return this.#estimateMs;
    this.#explorers.push(nowMs);
    this.#evidence.explorers++;
    const draw = (hash * GOLDEN_RATIO) % 1;
    return this.#within(2 * this.#estimateMs * (this.#options.maxMs / this.#estimateMs) ** draw);
  }

  /**
   * Earns credit only at an age that is new for the token, because concurrent calls fail together. Weighs against short
   * lifetimes by the share of the estimate that the token has lived since, as endings weigh for them.
   */
  accepted({ owner, token, ageMs }: TokenAge): void {
    if (!isAge(ageMs)) return;
    const tracked = this.#track(owner, token);
    if (ageMs < tracked.nextBinMs) return;
    const again = Math.min(1, (ageMs - tracked.reachedMs) / this.#estimateMs);
    this.#candidates.outlived(tracked.reachedMs, ageMs, again);
    tracked.reachedMs = ageMs;
    tracked.nextBinMs = nextEdgeMs(ageMs);
    if (this.#credit < EARNED_CREDIT) this.#credit += this.#options.exploration;
    this.#evidence.survivals++;
    this.#estimateMs = this.#within(this.#candidates.lowestMs);
  }

  /**
   * The first ending of an owner counts fully, each later one by the share of the estimate that the owner's tokens have
   * lived since. So all owners weigh the same, however many tokens they go through, and no minority decides for the
   * others. The ending of a token that was never accepted proves nothing.
   */
  rejected({ owner, token, ageMs }: TokenAge): void {
    if (!isAge(ageMs)) return;
    const tracked = this.#track(owner, token);
    const { reachedMs, nextBinMs, livedMs } = tracked;
    tracked.reachedMs = ageMs;
    if (ageMs > this.#estimateMs) this.#credit = Math.max(0, this.#credit - 1);
    const wasAccepted = nextBinMs > 0;
    const uncountedMs = livedMs + ageMs;
    if (!wasAccepted || uncountedMs <= 0) {
      this.#evidence.ignored++;
      return;
    }
    tracked.livedMs = -ageMs;
    this.#candidates.ended(reachedMs, ageMs, Math.min(1, uncountedMs / this.#estimateMs));
    this.#evidence.endings++;
    this.#estimateMs = this.#within(this.#candidates.lowestMs);
  }

  stats(): LearnedLifetimeStats {
    const { lowestMs, highestMs } = this.#candidates;
    return {
      estimateMs: this.#estimateMs,
      betweenMs: [this.#within(lowestMs), this.#within(highestMs)],
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
    const livedMs = last ? last.livedMs + last.reachedMs : Number.POSITIVE_INFINITY;
    const tracked: Tracked = { token, reachedMs: 0, nextBinMs: 0, livedMs };
    this.#tracked.set(owner, tracked);
    return tracked;
  }

  #within(ms: number): number {
    return Math.min(this.#options.maxMs, Math.max(this.#options.minMs, ms));
  }
}

const isAge = (ageMs: number): boolean => Number.isFinite(ageMs) && ageMs >= 0;

/** FNV-1a. It need not be hard to forge. */
function hashOf(token: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < token.length; at++) hash = Math.imul(hash ^ token.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}

type CheckedOptions = LearnedLifetimeOptions & Record<'guessMs' | 'minMs' | 'maxMs' | 'exploration', number>;

const DEFAULTS = { minMs: MIN_MS, maxMs: 30 * 86_400_000, exploration: 0.003 } as const;

const lifetime = (fallback?: number): OptionRule => ({
  passes: (value) => isNumberIn(value, MIN_MS, MAX_LIFETIME_MS),
  expected: 'milliseconds from 1000 to ten years',
  fallback,
});

const OPTIONS: OptionRules<LearnedLifetimeOptions> = {
  guessMs: lifetime(),
  minMs: lifetime(DEFAULTS.minMs),
  maxMs: lifetime(DEFAULTS.maxMs),
  exploration: {
    passes: (value) => isNumberIn(value, 0, 0.05),
    expected: 'a share from 0 to 0.05',
    fallback: DEFAULTS.exploration,
  },
  snapshot: { passes: isSnapshot, expected: 'what snapshot() returned' },
};

function checkedOptions(options: LearnedLifetimeOptions): CheckedOptions {
  const checked = checkOptions('learnedLifetime', options, OPTIONS, (given, problems) => {
    if (problems.length > 0) return;
    const { minMs, maxMs, guessMs = minMs } = given as CheckedOptions;
    if (minMs > maxMs) problems.push('minMs: expected no more than maxMs');
    else if (guessMs < minMs || guessMs > maxMs) problems.push('guessMs: expected milliseconds from minMs to maxMs');
  }) as CheckedOptions;
  checked.guessMs ??= Math.min(checked.maxMs, Math.max(checked.minMs, DEFAULT_LIFETIME_MS));
  return checked;
}

function isNumberIn(value: unknown, min: number, max: number): boolean {
  return typeof value === 'number' && value >= min && value <= max;
}

function isSnapshot(value: unknown): boolean {
  const { version, estimateMs, credit, scores } = Object(value) as LearnedLifetimeSnapshot;
  const isEstimate = isNumberIn(estimateMs, MIN_MS, MAX_LIFETIME_MS);
  return version === 1 && isEstimate && isNumberIn(credit, 0, INITIAL_CREDIT) && areScores(scores);
}
