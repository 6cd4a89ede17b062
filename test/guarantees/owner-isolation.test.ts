/** A. Never another owner's token. */

import { Agent, type Dispatcher, getGlobalDispatcher, interceptors, setGlobalDispatcher } from 'undici';
import { afterEach, describe, expect, it } from 'vitest';
import { OwnerTokenRegistry, TokenEndpoint } from '../../src/index.ts';
import { LoopbackService, silence, token } from '../helpers/loopback-service.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';
import { tokenOf } from '../helpers/numbered-tokens.ts';
import { errorOf, keys, overHttp, scripted, shut } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';
import { seeded } from '../helpers/seeded.mjs';

const ownerIn = (value: string) => decodeURIComponent(value.slice(value.indexOf('-of-') + 4));

describe('A1', () => {
  it('5,000 random interleavings of calls, answers, failures, rejections and clock moves', async () => {
    const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);
    const random = seeded(seed);
    const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
    const owners = ['key-a', 'key-b', 'KEY-A'];
    const wrong: string[] = [];
    let served = 0;
    for (let world = 0; world < 20; world++) {
      const source = new ScriptedSource();
      const { registry, clock } = scripted({ random, maxOwners: pick([2, 3]), concurrency: pick([1, 2, 3]) }, source);
      const call = (owner: string, signal?: AbortSignal) => {
        registry.getToken(owner, signal && { signal }).then(
          (given) => {
            served++;
            if (ownerIn(given.value) !== owner) wrong.push(`seed ${seed}: ${owner} was given ${given.value}`);
          },
          () => {},
        );
      };
      const steps = [
        () => call(pick(owners)),
        () => call(pick(owners)),
        () => call(pick(owners)),
        () => {
          const caller = new AbortController();
          call(pick(owners), caller.signal);
          if (random() < 0.5) caller.abort();
          else queueMicrotask(() => caller.abort());
        },
        () => pick(source.calls.filter((each) => !each.settled))?.succeed({ response: { expires_in: 100 } }),
        () => pick(source.calls.filter((each) => !each.settled))?.succeed({ response: { expires_in: 100 } }),
        () => random() < 0.2 && pick(source.calls.filter((each) => !each.settled))?.fail(new Error('no')),
        () => {
          const owner = pick(owners);
          const held = registry.peek(owner);
          if (held) registry.reject(owner, held);
        },
        () => random() < 0.3 && registry.forget(pick(owners)),
        () => clock.advance(pick([1, 1_000, 30_000, 100_000])),
      ];
      for (let interleaving = 0; interleaving < 250; interleaving++) {
        for (let step = 0; step < 6; step++) pick(steps)();
        for (let turn = 0; turn < 12; turn++) await Promise.resolve();
        source.calls.splice(0, source.calls.filter((each) => each.settled).length > 50 ? 40 : 0);
      }
      await shut(registry, clock);
    }
    expect(wrong).toEqual([]);
    expect(served).toBeGreaterThan(2_500);
  });
});

it("A2 a request for B while A's is pending makes its own POST", async () => {
  await using service = await LoopbackService.start();
  service.always(silence());
  const { registry } = overHttp(service);
  const a = registry.getToken('key-a');
  const first = await service.arrived(1);
  const b = registry.getToken('key-b');
  const second = await service.arrived(2);
  expect([first.accessKey, second.accessKey]).toEqual(['key-a', 'key-b']);
  second.answer(token());
  expect((await b).value).toBe('token-2-of-key-b');
  first.answer(token());
  expect((await a).value).toBe('token-1-of-key-a');
  await registry.close();
});

