/** The declarations of every entry point, libraries checked too, without `esModuleInterop`. */

import { isOwnerTokenError, learnedLifetime, OwnerTokenRegistry, TokenEndpoint } from 'owner-token-registry';
import { ownerTokenAdapter } from 'owner-token-registry/adapters/axios';
import { ownerTokenHooks } from 'owner-token-registry/adapters/got';
import { ownerTokenInterceptor } from 'owner-token-registry/adapters/undici';
import { registerMetrics } from 'owner-token-registry/otel/prom-client';
import { type RedisPort, SharedTokens } from 'owner-token-registry/redis';
import { startSandbox } from 'owner-token-registry/sandbox';

export const adapters = [ownerTokenAdapter, ownerTokenHooks, ownerTokenInterceptor, registerMetrics];

export async function main(redis: RedisPort, sealingKeys: Uint8Array[]): Promise<number> {
  await using sandbox = await startSandbox({ owners: 2 });
  const { url: baseUrl, clientId, clientSecret, accessKeys } = sandbox;
  const endpoint = new TokenEndpoint({ baseUrl, clientId, clientSecret });
  const source = new SharedTokens({ source: endpoint, redis, sealingKeys });
  await using registry = new OwnerTokenRegistry({ source, expiry: learnedLifetime() });
  const token = await registry.getToken(accessKeys[0] ?? '').catch((error: unknown) => {
    if (isOwnerTokenError(error)) return error.code;
    throw error;
  });
  return typeof token === 'string' ? token.length : token.expiresAtMs;
}
