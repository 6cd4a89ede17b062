/**
 * One token request per owner over all replicas, through an existing Redis or Valkey.
 *
 * Where to start: `shared-tokens.ts` is the source, `shared-call.ts` follows one call, `record-scripts.ts` is the protocol,
 * `redis-link.ts` bounds how long Redis can delay a call, `wakeups.ts` wakes followers,
 * `stored-token.ts` and `stored-failure.ts` convert tokens and failures to and from their stored form.
 */

export type { SharingEvent, SharingMessage } from './diagnostics.ts';
export type { SharedTokensOptions } from './options.ts';
export type {
  IoredisClient,
  IoredisShardedSubscriber,
  IoredisSubscriber,
  NodeRedisClient,
  NodeRedisShardedSubscriber,
  NodeRedisSubscriber,
} from './ports.ts';
export { fromIoredis, fromNodeRedis, type RedisPort, type RedisSubscribers } from './ports.ts';
export type { RecordScript } from './record-scripts.ts';
export type { RedisTrouble } from './redis-link.ts';
export { type FleetMembers, SharedTokens, type SharingStats } from './shared-tokens.ts';
