import { requestToken } from './request-token.mjs';

/**
 * lru-cache, and around each request the policies that cockatiel's README begins with: three retries with backoff through
 * a circuit breaker that opens for ten seconds after five failures in a row. A bulkhead of a hundred requests bounds
 * them. A 4xx other than 429 is neither repeated nor counted.
 */
export const cockatiel = {
  name: 'cockatiel + lru-cache',
  packages: ['cockatiel', 'lru-cache'],
  own: ['request'],
  async open(service) {
    const { LRUCache } = await import('lru-cache');
    const { bulkhead, circuitBreaker, ConsecutiveBreaker, ExponentialBackoff, handleWhen, retry, wrap } = await import(
      'cockatiel'
    );
    const transient = handleWhen(({ status = 500 }) => status === 429 || status >= 500);
    const policy = wrap(
      retry(transient, { maxAttempts: 3, backoff: new ExponentialBackoff() }),
      circuitBreaker(transient, { halfOpenAfter: 10_000, breaker: new ConsecutiveBreaker(5) }),
      bulkhead(100, Number.POSITIVE_INFINITY),
    );
    const cache = new LRUCache({
      max: 10_000,
      ttlResolution: 0,
      async fetchMethod(accessKey, _stale, { options }) {
        const { token, lifetimeMs } = await policy.execute(() => requestToken(service, accessKey));
        options.ttl = lifetimeMs;
        return token;
      },
    });
    return {
      getToken: (accessKey) => cache.fetch(accessKey),
      renew: (accessKey) => cache.fetch(accessKey, { forceRefresh: true }),
      printed: () => [cache, policy],
      close() {},
    };
  },
};
