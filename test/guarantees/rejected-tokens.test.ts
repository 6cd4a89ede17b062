/** F. Rejections, at the registry. Over real sockets and through `ownerFetch`: `unauthorized-calls.test.ts`. */

import diagnostics from 'node:diagnostics_channel';
import { describe, expect, it } from 'vitest';
import type { AccessToken, OwnerTokenRegistry, PauseMessage } from '../../src/index.ts';
import { settle } from '../helpers/manual-clock.ts';
import { callAtOnce, errorOf, isSettled, scripted, shut, tally } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';

/** What a channel carries while this runs. */
async function heard(channel: string, during: () => Promise<void>): Promise<unknown[]> {
  const messages: unknown[] = [];
  const listener = (message: unknown) => messages.push(message);
  diagnostics.subscribe(channel, listener);
  await during().finally(() => diagnostics.unsubscribe(channel, listener));
  return messages;
}

describe('F1', () => {
  it('F1 a rejection in any microtask between the answer and its storing is not lost', async () => {
    for (let microtasks = 0; microtasks < 20; microtasks++) {
      const { registry, source, clock } = scripted();
      registry.getToken('key-1').catch(() => {});
      await settle();
      source.call(0).succeed({ token: 'revoked' });
      for (let passed = 0; passed < microtasks; passed++) await Promise.resolve();
      const wasHeld = registry.reject('key-1', 'revoked');
      await settle();
      expect([microtasks, wasHeld, registry.peek('key-1')]).toEqual([microtasks, wasHeld, undefined]);
      await shut(registry, clock);
    }
  });

  it('F1 a late 401 that carries the old token leaves the new one alone and costs no POST', async () => {
    const { registry, source, clock } = scripted({}, ScriptedSource.answering(100));
    const old = await registry.getToken('key-1');
    clock.advance(80_000);
    await registry.getToken('key-1');
    await settle();
    const current = await registry.getToken('key-1');
    expect(current).not.toBe(old);
    expect(registry.reject('key-1', old)).toBe(false);
    expect(registry.reject('key-1', old.value)).toBe(false);
    expect(await registry.getToken('key-1')).toBe(current);
    expect(source.calls).toHaveLength(2);
  });

  it('F1 a rejection of an expired token while its successor is requested: nothing starts over', async () => {
    const { registry, source, clock } = scripted({}, ScriptedSource.answering(100));
    const old = await registry.getToken('key-1');
    clock.advance(100_000);
    source.script(undefined);
    const waiting = registry.getToken('key-1');
    await settle();
    expect(registry.reject('key-1', old)).toBe(false);
    const joined = registry.getToken('key-1');
    await settle();
    expect(source.calls).toHaveLength(2);
    source.call(1).succeed();
    expect(await joined).toBe(await waiting);
    expect(source.calls).toHaveLength(2);
  });
});

it('F2 1,000 concurrent rejects of one token: one POST', async () => {
  const { registry, source } = scripted({}, ScriptedSource.answering());
  const refused = await registry.getToken('key-1');
  const retried = Array.from({ length: 1_000 }, async (_, index) => {
    await Promise.resolve();
    registry.reject('key-1', index % 2 ? refused : refused.value);
    return registry.getToken('key-1');
  });
  const { tokens, codes } = tally(await Promise.allSettled(retried));
  expect({ tokens, codes }).toEqual({ tokens: ['token-2-of-key-1'], codes: {} });
  expect(source.calls).toHaveLength(2);
  expect(source.call(1).request).toMatchObject({ reason: 'rejected', rejected: refused });
  expect(source.call(1).request.held).toBeUndefined();
});

