/** Which requests start, wait and are refused, as a source and its callers see it. What outcomes mean: `test/failures`. */

import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { describe, expect, it } from 'vitest';
import { OwnerTokenError, OwnerTokenRegistry, type PauseMessage, type RequestMessage } from '../../../src/index.ts';
import { asTimePasses, ManualClock, settle } from '../../helpers/manual-clock.ts';
import { answering, errorOf, isSettled, keys, scripted, shut } from '../../helpers/registries.ts';
import { ScriptedSource } from '../../helpers/scripted-source.ts';

const down = () => new OwnerTokenError('endpoint_unavailable', 'down', { status: 500 });

it('a queued refresh is started in the order of a call once a caller joins it', async () => {
  const { registry, clock, source } = answering({ concurrency: 1 });
  await registry.getToken('due');
  clock.advance(94_500);
  source.script(undefined);
  const first = registry.getToken('first');
  await settle();
  void registry.getToken('due'); // Served; its refresh is queued.
  clock.advance(499);
  const newcomer = registry.getToken('new');
  clock.advance(1); // Its token has ended.
  const joined = registry.getToken('due');
  source.call(-1).succeed();
  await first;
  await settle();
  expect(source.call(-1).accessKey).toBe('due');
  source.call(-1).succeed();
  await joined;
  await shut(registry, clock);
  await newcomer.catch(() => {});
});

it('a request that yields its place lets another start, but no more than `concurrency` do', async () => {
  const { registry, clock, source } = scripted({ concurrency: 1 });
  const calls = ['first', 'second', 'third'].map((key) => registry.getToken(key));
  await settle();
  expect(source.calls).toHaveLength(1);
  source.call(0).request.yieldPlace?.();
  source.call(0).request.yieldPlace?.();
  await settle();
  expect(registry.stats()).toMatchObject({ inFlight: 2, slow: 1, queued: 1 });
  source.call(1).request.yieldPlace?.();
  await settle();
  expect(registry.stats()).toMatchObject({ inFlight: 2, slow: 2, queued: 1 });
  for (const index of [0, 1]) source.call(index).succeed();
  await settle();
  source.call(2).succeed();
  source.call(2).request.yieldPlace?.();
  await Promise.all(calls);
  await registry.close();
  expect([registry.stats().inFlight, clock.pendingTimers]).toEqual([0, 0]);
});

it.each(['a quota', 'an open circuit'])(
  'a full queue of requests refuses a call that %s would hold back',
  async (what) => {
    const { registry, clock, source } = scripted({ maxQueued: 1, ...(what === 'a quota' && { requestsPerSecond: 1 }) });
    const failure = { failureScope: 'endpoint', retryAfterMs: 1_000 } as const;
    source.script((call) =>
      what === 'a quota' ? call.succeed() : call.fail(new OwnerTokenError('endpoint_unavailable', 'down', failure)),
    );
    await registry.getToken('first').catch(() => {});
    source.script((call) => call.succeed());
    const waiting = registry.getToken('second');
    expect(registry.stats().queued).toBe(1);
    expect((await errorOf(registry.getToken('third'))).code).toBe('queue_full');
    expect(await asTimePasses(waiting, clock, 50)).toBeDefined();
    await registry.close();
  },
);

it('a queued call is refused at maxQueueMs although the monotonic clock runs backwards', async () => {
  const clock = new ManualClock();
  const startMs = clock.now();
  const backwards = {
    now: () => clock.now(),
    monotonic: () => startMs - clock.now(),
    setTimeout: (fn: () => void, ms: number) => clock.setTimeout(fn, ms),
  };
  const source = new ScriptedSource();
  const registry = new OwnerTokenRegistry({ source, clock: backwards, concurrency: 1, maxQueueMs: 2_000 });
  const sent = registry.getToken('sent');
  const queued = errorOf(registry.getToken('queued'));
  clock.advance(1_999);
  expect(await isSettled(queued)).toBe(false);
  clock.advance(1);
  expect(await isSettled(queued)).toBe(true);
  expect((await queued).code).toBe('queue_timeout');
  source.call(0).succeed();
  await sent;
  await registry.close();
});

it.each([
  ['says what to raise', false, /raise concurrency, requestsPerSecond or maxQueueMs, or make fewer calls$/],
  ['says so if the service limits the rate', true, /the service answers with 429 or 503; make fewer calls$/],
])('a call that waited too long %s', async (_what, isLimited, message) => {
  const clock = new ManualClock();
  let requests = 0;
  const requestToken = async () => {
    if (isLimited && ++requests % 2 === 0) throw new OwnerTokenError('rate_limited', '429', { status: 429 });
    await new Promise<void>((resolve) => clock.setTimeout(resolve, 100));
    return { token: `token-${requests}` };
  };
  const registry = new OwnerTokenRegistry({ source: { requestToken }, clock, concurrency: 1, maxQueueMs: 2_000 });
  const outcomes = keys(100).map((key) => registry.getToken(key).catch((error: OwnerTokenError) => error));
  const errors = await asTimePasses(Promise.all(outcomes), clock, 50);
  const late = errors.filter((each) => each instanceof OwnerTokenError && each.code === 'queue_timeout');
  expect(late.length).toBeGreaterThan(0);
  for (const error of late) expect(error).toMatchObject({ message: expect.stringMatching(message) });
  await registry.close();
});

