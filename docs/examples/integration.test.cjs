// Tests of an integration with Jest, in plain JavaScript. Run them: npx jest integration.test.cjs
const { OwnerTokenRegistry, TokenEndpoint } = require('owner-token-registry');
const { startSandbox } = require('owner-token-registry/sandbox');

let sandbox;
let registry;

beforeEach(async () => {
  sandbox = await startSandbox();
  const { url: baseUrl, clientId, clientSecret, clock } = sandbox;
  registry = new OwnerTokenRegistry({ source: new TokenEndpoint({ baseUrl, clientId, clientSecret, clock }), clock });
});

afterEach(async () => {
  await registry.close();
  await sandbox.close();
});

test('works through an outage of the token endpoint', async () => {
  const [accessKey] = sandbox.accessKeys;
  await registry.getToken(accessKey);
  sandbox.faults.add({ kind: 'status', status: 503 });
  sandbox.clock.advance(50 * 60_000); // the token is due for a refresh, but has not expired
  const response = await registry.ownerFetch(accessKey)(`${sandbox.url}/echo`);
  expect(response.status).toBe(200);
});

test('rejects with owner_refused for a revoked access key', async () => {
  const [accessKey] = sandbox.accessKeys;
  sandbox.revokeAccessKey(accessKey);
  await expect(registry.getToken(accessKey)).rejects.toMatchObject({ code: 'owner_refused', retryable: false });
});
