/**
 * Finds the lifetime that the service does not document, from what becomes of the tokens of all owners.
 *
 * A token that is accepted at an age says that tokens live longer than that. One that is refused says less: it may
 * have ended, it may have been revoked, the service may have erred. What tells these apart is that tokens end at one
 * age and are revoked at any. A token accepted at age a and refused at age r ended between the two; such brackets of
 * tokens that outlived their lifetime share one place, and those of the others are scattered, and contradicted by the
 * tokens that live on past them.
 *
 * So each candidate lifetime has a score, one for each bin of a logarithmic scale. It falls when a token is accepted
 * beyond the candidate, and when one is refused in a bracket that does not hold it. Scores count from the best one
 * down to a floor, and the floor is how it forgets: however long the lifetime was the same, about ten tokens suffice
 * to say that it has changed. The candidates near the best are the possible ones, and the lowest of these is the
 * estimate, because what is stated too short costs a request sooner, and what is stated too long a failed call.
 *
 * Tokens replaced at 0.6 to 0.8 of what was stated never show what lies beyond, so a few, the explorers, are stated
 * longer. Each may end in a call that has to be made again. A credit pays for these: it grows by a share of the calls
 * that succeed, falls by one with each refusal beyond the estimate, and there are no more explorers out than it covers.
 * One that is seen to outlive the estimate is covered no more, so that while all do, exploring goes on at once.
 */

import { systemClock } from '../clock.ts';
import { OptionCheck } from '../option-check.ts';
import type { IssuedToken } from '../token.ts';
import { DEFAULT_LIFETIME_MS, type ExpiryPolicy, MAX_LIFETIME_MS, type TokenAge } from './lifetime.ts';
import { areScores, Candidates, LEAST_MS, nextEdgeMs } from './lifetime-candidates.ts';

export interface LearnedLifetimeOptions {
  /** What is stated until there is evidence, in milliseconds, from `minMs` to `maxMs`. Default 300_000, or the nearer of them. */
  guessMs?: number | undefined;
  /** Nothing shorter is ever stated, in milliseconds, from 1_000 (the default). */
  minMs?: number | undefined;
  /** Nothing longer is ever stated, in milliseconds, up to ten years. Default thirty days. */
  maxMs?: number | undefined;
  /** Share of the calls that may have to be made again for the sake of learning: 0 to 0.05. Default 0.003. */
  exploration?: number | undefined;
  /** What `snapshot()` gave in an earlier run. */
  snapshot?: LearnedLifetimeSnapshot | undefined;
}

/** What was learned: plain data without secrets, about two kilobytes as JSON. */
export interface LearnedLifetimeSnapshot {
  readonly version: 1;
  readonly estimateMs: number;
  readonly credit: number;
  readonly scores: readonly number[];
}

export interface LearnedLifetimeStats {
  /** What all tokens but the explorers are stated to live. */
  readonly estimateMs: number;
  /** The shortest and the longest lifetime that the evidence leaves possible. */
  readonly betweenMs: readonly [number, number];
  /** From 0 to 1: how much of the likelihood lies within a bin (9 %) of the estimate. */
  readonly confidence: number;
  readonly evidence: {
    /** Acceptances at an age that was new for their token. */
    readonly survivals: number;
    /** Refusals that counted, in part or whole. */
    readonly endings: number;
    /** Refusals that say nothing of the lifetime: of fresh tokens, or of one owner alone. */
    readonly ignored: number;
    /** Tokens that were stated longer than the estimate. */
    readonly explorers: number;
  };
}

/** An {@link ExpiryPolicy} that learns; see {@link learnedLifetime}. */
export interface LearnedLifetime extends ExpiryPolicy {
  lifetimeMs(grant: IssuedToken): number;
  accepted(age: TokenAge): void;
  rejected(age: TokenAge): void;
  stats(): LearnedLifetimeStats;
  /** For `options.snapshot` after a restart. */
  snapshot(): LearnedLifetimeSnapshot;
}

/**
 * A policy that starts from a guess and finds the lifetime of the service's tokens, the same for all owners, from the
 * ages at which they are accepted and refused. Needs both to be reported (`ownerFetch` does) and two owners or more.
 */
