import { once } from 'node:events';
import { OwnerTokenError, OwnerTokenRegistry } from 'owner-token-registry';
import { createApp } from './express-app.mjs';

const apiUrl = 'https://api.example.com';
const source = {
  origin: apiUrl, // where tokens may be sent
  async requestToken(accessKey) {
    if (accessKey === 'revoked') throw new OwnerTokenError('owner_refused', 'the access key was revoked');
    return { token: `token-of-${accessKey}`, response: { expires_in: 3600 } };
  },
};
const api = async (_url, init) => new Response(new Headers(init?.headers).get('authorization'));
const registry = new OwnerTokenRegistry({ source, calls: { fetch: api } });
const server = createApp(registry, apiUrl, async (tenant) => tenant).listen(0, '127.0.0.1');
await once(server, 'listening');
const url = `http://127.0.0.1:${server.address().port}/device`;

const served = await fetch(url, { headers: { 'x-tenant': 'acme' } });
console.log(served.status, await served.text()); // → 200 Bearer token-of-acme
const refused = await fetch(url, { headers: { 'x-tenant': 'revoked' } });
console.log(refused.status, await refused.json()); // → 502 { error: 'owner_refused' }

server.close();
await registry.close();
