import { lifetimeMsOf } from './request-token.mjs';
import { TokenMap } from './token-map.mjs';

export const openidClient = {
  name: 'openid-client + Map',
  packages: ['openid-client'],
  own: ['cache'],
  async open({ tokenUrl, clientId, clientSecret }) {
    const client = await import('openid-client');
    const metadata = { issuer: new URL(tokenUrl).origin, token_endpoint: tokenUrl };
    const config = new client.Configuration(metadata, clientId, clientSecret, client.ClientSecretPost(clientSecret));
    client.allowInsecureRequests(config);
    const tokens = new TokenMap(async (accessKey) => {
      const response = await client.clientCredentialsGrant(config, { appliance_owner_scope: accessKey });
      return { token: response.access_token, lifetimeMs: lifetimeMsOf(response.expiresIn()) };
    });
    return {
      getToken: (accessKey) => tokens.get(accessKey),
      renew: (accessKey, token) => tokens.renew(accessKey, token),
      printed: () => [config, tokens],
      close() {},
    };
  },
};
