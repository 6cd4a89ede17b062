import { OwnerTokenRegistry, TokenEndpoint } from 'owner-token-registry';

export function createRegistry() {
  const source = new TokenEndpoint({
    baseUrl: process.env.OTR_BASE_URL ?? '', // https://api.example.com
    clientId: process.env.OTR_CLIENT_ID ?? '',
    clientSecret: process.env.OTR_CLIENT_SECRET ?? '',
  });
  return new OwnerTokenRegistry({ source, logger: 'info' }); // logs when requests pause, why, and when they resume
}

/** Read your secret store here. The registry caches tokens, not access keys: cache these yourself if the store is slow. */
export async function accessKeyOf(tenant) {
  return tenant === 'acme' ? process.env.OTR_ACCESS_KEY : undefined;
}