export function learnedLifetime(options: LearnedLifetimeOptions = {}): LearnedLifetime {
  return new Learner(options);
}

/** The estimate moves by no more than this factor at once, whatever a single token says. */
const MAX_STEP = 1.25;
/** A token refused before this share of the estimate and never accepted was refused at once. */
const FRESH_SHARE = 0.1;
/** Among this many refusals the share of an owner is reckoned. */
const RECENT_REFUSALS = 16;
/** One token in so many explores: while the lifetime is open above or seems to have risen, and otherwise. */
const EXPLORERS_OPEN = 2;
const EXPLORERS_KNOWN = 16;
/** The most explorers that the credit pays for at once: while the lifetime is open above, and otherwise. */
const CREDIT_OPEN = 16;
const CREDIT_KNOWN = 4;
/** For how many times the estimate credit is kept for an explorer that nothing is heard of. */
const RESERVED_ESTIMATES = 3;
/** Calls with one token so near to each other, as a share of the estimate and at most, are made together. */
const MOMENT_SHARE = 0.002;
const MAX_MOMENT_MS = 1000;
/** An age this far beyond the estimate only explorers reach. */
const BEYOND = 1.1;
/** Bounds of what is remembered: owners whose token is followed, and grants whose lifetime was stated. */
const MAX_FOLLOWED = 10_000;
const MAX_STATED = 256;

/** The token last seen of an owner. */
interface Followed {
  readonly token: string;
  acceptedMs: number;
  /** Where the next bin begins; below it an acceptance says nothing new. */
  nextBinMs: number;
  /** Calls made together fail together, and so earn together: what comes before this age is one of them. */
  earnsAgainMs: number;
  beyond: boolean;
}

class Learner implements LearnedLifetime {
  readonly #minMs: number;
  readonly #maxMs: number;
  readonly #share: number;
  readonly #candidates: Candidates;
  readonly #followed = new Map<string, Followed>();
  /** By the token's hash: the same grant is asked about again by a source that stores. */
  readonly #stated = new Map<number, number>();
  readonly #refused: string[] = [];
  readonly #evidence = { survivals: 0, endings: 0, ignored: 0, explorers: 0 };
  #estimateMs: number;
  #credit: number;
  /** When the explorers were requested that nothing is heard of yet, in epoch milliseconds: each may cost credit. */
  #reserved: number[] = [];
  /** Whether the last token that got beyond the estimate was seen to live there. */
  #risen = false;

