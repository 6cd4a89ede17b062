/**
 * Worlds that once broke an invariant, and must not again. A seed tells of the world as it is drawn today: when that
 * changes, what is left of these is chance, and `found.test.ts` keeps what mattered of each.
 */
export const REGRESSIONS: readonly { seed: number; steps: number; was: string }[] = [
  { seed: 3668340331, steps: 1687, was: 'a grant dated before the wall clock was set back lived too long' },
];
