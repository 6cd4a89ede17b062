import { once } from 'node:events';
import { OwnerTokenRegistry, TokenEndpoint } from 'owner-token-registry';
import { startSandbox } from 'owner-token-registry/sandbox';
import { createApp } from './express-app.mjs';

const sandbox = await startSandbox();
const { url: baseUrl, clientId, clientSecret, accessKeys } = sandbox;
const registry = new OwnerTokenRegistry({ source: new TokenEndpoint({ baseUrl, clientId, clientSecret }) });
const keys = new Map([
  ['acme', accessKeys[0] ?? ''],
  ['globex', accessKeys[1] ?? ''],
]);
const server = createApp(registry, baseUrl, async (tenant) => keys.get(tenant)).listen(0, '127.0.0.1');
await once(server, 'listening');
const url = `http://127.0.0.1:${server.address().port}/device`;

const response = await fetch(url, { headers: { 'x-tenant': 'acme' } });
console.log(response.status, await response.json()); // → 200 { owner: …
console.log((await fetch(url)).status); // → 404

sandbox.revokeAccessKey(keys.get('globex') ?? '');
const refused = await fetch(url, { headers: { 'x-tenant': 'globex' } });
console.log(refused.status, await refused.json()); // → 502 { error: 'owner_refused' }

sandbox.faults.add({ kind: 'refuse', target: { path: 'echo' } }); // the API is down
const down = await fetch(url, { headers: { 'x-tenant': 'acme' } });
console.log(down.status, await down.json()); // → 502 { error: 'api_unreachable' }

server.close();
await registry.close();
await sandbox.close();
