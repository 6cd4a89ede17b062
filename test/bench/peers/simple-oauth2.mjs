import { lifetimeMsOf } from './request-token.mjs';
import { TokenMap } from './token-map.mjs';

export const simpleOauth2 = {
  name: 'simple-oauth2 + Map',
  packages: ['simple-oauth2'],
  own: ['cache'],
  async open({ tokenUrl, clientId, clientSecret }) {
    const { ClientCredentials } = await import('simple-oauth2');
    const { origin, pathname } = new URL(tokenUrl);
    const client = new ClientCredentials({
      client: { id: clientId, secret: clientSecret },
      auth: { tokenHost: origin, tokenPath: pathname },
      options: { authorizationMethod: 'body', bodyFormat: 'json' },
    });
    const tokens = new TokenMap(async (accessKey) => {
      const { token } = await client.getToken({ appliance_owner_scope: accessKey });
      if (!token.access_token) throw new Error('the token endpoint answered without a token');
      return { token: token.access_token, lifetimeMs: lifetimeMsOf(token.expires_in) };
    });
    return {
      getToken: (accessKey) => tokens.get(accessKey),
      renew: (accessKey, token) => tokens.renew(accessKey, token),
      printed: () => [client, tokens],
      close() {},
    };
  },
};
