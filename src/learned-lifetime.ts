/**
 * Finds the lifetime that the service does not document, from what becomes of the tokens of all owners.
 *
 * A token accepted at an age says that tokens live longer than that. One refused says less: it may have ended, or it
 * may have been revoked, or the service may have erred. What tells them apart is that tokens end at the same age and
 * are revoked at any. A token that was accepted at age a and is refused at age r ended somewhere in (a, r]; the brackets
 * of tokens that outlived the lifetime share one place, and those of revoked tokens are scattered and are contradicted
 * by the tokens that live on past them.
 *
 * So each candidate lifetime has a score, a bin of a logarithmic scale each: it loses some when a token is accepted
 * beyond it, and when a token is refused in a bracket that does not hold it. Scores count from the best one, and none
 * falls further than a floor, which is what forgetting is here: however long the lifetime was the same, about ten
 * tokens can say that it has changed. Candidates near enough to the best are still possible, and the lowest of these is
 * the estimate.
 *
 * Tokens that are replaced at 0.6 to 0.8 of what was stated never show what lies beyond. So some are stated longer
 * than the estimate. Each of them may cost one call that has to be repeated; a budget, a share of the calls that
 * succeed, pays for them, and what a long-lived one proves is paid back.
 */

import { type ExpiryPolicy, MAX_LIFETIME_MS, type TokenAge } from './expiry.ts';
import { OptionCheck } from './options.ts';
import type { TokenGrant } from './token.ts';

export interface LearnedLifetimeOptions {
  /** Stated until there is evidence, in milliseconds; within `minMs` and `maxMs`. Default 300_000. */
  guessMs?: number;
  /** Nothing shorter is ever stated, in milliseconds: 1_000 (the default) up to ten years. */
  minMs?: number;
  /** Nothing longer is ever stated, in milliseconds: up to ten years. Default thirty days. */
  maxMs?: number;
  /** Share of the calls that may have to be repeated for the sake of learning: 0 to 0.05. Default 0.003. */
  exploration?: number;
  /** What `snapshot()` gave in an earlier run. */
  snapshot?: LearnedLifetimeSnapshot;
}

/** What was learned, as plain data without secrets. */
export interface LearnedLifetimeSnapshot {
  readonly version: 1;
  readonly estimateMs: number;
  readonly scores: readonly number[];
}

export interface LearnedLifetimeStats {
  /** What most tokens are stated to live. */
  readonly estimateMs: number;
  /** The lifetimes that the evidence leaves possible. */
  readonly betweenMs: readonly [number, number];
  /** 1: only one bin of the scale is left. 0: nothing is known above the estimate. */
  readonly confidence: number;
  readonly evidence: {
    /** Tokens accepted at an age that said something new. */
    readonly survivals: number;
    /** Tokens refused that counted, in part or whole. */
    readonly endings: number;
    /** Tokens refused that said nothing of the lifetime. */
    readonly ignored: number;
    /** Tokens stated longer than the estimate, to see what lies beyond. */
    readonly explorers: number;
  };
}

export interface LearnedLifetime extends ExpiryPolicy {
  accepted(age: TokenAge): void;
  rejected(age: TokenAge): void;
  stats(): LearnedLifetimeStats;
  snapshot(): LearnedLifetimeSnapshot;
}

/** Bins of the scale: eight an octave (a bin is 9 % wide), from one second to ten years. */
const BINS_PER_OCTAVE = 8;
const LEAST_MS = 1000;
const BINS = Math.ceil(Math.log2(MAX_LIFETIME_MS / LEAST_MS) * BINS_PER_OCTAVE);

/** What a candidate loses when a token is accepted beyond it, and when one is refused in a bracket elsewhere. */
const SURVIVAL_COST = 3;
const ENDING_COST = 1.6;
/** No score falls below this. */
const FLOOR = -15;
/** Candidates within this of the best are possible. */
const SUPPORT = 5;
/** The estimate moves no more than by this factor at once, whatever a single token says. */
const MAX_STEP = 1.25;

