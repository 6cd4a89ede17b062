/**
 * The lifetimes that a service's tokens may have, one per bin of a logarithmic scale, each with its log-likelihood
 * relative to the best one. A floor bounds the scores from below, so that about ten tokens suffice to show that the
 * lifetime has changed.
 */

/** The scale: one second to over ten years, eight bins per octave, so that a bin is 9 % wide. */
export const MIN_MS = 1000;
const BINS_PER_OCTAVE = 8;
const BINS = 227;

/** What a candidate loses (in nats) when a token is accepted beyond it, and when one is rejected elsewhere. */
const SURVIVAL_COST = 4.5;
const ENDING_COST = 1.6;
/** The lowest score: the past never outweighs about ten tokens. */
const FLOOR = -12;
/** Candidates this close to the best are possible. More than the cost of one acceptance, so none decides alone. */
const SUPPORT = 5;

/** All candidates, and which of them are possible. */
export class Candidates {
  #scores: Float64Array;

  /** At first every candidate above the guess is equally likely; below it, the likelihood falls with the distance. */
  constructor(guessMs: number, scores?: readonly number[]) {
    const guess = binOf(guessMs);
    const likelihood = (bin: number) => (bin >= guess ? 0 : -SUPPORT - (2 * (guess - bin)) / BINS_PER_OCTAVE);
    this.#scores = Float64Array.from({ length: BINS }, (_, bin) => scores?.[bin] ?? Math.max(FLOOR, likelihood(bin)));
  }

  get scores(): readonly number[] {
    return [...this.#scores];
  }

  /** The shortest possible lifetime. */
  get lowestMs(): number {
    return edgeOf(this.#scores.findIndex(isPossible));
  }

  /** The longest possible lifetime. */
  get highestMs(): number {
    return edgeOf(this.#scores.findLastIndex(isPossible) + 1);
  }

  /**
   * A token accepted at one age was accepted again later: it outlived every bin that ends in between.
   *
   * @param again the weight with which it counts once more against the bins below.
   */
  outlived(beforeMs: number, ageMs: number, again: number): void {
    const first = binOf(beforeMs);
    const end = binOf(ageMs);
    this.#lower((bin) => SURVIVAL_COST * (bin < first ? again : Number(bin < end)));
  }

  /** A token ended between two ages, provided that it expired. */
  ended(acceptedMs: number, refusedMs: number, weight: number): void {
    const first = binOf(acceptedMs);
    const last = binOf(refusedMs);
    this.#lower((bin) => ENDING_COST * weight * Number(bin < first || bin > last));
  }

  /** The share of the likelihood in a lifetime's bin and its two neighbours. */
  likelihoodNear(lifetimeMs: number): number {
    const at = binOf(lifetimeMs);
    const likelihood = (scores: Float64Array) => scores.reduce((sum, score) => sum + Math.exp(score), 0);
    return likelihood(this.#scores.subarray(Math.max(0, at - 1), at + 2)) / likelihood(this.#scores);
  }

  /** Lowers each candidate by its cost, and then raises all until the best score is 0 again. */
  #lower(costOf: (bin: number) => number): void {
    const lowered = this.#scores.map((score, bin) => score - costOf(bin));
    const best = Math.max(...lowered);
    this.#scores = lowered.map((score) => Math.max(FLOOR, score - best));
  }
}

const isPossible = (score: number): boolean => score > -SUPPORT;

/** The bin of a lifetime; the first or last one if it is off the scale. */
function binOf(ms: number): number {
  return Math.min(BINS - 1, Math.max(0, Math.floor(Math.log2(ms / MIN_MS) * BINS_PER_OCTAVE)));
}

/** Where a bin begins. */
function edgeOf(bin: number): number {
  return MIN_MS * 2 ** (bin / BINS_PER_OCTAVE);
}

/** The next age at which an acceptance adds evidence. */
export function nextEdgeMs(ageMs: number): number {
  return edgeOf(binOf(ageMs) + 1);
}

/** Whether a value can be the scores of candidates. */
export function areScores(value: unknown): value is readonly number[] {
  if (!Array.isArray(value) || value.length !== BINS) return false;
  return value.every((score) => typeof score === 'number' && score >= FLOOR && score <= 0);
}
