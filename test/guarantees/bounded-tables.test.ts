/** H. Bounds. What speaks of heap and speed is printed by the benchmarks; here is the behaviour. */

import diagnostics from 'node:diagnostics_channel';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { OwnerTokenError, OwnerTokenRegistry, TokenEndpoint } from '../../src/index.ts';
import { LoopbackService, silence, token } from '../helpers/loopback-service.ts';
import { asTimePasses, settle } from '../helpers/manual-clock.ts';
import { errorOf, keys, overHttp, scripted, tally } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';

describe('H1', () => {
  it('4,000 owners through 100 slots, with every kind of failure: neither table of owners grows', async () => {
    const failures = [
      () => new Error('no'),
      () => new OwnerTokenError('endpoint_unavailable', 'no', { failureScope: 'owner' }),
      () => new OwnerTokenError('owner_refused', 'no', { oauthError: 'invalid_grant' }),
    ];
    const source = {
      asked: 0,
      requestToken: async (key: string) => {
        const failure = source.asked++ % 7 === 0 ? failures[source.asked % failures.length]?.() : undefined;
        if (failure) throw failure;
        return { token: `token-of-${key}` };
      },
    };
    const { registry, clock } = scripted({ source, maxOwners: 100, concurrency: 100 });
    const wrong: string[] = [];
    for (let batch = 0; batch < 40; batch++) {
      const owners = Array.from({ length: 100 }, (_, index) => `owner-${batch}-${index}`);
      const given = await asTimePasses(Promise.allSettled(owners.map((key) => registry.getToken(key))), clock, 20);
      for (const [index, outcome] of given.entries()) {
        if (outcome.status === 'rejected') continue;
        const key = owners[index] ?? '';
        if (outcome.value.value !== `token-of-${key}`) wrong.push(key);
        if (index % 11 === 0) registry.reject(key, outcome.value);
        if (index % 13 === 0) registry.forget(key);
      }
      registry.reject('a stranger', `token-${batch}`);
      const { owners: held, inFlight, queued, waiting } = registry.stats();
      expect({ held: held <= 200, inFlight, queued, waiting }).toEqual({
        held: true,
        inFlight: 0,
        queued: 0,
        waiting: 0,
      });
    }
    expect(wrong).toEqual([]);
    expect(registry.stats().evictions).toBeGreaterThan(3_000);
    registry.forgetAll();
    expect(registry.stats()).toMatchObject({ owners: 0, usable: 0, pauses: { owners: 0 } });
  });
});

it('H2 each call of 5,000 owners is a hit, and sends no request', async () => {
  const owners = keys(5_000);
  const { registry, source } = scripted({ maxOwners: 5_000, maxQueued: 5_000 }, ScriptedSource.answering());
  const held = await Promise.all(owners.map((key) => registry.getToken(key)));
  expect(source.calls).toHaveLength(5_000);
  const again = await Promise.all(owners.map((key) => registry.getToken(key)));
  expect(again.every((token, index) => token === held[index])).toBe(true);
  expect(source.calls).toHaveLength(5_000);
});

describe('H3', () => {
  it('500 registries made and closed, with requests in flight, leave no timer, listener or socket', async () => {
    await using service = await LoopbackService.start();
    service.always(silence());
    const channels = ['owner-token-registry:lookup', 'tracing:owner-token-registry:request:start'];
    const subscribed = () => channels.filter((name) => diagnostics.channel(name).hasSubscribers);
    // A live view of another test listens until it is collected.
    const before = {
      resources: tallied(process.getActiveResourcesInfo()),
      exits: process.listenerCount('exit'),
      subscribed: subscribed(),
    };
    for (let batch = 0; batch < 5; batch++) {
      const registries = Array.from({ length: 100 }, () => {
        const client = { baseUrl: service.url, clientId: 'the-client', clientSecret: 'the-secret' };
        return new OwnerTokenRegistry({ source: new TokenEndpoint(client), concurrency: 1, maxOwners: 10 });
      });
      const waiting = registries.flatMap((registry, index) =>
        index % 10 ? [] : [registry.getToken('key-1'), registry.getToken('key-2')],
      );
      await settle();
      const outcomes = Promise.allSettled(waiting);
      await Promise.all(registries.map((registry) => registry.close()));
      expect(tally(await outcomes).codes).toEqual({ closed: 20 });
    }
    await service.close();
    await settle();
    const { TCPSocketWrap = 0, Timeout = 0, TCPConnectWrap = 0 } = tallied(process.getActiveResourcesInfo());
    const { resources } = before;
    expect(TCPConnectWrap).toBe(0);
    expect(TCPSocketWrap).toBeLessThanOrEqual(resources.TCPSocketWrap ?? 0);
    expect(Timeout).toBeLessThanOrEqual(resources.Timeout ?? 0);
    expect(process.listenerCount('exit')).toBe(before.exits);
    expect(before.subscribed).toEqual(expect.arrayContaining(subscribed()));
  });

  const tallied = (names: string[]): Record<string, number> => {
    const counts: Record<string, number> = {};
    for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
    return counts;
  };
});

