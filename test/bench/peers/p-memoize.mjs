import { requestToken } from './request-token.mjs';

/** The Map that its README asks for where entries should end, by each token's own lifetime. */
class ExpiringMap extends Map {
  get(key) {
    return super.get(key)?.token;
  }
  has(key) {
    return super.get(key)?.expiresAtMs > Date.now();
  }
  set(key, { token, lifetimeMs }) {
    return super.set(key, { token, expiresAtMs: Date.now() + lifetimeMs });
  }
}

export const pMemoizePeer = {
  name: 'p-memoize',
  packages: ['p-memoize'],
  own: ['request', 'cache'],
  async open(service) {
    const { default: pMemoize } = await import('p-memoize');
    const cache = new ExpiringMap();
    const memoized = pMemoize((accessKey) => requestToken(service, accessKey), { cache });
    const getToken = async (accessKey) => {
      const result = await memoized(accessKey);
      return typeof result === 'string' ? result : result.token;
    };
    return {
      getToken,
      renew(accessKey, token) {
        if (cache.get(accessKey) === token) cache.delete(accessKey);
        return getToken(accessKey);
      },
      printed: () => [cache, memoized],
      close() {},
    };
  },
};
