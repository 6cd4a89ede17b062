/**
 * The lifetimes that a service's tokens may have, weighed by what became of tokens. One score for each bin of a
 * logarithmic scale: the logarithm of its likelihood, counted from the best one down to a floor. The floor is how it
 * forgets: however long the lifetime was the same, about ten tokens suffice to say that it has changed.
 */

/** The scale: from one second to over ten years, eight bins an octave, so that a bin is 9 % wide. */
export const LEAST_MS = 1000;
const BINS_PER_OCTAVE = 8;
const BINS = 227;

/** What a candidate loses (in nats) when a token is accepted beyond it, and when one is refused where it is not. */
const SURVIVAL_COST = 4.5;
const ENDING_COST = 1.6;
/** No score falls below this, so that no past weighs more than about ten tokens. */
const FLOOR = -12;
/** Candidates that are this near to the best are possible. More than one token's cost: none decides alone. */
const SUPPORT = 5;

/** All candidates, and which of them are possible. */
export class Candidates {
  readonly scores: Float64Array;
  #lowest = 0;
  #highest = 0;

  /** At first everything above the guess is open; below it, a candidate is the less likely the further it is. */
  constructor(guessMs: number, scores?: readonly number[]) {
    const guess = binOf(guessMs);
    this.scores = Float64Array.from({ length: BINS }, (_, bin) => {
      if (scores) return scores[bin] as number;
      return bin >= guess ? 0 : -SUPPORT - (2 * (guess - bin)) / BINS_PER_OCTAVE;
    });
    this.#settle();
  }

  /** Where the possible candidates begin. */
  get lowestMs(): number {
    return edgeOf(this.#lowest);
  }

  /** Where they end. */
  get highestMs(): number {
    return edgeOf(this.#highest + 1);
  }

  /** A token that had been accepted at one age was accepted at a later one: it outlived every bin that ends between. */
  outlived(beforeMs: number, ageMs: number): void {
    const { scores } = this;
    const first = binOf(beforeMs);
    const end = binOf(ageMs);
    // Most acceptances only say again what is known.
    if (scores.subarray(first, end).every((score) => score === FLOOR)) return;
    for (let bin = first; bin < end; bin++) this.#lower(bin, SURVIVAL_COST);
    this.#settle();
  }

  /** A token ended between two ages, if it was its age that ended it. */
  ended(acceptedMs: number, refusedMs: number, weight: number): void {
    const first = binOf(acceptedMs);
    const last = binOf(refusedMs);
    for (let bin = 0; bin < BINS; bin++) if (bin < first || bin > last) this.#lower(bin, ENDING_COST * weight);
    this.#settle();
  }

  /** The share of the likelihood in the bins at and beside a lifetime. */
  likelihoodNear(lifetimeMs: number): number {
    const at = binOf(lifetimeMs);
    const near = this.scores.slice(Math.max(0, at - 1), at + 2);
    const likelihood = (scores: Float64Array) => scores.reduce((sum, score) => sum + Math.exp(score), 0);
    return likelihood(near) / likelihood(this.scores);
  }

  #lower(bin: number, cost: number): void {
    this.scores[bin] = (this.scores[bin] as number) - cost;
  }

  /** Makes the best score 0 again and finds the possible ones. */
  #settle(): void {
    const { scores } = this;
    let best = Number.NEGATIVE_INFINITY;
    for (let bin = 0; bin < BINS; bin++) best = Math.max(best, scores[bin] as number);
    for (let bin = 0; bin < BINS; bin++) scores[bin] = Math.max(FLOOR, (scores[bin] as number) - best);
    this.#lowest = scores.findIndex((score) => score > -SUPPORT);
    this.#highest = scores.findLastIndex((score) => score > -SUPPORT);
  }
}

/** The bin that holds a lifetime; the first or the last for one off the scale. */
function binOf(ms: number): number {
  return Math.min(BINS - 1, Math.max(0, Math.floor(Math.log2(ms / LEAST_MS) * BINS_PER_OCTAVE)));
}

/** Where a bin begins. */
function edgeOf(bin: number): number {
  return LEAST_MS * 2 ** (bin / BINS_PER_OCTAVE);
}

/** The first age after this one at which an acceptance says something new. */
export function nextEdgeMs(ageMs: number): number {
  return edgeOf(binOf(ageMs) + 1);
}

/** Whether these can be the scores of candidates. */
export function areScores(value: unknown): value is readonly number[] {
  if (!Array.isArray(value) || value.length !== BINS) return false;
  return value.every((score) => typeof score === 'number' && score >= FLOOR && score <= 0);
}
