/** F. Rejections, at the registry. Over real sockets and through `ownerFetch`: `unauthorized-calls.test.ts`. */

import diagnostics from 'node:diagnostics_channel';
import { describe, expect, it } from 'vitest';
import type { PauseMessage } from '../../src/index.ts';
import { shortNames } from '../helpers/log-lines.ts';
import { settle } from '../helpers/manual-clock.ts';
import { callAtOnce, scripted, tally } from '../helpers/registries.ts';
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
  it('a rejection by the first caller that has the token is not lost', async () => {
    const { registry, source } = scripted({}, ScriptedSource.answering());
    const rejected = registry.getToken('key-1').then((token) => registry.reject('key-1', token));
    expect(await rejected).toBe(true);
    expect(registry.peek('key-1')).toBeUndefined();
    expect((await registry.getToken('key-1')).value).toMatch(/^token-2-/);
    expect(source.calls).toHaveLength(2);
  });

  it('a late 401 that carries the old token leaves the new one alone and costs no POST', async () => {
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

  it('a rejection of an expired token while its successor is requested: nothing starts over', async () => {
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
  expect(source.call(1).request).toMatchObject({ reason: 'rejected', rejected: refused, held: refused });
});

describe('F3', () => {
  it('a service that re-issues the rejected token: served like any other, warned of once, no loop', async () => {
    const warned: object[] = [];
    const logger = { debug() {}, info() {}, warn: (fields: object) => void warned.push(shortNames(fields)) };
    const { registry, source, clock } = scripted({ logger }, ScriptedSource.answering());
    const { value } = await registry.getToken('key-1');
    source.script((call) => call.succeed({ token: value }));
    for (let second = 0; second < 60; second++) {
      const { tokens, codes } = tally(await callAtOnce(100, registry, 'key-1'));
      expect({ tokens, codes }).toEqual({ tokens: [value], codes: {} });
      registry.reject('key-1', value);
      clock.advance(1_000);
    }
    // The second one is kept until ten seconds, the third for another twenty, the fourth for forty.
    expect(source.calls).toHaveLength(4);
    const [reissued, ...more] = warned.filter((line) => 'event' in line && line.event === 'token.reissued');
    expect(reissued).toMatchObject({ owner: registry.fingerprint('key-1') });
    expect(more).toEqual([]);
  });

  it('a rejection while a refresh is in flight: its callers join that, also if it returns the same token', async () => {
    const { registry, source, clock } = scripted({}, ScriptedSource.answering(100));
    const rejected = await registry.getToken('key-1');
    clock.advance(80_000);
    source.script(undefined);
    await registry.getToken('key-1'); // A refresh starts.
    await settle();
    expect(registry.reject('key-1', rejected)).toBe(true);
    const calls = callAtOnce(10, registry, 'key-1');
    await settle();
    source.call(1).succeed({ token: rejected.value });
    expect(tally(await calls).tokens).toEqual([rejected.value]);
    expect(source.calls).toHaveLength(2);
  });

  it.each(['its string', 'a token of a registry with another fingerprintKey'])(
    'a token that was given by another registry is rejected by %s',
    async (what) => {
      const { registry } = scripted({}, ScriptedSource.answering());
      const elsewhere = scripted({ fingerprintKey: new Uint8Array(16) }, ScriptedSource.answering()).registry;
      const seen = await elsewhere.getToken('key-1');
      const held = await registry.getToken('key-1');
      expect(registry.reject('key-2', held)).toBe(false);
      expect(registry.reject('key-1', what === 'its string' ? seen.value : seen)).toBe(true);
    },
  );
});

describe('F4', () => {
  it('every token is rejected: each is kept for longer than the one before, an event says so, and no call is refused', async () => {
    const { registry, source, clock } = scripted({}, ScriptedSource.answering(100_000));
    const other = await registry.getToken('key-2');
    const askedAtMs: number[] = [];
    const startedMs = clock.monotonic();
    source.script((call) => {
      askedAtMs.push(clock.monotonic() - startedMs);
      call.succeed({ response: { expires_in: 100_000 } });
    });
    const pauses = await heard('owner-token-registry:pause', async () => {
      // An hour of a call each second, which is made again after its 401.
      for (let second = 0; second < 3_600; second++) {
        for (let attempt = 0; attempt < 2; attempt++) registry.reject('key-1', await registry.getToken('key-1'));
        clock.advance(1_000);
      }
    });
    const keptForS = askedAtMs.slice(2).map((atMs, index) => (atMs - (askedAtMs[index + 1] ?? 0)) / 1_000);
    expect(keptForS.slice(0, 7)).toEqual([10, 20, 40, 80, 160, 300, 300]);
    expect(Math.max(...keptForS)).toBe(300);
    const begun = pauses.filter((message) => (message as PauseMessage).action === 'paused');
    expect(begun).toHaveLength(askedAtMs.length - 1);
    expect(begun[0]).toMatchObject({ scope: 'owner', code: 'token_rejected' });
    expect(await registry.getToken('key-2')).toBe(other);
    expect(registry.stats().pauses).toMatchObject({ owners: 0, rejected: { owners: 1 } });
  });

  it('while a token is kept, describe, owners(), the log and the event say so, and until when', async () => {
    const lines: Record<string, unknown>[] = [];
    const log = (fields: object) => void lines.push(shortNames(fields));
    const { registry, clock } = scripted({ logger: { debug: log, info: log, warn: log } }, ScriptedSource.answering());
    const rejectNext = async () => registry.reject('key-1', await registry.getToken('key-1'));
    const pauses = await heard('owner-token-registry:pause', async () => {
      expect(await rejectNext()).toBe(true);
      expect(registry.describe('key-1')).toMatchObject({ phase: 'rejected' });
      expect(await rejectNext()).toBe(false);
    });
    const kept = { code: 'token_rejected', retryAtMs: clock.now() + 10_000 };
    expect(registry.describe('key-1')).toMatchObject({ phase: 'fresh', ...kept });
    expect(registry.owners({ limit: 1, state: 'rejected' })).toMatchObject([
      { ...kept, failure: { ...kept, failures: 1 } },
    ]);
    expect(pauses).toMatchObject([{ action: 'paused', scope: 'owner', ...kept }]);
    expect(lines).toContainEqual(expect.objectContaining({ event: 'pause.began', code: 'token_rejected' }));
    registry.accept('key-1', await registry.getToken('key-1'));
    expect(registry.describe('key-1').code).toBeUndefined();
    expect(registry.stats().pauses).toEqual({ owners: 0 });
    expect(lines.at(-1)).toMatchObject({ event: 'pause.lifted' });
  });

  it('an accepted call ends the streak, but a token that is kept stays so for its time', async () => {
    const { registry, source, clock } = scripted({}, ScriptedSource.answering());
    const rejectNext = async () => registry.reject('key-1', await registry.getToken('key-1'));
    for (let second = 0; second < 30; second++) {
      await rejectNext();
      await rejectNext();
      registry.accept('key-1', await registry.getToken('key-1'));
      clock.advance(1_000);
    }
    // Two at once; then one in ten seconds, because no streak is longer than one.
    expect(source.calls).toHaveLength(4);
  });

  it('a token that was accepted is replaced at its first rejection', async () => {
    const { registry, source } = scripted({}, ScriptedSource.answering());
    for (let token = 2; token < 10; token++) {
      const given = await registry.getToken('key-1');
      registry.accept('key-1', given);
      expect(registry.reject('key-1', given)).toBe(true);
      expect((await registry.getToken('key-1')).value).toBe(`token-${token}-of-key-1`);
    }
    expect(source.calls).toHaveLength(9);
  });

  it.each([
    ['ten seconds if any call is reported as accepted', true, 10_000],
    ['a second if none is', false, 1_000],
  ])('a replacement is kept if it is rejected within %s', async (_, hasAccepts, withinMs) => {
    for (const afterMs of [withinMs - 1, withinMs]) {
      const { registry, clock } = scripted({}, ScriptedSource.answering());
      if (hasAccepts) registry.accept('key-2', await registry.getToken('key-2'));
      registry.reject('key-1', await registry.getToken('key-1'));
      const replacement = await registry.getToken('key-1');
      clock.advance(afterMs);
      expect(registry.reject('key-1', replacement)).toBe(afterMs === withinMs);
    }
  });

  it.each(['the owner', 'all'])('resume of %s ends the keeping, and the streak', async (which) => {
    const { registry, source, clock } = scripted({}, ScriptedSource.answering());
    const rejectNext = async () => registry.reject('key-1', await registry.getToken('key-1'));
    for (let second = 0; second < 31; second++) {
      await rejectNext();
      clock.advance(1_000);
    }
    await rejectNext();
    const before = source.calls.length;
    registry.resume(which === 'all' ? undefined : 'key-1');
    expect(registry.describe('key-1')).not.toHaveProperty('code');
    await rejectNext();
    expect(source.calls).toHaveLength(before + 1);
    // The first in its streak.
    expect(registry.describe('key-1').retryAtMs).toBe(clock.now() + 10_000);
  });
});

describe('F6', () => {
  it('only a rejection ends a token: accept, peek, describe and stats send no request', async () => {
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

it('F4 a policy gets a rejection as evidence once the next token is accepted, and none while all are rejected', async () => {
  const told: [string, object][] = [];
  const expiry = {
    lifetimeMs: () => 100_000,
    accepted: (age: object) => void told.push(['accepted', age]),
    rejected: (age: object) => void told.push(['rejected', age]),
  };
  const { registry, clock } = scripted({ expiry }, ScriptedSource.answering());
  const held = await registry.getToken('key-1');
  const owner = registry.fingerprint('key-1');
  clock.advance(5_000);
  for (let time = 0; time < 10; time++) registry.reject('key-1', held);
  clock.advance(1_000);
  const next = await registry.getToken('key-1');
  expect(told).toEqual([]);
  clock.advance(1_000);
  for (let call = 0; call < 2; call++) registry.accept('key-1', next);
  const accepted = ['accepted', { owner, token: next.fingerprint, ageMs: 1_000 }];
  expect(told).toEqual([['rejected', { owner, token: held.fingerprint, ageMs: 5_000 }], accepted, accepted]);
  told.length = 0;
  for (let second = 0; second < 60; second++) {
    clock.advance(1_000);
    for (let attempt = 0; attempt < 2; attempt++) registry.reject('key-1', await registry.getToken('key-1'));
  }
  expect(told).toEqual([]);
});
