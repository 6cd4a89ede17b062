const BREAKER = 'src/failures/circuit-breaker.ts';
const SCOPES = 'src/failures/failure-scopes.ts';
const FLOW = 'src/failures/flow.ts';

const newcomersCount = {
  file: SCOPES,
  from: "standing !== 'proven' && (standing !== 'new' || this.#newestSuccess > 0)",
  to: "standing === 'unproven' || standing === 'failing'",
};
const everyFailureCounts = { file: SCOPES, from: '!this.#isInconclusive(permit.standing) && ', to: '' };
const lateFailuresCount = { file: SCOPES, from: ' && permit.number > this.#newestSuccess', to: '' };
const hungNotBehind = { file: SCOPES, from: 'hung ? drawLength(0, this.#ownerRange, this.#random) : 0', to: '0' };
const noTakeover = { file: BREAKER, from: 'if (trial.inconclusive && !failed)', to: 'if (false)' };
const onePause = {
  file: BREAKER,
  from: 'isAmbiguous = failure.isEscalated && !hasRetryAfter',
  to: 'isAmbiguous = false',
};
const newcomersGrow = { file: BREAKER, from: "permit.standing !== 'proven'", to: 'permit.inconclusive' };
const doubling = { file: BREAKER, from: 'const AMBIGUOUS_GROWTH = 1 / 4;', to: 'const AMBIGUOUS_GROWTH = 1;' };
const slowLater = { file: FLOW, from: 'Failures <= Math.round', to: 'Failures - 1 <= Math.round' };
const twoASecond = { file: FLOW, from: 'NEWCOMERS_PER_SECOND = 1;', to: 'NEWCOMERS_PER_SECOND = 2;' };
const noneTolerated = { file: FLOW, from: 'const MAX_TOLERATED = 8;', to: 'const MAX_TOLERATED = 0;' };
const retriedUncounted = { file: FLOW, from: 'if (isNewcomer(standing)) this.newcomerFailed(number);', to: '' };

/** The rule, and the rule without each of its parts: what each replaces in the sources. */
export const RULES = {
  'the rule': [],
  'newcomers count': [newcomersCount],
  'owners that failed before count': [everyFailureCounts],
  'late failures count': [lateFailuresCount],
  'hung owners not behind': [hungNotBehind],
  'no trial is replaced': [noTakeover],
  'one pause for all owners': [onePause],
  'others wait twice as long': [doubling],
  'longer before any success, too': [newcomersGrow],
  'newcomers slow down after two failures': [slowLater],
  'newcomers slow down to two a second': [twoASecond],
  'no streak of newcomers tolerated': [noneTolerated],
  'retried failures do not count': [retriedUncounted],
};
