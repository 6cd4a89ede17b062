import { OwnerTokenRegistry, TokenEndpoint } from 'owner-token-registry';
import { startSandbox } from 'owner-token-registry/sandbox';
import { createHandler } from './lambda-app.mjs';

const sandbox = await startSandbox();
const { url: baseUrl, clientId, clientSecret, accessKeys } = sandbox;
const registry = new OwnerTokenRegistry({ source: new TokenEndpoint({ baseUrl, clientId, clientSecret }) });
const handler = createHandler(registry, baseUrl, async (tenant) => (tenant === 'acme' ? accessKeys[0] : undefined));

const response = await handler({ tenant: 'acme' });
console.log(response.statusCode, response.body); // → 200 {"owner":…
console.log((await handler({ tenant: 'initech' })).statusCode); // → 404

await registry.close();
await sandbox.close();
