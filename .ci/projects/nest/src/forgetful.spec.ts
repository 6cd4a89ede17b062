import { OwnerTokenRegistry, TokenEndpoint } from 'owner-token-registry';
import { startSandbox } from 'owner-token-registry/sandbox';

describe('a test that closes nothing', () => {
  it('does not keep Jest running', async () => {
    const { url: baseUrl, clientId, clientSecret, accessKeys } = await startSandbox();
    const registry = new OwnerTokenRegistry({ source: new TokenEndpoint({ baseUrl, clientId, clientSecret }) });
    await registry.getToken(accessKeys[0] ?? '');
    const answer = await registry.ownerFetch(accessKeys[0] ?? '')(`${baseUrl}/echo`);
    expect(await answer.json()).toHaveProperty('owner');
  });
});
