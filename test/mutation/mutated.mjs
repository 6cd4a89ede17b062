/** The files in which everything is decided, by their path below `src` and `test`. */
export const MUTATED = [
  'registry/slot',
  'registry/request-queue',
  'registry/dispatch',
  'failures/backoff',
  'failures/circuit-breaker',
  'failures/failure-scopes',
  'failures/concurrency-limit',
  'failures/flow',
  'failures/pace',
  'expiry/lifetime',
  'expiry/jwt-times',
  'expiry/policies',
];
