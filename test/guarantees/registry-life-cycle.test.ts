/** K. Life cycle. */

import diagnostics from 'node:diagnostics_channel';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  type ExpiryPolicy,
  type Logger,
  OwnerTokenError,
  OwnerTokenRegistry,
  type PauseMessage,
  TokenEndpoint,
} from '../../src/index.ts';
import config from '../../vitest.config.ts';
import { CHANNELS } from '../helpers/canaries.ts';
import { Children } from '../helpers/child.ts';
import { shortNames } from '../helpers/log-lines.ts';
import { LoopbackService, silence, token } from '../helpers/loopback-service.ts';
import { asTimePasses, settle } from '../helpers/manual-clock.ts';
import { callAtOnce, errorOf, isSettled, keys, scripted, tally } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';

const clientOf = (service: { url: string }) =>
  new TokenEndpoint({ baseUrl: service.url, clientId: 'the-client', clientSecret: 'the-secret' });

describe('K1', () => {
  it('close during requests: all waiting calls get closed, sockets are gone, nothing more is sent', async () => {
    await using service = await LoopbackService.start();
    service.always(silence());
    const registry = new OwnerTokenRegistry({ source: clientOf(service), concurrency: 2 });
    const caller = new AbortController();
    const waiting = [
      ...keys(10).map((key) => registry.getToken(key)),
      registry.getToken('key-1', { signal: caller.signal }),
      registry.getToken('key-9', { signal: caller.signal }),
    ];
    const warmedUp = registry.warmUp(keys(20));
    await service.arrived(2);
    const outcomes = Promise.allSettled([...waiting, warmedUp]);
    await registry.close();
    const { codes } = tally((await outcomes) as PromiseSettledResult<never>[]);
    expect(codes).toEqual({ closed: 13 });
    await Promise.all(service.calls.map((call) => call.gone));
    expect(service.openConnections).toBe(0);
    expect(service.calls).toHaveLength(2);
    expect(registry.stats()).toMatchObject({ owners: 0, inFlight: 0, queued: 0, waiting: 0 });
  });

  it('close is idempotent, and what comes after is refused or empty, never broken', async () => {
    const source = ScriptedSource.answering();
    const { registry, clock } = scripted({}, source);
    const held = await registry.getToken('key-1');
    const closed = registry.close();
    expect(registry.close()).toBe(closed);
    expect(registry.close({ timeoutMs: 7 })).toBe(closed);
    expect(registry[Symbol.asyncDispose]()).toBe(closed);
    await closed;
    expect(source.closed).toBe(1);
    const closedError = {
      code: 'closed',
      retryable: false,
      owner: registry.fingerprint('key-1'),
      failedAtMs: clock.now(),
    };
    expect(await errorOf(registry.getToken('key-1'))).toMatchObject(closedError);
    expect(await errorOf(registry.getToken(''))).toMatchObject({ code: 'invalid_access_key' });
    expect(await errorOf(registry.warmUp(['key-1']))).toMatchObject({ code: 'closed' });
    await expect(
      registry.ownerFetch('key-1', { allowedOrigins: ['http://localhost'] })('http://localhost'),
    ).rejects.toMatchObject({ code: 'closed' });
    expect(registry.peek('key-1')).toBeUndefined();
    expect(registry.reject('key-1', held)).toBe(false);
    expect(registry.forget('key-1')).toBe(false);
    expect(registry.describe('key-1')).toEqual({ phase: 'empty' });
    expect(registry.fingerprint('key-1')).toMatch(/^owner_/);
    registry.accept('key-1', held);
    registry.forgetAll();
    registry.resume();
    expect(registry.stats()).toMatchObject({ owners: 0, usable: 0, inFlight: 0 });
    expect(source.calls).toHaveLength(1);
  });

  it('close takes at most timeoutMs in all, for requests and the source together', async () => {
    const { registry, source, clock } = scripted();
    Object.assign(source, { close: () => new Promise(() => {}) });
    const call = registry.getToken('key-1');
    await settle();
    const closed = registry.close({ timeoutMs: 3_000 });
    expect((await errorOf(call)).code).toBe('closed');
    clock.advance(2_000);
    source.call(0).fail(new Error('aborted late'));
    await settle();
    clock.advance(999);
    expect(await isSettled(closed)).toBe(false);
    clock.advance(1);
    expect(await isSettled(closed)).toBe(true);
  });

  it('a source that ignores its signal is waited for no longer than timeoutMs; its late answer is dropped', async () => {
    const { registry, clock, source } = scripted();
    const waiting = errorOf(registry.getToken('key-1'));
    await settle();
    const closed = registry.close({ timeoutMs: 3_000 });
    expect((await waiting).code).toBe('closed');
    expect(source.call(0).request.signal.aborted).toBe(true);
    expect(source.call(0).request.signal.reason).toMatchObject({ code: 'closed' });
    clock.advance(2_999);
    expect(await isSettled(closed)).toBe(false);
    clock.advance(1);
    await closed;
    source.call(0).succeed();
    await settle();
    expect(registry.peek('key-1')).toBeUndefined();
    expect(registry.stats()).toMatchObject({ owners: 0, inFlight: 0 });
    expect(clock.pendingTimers).toBe(0);
  });

  it('a source whose close throws does not keep the registry open', async () => {
    const close = () => {
      throw new Error('no');
    };
    const { registry } = scripted({ source: { requestToken: async () => ({ token: 'a-token' }), close } });
    await registry.close();
    expect((await errorOf(registry.getToken('key-1'))).code).toBe('closed');
  });

  describe('in a process of its own', () => {
    let children: Children;
    beforeAll(() => {
      children = new Children();
    });
    afterAll(() => children[Symbol.dispose]());
    const start = `
      import { OwnerTokenRegistry, TokenEndpoint } from 'owner-token-registry';
      const source = new TokenEndpoint({ baseUrl: process.argv[2], clientId: 'c', clientSecret: 's' });
      const registry = new OwnerTokenRegistry({ source, concurrency: 1 });
    `;

    it('the process exits by itself after close, with requests in flight and callers queued', async () => {
      await using service = await LoopbackService.start();
      service.always(silence());
      const { code, signal, out } = await children.run(
        `${start}
        const waiting = ['a', 'b', 'c'].map((key) => registry.getToken(key));
        const outcomes = Promise.allSettled(waiting);
        setImmediate(async function whenSent() {
          if (registry.stats().inFlight < 1) return setImmediate(whenSent);
          await registry.close();
          console.log((await outcomes).map(({ reason }) => reason.code).join());
        });`,
        [service.url],
      );
      expect({ code, signal, out }).toEqual({ code: 0, signal: null, out: 'closed,closed,closed\n' });
    });

    it('the process exits by itself without close too, once nothing is in flight: no timer or socket holds it', async () => {
      await using service = await LoopbackService.start();
      service.next(token({ expires_in: 2 }));
      const { code, out } = await children.run(
        `${start}
        for (const key of ['a', 'b']) console.log((await registry.getToken(key)).value);`,
        [service.url],
      );
      expect({ code, out }).toEqual({ code: 0, out: 'token-1-of-a\ntoken-2-of-b\n' });
    });

    it('K2 failures that nobody waits for end no process: Node ends it for the first unhandled rejection', async () => {
      const { code, out } = await children.run(
        `
        import { OwnerTokenRegistry } from 'owner-token-registry';
        let failing = false;
        let ms = 0;
        const clock = { now: () => 1_700_000_000_000 + ms, monotonic: () => ms };
        const source = {
          async requestToken() {
            if (failing) throw new Error('no');
            return { token: 't', response: { expires_in: 50 } };
          },
          async close() { throw new Error('no'); },
        };
        const registry = new OwnerTokenRegistry({ source, clock, pauses: { owner: { baseMs: 1, capMs: 1 } } });
        await registry.getToken('a');
        failing = true;
        for (let step = 0; registry.stats().failures < 2 && step < 1_000; step++) {
          ms += 10_000;
          registry.getToken('a').catch(() => {});
          const left = new AbortController();
          registry.getToken('b', { signal: left.signal }).catch(() => {});
          left.abort();
          await new Promise(setImmediate);
        }
        await registry.close();
        console.log(registry.stats().failures > 1);`,
      );
      expect({ code, out }).toEqual({ code: 0, out: 'true\n' });
    });
  });
});

