import { requestToken } from './request-token.mjs';

/** One `OAuth2Client` per owner with a `refreshHandler`, its README's way for tokens of other services. */
export const googleAuth = {
  name: 'google-auth-library',
  packages: ['google-auth-library'],
  own: ['request'],
  async open(service) {
    const { OAuth2Client } = await import('google-auth-library');
    const owners = new Map();
    const of = (accessKey) => {
      let client = owners.get(accessKey);
      if (!client) {
        client = new OAuth2Client();
        client.refreshHandler = async () => {
          const { token, lifetimeMs } = await requestToken(service, accessKey);
          return { access_token: token, expiry_date: Date.now() + lifetimeMs };
        };
        owners.set(accessKey, client);
      }
      return client;
    };
    const getToken = async (accessKey) => (await of(accessKey).getAccessToken()).token;
    return {
      getToken,
      renew(accessKey, token) {
        const client = of(accessKey);
        if (client.credentials.access_token === token) client.setCredentials({});
        return getToken(accessKey);
      },
      printed: () => [...owners.values()],
      close() {},
    };
  },
};
