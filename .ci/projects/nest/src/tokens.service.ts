import { Injectable, OnModuleDestroy } from '@nestjs/common';
import { AccessToken, isOwnerTokenError, OwnerTokenRegistry, TokenEndpoint } from 'owner-token-registry';

@Injectable()
export class TokensService implements OnModuleDestroy {
  private readonly registry: OwnerTokenRegistry;

  constructor(endpoint: TokenEndpoint) {
    this.registry = new OwnerTokenRegistry({ source: endpoint, logger: 'error' });
  }

  tokenOf(accessKey: string): Promise<AccessToken> {
    return this.registry.getToken(accessKey);
  }

  codeOf(error: unknown): string | undefined {
    return isOwnerTokenError(error) ? error.code : undefined;
  }

  async onModuleDestroy(): Promise<void> {
    await this.registry.close();
  }
}
