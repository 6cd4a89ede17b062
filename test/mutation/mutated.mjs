const inRegistry = [
  'registry/registry',
  'registry/reports',
  'registry/owners/without-service',
  'registry/owners/lasting-tokens',
  'registry/owners/recent-tokens',
  'registry/requests/scheduler',
  'registry/requests/failed-calls',
];
const inGuarantees = [
  ...['single-flight', 'hangs-and-cancellation', 'request-signals', 'rejected-tokens', 'api-outages', 'mixed-answers'],
  ...['async-context', 'time', 'registry-life-cycle', 'long-queues', 'failure-scopes', 'refresh-ahead'],
].map((name) => `guarantees/${name}`);

/**
 * The files in which everything is decided, by their path below `src`, and the tests that must notice each change of them, by
 * theirs below `test`: those that notice most come first. What acts shows only in what callers, the source and the logs see.
 */
export const MUTATED = {
  'registry/requests/lifecycle': [
    'registry/requests/lifecycle',
    'registry/requests/requests',
    ...inRegistry,
    ...inGuarantees,
  ],
  'registry/requests/requests': ['registry/requests/requests', ...inRegistry, ...inGuarantees],
  'registry/owners/lasting-tokens': ['registry/owners/lasting-tokens'],
  'registry/owners/recent-tokens': ['registry/owners/recent-tokens', 'guarantees/mixed-answers'],
  'registry/owners/slot': ['registry/owners/slot'],
  'registry/requests/queue': ['registry/requests/queue'],
  'failures/blame': ['failures/blame'],
  'failures/limiter': ['failures/limiter'],
  'failures/pauses': ['failures/pauses', 'failures/limiter'],
  'failures/reducer': ['failures/reducer'],
  'failures/refusals': ['failures/refusals'],
  'failures/rejections': ['failures/rejections'],
  'expiry/lifetime': ['expiry/lifetime', 'expiry/exp-bound'],
  'expiry/learned-lifetime': ['expiry/learned-lifetime'],
  'expiry/jwt-times': ['expiry/jwt-times'],
  'expiry/policies': ['expiry/policies', 'expiry/exp-bound', 'guarantees/token-lifetimes'],
  'endpoint/classify-failure': ['endpoint/classify-failure', 'endpoint/token-endpoint', 'guarantees/http-answers'],
  'calling/redirect-hops': ['calling/redirect-hops', 'calling/owner-fetch'],
  'redis/sealing': ['redis/sealing', 'redis/stored-token'],
  'redis/stored-token': ['redis/stored-token', 'redis/shared-tokens'],
  'redis/known-tokens': ['redis/known-tokens', 'redis/shared-tokens'],
};

/** Of all other files of these folders, one mutant in so many is drawn by seed. All tests below `test` that find one count. */
export const DRAWN = {
  seed: 1,
  oneIn: 16,
  folders: ['failures', 'registry', 'endpoint', 'calling', 'expiry', 'redis'],
  tests: [
    '{failures,registry,endpoint,calling,expiry}/**/*',
    'redis/!(ports|record-scripts)',
    'guarantees/{async-context,bounded-tables,echoed-secrets,endpoint-*,failure-scopes,hangs-and-cancellation,http-answers}',
    'guarantees/{long-queues,mixed-answers,odd-answers,owner-isolation,refresh-ahead,registry-life-cycle,rejected-tokens,request-signals}',
    'guarantees/{single-flight,stored-values,strange-sources,throwing-hooks,time,token-lifetimes}',
  ],
};