describe('F3', () => {
  const insisting = (insisted: string, times = Number.POSITIVE_INFINITY) => {
    let left = times;
    return (source: ScriptedSource) =>
      source.script((call) => (left-- > 0 ? call.succeed({ token: insisted }) : call.succeed({ token: 'another' })));
  };

  it('F3 a caller that rejects T while a request in flight returns T again is not given T', async () => {
    const { registry, source, clock } = scripted({}, ScriptedSource.answering(100));
    const t = await registry.getToken('key-1');
    clock.advance(80_000);
    source.script(undefined);
    await registry.getToken('key-1'); // A refresh starts.
    await settle();
    expect(registry.reject('key-1', t)).toBe(true);
    const mine = registry.getToken('key-1');
    await settle();
    source.call(1).succeed({ token: t.value }); // The refresh brings T.
    await settle();
    expect(await isSettled(mine)).toBe(false);
    source.script((call) => call.succeed({ token: 'another' }));
    source.call(2).succeed({ token: t.value }); // And so does the request after the rejection, at first.
    expect((await mine).value).toBe('another');
    expect(registry.peek('key-1')?.value).toBe('another');
  });

  it('F3 a service that re-issues the rejected token: one further request, then token_rejected, and the owner alone pauses', async () => {
    const { registry, source, clock } = scripted({}, ScriptedSource.answering());
    const t = await registry.getToken('key-1');
    registry.reject('key-1', t);
    insisting(t.value)(source);
    const { codes } = tally(await callAtOnce(100, registry, 'key-1'));
    expect(codes).toEqual({ token_rejected: 100 });
    expect(source.calls).toHaveLength(3);
    await errorOf(registry.getToken('key-1'));
    expect(source.calls).toHaveLength(3);
    expect(registry.stats().pauses).toEqual({ owners: 1 });
    clock.advance(1_000);
    source.script((call) => call.succeed());
    expect((await registry.getToken('key-1')).value).toBe('token-4-of-key-1');
  });

  it('F3 the last four rejected tokens are remembered, and a fifth pushes out the first', async () => {
    const { registry, source } = scripted({}, ScriptedSource.answering());
    for (const token of ['r1', 'r2', 'r3', 'r4', 'r5']) {
      source.script((call) => call.succeed({ token }));
      registry.resume('key-1');
      const given = await registry.getToken('key-1');
      expect(given.value).toBe(token);
      registry.reject('key-1', given);
    }
    registry.resume('key-1');
    for (const token of ['r2', 'r3', 'r4', 'r5']) {
      source.script((call) => call.succeed({ token }));
      expect((await errorOf(registry.getToken('key-1'))).code).toBe('token_rejected');
      registry.resume('key-1');
    }
    source.script((call) => call.succeed({ token: 'r1' }));
    expect((await registry.getToken('key-1')).value).toBe('r1');
  });

  it.each(['its string', 'a token of a registry with another fingerprintKey'])(
    'F3 a token that was seen elsewhere can be rejected by %s, while the owner is cached',
    async (what) => {
      const { registry, source } = scripted({}, ScriptedSource.answering());
      const elsewhere = scripted({ fingerprintKey: new Uint8Array(16) }, ScriptedSource.answering()).registry;
      const seen = await elsewhere.getToken('key-1');
      source.script((call) => call.succeed({ token: 'first' }));
      const first = await registry.getToken('key-1');
      expect(registry.reject('key-1', what === 'its string' ? seen.value : seen)).toBe(false);
      registry.reject('key-1', first.value);
      insisting(seen.value, 1)(source);
      expect((await registry.getToken('key-1')).value).toBe('another');
    },
  );
});

