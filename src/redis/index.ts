/**
 * One token request per owner over a whole fleet, through the Redis or Valkey that is already there.
 *
 * To read it: `shared-tokens.ts` is the way of one call, `record-scripts.ts` what the replicas have in common,
 * `redis-link.ts` how little of Redis is trusted, `stored-token.ts` how a stored token becomes one of this replica.
 */

export type { SharingMessage } from './diagnostics.ts';
export type { SharedTokensOptions } from './options.ts';
export { fromIoredis, fromNodeRedis, type RedisPort } from './ports.ts';
export { SharedTokens, type SharingStats } from './shared-tokens.ts';
