import { requestToken } from './request-token.mjs';

/**
 * GitHub's installation tokens: an owner is an installation. Its request goes through a `fetch` that speaks our
 * service's format, because the library knows only GitHub's.
 */
export const octokit = {
  name: 'octokit auth-app',
  packages: ['@octokit/auth-app'],
  own: ['request', 'keys'],
  async open(service) {
    const { createAppAuth } = await import('@octokit/auth-app');
    const { request } = await import('@octokit/request');
    const numbers = new Map();
    const accessKeys = [];
    const installationOf = (accessKey) => {
      if (!numbers.has(accessKey)) numbers.set(accessKey, accessKeys.push(accessKey));
      return numbers.get(accessKey);
    };
    const auth = createAppAuth({
      appId: 1,
      createJwt: async () => ({ jwt: 'app', expiresAt: new Date(Date.now() + 600_000).toISOString() }),
      log: { debug() {}, info() {}, warn() {}, error() {} },
      request: request.defaults({ request: { fetch: (url) => installationToken(service, accessKeys, url) } }),
    });
    const token = async (accessKey, refresh) =>
      (await auth({ type: 'installation', installationId: installationOf(accessKey), refresh })).token;
    return {
      getToken: (accessKey) => token(accessKey, false),
      renew: (accessKey) => token(accessKey, true),
      printed: () => [auth],
      close() {},
    };
  },
};

async function installationToken(service, accessKeys, url) {
  const installation = Number(/installations\/(\d+)\//.exec(url)[1]);
  const { token, lifetimeMs } = await requestToken(service, accessKeys[installation - 1]);
  return Response.json({ token, expires_at: new Date(Date.now() + lifetimeMs).toISOString(), permissions: {} });
}