const binOf = (ms: number): number =>
  Math.min(BINS - 1, Math.max(0, Math.floor(Math.log2(ms / LEAST_MS) * BINS_PER_OCTAVE)));
const edgeOf = (bin: number): number => LEAST_MS * 2 ** (bin / BINS_PER_OCTAVE);

/** The scores of all candidate lifetimes. */
class Candidates {
  readonly scores: Float64Array;
  /** The lowest and the highest bin that are possible. */
  lowest = 0;
  highest = BINS - 1;

  constructor(guessMs: number, scores?: readonly number[]) {
    const guess = binOf(guessMs);
    this.scores = Float64Array.from({ length: BINS }, (_, bin) => {
      if (scores) return scores[bin] ?? FLOOR;
      // Above the guess all is open; below it, the less likely the further.
      return bin >= guess ? 0 : -SUPPORT - 0.1 - (2 * (guess - bin)) / BINS_PER_OCTAVE;
    });
    this.#settle();
  }

  /** A token was accepted at this age, and before at the other: it outlived all that lies between. */
  outlived(fromMs: number, toMs: number): void {
    for (let bin = fromMs < LEAST_MS ? 0 : binOf(fromMs); bin < binOf(toMs); bin++) this.#add(bin, -SURVIVAL_COST);
    this.#settle();
  }

  /** A token ended between the two ages, if it ended of age at all. */
  ended(fromMs: number, toMs: number, weight: number): void {
    const first = fromMs === 0 ? 0 : binOf(fromMs);
    const last = binOf(toMs);
    for (let bin = 0; bin < BINS; bin++) if (bin < first || bin > last) this.#add(bin, -ENDING_COST * weight);
    this.#settle();
  }

  #add(bin: number, change: number): void {
    this.scores[bin] = (this.scores[bin] as number) + change;
  }

  #settle(): void {
    const { scores } = this;
    let best = Number.NEGATIVE_INFINITY;
    for (const score of scores) if (score > best) best = score;
    this.lowest = BINS;
    for (let bin = 0; bin < BINS; bin++) {
      const score = Math.max(FLOOR, (scores[bin] as number) - best);
      scores[bin] = score;
      if (score < -SUPPORT) continue;
      this.lowest = Math.min(this.lowest, bin);
      this.highest = bin;
    }
  }
}

/** The token last seen of an owner. */
interface Followed {
  token: string;
  acceptedMs: number;
  /** Where the next bin begins: below it, an acceptance says nothing new. */
  nextMs: number;
  repaid: boolean;
}

/** How many owners' tokens are followed; beyond it, the one that came first is let go. */
const MAX_FOLLOWED = 10_000;
const MAX_REMEMBERED = 256;
const RECENT = 16;
const MAX_CREDIT = 16;

export function learnedLifetime(options: LearnedLifetimeOptions = {}): LearnedLifetime {
  return new Learner(options);
}

class Learner implements LearnedLifetime {
  readonly #minMs: number;
  readonly #maxMs: number;
  readonly #share: number;
  readonly #candidates: Candidates;
  readonly #followed = new Map<string, Followed>();
  readonly #stated = new Map<number, number>();
  readonly #recent: string[] = [];
  #estimateMs: number;
  #credit = MAX_CREDIT;
  #evidence = { survivals: 0, endings: 0, ignored: 0, explorers: 0 };

  constructor(options: LearnedLifetimeOptions) {
    const { guessMs = 300_000, minMs = LEAST_MS, maxMs = 30 * 86_400_000, exploration = 0.003, snapshot } = options;
    const check = new OptionCheck('learnedLifetime', options, ['guessMs', 'minMs', 'maxMs', 'exploration', 'snapshot']);
    check.done();
    this.#minMs = minMs;
    this.#maxMs = maxMs;
    this.#share = exploration;
    this.#estimateMs = snapshot?.estimateMs ?? guessMs;
    this.#candidates = new Candidates(guessMs, snapshot?.scores);
  }

