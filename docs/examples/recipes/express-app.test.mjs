// Run it: npx vitest run express-app.test.mjs
import { once } from 'node:events';
import { OwnerTokenRegistry, TokenEndpoint } from 'owner-token-registry';
import { startSandbox } from 'owner-token-registry/sandbox';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createApp } from './express-app.mjs';

let sandbox;
let registry;
let server;
let url;

beforeEach(async () => {
  sandbox = await startSandbox();
  const { url: baseUrl, clientId, clientSecret } = sandbox;
  registry = new OwnerTokenRegistry({ source: new TokenEndpoint({ baseUrl, clientId, clientSecret }) });
  server = createApp(registry, baseUrl, async () => sandbox.accessKeys[0]).listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${server.address().port}/device`;
});

afterEach(async () => {
  server.close();
  await registry.close();
  await sandbox.close();
});

test('returns the response of the API', async () => {
  const response = await fetch(url);
  expect(response.status).toBe(200);
  expect(await response.json()).toMatchObject({ owner: expect.any(String) });
});

test('needs one token for many requests', async () => {
  await Promise.all(Array.from({ length: 20 }, () => fetch(url)));
  expect(sandbox.ledger.count({ kind: 'token' })).toBe(1);
});

test('answers 502 for a revoked owner', async () => {
  sandbox.revokeAccessKey(sandbox.accessKeys[0]);
  const response = await fetch(url);
  expect(response.status).toBe(502);
  expect(await response.json()).toEqual({ error: 'owner_refused' });
});

test('answers 502 when the API answers 401 even to a new token', async () => {
  sandbox.faults.add({ kind: 'status', status: 401, target: { path: 'echo' } });
  const response = await fetch(url);
  expect(response.status).toBe(502);
  expect(await response.json()).toEqual({ error: 'api_unauthorized' });
});

test('says when to come back while the token service is down', async () => {
  sandbox.faults.add({ kind: 'status', status: 503 });
  const response = await fetch(url);
  expect(response.status).toBe(503);
  expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
});
