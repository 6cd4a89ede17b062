/** The signatures that the public contract promises, as a user's compiler sees them. */

import type http from 'node:http';
import type https from 'node:https';
import { describe, expectTypeOf, it } from 'vitest';
import {
  type AccessToken,
  type Clock,
  type ExpiresInOptions,
  type ExpiryPolicy,
  expiresIn,
  type FailureScope,
  firstKnown,
  fixedLifetime,
  type IssuedToken,
  jwtExp,
  type LearnedLifetimeOptions,
  type Logger,
  type OwnerFetchOptions,
  OwnerTokenError,
  type OwnerTokenErrorCode,
  type OwnerTokenErrorOptions,
  OwnerTokenRegistry,
  type OwnerTokenRegistryOptions,
  type StatedLifetime,
  TokenEndpoint,
  type TokenEndpointOptions,
  type TokenRequest,
  type TokenSource,
  untilRejected,
  type WarmUpOptions,
  type WarmUpReport,
} from '../src/index.ts';
import type { fromIoredis, fromNodeRedis, SharedTokensOptions } from '../src/redis/index.ts';
import type { SandboxOptions } from '../src/sandbox/index.ts';

declare const registry: OwnerTokenRegistry;
declare const source: TokenSource;

describe('OwnerTokenRegistry', () => {
  it('needs a source and nothing else', () => {
    expectTypeOf(OwnerTokenRegistry).toBeConstructibleWith({ source });
    // @ts-expect-error a registry without a source has nowhere to ask
    new OwnerTokenRegistry({});
    // @ts-expect-error an option that there is not
    new OwnerTokenRegistry({ source, ttl: 5 });
  });

  it('takes the options of the contract', () => {
    expectTypeOf<OwnerTokenRegistryOptions['expiry']>().toEqualTypeOf<ExpiryPolicy | undefined>();
    expectTypeOf<OwnerTokenRegistryOptions['refreshWindow']>().toEqualTypeOf<[number, number] | undefined>();
    expectTypeOf<OwnerTokenRegistryOptions['clock']>().toEqualTypeOf<Clock | undefined>();
    expectTypeOf<OwnerTokenRegistryOptions['fingerprintKey']>().toEqualTypeOf<Uint8Array | undefined>();
    expectTypeOf<'debug'>().toExtend<NonNullable<OwnerTokenRegistryOptions['logger']>>();
  });

  it('takes undefined for every option that may be left out, as at run time', () => {
    type WithUndefined<T> = { [K in keyof T]: object extends Pick<T, K> ? T[K] | undefined : T[K] };
    expectTypeOf<WithUndefined<OwnerTokenRegistryOptions>>().toExtend<OwnerTokenRegistryOptions>();
    expectTypeOf<WithUndefined<TokenEndpointOptions>>().toExtend<TokenEndpointOptions>();
    expectTypeOf<WithUndefined<OwnerFetchOptions>>().toExtend<OwnerFetchOptions>();
    expectTypeOf<WithUndefined<WarmUpOptions>>().toExtend<WarmUpOptions>();
    expectTypeOf<WithUndefined<ExpiresInOptions>>().toExtend<ExpiresInOptions>();
    expectTypeOf<WithUndefined<LearnedLifetimeOptions>>().toExtend<LearnedLifetimeOptions>();
    expectTypeOf<WithUndefined<OwnerTokenErrorOptions>>().toExtend<OwnerTokenErrorOptions>();
    expectTypeOf<WithUndefined<SharedTokensOptions>>().toExtend<SharedTokensOptions>();
    expectTypeOf<WithUndefined<SandboxOptions>>().toExtend<SandboxOptions>();
    type SubscriberOptions = NonNullable<Parameters<typeof fromNodeRedis | typeof fromIoredis>[1]>;
    expectTypeOf<WithUndefined<SubscriberOptions>>().toExtend<SubscriberOptions>();
    expectTypeOf<Pick<TokenEndpoint, 'origin' | 'timeoutMs'> | { origin: undefined }>().toExtend<
      Partial<TokenSource>
    >();
    expectTypeOf(registry.getToken).toBeCallableWith('a', { signal: undefined });
    expectTypeOf(registry.getToken).toBeCallableWith('a', { signal: null });
    expectTypeOf(registry.warmUp).toBeCallableWith([], { signal: null });
    expectTypeOf(registry.close).toBeCallableWith({ timeoutMs: undefined });
  });

  it('has the methods of the contract', () => {
    expectTypeOf(registry.getToken).toBeCallableWith('a');
    expectTypeOf(registry.getToken).toBeCallableWith('a', { signal: new AbortController().signal });
    expectTypeOf(registry.getToken).returns.toEqualTypeOf<Promise<AccessToken>>();
    expectTypeOf(registry.peek).toEqualTypeOf<(accessKey: string) => AccessToken | undefined>();
    expectTypeOf(registry.reject).toEqualTypeOf<(accessKey: string, token: AccessToken | string) => boolean>();
    expectTypeOf(registry.accept).toEqualTypeOf<(accessKey: string, token: AccessToken) => void>();
    expectTypeOf(registry.forget).toEqualTypeOf<(accessKey: string) => boolean>();
    expectTypeOf(registry.forgetAll).toEqualTypeOf<() => void>();
    expectTypeOf(registry.fingerprint).toEqualTypeOf<(accessKey: string) => string>();
    expectTypeOf(registry.ownerFetch).returns.toExtend<typeof fetch>();
    expectTypeOf(registry.warmUp).toBeCallableWith(['a', 'b']);
    expectTypeOf(registry.warmUp).toBeCallableWith((async function* () {})());
    expectTypeOf(registry.warmUp).returns.toEqualTypeOf<Promise<WarmUpReport>>();
    expectTypeOf(registry.resume).toBeCallableWith();
    expectTypeOf(registry.resume).toBeCallableWith('a');
    expectTypeOf(registry.close).toBeCallableWith();
    expectTypeOf(registry.close).toBeCallableWith({ timeoutMs: 1 });
    expectTypeOf(registry.close).returns.toEqualTypeOf<Promise<void>>();
    expectTypeOf(registry).toExtend<AsyncDisposable>();
  });

  it('describes an owner and itself in plain data', () => {
    expectTypeOf(registry.describe('a').phase).toExtend<string>();
    expectTypeOf(registry.owners({ limit: 1, state: 'failing' })).items.toHaveProperty('failure');
    expectTypeOf(registry.describe('a').expiresAtMs).toEqualTypeOf<number | undefined>();
    expectTypeOf(registry.describe('a').retryAtMs).toEqualTypeOf<number | undefined>();
    expectTypeOf(registry.stats().requests).toEqualTypeOf<number>();
    expectTypeOf(registry.stats().pauses.owners).toEqualTypeOf<number>();
  });
});