  constructor(options: LearnedLifetimeOptions) {
    checkOptions(options);
    const { guessMs, minMs, maxMs, exploration, snapshot } = withDefaults(options);
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
    const statedMs = this.#state(hash, requestedAtMs);
    this.#stated.set(hash, statedMs);
    if (this.#stated.size > MAX_STATED) deleteFirst(this.#stated);
    return statedMs;
  }

  /**
   * The estimate, or for an explorer more: at least twice as much, so that it is still in use beyond the estimate
   * when its refresh begins. How much more differs widely, because owners who call rarely are not seen at any age
   * that is stated too tightly.
   */
  #state(hash: number, nowMs: number): number {
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
    if (!(ageMs >= 0)) return;
    const followed = this.#follow(owner, token);
    if (ageMs >= followed.earnsAgainMs) {
      this.#credit = Math.min(CREDIT_OPEN, this.#credit + this.#share);
      followed.earnsAgainMs = ageMs + Math.min(MAX_MOMENT_MS, this.#estimateMs * MOMENT_SHARE);
    }
    if (ageMs > this.#estimateMs * BEYOND && !followed.beyond) {
      followed.beyond = true;
      this.#risen = true;
      this.#reserved.shift();
    }
    if (ageMs >= followed.nextBinMs) {
      this.#candidates.outlived(followed.acceptedMs, ageMs);
      followed.nextBinMs = nextEdgeMs(ageMs);
      this.#evidence.survivals++;
      this.#moveEstimate();
    }
    followed.acceptedMs = Math.max(followed.acceptedMs, ageMs);
  }

  /**
   * A refusal counts by the share of others among the owners refused of late, so that one owner's alone count nothing.
   * Of a token that was never seen accepted it counts half, since only one end of its bracket is known, and nothing
   * at all when the token was fresh.
   */
  rejected({ owner, token, ageMs }: TokenAge): void {
    if (!(ageMs >= 0)) return;
    const last = this.#followed.get(owner);
    const followed = last?.token === token ? last : undefined;
    if (ageMs > this.#estimateMs) {
      this.#risen = false;
      this.#credit = Math.max(0, this.#credit - 1);
      if (!followed?.beyond) this.#reserved.shift();
    }
    this.#refused.push(owner);
    if (this.#refused.length > RECENT_REFUSALS) this.#refused.shift();
    const others = this.#refused.filter((refused) => refused !== owner).length / this.#refused.length;
    const whole = followed ? 1 : ageMs < this.#estimateMs * FRESH_SHARE ? 0 : 0.5;
    if (others * whole === 0) {
      this.#evidence.ignored++;
      return;
    }
    this.#candidates.ended(followed?.acceptedMs ?? 0, ageMs, others * whole);
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

  #follow(owner: string, token: string): Followed {
    const last = this.#followed.get(owner);
    if (last?.token === token) return last;
    const followed = { token, acceptedMs: 0, nextBinMs: 0, earnsAgainMs: 0, beyond: false };
    // Deleted first, so that the map stays in the order of the tokens' first use and the oldest is let go.
    this.#followed.delete(owner);
    this.#followed.set(owner, followed);
    if (this.#followed.size > MAX_FOLLOWED) deleteFirst(this.#followed);
    return followed;
  }

  #moveEstimate(): void {
    const targetMs = Math.min(this.#maxMs, Math.max(this.#minMs, this.#candidates.lowestMs));
    this.#estimateMs = Math.min(this.#estimateMs * MAX_STEP, Math.max(this.#estimateMs / MAX_STEP, targetMs));
  }
}

function deleteFirst<K>(map: Map<K, unknown>): void {
  for (const key of map.keys()) {
    map.delete(key);
    return;
  }
}

/** FNV-1a with a finisher: spreads tokens evenly, and nothing depends on its being hard to forge. */
function hashOf(token: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < token.length; at++) hash = Math.imul(hash ^ token.charCodeAt(at), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

function withDefaults(options: LearnedLifetimeOptions) {
  const { minMs = LEAST_MS, maxMs = 30 * 86_400_000, exploration = 0.003, snapshot } = options;
  const { guessMs = Math.min(maxMs, Math.max(minMs, DEFAULT_LIFETIME_MS)) } = options;
  return { guessMs, minMs, maxMs, exploration, snapshot };
}

function checkOptions(options: LearnedLifetimeOptions): void {
  const check = new OptionCheck('learnedLifetime', options, ['guessMs', 'minMs', 'maxMs', 'exploration', 'snapshot']);
  const { minMs, maxMs } = withDefaults(options ?? {});
  const isLifetime = (value: unknown) => isNumberIn(value, LEAST_MS, MAX_LIFETIME_MS);
  for (const name of ['minMs', 'maxMs'] as const) check.when(name, isLifetime, 'milliseconds from 1000 to ten years');
  check.when('guessMs', (value) => isNumberIn(value, minMs, maxMs), 'milliseconds from minMs to maxMs');
  if (minMs > maxMs) check.problem('minMs', 'no more than maxMs');
  check.when('exploration', (value) => isNumberIn(value, 0, 0.05), 'a share from 0 to 0.05');
  check.when('snapshot', isSnapshot, 'what snapshot() gave');
  check.done();
}

function isNumberIn(value: unknown, least: number, most: number): value is number {
  return typeof value === 'number' && value >= least && value <= most;
}

function isSnapshot(value: unknown): value is LearnedLifetimeSnapshot {
  if (typeof value !== 'object' || value === null) return false;
  const { version, estimateMs, credit, scores } = value as Partial<Record<keyof LearnedLifetimeSnapshot, unknown>>;
  if (version !== 1 || !isNumberIn(estimateMs, LEAST_MS, MAX_LIFETIME_MS)) return false;
  return isNumberIn(credit, 0, CREDIT_OPEN) && areScores(scores);
}
