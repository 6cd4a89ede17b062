import { requestToken } from './request-token.mjs';

export const lruCache = {
  name: 'lru-cache fetch',
  packages: ['lru-cache'],
  own: ['request'],
  async open(service) {
    const { LRUCache } = await import('lru-cache');
    const cache = new LRUCache({
      max: 10_000,
      ttlResolution: 0,
      async fetchMethod(accessKey, _stale, { options }) {
        const { token, lifetimeMs } = await requestToken(service, accessKey);
        options.ttl = lifetimeMs;
        return token;
      },
    });
    return {
      getToken: (accessKey) => cache.fetch(accessKey),
      renew: (accessKey) => cache.fetch(accessKey, { forceRefresh: true }),
      printed: () => [cache],
      close() {},
    };
  },
};
