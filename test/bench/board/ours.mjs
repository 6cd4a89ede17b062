/** Ours, with default options, behind the adapter that the other libraries have. */
export const ours = {
  name: 'owner-token-registry',
  packages: ['owner-token-registry'],
  async open({ tokenUrl, clientId, clientSecret }) {
    const { OwnerTokenRegistry, TokenEndpoint } = await import(process.env.BOARD_LIBRARY);
    const source = new TokenEndpoint({ baseUrl: new URL(tokenUrl).origin, clientId, clientSecret });
    const registry = new OwnerTokenRegistry({ source });
    return {
      getToken: async (accessKey) => (await registry.getToken(accessKey)).value,
      async renew(accessKey, token) {
        registry.reject(accessKey, token);
        return (await registry.getToken(accessKey)).value;
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
