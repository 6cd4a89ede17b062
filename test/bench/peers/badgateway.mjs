/** One `OAuth2Fetch` per owner, as its README shows for one user; a 401 calls `refreshToken()`, as its middleware does. */
export const badgateway = {
  name: 'badgateway',
  packages: ['@badgateway/oauth2-client'],
  async open({ tokenUrl, clientId, clientSecret }) {
    const { OAuth2Client, OAuth2Fetch } = await import('@badgateway/oauth2-client');
    const client = new OAuth2Client({
      server: new URL(tokenUrl).origin,
      tokenEndpoint: new URL(tokenUrl).pathname,
      clientId,
      clientSecret,
      authenticationMethod: 'client_secret_post',
    });
    const owners = new Map();
    const of = (accessKey) => {
      let wrapper = owners.get(accessKey);
      if (!wrapper) {
        const extraParams = { appliance_owner_scope: accessKey };
        wrapper = new OAuth2Fetch({ client, getNewToken: () => client.clientCredentials({ extraParams }) });
        owners.set(accessKey, wrapper);
      }
      return wrapper;
    };
    return {
      getToken: (accessKey) => of(accessKey).getAccessToken(),
      renew: async (accessKey) => (await of(accessKey).refreshToken()).accessToken,
      printed: () => [client, ...owners.values()],
      close() {},
    };
  },
};