it('a request due for a retry is dropped when its callers leave in the meantime', async () => {
  const { registry, clock, source } = answering();
  for (const key of keys(10)) await registry.getToken(key);
  source.script((call) => call.fail(down()));
  const caller = new AbortController();
  const call = registry.getToken('a', { signal: caller.signal });
  await settle();
  caller.abort(new Error('left'));
  await expect(call).rejects.toThrow('left');
  clock.advance(1_000);
  await settle();
  expect([source.countFor('a'), registry.stats().queued, clock.pendingTimers]).toEqual([1, 0, 0]);
  await registry.close();
});

describe('an open circuit', () => {
  const outage = (retryAfterMs?: number) =>
    new OwnerTokenError('endpoint_unavailable', 'down', { failureScope: 'endpoint', retryAfterMs });

  it('makes calls wait if its pause ends within a second, and refuses them otherwise, refreshes too', async () => {
    const { registry, clock, source } = answering();
    await registry.getToken('held');
    source.script((call) => call.fail(outage(2_000)));
    await errorOf(registry.getToken('a'));
    const startMs = clock.now();
    expect(await errorOf(registry.getToken('b'))).toMatchObject({
      failureScope: 'endpoint',
      retryAtMs: startMs + 2_000,
    });
    clock.advance(1_000);
    source.script((call) => call.succeed());
    const waiting = registry.getToken('b');
    await settle();
    expect(registry.stats()).toMatchObject({ queued: 1, refused: { owner: 0, client: 0, endpoint: 1 } });
    clock.advance(1_000);
    expect((await waiting).value).toBeDefined();
    expect(registry.stats().pauses.endpoint).toBeUndefined();
    await registry.close();
  });

  it('is tried by refreshing a canary, outside the async context of any caller', async () => {
    const context = new AsyncLocalStorage<string>();
    const { registry, clock, source } = answering();
    const held = await registry.getToken('held');
    const contexts: unknown[] = [];
    const canaries: unknown[] = [];
    const observe = (message: unknown) => canaries.push((message as RequestMessage).canary);
    subscribe('tracing:owner-token-registry:request:asyncEnd', observe);
    source.script((call) => {
      contexts.push([call.accessKey, call.request.reason, context.getStore()]);
      if (call.accessKey === 'held') call.succeed();
      else call.fail(outage(2_000));
    });
    await context.run('a caller', () => errorOf(registry.getToken('a')));
    context.run('another', () => clock.advance(2_000));
    await settle();
    expect(contexts).toEqual([
      ['a', 'absent', 'a caller'],
      ['held', 'refresh', undefined],
    ]);
    unsubscribe('tracing:owner-token-registry:request:asyncEnd', observe);
    expect(canaries).toEqual([undefined, true]);
    expect(registry.stats()).toMatchObject({ canaries: 1, refreshes: 1, pauses: { owners: 0 } });
    expect(await registry.getToken('held')).not.toBe(held);
    await registry.close();
  });

  it('that canaries open by hanging is reported at once', async () => {
    const { registry, clock, source } = answering();
    for (const owner of ['first', 'second']) await registry.getToken(owner);
    const actions: unknown[] = [];
    const observe = (message: unknown) => actions.push((message as PauseMessage).scope);
    subscribe('owner-token-registry:pause', observe);
    source.script((call) => (call.request.reason === 'absent' ? call.fail(down()) : undefined));
    const errors = await Promise.all(['a', 'b', 'c'].map((owner) => errorOf(registry.getToken(owner))));
    actions.length = 0;
    for (let seconds = 0; seconds < 3; seconds++) {
      clock.advance(1_000);
      await settle();
    }
    unsubscribe('owner-token-registry:pause', observe);
    expect([errors.length, actions]).toEqual([3, ['endpoint']]);
    await shut(registry, clock);
  });

  it('waits without timers where hanging requests leave no place for its trial', async () => {
    const clock = new ManualClock();
    let timers = 0;
    const counted = {
      now: () => clock.now(),
      monotonic: () => clock.monotonic(),
      setTimeout: (fn: () => void, ms: number) => {
        if (++timers > 100) throw new Error('timers without end');
        return clock.setTimeout(fn, ms);
      },
    };
    const source = ScriptedSource.answering();
    const registry = new OwnerTokenRegistry({
      source,
      clock: counted,
      concurrency: 1,
      random: () => 0.5,
      logger: 'silent',
    });
    for (const owner of ['first', 'second']) await registry.getToken(owner);
    source.script((call) => (call.accessKey === 'b' ? call.fail(outage()) : undefined));
    const hanging = registry.getToken('a').catch(() => {});
    for (let seconds = 0; seconds < 2; seconds++) {
      clock.advance(1_000);
      await settle();
    }
    await errorOf(registry.getToken('b'));
    for (let seconds = 0; seconds < 10; seconds++) {
      clock.advance(1_000);
      await settle();
    }
    expect(registry.stats()).toMatchObject({ inFlight: 2, queued: 1, pauses: { endpoint: {} } });
    await registry.close({ timeoutMs: 0 });
    await hanging;
  });

  it('pauses no canary, even if its token has ended', async () => {
    const { registry, clock, source } = answering();
    await registry.getToken('held');
    clock.advance(200_000);
    source.script((call) => call.fail(outage(2_000)));
    await errorOf(registry.getToken('a'));
    clock.advance(2_000);
    await settle();
    expect([source.countFor('held'), registry.stats().pauses.owners]).toEqual([2, 0]);
    await registry.close();
  });

  it('needs ten failing owners once the only one that had a token was forgotten', async () => {
    const { registry, source } = answering();
    await registry.getToken('forgotten');
    registry.forget('forgotten');
    source.script((call) => call.fail(down()));
    const isClosedAfter = async (key: string) => {
      await errorOf(registry.getToken(key));
      return registry.stats().pauses.endpoint === undefined;
    };
    const isClosed: boolean[] = [];
    for (const key of keys(10)) isClosed.push(await isClosedAfter(key));
    expect(isClosed).toEqual([...Array(9).fill(true), false]);
  });

  it('is not tried with an owner that was forgotten, or is busy', async () => {
    const { registry, clock, source } = answering();
    for (const key of ['forgotten', 'busy']) await registry.getToken(key);
    registry.forget('forgotten');
    clock.advance(85_000);
    source.script(undefined);
    void registry.getToken('busy');
    await settle();
    source.script((call) => call.fail(outage(2_000)));
    await errorOf(registry.getToken('a'));
    source.script(undefined);
    clock.advance(2_000);
    await settle();
    expect(registry.stats().canaries).toBe(0);
    const trial = registry.getToken('b');
    await settle();
    expect(source.call(-1).accessKey).toBe('b');
    source.call(-1).succeed();
    await trial;
    expect(registry.stats().pauses.endpoint).toBeUndefined();
    await shut(registry, clock);
  });
});

