/**
 * One token request per owner over all replicas, through an existing Redis or Valkey.
 *
 * Where to start: `shared-tokens.ts` follows one call, `election.ts` decides what it does, `record-scripts.ts` is the
 * protocol, `redis-link.ts` and `redis-circuit.ts` bound what Redis can do to a call, `wakeups.ts` tells followers,
 * `stored-token.ts` and `stored-failure.ts` convert tokens and failures to and from their stored form.
 */

export type { SharingEvent, SharingMessage } from './diagnostics.ts';
export type { SharedTokensOptions } from './options.ts';
export {
  fromIoredis,
  fromNodeRedis,
  type IoredisClient,
  type IoredisShardedSubscriber,
  type IoredisSubscriber,
  type NodeRedisClient,
  type NodeRedisShardedSubscriber,
  type NodeRedisSubscriber,
  type RedisPort,
} from './ports.ts';
export type { RecordScript } from './record-scripts.ts';
export type { RedisTrouble } from './redis-circuit.ts';
export { SharedTokens, type SharingStats } from './shared-tokens.ts';
