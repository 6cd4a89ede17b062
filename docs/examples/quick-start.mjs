// One token for many concurrent calls, and a failure that stops one owner only. Run it: node quick-start.mjs
import { isOwnerTokenError, OwnerTokenRegistry, TokenEndpoint } from 'owner-token-registry';
import { startSandbox } from 'owner-token-registry/sandbox';

const sandbox = await startSandbox({ owners: 3 });
const { url: baseUrl, clientId, clientSecret, accessKeys } = sandbox;
const registry = new OwnerTokenRegistry({ source: new TokenEndpoint({ baseUrl, clientId, clientSecret }) });

const tokens = await Promise.all(Array.from({ length: 1000 }, () => registry.getToken(accessKeys[0])));
console.log(`${new Set(tokens).size} token for ${tokens.length} calls`);

try {
  await registry.getToken('no such key');
} catch (error) {
  if (isOwnerTokenError(error)) console.log(`another owner: ${error.code}, scope ${error.failureScope}`);
}
await registry.close();
await sandbox.close();
