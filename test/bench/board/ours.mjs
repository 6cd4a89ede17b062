/** Ours, with default options, behind the adapter that the other libraries have. */

import { createHash } from 'node:crypto';

export const ours = {
  name: 'owner-token-registry',
  packages: ['owner-token-registry'],
  shares: true,
  async open({ tokenUrl, clientId, clientSecret }, redis) {
    const { OwnerTokenRegistry, TokenEndpoint } = await import(process.env.BOARD_LIBRARY);
    const endpoint = new TokenEndpoint({ baseUrl: new URL(tokenUrl).origin, clientId, clientSecret });
    const source = redis ? await shared(endpoint, redis) : endpoint;
    const registry = new OwnerTokenRegistry({ source });
    return {
      getToken: async (accessKey) => (await registry.getToken(accessKey)).value,
      async renew(accessKey, token) {
        registry.reject(accessKey, token);
        return (await registry.getToken(accessKey)).value;
      },
      async accept(accessKey, token) {
        const held = await registry.getToken(accessKey);
        if (held.value === token) registry.accept(accessKey, held);
      },
      printed: (accessKey) => [
        registry,
        source,
        registry.peek(accessKey),
        registry.stats(),
        registry.describe(accessKey),
      ],
      close: () => registry.close({ timeoutMs: 0 }),
    };
  },
};

async function shared(source, client) {
  const { fromIoredis, SharedTokens } = await import(process.env.BOARD_REDIS);
  const redis = fromIoredis(client, { subscriber: client.duplicate() });
  return new SharedTokens({ source, redis, sealingKeys: [createHash('sha256').update('board').digest()] });
}
