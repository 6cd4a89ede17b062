import type { SourceNews } from '../source-news.ts';
import type { AccessToken } from '../token.ts';

/** The part of the registry that acts on news. */
interface Registry {
  peek(accessKey: string): AccessToken | undefined;
  reject(accessKey: string, token: AccessToken): boolean;
  resume(accessKey: string): void;
}

/** What the registry does with what its source learns from other replicas. */
export function sourceNews(registry: Registry, requests: { liftCircuit(): void }): SourceNews {
  return {
    rejected: (accessKey, isToken) => {
      const held = registry.peek(accessKey);
      if (held && isToken(held.value)) registry.reject(accessKey, held);
    },
    recovered: (accessKey) => {
      registry.resume(accessKey);
      requests.liftCircuit();
    },
  };
}
