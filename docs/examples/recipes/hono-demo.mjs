import { OwnerTokenRegistry, TokenEndpoint } from 'owner-token-registry';
import { startSandbox } from 'owner-token-registry/sandbox';
import { createApp } from './hono-app.mjs';

const sandbox = await startSandbox();
const { url: baseUrl, clientId, clientSecret, accessKeys } = sandbox;
const registry = new OwnerTokenRegistry({ source: new TokenEndpoint({ baseUrl, clientId, clientSecret }) });
const keys = new Map([
  ['acme', accessKeys[0] ?? ''],
  ['globex', accessKeys[1] ?? ''],
]);
const app = createApp(registry, baseUrl, async (tenant) => keys.get(tenant));

const response = await app.request('/device', { headers: { 'x-tenant': 'acme' } });
console.log(response.status, await response.json()); // → 200 { owner: …
console.log((await app.request('/device')).status); // → 404

sandbox.revokeAccessKey(keys.get('globex') ?? '');
const refused = await app.request('/device', { headers: { 'x-tenant': 'globex' } });
console.log(refused.status, await refused.json()); // → 502 { error: 'owner_refused' }

await registry.close();
await sandbox.close();
