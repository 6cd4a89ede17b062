/** {@link file://./earlier-sharing.mjs} has the API of today, as far as the tests use it. */
export { fromIoredis, fromNodeRedis, SharedTokens } from '../../src/redis/index.ts';
