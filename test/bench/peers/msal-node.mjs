const AUTHORITY = 'https://login.example.test/service';

/** One confidential client; the owner is the scope, its cache's key. The authority's metadata names our endpoint. */
export const msalNode = {
  name: 'msal-node',
  packages: ['@azure/msal-node'],
  own: ['keys'],
  async open({ tokenUrl, clientId, clientSecret }) {
    const { ConfidentialClientApplication, ProtocolMode } = await import('@azure/msal-node');
    const authorityMetadata = JSON.stringify({
      issuer: AUTHORITY,
      authorization_endpoint: `${AUTHORITY}/authorize`,
      token_endpoint: tokenUrl,
      end_session_endpoint: `${AUTHORITY}/logout`,
      jwks_uri: `${AUTHORITY}/keys`,
    });
    const client = new ConfidentialClientApplication({
      auth: {
        clientId,
        clientSecret,
        authorityMetadata,
        authority: AUTHORITY,
        knownAuthorities: [new URL(AUTHORITY).host],
      },
      system: { protocolMode: ProtocolMode.OIDC },
    });
    const acquire = async (accessKey, skipCache) => {
      // A scope may hold no space, so the key goes encoded; the service decodes it.
      const scopes = [encodeURIComponent(accessKey)];
      return client.acquireTokenByClientCredential({ scopes, skipCache });
    };
    return {
      getToken: async (accessKey) => (await acquire(accessKey, false)).accessToken,
      renew: async (accessKey) => (await acquire(accessKey, true)).accessToken,
      printed: () => [client],
      close() {},
    };
  },
};