describe('K2', () => {
  const unhandled: unknown[] = [];
  const collect = (reason: unknown) => unhandled.push(reason);
  beforeEach(() => {
    unhandled.length = 0;
    process.on('unhandledRejection', collect);
  });
  afterEach(() => void process.off('unhandledRejection', collect));

  it('unhandled rejections anywhere in the run fail the run', () => {
    expect(config.test?.dangerouslyIgnoreUnhandledErrors).toBe(false);
  });

  it('failed refreshes, callers that left, forgotten and evicted owners, close: no rejection is unhandled', async () => {
    const source = ScriptedSource.answering(100);
    const { registry, clock } = scripted({ concurrency: 2, maxOwners: 2, maxQueued: 1, maxQueueMs: 1_000 }, source);
    for (const key of keys(2)) await registry.getToken(key);
    clock.advance(80_000);
    source.script(undefined);
    for (const key of keys(2)) await registry.getToken(key);
    await settle();
    for (const call of source.calls.slice(2)) call.fail(new Error('a refresh that nobody waits for'));
    await settle();
    const caller = new AbortController();
    const handled: Promise<unknown>[] = [];
    const call = (key: string) => {
      handled.push(registry.getToken(key, { signal: caller.signal }).catch(() => {}));
    };
    for (const key of ['a', 'b', 'c', 'd']) call(key);
    await settle();
    registry.forget('a');
    clock.advance(1_000);
    call('c');
    caller.abort();
    for (const pending of source.calls) if (!pending.settled) pending.fail(undefined);
    await settle();
    registry.resume();
    source.script(undefined);
    for (const key of ['e', 'f', 'g']) handled.push(registry.getToken(key).catch(() => {}));
    const closed = registry.close();
    await settle();
    clock.advance(5_000);
    await closed;
    for (const pending of source.calls) if (!pending.settled) pending.fail(new Error('too late'));
    await Promise.all(handled);
    await settle();
    expect(unhandled).toEqual([]);
  });
});