describe('H4', () => {
  it('a full queue refuses at once with queue_full, and nothing is sent', async () => {
    await using service = await LoopbackService.start();
    service.always(silence());
    const { registry } = overHttp(service, { concurrency: 2, maxQueued: 3 });
    const owners = keys(5);
    const taken = owners.map((key) => registry.getToken(key));
    await service.arrived(2);
    expect(registry.stats()).toMatchObject({ inFlight: 2, queued: 3 });
    const error = await errorOf(registry.getToken('one-too-many'));
    expect(error).toMatchObject({ code: 'queue_full', retryable: true, failureScope: undefined });
    expect(error.owner).toBe(registry.fingerprint('one-too-many'));
    // Those who join an owner that waits already take no place.
    const joined = owners.map((key) => registry.getToken(key));
    expect(registry.stats()).toMatchObject({ queued: 3, queueFull: 1 });
    service.always(token());
    for (const call of service.calls.slice(0, 2)) call.answer(token());
    await Promise.all([...taken, ...joined]);
    expect(service.calls.map((call) => call.accessKey)).toEqual(owners);
    expect(registry.stats()).toMatchObject({ inFlight: 0, queued: 0, waiting: 0 });
    // The refused owner can try again.
    expect((await registry.getToken('one-too-many')).value).toBeDefined();
    await registry.close();
  });

  it('a queue full of refreshes still takes a waiting caller, whose token has been served to nobody', async () => {
    const source = ScriptedSource.answering(100);
    const { registry, clock } = scripted({ concurrency: 1, maxQueued: 2 }, source);
    const owners = keys(4);
    for (const key of owners) await registry.getToken(key);
    clock.advance(80_000);
    source.script(undefined);
    for (const key of owners) await registry.getToken(key); // One refresh under way, two queued, no place for one.
    await settle();
    expect(registry.stats()).toMatchObject({ inFlight: 1, queued: 2 });
    const cold = registry.getToken('cold');
    expect(registry.stats()).toMatchObject({ inFlight: 1, queued: 2 });
    source.script((call) => call.succeed());
    source.call(4).succeed();
    expect((await cold).value).toMatch(/-of-cold$/);
    // And it went before the refresh that came first.
    expect(
      source.calls
        .slice(4)
        .map(({ accessKey }) => accessKey)
        .slice(0, 2),
    ).toEqual(['key-1', 'cold']);
    for (const key of owners) await registry.getToken(key);
  });
});

it('M7 three thousand unknown keys that fail evict no cached token', async () => {
  const { registry, source } = scripted({ maxOwners: 500, concurrency: 100 }, ScriptedSource.answering());
  const held = keys(500);
  await registry.warmUp(held);
  source.script((call) => call.fail(new OwnerTokenError('owner_refused', 'unknown', { oauthError: 'invalid_grant' })));
  for (let batch = 0; batch < 6; batch++) {
    const unknown = Array.from({ length: 500 }, (_, index) => registry.getToken(`bogus-${batch}-${index}`));
    await Promise.allSettled(unknown);
  }
  for (const key of held) expect(registry.peek(key)?.value).toMatch(new RegExp(`-of-${key}$`));
  expect(registry.stats()).toMatchObject({ usable: 500, owners: 1_000 });
  await registry.close();
});

describe('H1 an access key', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const heapUsed = () => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const source = { requestToken: async () => ({ token: 'a-token' }) };

  it.each(['latin1', 'utf16le'] as const)(
    'that was cut out of a longer text does not keep that text in memory (%s)',
    async (encoding) => {
      const registry = new OwnerTokenRegistry({ source });
      const before = heapUsed();
      for (let number = 0; number < 50; number++) {
        const bytes = Buffer.from(`an-access-key-of-some-length-${number} `, encoding);
        await registry.getToken(Buffer.alloc(1_000_000, bytes).toString(encoding).slice(0, 32));
      }
      expect(heapUsed() - before).toBeLessThan(10_000_000);
      expect(registry.stats().owners).toBe(50);
      await registry.close();
    },
  );

  it('that the caller keeps is not stored a second time', async () => {
    const registry = new OwnerTokenRegistry({ source });
    const kept = Array.from({ length: 1_000 }, (_, number) => Buffer.alloc(10_000, `key-${number} `).toString());
    const before = heapUsed();
    for (const key of kept) await registry.getToken(key);
    expect(heapUsed() - before).toBeLessThan(5_000_000);
    expect(kept.map((key) => registry.peek(key)?.value)).toEqual(kept.map(() => 'a-token'));
    await registry.close();
  });
});
