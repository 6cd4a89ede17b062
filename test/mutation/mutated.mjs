/** The files in which everything is decided, by their path below `src` and `test`. */
export const MUTATED = [
  'registry/slot',
  'registry/queue',
  'failures/blame',
  'failures/pace',
  'failures/pauses',
  'failures/reducer',
  'failures/refusals',
  'expiry/lifetime',
  'expiry/lifetime-candidates',
  'expiry/jwt-times',
  'expiry/policies',
];