  lifetimeMs({ token }: TokenGrant): number {
    const hash = hashOf(token);
    const known = this.#stated.get(hash);
    if (known !== undefined) return known;
    const statedMs = this.#state(hash);
    this.#stated.set(hash, statedMs);
    if (this.#stated.size > MAX_REMEMBERED) this.#stated.delete(this.#stated.keys().next().value as number);
    return statedMs;
  }

  #state(hash: number): number {
    const estimateMs = this.#estimateMs;
    const upperMs = Math.min(this.#maxMs, edgeOf(this.#candidates.highest + 1));
    const open = upperMs > 1.5 * estimateMs;
    if (this.#credit < 1 || hash % (open ? 2 : 16) !== 0) return estimateMs;
    this.#credit -= 1;
    this.#evidence.explorers++;
    const draw = (hash >>> 8) / 2 ** 24;
    const factor = open ? 2 * (upperMs / estimateMs) ** draw : 2 * 2 ** Math.floor(-Math.log2(1 - draw));
    return Math.min(this.#maxMs, estimateMs * factor);
  }

  accepted({ owner, token, ageMs }: TokenAge): void {
    this.#credit = Math.min(MAX_CREDIT, this.#credit + this.#share);
    let followed = this.#followed.get(owner);
    if (!followed || followed.token !== token) {
      if (followed) this.#followed.delete(owner);
      followed = { token, acceptedMs: 0, nextMs: 0, repaid: false };
      this.#followed.set(owner, followed);
      if (this.#followed.size > MAX_FOLLOWED) this.#followed.delete(this.#followed.keys().next().value as string);
    }
    if (ageMs > this.#estimateMs * 1.1 && !followed.repaid) {
      followed.repaid = true;
      this.#credit = Math.min(MAX_CREDIT, this.#credit + 1);
    }
    if (ageMs >= followed.nextMs) {
      this.#candidates.outlived(followed.acceptedMs, ageMs);
      followed.nextMs = edgeOf(binOf(ageMs) + 1);
      this.#evidence.survivals++;
      this.#follow();
    }
    followed.acceptedMs = Math.max(followed.acceptedMs, ageMs);
  }

  rejected({ owner, token, ageMs }: TokenAge): void {
    const followed = this.#followed.get(owner);
    const acceptedMs = followed?.token === token ? followed.acceptedMs : undefined;
    if (followed?.repaid && acceptedMs !== undefined) this.#credit -= 1;
    this.#recent.push(owner);
    if (this.#recent.length > RECENT) this.#recent.shift();
    const others = this.#recent.filter((other) => other !== owner).length / this.#recent.length;
    const weight = acceptedMs !== undefined ? others : ageMs < this.#estimateMs / 10 ? 0 : others / 2;
    if (weight === 0) {
      this.#evidence.ignored++;
      return;
    }
    this.#evidence.endings++;
    this.#candidates.ended(acceptedMs ?? 0, ageMs, weight);
    this.#follow();
  }

  /** Lets the estimate follow the candidates, a step at a time. */
  #follow(): void {
    const target = Math.min(this.#maxMs, Math.max(this.#minMs, edgeOf(this.#candidates.lowest)));
    this.#estimateMs = Math.min(this.#estimateMs * MAX_STEP, Math.max(this.#estimateMs / MAX_STEP, target));
  }

  stats(): LearnedLifetimeStats {
    const { lowest, highest } = this.#candidates;
    const betweenMs: [number, number] = [edgeOf(lowest), edgeOf(highest + 1)];
    return {
      estimateMs: this.#estimateMs,
      betweenMs,
      confidence: 1 / Math.max(1, highest - lowest),
      evidence: { ...this.#evidence },
    };
  }

  snapshot(): LearnedLifetimeSnapshot {
    return { version: 1, estimateMs: this.#estimateMs, scores: Array.from(this.#candidates.scores) };
  }
}

/** A hash of 32 bits; nothing depends on its being hard to forge. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
