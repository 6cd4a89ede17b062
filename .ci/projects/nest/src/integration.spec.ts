import { OwnerTokenRegistry, TokenEndpoint } from 'owner-token-registry';
import { type Sandbox, startSandbox } from 'owner-token-registry/sandbox';

describe('our integration', () => {
  let sandbox: Sandbox;
  let registry: OwnerTokenRegistry;

  beforeEach(async () => {
    sandbox = await startSandbox();
    const { url: baseUrl, clientId, clientSecret, clock } = sandbox;
    const source = new TokenEndpoint({ baseUrl, clientId, clientSecret, clock });
    registry = new OwnerTokenRegistry({ source, clock });
  });

  afterEach(async () => {
    await registry.close();
    await sandbox.close();
  });

  it('works through an outage of the token endpoint', async () => {
    const [accessKey = ''] = sandbox.accessKeys;
    await registry.getToken(accessKey);
    sandbox.faults.add({ kind: 'status', status: 503 });
    sandbox.clock.advance(50 * 60_000); // the token is due for a refresh, but has not expired
    const response = await registry.ownerFetch(accessKey)(`${sandbox.url}/echo`);
    expect(response.status).toBe(200);
  });

  it('rejects with owner_refused for a revoked access key', async () => {
    const [accessKey = ''] = sandbox.accessKeys;
    sandbox.revokeAccessKey(accessKey);
    await expect(registry.getToken(accessKey)).rejects.toMatchObject({ code: 'owner_refused', retryable: false });
  });
});