describe('A3', () => {
  it('other base URL, other client id, or just two instances: no token and no request is shared', async () => {
    await using here = await LoopbackService.start();
    await using there = await LoopbackService.start();
    for (const service of [here, there]) service.always(silence());
    const registries = [
      overHttp(here).registry,
      overHttp(here).registry,
      overHttp(here, {}, { clientId: 'another-client' }).registry,
      overHttp(there).registry,
    ];
    const calls = registries.map((registry) => registry.getToken('key-1'));
    await Promise.all([here.arrived(3), there.arrived(1)]);
    for (const call of [...here.calls, ...there.calls]) {
      token({ access_token: `${call.fields.client_id}-${call.socket.localPort}-${call.index}` })(call);
    }
    const tokens = await Promise.all(calls);
    expect(new Set(tokens.map(({ value }) => value)).size).toBe(4);
    expect(tokens[2]?.value).toMatch(/^another-client-/);
    expect(tokens[3]?.value).toContain(`-${there.port}-`);

    // What one of them is told, the others do not hear.
    const [first, second] = registries as [OwnerTokenRegistry, OwnerTokenRegistry];
    const [firstToken, secondToken] = tokens;
    if (!firstToken || !secondToken) throw new Error('four tokens were given');
    expect(first.reject('key-1', secondToken)).toBe(false);
    first.forgetAll();
    expect(second.peek('key-1')).toBe(secondToken);
    await first.close();
    expect(await second.getToken('key-1')).toBe(secondToken);
    expect([here.calls.length, there.calls.length]).toEqual([3, 1]);
    await Promise.all(registries.map((registry) => registry.close()));
  });

  it('one source under two registries: a pause stays with its own', async () => {
    const source = new ScriptedSource((call) => call.fail(new Error('no')));
    const one = scripted({}, source);
    const other = scripted({}, source);
    await errorOf(one.registry.getToken('key-1'));
    source.script((call) => call.succeed());
    expect((await errorOf(one.registry.getToken('key-1'))).code).toBe('source_failed');
    expect((await other.registry.getToken('key-1')).value).toBe('token-1-of-key-1');
  });
});

