/** Worlds that once broke an invariant, and must not again. */
export const REGRESSIONS: readonly { seed: number; steps: number; was: string }[] = [
  {
    ...{ seed: 3668340331, steps: 1687 },
    was: 'a grant dated before the wall clock was set back lived too long',
  },
];
