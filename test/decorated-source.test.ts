import { describe, expect, it } from 'vitest';
import { decoratedSource } from '../src/decorated-source.ts';
import { TokenEndpoint } from '../src/endpoint/token-endpoint.ts';
import type { SharedTokens } from '../src/redis/shared-tokens.ts';
import { OwnerTokenRegistry } from '../src/registry/registry.ts';
import type { TokenSource } from '../src/token-source.ts';
import { settle } from './helpers/manual-clock.ts';
import { ModelFleet } from './helpers/model-fleet.ts';

const endpoint = () => new TokenEndpoint({ baseUrl: 'https://api.example', clientId: 'app', clientSecret: 'secret' });

describe('a decorated source', () => {
  it('requests tokens with the given function, and keeps the rest of a token endpoint, private fields too', async () => {
    const source = endpoint();
    const decorated = decoratedSource(source, async () => ({ token: 'decorated', response: { expires_in: 60 } }));
    const registry = new OwnerTokenRegistry({ source: decorated });
    expect((await registry.getToken('a')).value).toBe('decorated');
    expect([decorated.origin, decorated.timeoutMs]).toEqual(['https://api.example', 10_000]);
    expect(await decorated.identity()).toBe(await source.identity());
    expect(decorated).toBeInstanceOf(TokenEndpoint);
    await registry.close();
  });

  it('keeps an accessor, and passes on what changes later', () => {
    const state = { origin: 'https://one.example' };
    const source: TokenSource = {
      requestToken: async () => ({ token: 'token' }),
      get origin() {
        return state.origin;
      },
    };
    const decorated = decoratedSource(Object.freeze(source), source.requestToken);
    state.origin = 'https://two.example';
    expect([decorated.origin, 'origin' in decorated, 'listen' in decorated]).toEqual([state.origin, true, false]);
  });

  it('passes on what the registry forgets', () => {
    const forgotten: string[] = [];
    const source: TokenSource = {
      requestToken: async () => ({ token: 'token' }),
      forget: (accessKey) => void forgotten.push(accessKey),
    };
    const registry = new OwnerTokenRegistry({ source: decoratedSource(source, source.requestToken) });
    expect([registry.forget('unknown'), forgotten]).toEqual([false, ['unknown']]);
  });

  it('hears of rejections in a fleet, inside and outside of a shared source', async () => {
    const fleet = new ModelFleet();
    const decorated = (shared: SharedTokens) => decoratedSource(shared, (...args) => shared.requestToken(...args));
    const registries = [0, 1].map(() => fleet.replica({ decorated }));
    const [first, second] = registries.map(({ registry }) => registry) as [OwnerTokenRegistry, OwnerTokenRegistry];
    const token = await first.getToken('a');
    expect((await second.getToken('a')).value).toBe(token.value);
    first.reject('a', token);
    const renewed = await first.getToken('a');
    await settle();
    expect(second.peek('a')).toBeUndefined();
    expect((await second.getToken('a')).value).toBe(renewed.value);
    expect(registries[1]?.shared.stats()).toMatchObject({ sharing: true, shared: 2 });
    const inside = fleet.replica({
      source: decoratedSource(fleet.source, (...args) => fleet.source.requestToken(...args)),
    });
    expect((await inside.registry.getToken('a')).value).toBe(renewed.value);
  });
});
