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

/** The unit tests of these files. Those of the dispatch are the ones of the requests that it starts. */
export const TESTS = MUTATED.map((name) => (name === 'registry/dispatch' ? 'registry/flights' : name));
