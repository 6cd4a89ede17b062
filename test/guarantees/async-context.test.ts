/** Row M5: a request runs in the async context of the call that began it, and the registry keeps no such context alive. */

import { AsyncLocalStorage } from 'node:async_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { nextTurn } from '../../src/clock.ts';
import { OwnerTokenError, OwnerTokenRegistry, type TokenSource } from '../../src/index.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';
import { keys } from '../helpers/registries.ts';

const tenant = new AsyncLocalStorage<string>();

/** A source that notes in whose context it is called, before and after it has waited. */
function observedSource() {
  const seen: { accessKey: string; reason: string; before: unknown; after: unknown }[] = [];
  const source: TokenSource = {
    requestToken: async (accessKey, { reason }) => {
      const before = tenant.getStore();
      await new Promise((resolve) => setImmediate(resolve));
      seen.push({ accessKey, reason, before, after: tenant.getStore() });
      return { token: `token-of-${accessKey}`, response: { expires_in: 100 } };
    },
  };
  return { source, seen };
}

it('M5 a queued request runs in the context of its own call, not of the one that ended before it', async () => {
  const { source, seen } = observedSource();
  const registry = new OwnerTokenRegistry({ source, concurrency: 2 });
  const owners = keys(40);
  await Promise.all(
    owners.map((key) =>
      tenant.run(`tenant of ${key}`, async () => {
        await registry.getToken(key);
        expect(tenant.getStore()).toBe(`tenant of ${key}`);
      }),
    ),
  );
  expect(seen).toHaveLength(40);
  for (const { accessKey, before, after } of seen) {
    expect([before, after]).toEqual([`tenant of ${accessKey}`, `tenant of ${accessKey}`]);
  }
  await registry.close();
});

it('M5 a refresh runs in the context of the call that triggered it', async () => {
  const { source, seen } = observedSource();
  const clock = new ManualClock();
  const registry = new OwnerTokenRegistry({ source, clock, random: () => 0.5 });
  await tenant.run('first', () => registry.getToken('key-1'));
  clock.advance(80_000);
  await tenant.run('second', () => registry.getToken('key-1'));
  while (seen.length < 2) await settle();
  expect(seen.map(({ reason, before, after }) => [reason, before, after])).toEqual([
    ['absent', 'first', 'first'],
    ['refresh', 'second', 'second'],
  ]);
  await registry.close();
});

it('M5 the registry keeps no context alive: neither of its callers nor of its constructor', async () => {
  const requests = new AsyncLocalStorage<object>();
  const { source } = observedSource();
  const contexts: WeakRef<object>[] = [];
  const inContext = async (call: () => unknown) => {
    const context = {};
    contexts.push(new WeakRef(context));
    await requests.run(context, call);
  };
  const calls = (prefix: string) =>
    keys(10).map((key) => inContext(() => registry.getToken(`${prefix}-${key}`).catch(() => {})));
  let registry!: OwnerTokenRegistry;
  await inContext(() => {
    registry = new OwnerTokenRegistry({ source });
  });
  await inContext(() => registry.forgetAll());
  await Promise.all(calls('working'));
  source.requestToken = () => Promise.reject(new OwnerTokenError('owner_refused', 'no'));
  await Promise.all(calls('refused'));
  await inContext(() => registry.reject('working-key-1', 'token-of-working-key-1'));
  // Before Node 24, a cached promise would; the last contexts may still be on the stack.
  expect([contexts.length, await areReleased(contexts.slice(0, -2))]).toEqual([23, true]);
  await registry.close();
});

it('M5 a registry that is closed keeps no token in memory, even if it is still referenced', async () => {
  const registry = new OwnerTokenRegistry({ source: { requestToken: async (key) => ({ token: `token-of-${key}` }) } });
  const tokens: WeakRef<object>[] = [];
  for (const key of keys(5)) tokens.push(new WeakRef(await registry.getToken(key)));
  await registry.close();
  expect(await areReleased(tokens.slice(0, -1))).toBe(true);
  expect(registry.stats().owners).toBe(0);
});

/** Tries for some turns: on a busy machine the hooks of promises that have settled hold their contexts for a while. */
async function areReleased(objects: readonly WeakRef<object>[]): Promise<boolean> {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  const isReleased = () => objects.every((object) => object.deref() === undefined);
  for (let turn = 0; turn < 20 && !isReleased(); turn++) {
    await nextTurn();
    collectGarbage();
  }
  return isReleased();
}

it('M5 callers that join a request go on in their own contexts', async () => {
  const { source, seen } = observedSource();
  const registry = new OwnerTokenRegistry({ source });
  const { signal } = new AbortController();
  const contexts = await Promise.all(
    ['leader', 'follower', 'with a signal'].map((name, index) =>
      tenant.run(name, async () => {
        await registry.getToken('key-1', index === 2 ? { signal } : undefined);
        return tenant.getStore();
      }),
    ),
  );
  expect(contexts).toEqual(['leader', 'follower', 'with a signal']);
  expect(seen).toMatchObject([{ before: 'leader', after: 'leader' }]);
  await registry.close();
});
