/** Which requests start, wait and are refused, as a source and its callers see it. What outcomes mean: `test/failures`. */

import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { describe, expect, it } from 'vitest';
import {
  OwnerTokenError,
  OwnerTokenRegistry,
  type RequestMessage,
  type RequestPermit,
  type TokenSource,
} from '../../src/index.ts';
import { asTimePasses, type ManualClock, settle } from '../helpers/manual-clock.ts';
import { errorOf, keys, scripted, shut } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';

const refused = () => new OwnerTokenError('owner_refused', 'no', { oauthError: 'invalid_grant' });
const down = () => new OwnerTokenError('endpoint_unavailable', 'down', { status: 500 });

/** A registry whose source answers at once with tokens of 100 s, due for a refresh at about 80 s. */
const answering = (options: Parameters<typeof scripted>[0] = {}) => scripted(options, ScriptedSource.answering(100));

async function pass(clock: ManualClock, ms: number, stepMs = 50): Promise<void> {
  for (let passed = 0; passed < ms; passed += stepMs) {
    clock.advance(stepMs);
    await settle();
  }
}

it('the order is known owners, new ones, refreshes, and failing ones, although they were wanted in another order', async () => {
  const { registry, clock, source } = answering({ concurrency: 1 });
  for (const key of ['due', 'known']) await registry.getToken(key);
  registry.reject('known', (await registry.getToken('known')).value);
  source.script((call) => call.fail(refused()));
  await errorOf(registry.getToken('failing'));
  clock.advance(85_000);
  source.calls.length = 0;
  source.script(undefined);
  const calls = ['first', 'failing', 'due', 'new', 'known'].map((key) => registry.getToken(key));
  const order: string[] = [];
  for (let n = 0; n < 5; n++) {
    await settle();
    expect(registry.stats().inFlight).toBe(1);
    order.push(source.call(-1).accessKey);
    source.call(-1).succeed();
  }
  await Promise.all(calls);
  expect(order).toEqual(['first', 'known', 'new', 'due', 'failing']);
  await registry.close();
});

