/**
 * Worlds that once broke an invariant and must not do so again. A seed loses its meaning when the world changes, so
 * `found.test.ts` keeps what mattered of each.
 */
export const REGRESSIONS: readonly { seed: number; steps: number; was: string }[] = [
  { seed: 3668340331, steps: 1687, was: 'a token dated before the wall clock was set back lived too long' },
  {
    seed: 2077259072,
    steps: 1612,
    was: 'the oracle counted the same request twice for a queue beyond its bound',
  },
  {
    seed: 413577043,
    steps: 2495,
    was: 'the trials of a long outage used up the quota of the hours after it',
  },
  {
    seed: 943832800,
    steps: 20_000,
    was: 'the oracle discarded a second outcome of a request that no caller waits for any more',
  },
];
