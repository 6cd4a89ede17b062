import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { OwnerTokenError, OwnerTokenRegistry } from '../../src/index.ts';
import { WorldClock } from './world-clock.ts';

const KEYS = ['key-a', 'key-A', 'key-a ', 'key-b'];
/** A table allocates what its owners need in advance, for each of the registries here. */
const maxOwners = KEYS.length;

describe('random orderings', () => {
  it('A1 whatever response comes first, each caller gets its own owner’s token, from one request per owner', async () => {
    await fc.assert(
      fc.asyncProperty(fc.scheduler(), fc.array(fc.constantFrom(...KEYS), { maxLength: 12 }), async (s, called) => {
        const asked: string[] = [];
        const source = {
          requestToken: (key: string) => {
            asked.push(key);
            return s.schedule(Promise.resolve({ token: `token-of-${encodeURIComponent(key)}-${asked.length}` }));
          },
        };
        const registry = new OwnerTokenRegistry({ source, clock: new WorldClock(), concurrency: 2, maxOwners });
        const calls = called.map(async (key) => ({ key, token: await registry.getToken(key) }));
        await s.waitFor(Promise.all(calls));
        for (const call of calls) {
          const { key, token } = await call;
          expect(token.value).toContain(`token-of-${encodeURIComponent(key)}-`);
        }
        expect(asked.toSorted()).toEqual([...new Set(called)].toSorted());
        await registry.close();
      }),
      { numRuns: 500 },
    );
  });

  it('D6 a late response with a token rejected or forgotten in the meantime is not stored', async () => {
    await fc.assert(
      fc.asyncProperty(fc.scheduler(), fc.boolean(), fc.integer({ min: 1, max: 4 }), async (s, forgets, times) => {
        let issued = 0;
        const source = {
          requestToken: () => s.schedule(Promise.resolve({ token: `token-${++issued}` })),
        };
        const registry = new OwnerTokenRegistry({ source, clock: new WorldClock(), maxOwners });
        const dropped = new Set<string>();
        const calls: Promise<unknown>[] = [];
        for (let time = 0; time < times; time++) {
          calls.push(registry.getToken('key'));
          if (s.count() > 0 && time % 2 === 0) await s.waitOne();
          const held = registry.peek('key');
          const latest = issued;
          if (forgets) registry.forget('key');
          else if (held) registry.reject('key', held);
          if (held && !forgets) dropped.add(held.value);
          if (forgets) for (let n = 1; n <= latest; n++) dropped.add(`token-${n}`);
        }
        await s.waitFor(Promise.all(calls));
        const held = registry.peek('key');
        if (held) expect(dropped).not.toContain(held.value);
        await registry.close();
      }),
      { numRuns: 500 },
    );
  });

  it('B2 all waiting callers share one failure, whatever else fails or succeeds in between', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.scheduler(),
        fc.array(fc.constantFrom(...KEYS), { minLength: 1, maxLength: 12 }),
        async (s, called) => {
          const failing = called[0] as string;
          let attempts = 0;
          const source = {
            requestToken: async (key: string) => {
              if (key === failing) attempts++;
              await s.schedule(Promise.resolve());
              if (key === failing) throw new OwnerTokenError('owner_refused', 'no', { failureScope: 'owner' });
              return { token: 'token' };
            },
          };
          const registry = new OwnerTokenRegistry({ source, clock: new WorldClock(), maxOwners });
          const outcomes = Promise.allSettled(called.map((key) => registry.getToken(key)));
          await s.waitFor(outcomes);
          for (const [n, { status }] of (await outcomes).entries()) {
            expect(status).toBe(called[n] === failing ? 'rejected' : 'fulfilled');
          }
          expect(attempts).toBe(1);
          await registry.close();
        },
      ),
      { numRuns: 300 },
    );
  });
});
