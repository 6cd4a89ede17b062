import { Test } from '@nestjs/testing';
import { AccessToken, OwnerTokenError, TokenEndpoint } from 'owner-token-registry';
import { ownerTokenAdapter } from 'owner-token-registry/adapters/axios';
import { ownerTokenHooks } from 'owner-token-registry/adapters/got';
import { ownerTokenInterceptor } from 'owner-token-registry/adapters/undici';
import { fromIoredis, SharedTokens } from 'owner-token-registry/redis';
import { Sandbox, startSandbox } from 'owner-token-registry/sandbox';
import { TokensService } from './tokens.service';

describe('TokensService', () => {
  let sandbox: Sandbox;
  let service: TokensService;
  let close: () => Promise<void>;

  beforeAll(async () => {
    sandbox = await startSandbox();
    const { url: baseUrl, clientId, clientSecret } = sandbox;
    const useValue = new TokenEndpoint({ baseUrl, clientId, clientSecret });
    const providers = [{ provide: TokenEndpoint, useValue }, TokensService];
    const module = await Test.createTestingModule({ providers }).compile();
    service = module.get(TokensService);
    close = () => module.close();
  });

  afterAll(async () => {
    await close();
    await sandbox.close();
  });

  it('gets one token for concurrent calls', async () => {
    const accessKey = sandbox.accessKeys[0] ?? '';
    const [a, b] = await Promise.all([service.tokenOf(accessKey), service.tokenOf(accessKey)]);
    expect(a).toBe(b);
    expect(a).toBeInstanceOf(AccessToken);
    expect(sandbox.ledger.count()).toBe(1);
  });

  it('knows an error of the package', async () => {
    const error: unknown = await service.tokenOf('wrong').catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(OwnerTokenError);
    expect(service.codeOf(error)).toBe('owner_refused');
  });

  it('loads the portal', async () => {
    const script = await fetch(new URL('/portal.js', sandbox.portalUrl));
    expect((await script.text()).length).toBeGreaterThan(10_000);
  });

  it('loads every other entry point', () => {
    const loaded = [ownerTokenAdapter, ownerTokenHooks, ownerTokenInterceptor, fromIoredis, SharedTokens];
    expect(loaded.map((each) => typeof each)).toEqual(loaded.map(() => 'function'));
  });
});
