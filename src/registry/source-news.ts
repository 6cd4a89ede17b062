import type { SourceNews } from '../source-news.ts';
import type { AccessToken } from '../token.ts';

/** The parts of the registry that news from other replicas changes. */
interface Registry {
  peek(accessKey: string): AccessToken | undefined;
  reject(accessKey: string, token: AccessToken): boolean;
  resume(accessKey: string): void;
}

/** How the registry reacts to news that its source receives from other replicas. */
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
