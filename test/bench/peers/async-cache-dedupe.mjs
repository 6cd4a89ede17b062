import { requestToken } from './request-token.mjs';

/** @param redis an ioredis client: then the tokens are kept in Redis, in the clear. */
export const asyncCacheDedupe = {
  name: 'async-cache-dedupe',
  packages: ['async-cache-dedupe'],
  own: ['request'],
  shares: true,
  async open(service, redis) {
    const { createCache } = await import('async-cache-dedupe');
    const cache = createCache({
      ttl: ({ lifetimeMs }) => Math.ceil(lifetimeMs / 1_000),
      // Its default of 1,024 entries would make every scene with more owners one of misses.
      storage: redis ? { type: 'redis', options: { client: redis } } : { type: 'memory', options: { size: 10_000 } },
    });
    cache.define('token', (accessKey) => requestToken(service, accessKey));
    const getToken = async (accessKey) => (await cache.token(accessKey)).token;
    return {
      getToken,
      async renew(accessKey) {
        await cache.clear('token', accessKey);
        return getToken(accessKey);
      },
      printed: () => [cache],
      close() {},
    };
  },
};
