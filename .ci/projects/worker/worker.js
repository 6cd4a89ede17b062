import { OwnerTokenRegistry, TokenEndpoint } from 'owner-token-registry';

/** The requests of a Worker share no promises; those of a Durable Object do. */
export class Tokens {
  constructor(_state, { BASE_URL, CLIENT_ID, CLIENT_SECRET }) {
    const endpoint = { baseUrl: BASE_URL, clientId: CLIENT_ID, clientSecret: CLIENT_SECRET };
    this.registry = new OwnerTokenRegistry({
      source: new TokenEndpoint({ ...endpoint, fetch: (...args) => fetch(...args) }),
      logger: 'info',
    });
  }

  async fetch(request) {
    // For the example only. Look up the key of the tenant that is signed in.
    const accessKey = request.headers.get('access-key');
    const token = await this.registry.getToken(accessKey).catch((error) => error.code);
    return Response.json({ token: `${token}`, requests: this.registry.stats().requests });
  }
}

export default { fetch: (request, env) => env.TOKENS.get(env.TOKENS.idFromName('tokens')).fetch(request) };