it('the order is that of a call for a queued refresh once a caller joins it', async () => {
  const { registry, clock, source } = answering({ concurrency: 1 });
  await registry.getToken('due');
  clock.advance(85_000);
  source.script(undefined);
  const first = registry.getToken('first');
  await settle();
  void registry.getToken('due'); // Served; its refresh is queued.
  const newcomer = registry.getToken('new');
  clock.advance(20_000); // Its token has ended.
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

it('the order is newest first once the oldest has waited for a second', async () => {
  const { registry, clock, source } = scripted({ concurrency: 1 });
  const calls = ['first', 'a', 'b', 'c'].map((key) => registry.getToken(key));
  await pass(clock, 1_050);
  const order: string[] = [];
  for (let n = 0; n < 4; n++) {
    order.push(source.call(-1).accessKey);
    source.call(-1).succeed();
    await settle();
  }
  await Promise.all(calls);
  expect(order).toEqual(['first', 'c', 'b', 'a']);
  await registry.close();
});

it('the room begins with sixteen places, and grows by one with each success and each 10 ms', async () => {
  const { registry, clock, source } = scripted();
  const calls = keys(200).map((key) => registry.getToken(key));
  const sent = async () => {
    await settle();
    return source.calls.length;
  };
  expect(await sent()).toBe(16);
  clock.advance(50);
  expect(await sent()).toBe(21);
  source.call(0).succeed();
  expect(await sent()).toBe(23);
  clock.advance(900);
  expect([await sent(), registry.stats().inFlight]).toEqual([101, 100]);
  source.script((call) => call.succeed());
  for (const call of source.calls) call.succeed();
  await Promise.all(calls);
  await registry.close();
});

it('the room frees a permit when a request is slow, for at most as many slow requests as the limit', async () => {
  const { registry, clock, source } = answering({ concurrency: 2 });
  await registry.getToken('known');
  source.script(undefined);
  const calls = keys(9).map((key) => registry.getToken(key).catch(() => {}));
  const sent: number[] = [];
  for (const ms of [0, 950, 50, 1_000, 1_000]) {
    await pass(clock, ms);
    sent.push(source.calls.length - 1);
  }
  // After a second both are slow. A second later the next two are, but no more than two give their places up.
  expect(sent).toEqual([2, 2, 4, 4, 4]);
  expect(registry.stats()).toMatchObject({ inFlight: 4, slow: 4, concurrency: 2 });
  source.call(1).succeed();
  await settle();
  expect(source.calls.length - 1).toBe(5);
  await shut(registry, clock);
  await Promise.all(calls);
});

it('the room is free while a source has released its permit, and taken again before it goes on', async () => {
  const { registry, clock, source } = scripted({ concurrency: 1 });
  const [first, second] = ['first', 'second'].map((key) => registry.getToken(key));
  await settle();
  const { permit } = source.call(0).request;
  permit?.release();
  permit?.release();
  await settle();
  expect([source.calls.length, registry.stats().inFlight]).toEqual([2, 2]);
  let hasPermit = false;
  void Promise.all([permit?.take(), permit?.take()]).then(() => {
    hasPermit = true;
  });
  await settle();
  expect([hasPermit, registry.stats().queued]).toEqual([false, 1]);
  source.call(1).succeed();
  await second;
  await settle();
  expect([hasPermit, registry.stats().queued]).toEqual([true, 0]);
  source.call(0).succeed();
  await first;
  await registry.close();
  expect(clock.pendingTimers).toBe(0);
});

it('the queue refuses a call after maxQueueMs, and not a millisecond earlier', async () => {
  const { registry, clock } = scripted({ concurrency: 1, maxQueueMs: 5_000 });
  const first = registry.getToken('first').catch(() => {});
  const waiting = errorOf(registry.getToken('second'));
  await settle();
  clock.advance(4_999);
  await settle();
  expect(registry.stats().queued).toBe(1);
  clock.advance(1);
  expect(await waiting).toMatchObject({ code: 'queue_timeout', failureScope: undefined, retryable: true });
  expect((await waiting).message).toContain('waited 5000 ms for its turn (maxQueueMs)');
  expect(registry.stats()).toMatchObject({ queued: 0, inFlight: 1 });
  await shut(registry, clock);
  await first;
});

it('the queue refuses a source that waits for its permit as long, and aborts it', async () => {
  const { registry, clock, source } = scripted({ concurrency: 1, maxQueueMs: 5_000 });
  const away = errorOf(registry.getToken('away'));
  const first = registry.getToken('first').catch(() => {});
  await settle();
  const { permit, signal } = source.call(0).request;
  permit?.release();
  await settle();
  const taken = permit?.take().catch((error: unknown) => error);
  clock.advance(5_000);
  expect((await away).code).toBe('queue_timeout');
  expect([signal.aborted, await taken]).toEqual([true, await away]);
  await shut(registry, clock);
  await first;
});

it('the queue that is full refuses a call at once, unless a refresh can go; a refresh is dropped', async () => {
  const { registry, clock, source } = answering({ concurrency: 1, maxQueued: 1 });
  for (const key of ['due-1', 'due-2']) await registry.getToken(key);
  clock.advance(85_000);
  source.script(undefined);
  const first = registry.getToken('first').catch(() => {});
  await settle();
  await registry.getToken('due-1');
  await registry.getToken('due-2'); // No place for its refresh.
  expect(registry.stats().queued).toBe(1);
  const call = registry.getToken('call').catch(() => {}); // Takes the place of the first refresh.
  expect([registry.stats().queued, registry.describe('due-1').phase]).toEqual([1, 'refresh-due']);
  expect((await errorOf(registry.getToken('one more'))).code).toBe('queue_full');
  await shut(registry, clock);
  await Promise.all([first, call]);
});

it.each(['a quota', 'an open circuit'])(
  'the queue that is full refuses a call which %s would hold back',
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

describe('a request that is sent again', () => {
  it('settles its callers once, with the outcome of the second one', async () => {
    const { registry, clock, source } = answering();
    for (const key of keys(10)) await registry.getToken(key);
    source.script((call, index) => (index === 10 ? call.fail(down()) : call.succeed()));
    const calls = [registry.getToken('a'), registry.getToken('a')];
    await settle();
    expect(registry.stats()).toMatchObject({ queued: 1, inFlight: 0, waiting: 2, failures: 1 });
    clock.advance(99);
    await settle();
    expect(source.countFor('a')).toBe(1);
    clock.advance(1);
    const [one, two] = await Promise.all(calls);
    expect([one === two, source.countFor('a')]).toEqual([true, 2]);
    expect(registry.describe('a').code).toBeUndefined();
    await registry.close();
  });

  it('a request that is sent again waits for its turn no longer than is left of maxQueueMs', async () => {
    const { registry, clock, source } = answering({ concurrency: 1, maxQueueMs: 800 });
    for (const key of keys(10)) await registry.getToken(key);
    source.script((call) => (call.accessKey === 'a' ? call.fail(down()) : undefined));
    const call = errorOf(registry.getToken('a'));
    await settle();
    const blocking = registry.getToken('blocking').catch(() => {});
    await settle();
    const startMs = clock.monotonic();
    expect((await asTimePasses(call, clock, 100)).code).toBe('queue_timeout');
    expect(clock.monotonic() - startMs).toBe(800);
    await shut(registry, clock);
    await blocking;
  });

  it('a request that is sent again is dropped when its callers leave in the meantime', async () => {
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
});

describe('an open circuit', () => {
  const outage = (retryAfterMs?: number) =>
    new OwnerTokenError('endpoint_unavailable', 'down', { failureScope: 'endpoint', retryAfterMs });

  it('an open circuit makes calls wait if its pause ends within a second, and refuses them otherwise, refreshes too', async () => {
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

  it('an open circuit refuses the calls that are queued when it opens, and lets sent requests end', async () => {
    const { registry, source } = scripted({ concurrency: 2 });
    const calls = keys(5).map((key) =>
      registry.getToken(key).then(
        () => 'served',
        ({ code }) => code,
      ),
    );
    await settle();
    source.call(0).fail(outage(60_000));
    await settle();
    source.call(1).succeed();
    expect(await Promise.all(calls)).toEqual([
      'endpoint_unavailable',
      'served',
      ...Array(3).fill('endpoint_unavailable'),
    ]);
    expect(source.calls).toHaveLength(2);
    await registry.close();
  });

  it('an open circuit is tested by a refresh of an owner that succeeded lately, in nobody’s async context', async () => {
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

  it('an open circuit is no longer tested by an owner that was forgotten, or is busy', async () => {
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

it('a registry that waits for nothing has no timer', async () => {
  const { registry, clock } = answering();
  await Promise.all(keys(20).map((key) => asTimePasses(registry.getToken(key), clock, 10)));
  await settle();
  clock.advance(1_000);
  await settle();
  expect(clock.pendingTimers).toBe(0);
});

it('a permit whose call has ended does nothing', async () => {
  let permit: RequestPermit | undefined;
  const source: TokenSource = {
    requestToken: async (_, request) => {
      permit = request.permit;
      return { token: 'opaque', response: { expires_in: 3_600 } };
    },
  };
  await using registry = new OwnerTokenRegistry({ source });
  await registry.getToken('a');
  permit?.release();
  await permit?.take();
  expect(registry.stats()).toMatchObject({ inFlight: 0, queued: 0 });
});
