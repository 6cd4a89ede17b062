import { requestToken } from './request-token.mjs';

/** @param redis an ioredis client: then the tokens are kept in Redis too, in the clear. */
export const bentocache = {
  name: 'bentocache',
  packages: ['bentocache'],
  own: ['request'],
  shares: true,
  async open(service, redis) {
    const { BentoCache, bentostore } = await import('bentocache');
    const { memoryDriver } = await import('bentocache/drivers/memory');
    const store = bentostore().useL1Layer(memoryDriver({ maxItems: 10_000 }));
    if (redis) {
      const { redisBusDriver, redisDriver } = await import('bentocache/drivers/redis');
      store.useL2Layer(redisDriver({ connection: redis })).useBus(redisBusDriver({ connection: redis.options }));
    }
    const bento = new BentoCache({ default: 'tokens', stores: { tokens: store } });
    const factory = (accessKey) => async (context) => {
      const { token, lifetimeMs } = await requestToken(service, accessKey);
      context.setOptions({ ttl: lifetimeMs });
      return token;
    };
    const getToken = (accessKey) => bento.getOrSet({ key: accessKey, factory: factory(accessKey) });
    return {
      getToken,
      async renew(accessKey) {
        await bento.delete({ key: accessKey });
        return getToken(accessKey);
      },
      printed: () => [bento],
      close: () => bento.disconnectAll(),
    };
  },
};