describe('F4', () => {
  it('F4 every fresh token is rejected: bounded requests for that owner, an event, no loop', async () => {
    const { registry, source, clock } = scripted({}, ScriptedSource.answering(100_000));
    const other = await registry.getToken('key-2');
    let refusedCalls = 0;
    const pauses = await heard('owner-token-registry:pause', async () => {
      // An hour of a call each second, each of whose tokens is refused; a retry after each refusal.
      for (let second = 0; second < 3_600; second++) {
        for (let attempt = 0; attempt < 2; attempt++) {
          const given = await registry.getToken('key-1').catch((error) => {
            expect(error).toMatchObject({ code: 'token_rejected', failureScope: 'owner', retryable: true });
            expect(error.retryAtMs).toBeGreaterThan(clock.now());
            refusedCalls++;
          });
          if (given) registry.reject('key-1', given);
        }
        clock.advance(1_000);
      }
    });
    // Three at first, then one after each pause: 1, 2, 4 … 300 s, of which jitter takes a quarter here.
    expect(source.countFor('key-1')).toBeLessThan(3 + 9 + 3_600 / 225 + 2);
    expect(source.countFor('key-1')).toBeGreaterThan(10);
    expect(refusedCalls).toBeGreaterThan(3_600);
    const begun = pauses.filter((message) => (message as { action: string }).action === 'paused');
    expect(begun.length).toBe(source.countFor('key-1') - 2);
    expect(pauses[0]).toMatchObject({
      scope: 'owner',
      action: 'paused',
      code: 'token_rejected',
    } satisfies Partial<PauseMessage>);
    expect(await registry.getToken('key-2')).toBe(other);
    expect(registry.stats().pauses).toEqual({ owners: 1 });
  });

  it('F4 one good token in between, and it takes three again', async () => {
    const { registry, source, clock } = scripted({}, ScriptedSource.answering(1_000));
    const rejectNext = async () => registry.reject('key-1', await registry.getToken('key-1'));
    await rejectNext();
    await rejectNext();
    await registry.getToken('key-1');
    clock.advance(100_000); // A tenth of its life: it was good.
    await rejectNext();
    await rejectNext();
    await rejectNext();
    expect(source.calls).toHaveLength(5);
    await registry.getToken('key-1');
    await rejectNext();
    // The one of 100 s did not count: of those after it the third in a row pauses.
    expect((await errorOf(registry.getToken('key-1'))).code).toBe('token_rejected');
  });
});

it('F5 a fresh token is refused for 2 s after it was issued: no storm, and who waits a little is served', async () => {
  const { registry, source, clock } = scripted({}, ScriptedSource.answering());
  const issuedAtMs = new Map<AccessToken, number>();
  const call = async (): Promise<boolean> => {
    for (let attempt = 0; attempt < 2; attempt++) {
      const given = await registry.getToken('key-1').catch(() => undefined);
      if (!given) return false;
      if (!issuedAtMs.has(given)) issuedAtMs.set(given, clock.now());
      if (clock.now() - (issuedAtMs.get(given) ?? 0) >= 2_000) return true;
      registry.reject('key-1', given);
    }
    return false;
  };
  for (let at = 0; at < 1_800_000; at += 100) {
    await call();
    clock.advance(100);
  }
  // Whoever rejects at once what would be good in two seconds is not helped; but nothing storms.
  expect(source.calls.length).toBeLessThan(3 + 9 + 1_800 / 225 + 2);
  // One caller that waits a little, as an integration with retries does, finds it good.
  registry.resume('key-1');
  const given = await registry.getToken('key-1');
  clock.advance(2_000);
  expect(registry.peek('key-1')).toBe(given);
});

describe('F6', () => {
  it('F6 a rejection of a token is all that ends it: accept, peek, describe and stats ask for nothing', async () => {
    const { registry, source } = scripted({}, ScriptedSource.answering());
    const held = await registry.getToken('key-1');
    registry.accept('key-1', held);
    registry.accept('key-2', held);
    registry.peek('key-2');
    registry.describe('key-2');
    registry.fingerprint('key-2');
    registry.stats();
    await settle();
    expect(source.calls).toHaveLength(1);
    expect(registry.stats().owners).toBe(1);
  });
});

it('evidence goes to the policy once for each token, by fingerprint and age', async () => {
  const told: [string, object][] = [];
  const expiry = {
    lifetimeMs: () => 100_000,
    accepted: (age: object) => void told.push(['accepted', age]),
    rejected: (age: object) => void told.push(['rejected', age]),
  };
  const { registry, clock }: { registry: OwnerTokenRegistry; clock: { advance(ms: number): void } } = scripted(
    { expiry },
    ScriptedSource.answering(),
  );
  const held = await registry.getToken('key-1');
  const named = { owner: registry.fingerprint('key-1'), token: held.fingerprint };
  clock.advance(5_000);
  registry.accept('key-1', held);
  for (let time = 0; time < 10; time++) registry.reject('key-1', held);
  expect(told).toEqual([
    ['accepted', { ...named, ageMs: 5_000 }],
    ['rejected', { ...named, ageMs: 5_000 }],
  ]);
});
