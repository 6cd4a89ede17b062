const inRegistry = ['registry', 'lasting-tokens', 'scheduler'].map((name) => `registry/${name}`);
const inGuarantees = [
  ...['single-flight', 'hangs-and-cancellation', 'request-signals', 'rejected-tokens', 'api-outages', 'mixed-answers'],
  ...['async-context', 'time', 'registry-life-cycle', 'long-queues'],
].map((name) => `guarantees/${name}`);

/**
 * The files in which everything is decided, by their path below `src`, and the tests that must notice each change of them, by
 * theirs below `test`: those that notice most come first. What acts shows only in what callers, the source and the logs see.
 */
export const MUTATED = {
  'registry/requests': ['registry/requests', ...inRegistry, ...inGuarantees],
  'registry/lasting-tokens': ['registry/lasting-tokens'],
  'registry/slot': ['registry/slot'],
  'registry/queue': ['registry/queue'],
  'failures/blame': ['failures/blame'],
  'failures/pace': ['failures/pace'],
  'failures/pauses': ['failures/pauses', 'failures/pace'],
  'failures/reducer': ['failures/reducer'],
  'failures/refusals': ['failures/refusals'],
  'failures/rejections': ['failures/rejections'],
  'expiry/lifetime': ['expiry/lifetime'],
  'expiry/lifetime-candidates': ['expiry/lifetime-candidates'],
  'expiry/jwt-times': ['expiry/jwt-times'],
  'expiry/policies': ['expiry/policies', 'expiry/exp-bound', 'guarantees/token-lifetimes'],
};
