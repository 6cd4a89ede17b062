/** Calls settle although a test has faked every timer, as Jest and sinon do by default and vitest nearly so. */

import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  OwnerTokenError,
  OwnerTokenRegistry,
  type OwnerTokenRegistryOptions,
  type TokenSource,
} from '../../src/index.ts';

afterEach(() => void vi.useRealTimers());

const ALL = ['setTimeout', 'setInterval', 'setImmediate', 'queueMicrotask', 'nextTick', 'Date', 'performance'] as const;
const OWNERS = 1_000;
const keys = Array.from({ length: OWNERS }, (_, index) => `key-${index}`);

describe('with every timer faked and none advanced', () => {
  const make = (source: TokenSource, options: Partial<OwnerTokenRegistryOptions> = {}) => {
    vi.useFakeTimers({ toFake: [...ALL] });
    return new OwnerTokenRegistry({ source, maxQueued: OWNERS, maxOwners: OWNERS, ...options });
  };
  const issuing: TokenSource = { requestToken: async (key) => ({ token: `token-of-${key}` }) };
  const hanging: TokenSource = { requestToken: () => new Promise(() => {}) };
  const codes = async (calls: Promise<unknown>[]) => {
    const settled = await Promise.allSettled(calls);
    return new Set(
      settled.map((each) => (each.status === 'rejected' ? (each.reason as OwnerTokenError).code : 'token')),
    );
  };

  it('a cold call, a warm-up and close settle', async () => {
    const registry = make(issuing);
    expect((await registry.getToken('key-1')).value).toBe('token-of-key-1');
    expect((await registry.warmUp(keys)).ready).toBe(OWNERS);
    await registry.close();
  });

  it('close ends the calls of sent and of queued requests', async () => {
    const registry = make(hanging, { concurrency: 2 });
    const calls = keys.map((key) => registry.getToken(key));
    const closing = registry.close({ timeoutMs: 0 });
    expect(await codes(calls)).toEqual(new Set(['closed']));
    await closing;
  });

  it('a failure of the endpoint refuses everything that is queued', async () => {
    const down = new OwnerTokenError('endpoint_unavailable', 'it is down', { failureScope: 'endpoint' });
    // A pause that ends within a second would be waited for.
    const pauses = { endpoint: { baseMs: 10_000, capMs: 10_000 } };
    const registry = make({ requestToken: () => Promise.reject(down) }, { concurrency: 2, pauses });
    expect(await codes(keys.map((key) => registry.getToken(key)))).toEqual(new Set(['endpoint_unavailable']));
    await registry.close();
  });
});