it('all calls may be sent at once while nothing has answered', async () => {
  const { registry, clock, source } = scripted();
  for (const key of keys(200)) registry.getToken(key).catch(() => {});
  clock.advance(1_000);
  await settle();
  expect(source.calls).toHaveLength(100);
  await shut(registry, clock);
});

it('every second trial is a caller’s whose owner never had a token, before that of one whose token has ended', async () => {
  const { registry, clock, source } = scripted();
  source.script((call) => call.succeed({ response: { expires_in: call.accessKey === 'ended' ? 10 : 3_600 } }));
  for (const key of ['ended', ...keys(2)]) await registry.getToken(key);
  clock.advance(10_000);
  const outage = new OwnerTokenError('endpoint_unavailable', 'down', { failureScope: 'endpoint' });
  source.script((call) => call.fail(outage));
  await errorOf(registry.getToken('a'));
  const trials: string[] = [];
  source.script((call) => {
    trials.push(call.accessKey);
    call.fail(outage);
  });
  for (let round = 0; round < 4; round++) {
    const retryAtMs = registry.stats().pauses.endpoint?.retryAtMs ?? 0;
    clock.advance(retryAtMs - clock.now() - 1);
    for (const key of ['ended', `new-${round}`]) registry.getToken(key).catch(() => {});
    clock.advance(1);
    await settle();
  }
  expect(trials).toEqual(['key-2', 'new-0', 'key-1', expect.stringContaining('new')]);
  await shut(registry, clock);
});

describe('the keys of a warm-up', () => {
  it('go after callers, even if two warm-ups have them', async () => {
    const { registry, source } = scripted({ concurrency: 1 });
    const busy = registry.getToken('busy');
    const warmUps = [registry.warmUp(['warm', 'warmer']), registry.warmUp(['warm', 'warmer'])];
    await settle();
    const call = registry.getToken('called');
    source.script((each) => each.succeed());
    source.call(0).succeed();
    await Promise.all([busy, call, ...warmUps]);
    expect(source.calls.map(({ accessKey }) => accessKey)).toEqual(['busy', 'called', 'warm', 'warmer']);
    await registry.close();
  });

  it('take nothing from the budget of retries, which is left for one that a caller has joined', async () => {
    const { registry, clock, source } = answering();
    for (const key of keys(10)) await registry.getToken(key);
    source.script(undefined);
    const warmUp = registry.warmUp(['warm', 'joined']);
    await settle();
    const joined = registry.getToken('joined');
    const [warm, other] = [source.call(-2), source.call(-1)];
    warm.fail(down());
    await settle();
    other.fail(down());
    await settle();
    source.script((each) => each.succeed());
    await asTimePasses(Promise.all([joined, warmUp]), clock);
    expect(source.countFor('joined')).toBe(2);
    await registry.close();
  });
});