describe('K3', () => {
  type Act = (registry: OwnerTokenRegistry) => void;
  /** What callers may do from wherever they are called. */
  const ACTS: Record<string, Act> = {
    'getToken of the same owner': (registry) => void registry.getToken('key-1').catch(() => {}),
    'getToken of another owner': (registry) => void registry.getToken('key-2').catch(() => {}),
    forget: (registry) => void registry.forget('key-1'),
    forgetAll: (registry) => registry.forgetAll(),
    'reject of what is held': (registry) => void registry.reject('key-1', registry.peek('key-1') ?? 'none'),
    resume: (registry) => registry.resume(),
    'describe and stats': (registry) => void [registry.describe('key-1'), registry.stats()],
    close: (registry) => void registry.close(),
  };

  /** Where a listener, policy, label or logger is called from, each wired to act at most twenty times. */
  const PLACES: Record<string, (act: () => void) => { options: object; stop: () => void }> = {
    'every channel': (act) => {
      for (const name of CHANNELS) diagnostics.subscribe(name, act);
      return { options: {}, stop: () => CHANNELS.forEach((name) => void diagnostics.unsubscribe(name, act)) };
    },
    'the policy': (act) => {
      const expiry: ExpiryPolicy = {
        lifetimeMs: () => {
          act();
          return 100_000;
        },
        accepted: act,
        rejected: act,
      };
      return { options: { expiry }, stop: () => {} };
    },
    'the logger': (act) => {
      const logger: Logger = { debug: act, info: act, warn: act };
      return { options: { logger }, stop: () => {} };
    },
    ownerLabel: (act) => {
      const ownerLabel = (key: string) => {
        act();
        return `label-${key.length}`;
      };
      return { options: { ownerLabel }, stop: () => {} };
    },
    'the source': (act) => ({ options: { onRequest: act }, stop: () => {} }),
  };

  const combinations = Object.keys(PLACES).flatMap((place) => Object.keys(ACTS).map((act) => [place, act] as const));
  it.each(combinations)(
    'from %s, %s: every caller settles, one request at a time, nothing is leaked',
    async (place, actName) => {
      let left = 20;
      let current: OwnerTokenRegistry | undefined;
      const act = () => {
        if (left-- > 0 && current) (ACTS[actName] as Act)(current);
      };
      const { options, stop } = (PLACES[place] as (typeof PLACES)[string])(act);
      const { onRequest, ...registryOptions } = options as { onRequest?: () => void };
      const underWay = new Map<string, number>();
      const overlaps: string[] = [];
      let failing = false;
      let number = 0;
      const source = {
        async requestToken(key: string) {
          onRequest?.();
          const count = (underWay.get(key) ?? 0) + 1;
          underWay.set(key, count);
          // Forgetting and rejecting begin a new generation: only these may overlap.
          if (count > 1 && !/forget|reject/.test(actName)) overlaps.push(key);
          await Promise.resolve();
          await Promise.resolve();
          underWay.set(key, count - 1);
          if (failing) throw new OwnerTokenError('endpoint_unavailable', 'no');
          return { token: `token-${++number}-of-${key}`, response: { expires_in: 100 } };
        },
      };
      const { registry, clock } = scripted({ source, maxOwners: 2, concurrency: 2, ...registryOptions });
      current = registry;
      try {
        for (let round = 0; round < 6; round++) {
          failing = round % 3 === 2;
          const owners = ['key-1', 'key-1', 'key-2', 'key-3'];
          const calls = owners.map((key) => registry.getToken(key));
          // An isolated failure is retried a little later.
          const outcomes = await asTimePasses(Promise.allSettled(calls), clock);
          for (const [index, outcome] of outcomes.entries()) {
            if (outcome.status === 'fulfilled')
              expect(outcome.value.value).toMatch(new RegExp(`-of-${owners[index]}$`));
            else expect(outcome.reason).toBeInstanceOf(OwnerTokenError);
          }
          const held = registry.peek('key-1');
          if (held) registry.accept('key-1', held);
          if (held && round === 3) registry.reject('key-1', held);
          clock.advance(round % 2 ? 80_000 : 1_000);
          await settle();
        }
        await settle();
        expect(overlaps).toEqual([]);
        expect(registry.stats()).toMatchObject({ inFlight: 0, queued: 0, waiting: 0 });
        await registry.close();
      } finally {
        stop();
      }
    },
  );

  it('a logger that closes the registry while a call evicts another owner ends that call, too', async () => {
    const source = new ScriptedSource();
    const logger = {
      debug: (fields: object) => void (shortNames(fields).event === 'owner.evicted' && registry.close()),
      info: () => {},
      warn: () => {},
    };
    const { registry, clock } = scripted({ maxOwners: 1, logger }, source);
    const held = registry.getToken('key-1');
    await settle();
    source.call(0).succeed({ response: { expires_in: 100 } });
    await held;
    const failing = registry.getToken('key-2').catch(() => {});
    await settle();
    source.call(1).fail(new OwnerTokenError('owner_refused', 'unknown key'));
    await failing;
    clock.advance(100_000);
    await expect(registry.getToken('key-1')).rejects.toMatchObject({ code: 'closed' });
  });

  it('a lookup listener that asks for the same owner makes no second request, and one that drops it breaks no hit', async () => {
    const source = new ScriptedSource();
    const { registry } = scripted({}, source);
    let act: () => void = () => void registry.getToken('key-1');
    let acting = false;
    const listener = () => {
      if (acting) return;
      acting = true;
      act();
      acting = false;
    };
    diagnostics.subscribe('owner-token-registry:lookup', listener);
    const first = registry.getToken('key-1');
    await settle();
    expect(source.calls).toHaveLength(1);
    source.call(0).succeed();
    const held = await first;
    act = () => void registry.forget('key-1');
    expect(await registry.getToken('key-1')).toBe(held);
    diagnostics.unsubscribe('owner-token-registry:lookup', listener);
    expect(registry.peek('key-1')).toBeUndefined();
  });

  it('the channels say what happened, in the order in which it did', async () => {
    const said: string[] = [];
    const on = (name: string, say: (message: never) => string) => {
      const listener = (message: unknown) => void said.push(say(message as never));
      diagnostics.subscribe(name, listener);
      return () => diagnostics.unsubscribe(name, listener);
    };
    const off = [
      on('owner-token-registry:lookup', ({ outcome }: { outcome: string }) => outcome),
      on('owner-token-registry:rejection', ({ wasHeld }: { wasHeld: boolean }) => `rejected ${wasHeld}`),
      on('owner-token-registry:pause', ({ scope, action, code }: PauseMessage) =>
        `${scope} ${action} ${code ?? ''}`.trim(),
      ),
      on('tracing:owner-token-registry:request:start', ({ reason }: { reason: string }) => `sent ${reason}`),
      on(
        'tracing:owner-token-registry:request:error',
        ({ error }: { error: OwnerTokenError }) => `failed ${error.code}`,
      ),
      on('tracing:owner-token-registry:request:asyncEnd', ({ token: given }: { token?: string }) =>
        given ? 'obtained' : 'over',
      ),
    ];
    const source = new ScriptedSource((call) => call.succeed({ response: { expires_in: 100 } }));
    const { registry, clock } = scripted({}, source);
    const held = await registry.getToken('key-1');
    await callAtOnce(1, registry, 'key-1');
    clock.advance(80_000);
    await registry.getToken('key-1');
    await settle();
    registry.reject('key-1', held);
    registry.reject('key-1', await registry.getToken('key-1'));
    const limited = { retryAfterMs: 5_000 };
    source.script((call) => call.fail(new OwnerTokenError('rate_limited', 'slow down', limited)));
    await registry.getToken('key-1');
    source.script((call) =>
      call.fail(new OwnerTokenError('rate_limited', 'slow down', { ...limited, failureScope: 'endpoint' })),
    );
    for (const key of ['key-2', 'key-3']) await errorOf(registry.getToken(key));
    registry.resume();
    for (const end of off) end();
    expect(said).toEqual([
      ...['request', 'sent absent', 'obtained', 'serve'],
      ...['serve-and-refresh', 'sent refresh', 'obtained', 'rejected false', 'serve', 'rejected true'],
      ...['request', 'sent rejected', 'failed rate_limited', 'over', 'owner paused rate_limited'],
      ...['request', 'sent absent', 'failed rate_limited', 'over', 'endpoint paused rate_limited', 'refuse'],
      ...['owner lifted', 'endpoint lifted'],
    ]);
  });
});