describe('TokenEndpoint', () => {
  const needed = { baseUrl: 'https://api.example.com', clientId: 'a', clientSecret: 'b' };

  it('is a source', () => expectTypeOf<TokenEndpoint>().toExtend<TokenSource>());

  it('takes the options of the contract', () => {
    expectTypeOf(TokenEndpoint).toBeConstructibleWith(needed);
    expectTypeOf(TokenEndpoint).toBeConstructibleWith({ ...needed, baseUrl: new URL(needed.baseUrl) });
    expectTypeOf(TokenEndpoint).toBeConstructibleWith({ ...needed, clientSecret: async () => 'b' });
    expectTypeOf(TokenEndpoint).toBeConstructibleWith({ ...needed, agent: {} as http.Agent | https.Agent });
    expectTypeOf(TokenEndpoint).toBeConstructibleWith({ ...needed, fetch, timeoutMs: 1, allowInsecureHttp: true });
    // @ts-expect-error no base URL
    new TokenEndpoint({ clientId: 'a', clientSecret: 'b' });
  });
});

describe('a source of the user', () => {
  it('needs one method, and is told the whole request', () => {
    const own: TokenSource = {
      async requestToken(accessKey, request) {
        expectTypeOf(accessKey).toEqualTypeOf<string>();
        expectTypeOf(request).toEqualTypeOf<TokenRequest>();
        expectTypeOf(request.reason).toEqualTypeOf<'absent' | 'expired' | 'refresh' | 'rejected'>();
        expectTypeOf(request.lifetimeMs).parameters.toEqualTypeOf<[IssuedToken]>();
        return { token: 'a' };
      },
    };
    expectTypeOf(own).toExtend<TokenSource>();
  });

  it('can throw our error', () => {
    expectTypeOf(OwnerTokenError).toBeConstructibleWith('rate_limited', 'later', { retryAfterMs: 1, cause: 'any' });
    expectTypeOf<OwnerTokenError['code']>().toEqualTypeOf<OwnerTokenErrorCode>();
    expectTypeOf<OwnerTokenError['failureScope']>().toEqualTypeOf<FailureScope | undefined>();
    // @ts-expect-error a code that there is not
    new OwnerTokenError('oops', 'message');
  });
});

describe('expiry policies', () => {
  it('are made and combined', () => {
    const made = firstKnown(expiresIn({ field: 'data.ttl', unit: 'ms' }), jwtExp(), fixedLifetime(1), untilRejected());
    expectTypeOf(made).toEqualTypeOf<ExpiryPolicy>();
    expectTypeOf(made.lifetimeMs).toEqualTypeOf<(grant: IssuedToken) => number | StatedLifetime | undefined>();
    // @ts-expect-error a unit that there is not
    expiresIn({ unit: 'h' });
  });
});

describe('AccessToken', () => {
  it('is read only', () => {
    const token = {} as AccessToken;
    expectTypeOf(token.authorization).toEqualTypeOf<string>();
    expectTypeOf(token.expiresAtMs).toEqualTypeOf<number>();
    // @ts-expect-error read only
    token.expiresAtMs = 1;
  });
});

describe('Logger', () => {
  it('is met by console, and by anything with its three methods', () => {
    expectTypeOf<Console>().toExtend<Logger>();
  });
});
