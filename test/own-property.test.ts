/** What a polluted `Object.prototype` may do: nothing. Each test pollutes it for a moment, as a merge of a request's JSON may. */

import { describe, expect, it } from 'vitest';
import {
  formRequest,
  learnedLifetime,
  OwnerTokenError,
  OwnerTokenRegistry,
  TokenEndpoint,
  type TokenSource,
} from '../src/index.ts';
import { instrument } from '../src/otel/index.ts';
import { property } from '../src/own-property.ts';
import { SharedTokens } from '../src/redis/index.ts';
import { readIssued } from '../src/token-source.ts';
import { parseTokenResponse } from '../src/token-type.ts';
import { json, LoopbackService } from './helpers/loopback-service.ts';

/** Runs with these properties in `Object.prototype`. They are not enumerable only so that the test runner survives. */
function polluted<T>(properties: Record<string, unknown>, run: () => T): T {
  for (const [name, value] of Object.entries(properties)) {
    Object.defineProperty(Object.prototype, name, { value, configurable: true, writable: true });
  }
  const clean = () => {
    for (const name of Object.keys(properties)) delete (Object.prototype as Record<string, unknown>)[name];
  };
  let result: T;
  try {
    result = run();
  } catch (error) {
    clean();
    throw error;
  }
  if (result instanceof Promise) return result.finally(clean) as T;
  clean();
  return result;
}

function codeThrownBy(make: () => unknown): string {
  try {
    make();
  } catch (error) {
    if (error instanceof OwnerTokenError) return error.code;
  }
  return expect.fail('no OwnerTokenError was thrown');
}

const CREDENTIALS = { baseUrl: 'https://service.example', clientId: 'id', clientSecret: 'secret' };
const source: TokenSource = { requestToken: async () => ({ token: 't' }) };

it('a property is that of the object or of its class, also if Object.prototype has one of that name', () => {
  class Config {
    get fromClass(): number {
      return 1;
    }
  }
  expect(property(new Config(), 'fromClass')).toBe(1);
  expect(property({ own: 2 }, 'own')).toBe(2);
  expect(property({}, 'absent')).toBeUndefined();
  expect(property(Object.create(null), 'toString')).toBeUndefined();
  expect(
    property(
      Object.assign(() => {}, { own: 4 }),
      'own',
    ),
  ).toBe(4);
  expect(property('text', 'length')).toBeUndefined();
  polluted({ own: 'evil', absent: 'evil' }, () => {
    expect(property({ own: 2 }, 'own')).toBe(2);
    expect(property({}, 'absent')).toBeUndefined();
    expect(property(Object.assign(Object.create(null), { own: 3 }), 'own')).toBe(3);
  });
});

describe('a polluted Object.prototype', () => {
  it('does not allow plain http', () => {
    const options = { ...CREDENTIALS, baseUrl: 'http://service.example' };
    const make = () => new TokenEndpoint(options);
    expect(polluted({ allowInsecureHttp: true }, () => codeThrownBy(make))).toBe('insecure_url');
  });

  it('supplies no option that is absent, whatever constructor or function takes it', () => {
    const evil = { baseUrl: 'https://evil.example', clientId: 'evil', clientSecret: 'evil', fetch: 'evil', agent: {} };
    expect(polluted(evil, () => codeThrownBy(() => new TokenEndpoint({} as never)))).toBe('invalid_options');
    // Each would be refused if it were read.
    const wrong = {
      tokenRequest: 1,
      timeoutMs: -1,
      maxOwners: -1,
      logger: 7,
      calls: 1,
      pauses: 1,
      name: 1,
      minMs: 'x',
      path: 1,
    };
    polluted({ ...wrong, parameters: 7, meterProvider: 7 }, () => {
      new TokenEndpoint(CREDENTIALS);
      formRequest();
      learnedLifetime();
      const registry = new OwnerTokenRegistry({ source });
      registry.ownerFetch('key', { allowedOrigins: ['https://service.example'] });
      instrument(registry)();
    });
    expect(polluted({ source, redis: {} }, () => codeThrownBy(() => new SharedTokens({} as never)))).toBe(
      'invalid_options',
    );
  });

  it('changes no rule for options, and no fact about an error', () => {
    const evil = { fallback: ['https://evil.example'], options: {}, isRequired: true };
    polluted({ ...evil, retryable: true, escalatesTo: 'client', followsScope: true }, () => {
      new TokenEndpoint(CREDENTIALS);
      const registry = new OwnerTokenRegistry({ source });
      const call = registry.ownerFetch('key', {});
      expect(() => call.check('https://evil.example/x')).toThrow('set allowedOrigins');
      const error = new OwnerTokenError('invalid_options', 'wrong');
      expect(error).toMatchObject({ retryable: false, failureScope: undefined });
    });
  });

  it('allows no other origin, neither by options of ownerFetch nor for a source without one', async () => {
    const evil = { allowedOrigins: ['https://evil.example'], origin: 'https://evil.example' };
    polluted(evil, () => {
      const registry = new OwnerTokenRegistry({ source, calls: {} });
      const call = registry.ownerFetch('key', {});
      expect(() => call.check('https://evil.example/x')).toThrow('set allowedOrigins');
    });
  });

  it('does not turn an empty object into a token, or an answer of the service into a success or a refusal', async () => {
    const evil = { access_token: 'evil', token: 'evil' };
    polluted(evil, () => {
      expect(() => parseTokenResponse({})).toThrow('access_token is missing');
      expect(readIssued({})).toEqual({ problem: 'the token is not a string' });
    });
    await using service = await LoopbackService.start();
    service.always(json(200, {}));
    for (const parseResponse of [undefined, () => ({}) as { token: string }]) {
      const endpoint = new TokenEndpoint({ ...CREDENTIALS, baseUrl: service.url, parseResponse });
      const outcome = await polluted({ ...evil, error: 'invalid_client' }, () =>
        endpoint.requestToken('key').catch((error: unknown) => error),
      );
      expect(outcome).toBeInstanceOf(OwnerTokenError);
      expect(outcome).toMatchObject({ code: 'invalid_response', oauthError: undefined });
      await endpoint.close();
    }
  });

  it('adds nothing to a request', async () => {
    await using service = await LoopbackService.start();
    const tokenRequest = () => ({ body: '{"appliance_owner_scope":"key"}' });
    const endpoint = new TokenEndpoint({ ...CREDENTIALS, baseUrl: service.url, tokenRequest });
    await polluted({ path: '/evil', headers: { 'x-evil': '1' } }, () => endpoint.requestToken('key'));
    expect(service.calls[0]).toMatchObject({ path: '/auth/v1/token', headers: { 'content-type': 'application/json' } });
    expect(service.calls[0]?.headers).not.toHaveProperty('x-evil');
    await endpoint.close();
  });
});

it('options in an object of a class may be its accessors, and each is read once', () => {
  let reads = 0;
  class Config {
    readonly clientId = 'id';
    readonly clientSecret = 'secret';
    get baseUrl(): string {
      reads++;
      return 'https://service.example';
    }
  }
  expect(new TokenEndpoint(new Config()).origin).toBe('https://service.example');
  expect(reads).toBe(1);
});
