/** One token request per owner over a whole fleet, through the Redis or Valkey that is already there. */

export { fromIoredis, fromNodeRedis, type RedisPort } from './ports.ts';
export { SharedTokens, type SharingStats } from './shared-tokens.ts';
export type { SharedTokensOptions } from './shared-tokens-options.ts';
export type { SharingMessage } from './sharing-events.ts';
