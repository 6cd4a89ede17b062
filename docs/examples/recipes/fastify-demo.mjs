import { OwnerTokenRegistry, TokenEndpoint } from 'owner-token-registry';
import { startSandbox } from 'owner-token-registry/sandbox';
import { createApp } from './fastify-app.mjs';

const sandbox = await startSandbox();
const { url: baseUrl, clientId, clientSecret, accessKeys } = sandbox;
const registry = new OwnerTokenRegistry({ source: new TokenEndpoint({ baseUrl, clientId, clientSecret }) });
const keys = new Map([
  ['acme', accessKeys[0] ?? ''],
  ['globex', accessKeys[1] ?? ''],
]);
const app = createApp(registry, baseUrl, async (tenant) => keys.get(tenant));

const response = await app.inject({ url: '/device', headers: { 'x-tenant': 'acme' } });
console.log(response.statusCode, response.json()); // → 200 { owner: …
console.log((await app.inject({ url: '/device' })).statusCode); // → 404

sandbox.revokeAccessKey(keys.get('globex') ?? '');
const refused = await app.inject({ url: '/device', headers: { 'x-tenant': 'globex' } });
console.log(refused.statusCode, refused.json()); // → 502 { error: 'owner_refused' }

await app.close(); // closes the registry too
await sandbox.close();
