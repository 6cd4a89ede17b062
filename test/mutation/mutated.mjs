/** The files in which everything is decided, by their path below `src` and `test`. */
export const MUTATED = [
  'registry/slot',
  'registry/slot-cache',
  'registry/request-queue',
  'registry/dispatch',
  'registry/flights',
  'failures/backoff',
  'failures/circuit-breaker',
  'failures/failure-scopes',
  'failures/concurrency-limit',
  'failures/flow',
  'failures/pace',
  'failures/refusals',
  'expiry/lifetime',
  'expiry/lifetime-candidates',
  'expiry/jwt-times',
  'expiry/policies',
];