describe('A4', () => {
  const DISTINCT = [
    ...['key', 'KEY', 'Key', ' key', 'key ', 'key\t', 'key\n', 'key\r\n', 'key\0', ' ', '0', 'null', 'undefined'],
    ...['\u00e9', 'e\u0301', '\ufb01', 'fi', '\u{1f511}', 'k\u200bey', '\ufeffkey'],
    ...['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'valueOf', '__defineGetter__'],
    ...['a:b', 'a', 'b', 'a/b', 'a|b', 'a,b', 'a\0b', 'a b', '{"a":"b"}', '"', '\\', "'; DROP TABLE", '../..', '%00'],
    'k'.repeat(10_240),
    `${'k'.repeat(10_239)}K`,
  ];

  it('access keys that differ in case, trailing space or Unicode form are distinct owners; odd ones work', async () => {
    await using service = await LoopbackService.start();
    const { registry } = overHttp(service);
    const tokens = await Promise.all(DISTINCT.map((key) => registry.getToken(key)));
    // What the service was sent, byte for byte, once for each.
    expect(service.calls.map((call) => call.accessKey).sort()).toEqual([...DISTINCT].sort());
    for (const [index, key] of DISTINCT.entries()) {
      expect(ownerIn(tokens[index]?.value ?? '')).toBe(key);
      expect(await registry.getToken(key)).toBe(tokens[index]);
      expect(registry.peek(key)).toBe(tokens[index]);
    }
    expect(new Set(DISTINCT.map((key) => registry.fingerprint(key))).size).toBe(DISTINCT.length);
    expect(service.calls).toHaveLength(DISTINCT.length);
    await registry.close();
  });

  it.each([
    ['an empty string', ''],
    ['a lone surrogate', 'key-\ud800'],
    ['a key of 17,000 characters', 'k'.repeat(17_000)],
    ['undefined', undefined],
    ['a number', 7],
    ['an array', ['key-1']],
    ['a symbol', Symbol('key-1')],
    ['a String object', new String('key-1')],
  ])('%s is refused clearly, and nothing is sent', async (_, key) => {
    const { registry, source } = scripted({}, ScriptedSource.answering());
    const error = await errorOf(registry.getToken(key as string));
    expect(error).toMatchObject({ code: 'invalid_access_key', retryable: false });
    expect(error.message).toMatch(/expected a non-empty string/);
    for (const method of ['peek', 'forget', 'describe', 'fingerprint', 'ownerFetch', 'resume'] as const) {
      if (method === 'resume' && key === undefined) continue; // Every owner is meant.
      expect(() => registry[method](key as string)).toThrow(expect.objectContaining({ code: 'invalid_access_key' }));
    }
    for (const method of ['reject', 'accept'] as const) {
      expect(() => registry[method](key as string, tokenOf('a'))).toThrow(
        expect.objectContaining({ code: 'invalid_access_key' }),
      );
    }
    expect(source.calls).toHaveLength(0);
    expect(registry.stats()).toMatchObject({ owners: 0, inFlight: 0, queued: 0, waiting: 0 });
  });
});

describe('A5', () => {
  it.each(['reject', 'forget'] as const)('a %s for one owner changes nothing for any other', async (what) => {
    const source = new ScriptedSource();
    const { registry, clock } = scripted({}, source);
    const obtain = async (key: string) => {
      const obtained = registry.getToken(key);
      await settle();
      source.call(-1).succeed({ response: { expires_in: 1_000 } });
      return obtained;
    };
    const ofA = await obtain('key-a');
    const ofB = await obtain('key-b');
    const failing = registry.getToken('key-failing');
    await settle();
    source.call(-1).fail(new Error('no'));
    await errorOf(failing);
    const joined = registry.getToken('key-under-way');
    await settle();
    expect(source.calls).toHaveLength(4);

    const act = () =>
      what === 'forget' ? registry.forget('key-a') : registry.reject('key-a', ofA) || registry.reject('key-a', ofB);
    expect(act()).toBe(true);
    registry.reject('key-a', ofB); // Even another owner's token, reported under the wrong key.

    expect(registry.peek('key-a')).toBeUndefined();
    expect(await registry.getToken('key-b')).toBe(ofB);
    expect((await errorOf(registry.getToken('key-failing'))).code).toBe('source_failed');
    const joinedToo = registry.getToken('key-under-way');
    source.call(3).succeed();
    expect(await joinedToo).toBe(await joined);
    expect(source.calls).toHaveLength(4);
    clock.advance(1_000);
    expect(await registry.getToken('key-b')).toBe(ofB);
    expect(source.calls).toHaveLength(4);
  });
});

describe('A6', () => {
  const original = getGlobalDispatcher();
  afterEach(() => setGlobalDispatcher(original));

  /** What undici's did before 7.22, and worse: one POST to an address answers for all that come meanwhile. */
  const deaf: Dispatcher.DispatcherComposeInterceptor = (dispatch) => {
    type Handler = Parameters<Dispatcher['dispatch']>[1];
    const pending = new Map<string, Handler[]>();
    return (options, handler) => {
      const address = `${options.method} ${options.origin}${options.path}`;
      const others = pending.get(address);
      if (others) {
        others.push(handler);
        return true;
      }
      const all = [handler];
      pending.set(address, all);
      return dispatch(options, {
        onRequestStart: (controller, context) => {
          for (const each of all) each.onRequestStart?.(controller, context);
          all.push = (...late) => {
            for (const each of late) each.onRequestStart?.(controller, context);
            return Array.prototype.push.apply(all, late);
          };
        },
        onResponseStart: (...args) => {
          pending.delete(address);
          for (const each of all) each.onResponseStart?.(...args);
        },
        onResponseData: (...args) => {
          for (const each of all) each.onResponseData?.(...args);
        },
        onResponseEnd: (...args) => {
          for (const each of all) each.onResponseEnd?.(...args);
        },
        onResponseError: (...args) => {
          for (const each of all) each.onResponseError?.(...args);
        },
      });
    };
  };

  const owners = keys(20);

  async function tokens() {
    const service = await LoopbackService.start();
    const clock = new ManualClock();
    const client = { baseUrl: service.url, clientId: 'the-client', clientSecret: 'the-secret' };
    const registry = new OwnerTokenRegistry({ source: new TokenEndpoint({ ...client, clock }), clock });
    const given = await Promise.all(owners.map((key) => registry.getToken(key)));
    await registry.close();
    await service.close();
    return { owners: given.map(({ value }) => ownerIn(value)), posts: service.calls.length };
  }

  it.each([
    ["undici's own", interceptors.deduplicate()],
    ['one that looks at the address alone', deaf],
  ])(
    'with a global de-duplicating interceptor, %s, in the process, each owner gets its own token',
    async (_, interceptor) => {
      setGlobalDispatcher(new Agent().compose(interceptor));
      expect(await tokens()).toEqual({ owners, posts: owners.length });
    },
  );

  it('the interceptor does mix up owners when a request goes through it', async () => {
    setGlobalDispatcher(new Agent().compose(deaf));
    const service = await LoopbackService.start();
    const client = { baseUrl: service.url, clientId: 'the-client', clientSecret: 'the-secret' };
    const source = new TokenEndpoint({ ...client, fetch: (...args) => fetch(...args) });
    const given = await Promise.all(owners.map((key) => source.requestToken(key)));
    await service.close();
    expect(given.map(({ token }) => ownerIn(token))).not.toEqual(owners);
  });
});
