/** The life of a token request beside what the guarantees say of it, as the source and its callers see it. */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { describe, expect, it } from 'vitest';
import { OwnerTokenError, OwnerTokenRegistry, type RequestMessage } from '../../../src/index.ts';
import { shortNames } from '../../helpers/log-lines.ts';
import { asTimePasses, type ManualClock, settle } from '../../helpers/manual-clock.ts';
import { answering, errorOf, isSettled, issueAfter, keys, scripted, shut } from '../../helpers/registries.ts';
import type { ScriptedCall } from '../../helpers/scripted-source.ts';

const down = () => new OwnerTokenError('endpoint_unavailable', 'down', { status: 503 });

describe('a call with a rejected token', () => {
  it('that ends while the call is queued does not get it', async () => {
    const { registry, clock } = answering({ requestsPerSecond: 0.1 });
    const token = await registry.getToken('a');
    clock.advance(94_500);
    await registry.getToken('b');
    registry.reject('a', token);
    const call = registry.getToken('a');
    clock.advance(1_000);
    expect(await isSettled(call)).toBe(false);
    clock.advance(9_000);
    expect((await call).value).toBe('token-3-of-a');
  });

  it('waits for the answer once its request is sent, also if another call joined it in the queue', async () => {
    const { registry, clock, source } = answering({ requestsPerSecond: 2 });
    const token = await registry.getToken('a');
    clock.advance(1_000);
    await registry.getToken('b');
    source.script(undefined);
    registry.reject('a', token);
    const calls = [registry.getToken('a'), registry.getToken('a')];
    clock.advance(500);
    await settle();
    expect(source.countFor('a')).toBe(2);
    clock.advance(5_000);
    expect(await Promise.all(calls.map(isSettled))).toEqual([false, false]);
    source.call(-1).succeed();
    for (const call of calls) expect((await call).value).toBe('token-3-of-a');
  });

  it('gets it if its retry is still queued a second after the call', async () => {
    const { registry, clock, source } = answering({ requestsPerSecond: 0.5 });
    for (const key of keys(10)) await asTimePasses(registry.getToken(key), clock, 500);
    clock.advance(2_000);
    source.script((call) => call.fail(down()));
    const token = registry.peek('key-1');
    registry.reject('key-1', token ?? '');
    const call = registry.getToken('key-1');
    await settle();
    expect(source.countFor('key-1')).toBe(2);
    for (const ms of [500, 499]) {
      clock.advance(ms);
      expect(await isSettled(call)).toBe(false);
    }
    clock.advance(1);
    expect(await call).toBe(token);
    await shut(registry, clock);
  });
});

it('a refresh is not begun if the queue is full: one that is queued keeps its place', async () => {
  const { registry, clock, source } = answering({ concurrency: 1, maxQueued: 1 });
  for (const key of ['a', 'b']) await registry.getToken(key);
  clock.advance(85_000);
  source.script(undefined);
  const first = registry.getToken('first');
  for (const key of ['a', 'b']) await registry.getToken(key);
  source.call(-1).succeed();
  await first;
  await settle();
  expect(source.call(-1).accessKey).toBe('a');
  source.call(-1).succeed();
  await settle();
  expect(source.countFor('b')).toBe(1);
});

it('a request that waits for its retry lets the next one start', async () => {
  const { registry, clock, source } = answering({ concurrency: 1 });
  for (const key of keys(10)) await registry.getToken(key);
  source.script(undefined);
  const calls = ['a', 'b'].map((key) => registry.getToken(key));
  await settle();
  source.call(-1).fail(down());
  await settle();
  expect(source.call(-1).accessKey).toBe('b');
  source.script((call) => call.succeed());
  source.call(-1).succeed();
  expect(await asTimePasses(Promise.all(calls), clock, 50)).toHaveLength(2);
});

it('an inconclusive request that is repeated at once counts against the quota', async () => {
  const { registry, clock, source } = scripted({ requestsPerSecond: 1 });
  const calls = [registry.getToken('a')];
  await settle();
  clock.advance(1_000);
  clock.jumpWall(3_600_000);
  source.call(0).fail(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }));
  await settle();
  calls.push(registry.getToken('b'));
  await settle();
  expect(source.calls.map(({ accessKey }) => accessKey)).toEqual(['a', 'a']);
  clock.advance(1_000);
  await settle();
  expect(source.call(-1).accessKey).toBe('b');
  for (const index of [1, 2]) source.call(index).succeed();
  await Promise.all(calls);
});

it('an inconclusive request is not repeated while the circuit is open', async () => {
  const { registry, clock, source } = scripted();
  const call = registry.getToken('a');
  await settle();
  const outage = { failureScope: 'endpoint' } as const;
  source.script((each) => each.fail(new OwnerTokenError('endpoint_unavailable', 'down', outage)));
  await errorOf(registry.getToken('b'));
  clock.jumpWall(3_600_000);
  source.call(0).fail(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }));
  expect((await errorOf(call)).code).toBe('endpoint_unavailable');
  expect(source.countFor('a')).toBe(1);
});

it('forgetAll forgets which owners failed, so that one more failure is no reason to blame the service', async () => {
  const { registry, source } = scripted();
  source.script((call) => call.fail(new OwnerTokenError('owner_refused', 'no', { status: 401 })));
  for (const key of keys(9)) await errorOf(registry.getToken(key));
  registry.forgetAll();
  expect((await errorOf(registry.getToken('key-10'))).failureScope).toBe('owner');
});

it('forgetAll forgets the canaries, so four owners that fail are not attributed to the service', async () => {
  const { registry, source } = answering({});
  await registry.getToken('canary');
  registry.forgetAll();
  source.script((call) => call.fail(new OwnerTokenError('owner_refused', 'no', { status: 401 })));
  for (const key of keys(4)) expect((await errorOf(registry.getToken(key))).failureScope).toBe('owner');
});

it('a refused call counts for its owner if that pause ends later than the open circuit’s', async () => {
  const { registry, source } = scripted();
  source.script((call) => call.fail(new OwnerTokenError('rate_limited', 'later', { retryAfterMs: 60_000 })));
  await errorOf(registry.getToken('ill'));
  const outage = { failureScope: 'endpoint', retryAfterMs: 5_000 } as const;
  source.script((call) => call.fail(new OwnerTokenError('endpoint_unavailable', 'down', outage)));
  await errorOf(registry.getToken('a'));
  expect((await errorOf(registry.getToken('ill'))).code).toBe('rate_limited');
  expect(registry.stats().refused).toEqual({ owner: 1, client: 0, endpoint: 0 });
  await errorOf(registry.getToken('b'));
  expect(registry.stats().refused).toEqual({ owner: 1, client: 0, endpoint: 1 });
});

it('a refresh that is sent after its token has ended has the reason expired', async () => {
  const { registry, clock, source } = answering({ requestsPerSecond: 0.1 });
  await registry.getToken('a');
  clock.advance(90_000);
  await registry.getToken('b');
  await registry.getToken('a');
  clock.advance(10_000);
  await settle();
  const { accessKey, request } = source.call(-1);
  expect([accessKey, request.reason, request.held]).toEqual(['a', 'expired', undefined]);
});

it('a refresh is aborted if its expired token evicts an owner, and the logger that reports this closes the registry', async () => {
  const close = (line: object) => void (shortNames(line).event === 'owner.evicted' && registry.close());
  const logger = { debug: close, info: () => {}, warn: () => {} };
  const { registry, clock, source } = answering({ requestsPerSecond: 0.1, maxOwners: 1, logger });
  await registry.getToken('a');
  clock.advance(89_000);
  source.script((call) => call.fail(new OwnerTokenError('owner_refused', 'no', { status: 401 })));
  await errorOf(registry.getToken('b'));
  source.script(undefined);
  await registry.getToken('a');
  clock.advance(10_000);
  await settle();
  expect(source.call(-1)).toMatchObject({ accessKey: 'a', request: { reason: 'expired', signal: { aborted: true } } });
});

it('a request that fails again after its retry has failed, whatever is left of the budget', async () => {
  const { registry, clock, source } = answering({});
  for (const key of keys(40)) await registry.getToken(key);
  source.script((call) => call.fail(down()));
  await asTimePasses(errorOf(registry.getToken('a')), clock, 50);
  expect(source.countFor('a')).toBe(2);
});

it('a call’s request that is the trial of an open circuit is not reported as a canary', async () => {
  const { registry, clock, source } = scripted();
  const outage = { failureScope: 'endpoint', retryAfterMs: 2_000 } as const;
  source.script((call) => call.fail(new OwnerTokenError('endpoint_unavailable', 'down', outage)));
  await errorOf(registry.getToken('a'));
  clock.advance(2_000);
  source.script((call) => call.succeed());
  const messages: RequestMessage[] = [];
  const observe = (message: unknown) => void messages.push(message as RequestMessage);
  subscribe('tracing:owner-token-registry:request:asyncEnd', observe);
  await registry.getToken('b');
  unsubscribe('tracing:owner-token-registry:request:asyncEnd', observe);
  expect(messages).toHaveLength(1);
  expect(messages[0]?.canary).toBeUndefined();
});

it.each<[string, (call: ScriptedCall, clock: ManualClock) => void]>([
  ['a failure that would be retried', (call) => call.fail(down())],
  [
    'an outcome that would be asked for again',
    (call, clock) => {
      clock.advance(60_000);
      call.fail(down());
    },
  ],
])('a subscriber that closes the registry when told of %s ends the request', async (_, fail) => {
  const { registry, clock, source } = answering({});
  for (const key of keys(20)) await registry.getToken(key);
  source.script(undefined);
  const call = errorOf(registry.getToken('a'));
  await settle();
  const close = () => void registry.close();
  subscribe('tracing:owner-token-registry:request:asyncEnd', close);
  fail(source.call(-1), clock);
  const error = await call;
  await settle();
  unsubscribe('tracing:owner-token-registry:request:asyncEnd', close);
  expect(error).toMatchObject({ code: 'closed' });
  expect(registry.stats()).toMatchObject({ owners: 0, queued: 0, inFlight: 0 });
  clock.advance(60_000);
  await settle();
  expect(source.countFor('a')).toBe(1);
});

describe('a retry', () => {
  /** Ten tokens pay for a retry. One request runs at once, until 900 ms have passed, then a request that fails, then another. */
  async function failing(maxQueueMs: number) {
    const scene = answering({ concurrency: 1, maxQueueMs });
    for (const key of keys(10)) await scene.registry.getToken(key);
    scene.source.script(undefined);
    void scene.registry.getToken('busy').catch(() => {});
    const call = errorOf(scene.registry.getToken('a'));
    void scene.registry.getToken('next').catch(() => {});
    await settle();
    scene.clock.advance(900);
    scene.source.call(-1).succeed();
    await settle();
    expect(scene.source.call(-1).accessKey).toBe('a');
    scene.source.call(-1).fail(down());
    await settle();
    // Waits ahead of the retry, and began later.
    void scene.registry.getToken('later').catch(() => {});
    return { ...scene, call };
  }

  it('does not begin maxQueueMs anew: it counts from the first attempt', async () => {
    const { registry, clock, call, source } = await failing(1_500);
    clock.advance(599);
    expect([await isSettled(call), registry.stats().queued]).toEqual([false, 2]);
    clock.advance(1);
    expect((await call).code).toBe('queue_timeout');
    expect(source.countFor('a')).toBe(1);
    await shut(registry, clock);
  });

  it('is refused at once if maxQueueMs has passed before it is due', async () => {
    const { registry, clock, call } = await failing(950);
    clock.advance(100);
    expect((await call).code).toBe('queue_timeout');
    expect(registry.stats().queued).toBe(1);
    await shut(registry, clock);
  });
});

describe('a call with a rejected token at the concurrency limit', () => {
  /** Two requests that never end take both places. */
  async function crowded(requestsPerSecond?: number) {
    const scene = answering({ concurrency: 1, requestsPerSecond });
    const rejectNext = async () => scene.registry.reject('a', await scene.registry.getToken('a'));
    const crowd = async () => {
      scene.source.script((call) => call.request.yieldPlace?.());
      for (const key of ['busy', 'busier']) {
        scene.registry.getToken(key).catch(() => {});
        await settle();
        scene.clock.advance(1);
      }
      await settle();
      expect(scene.registry.stats().slow).toBe(2);
    };
    return { ...scene, rejectNext, crowd };
  }

  it.each([
    ['', undefined],
    [', even with a quota that delays nothing', 1_000],
  ])('waits for the new token after a first rejection, however long%s', async (_, requestsPerSecond) => {
    const { registry, clock, rejectNext, crowd } = await crowded(requestsPerSecond);
    await rejectNext();
    await crowd();
    const call = registry.getToken('a');
    clock.advance(20_000);
    expect(await isSettled(call)).toBe(false);
    await shut(registry, clock);
    await call.catch(() => {});
  });

  it('gets the rejected one after a second within a row of rejections', async () => {
    const { registry, clock, rejectNext, crowd } = await crowded();
    await rejectNext();
    await rejectNext();
    clock.advance(10_000);
    await rejectNext();
    await crowd();
    const call = registry.getToken('a');
    clock.advance(999);
    expect(await isSettled(call)).toBe(false);
    clock.advance(1);
    expect((await call).value).toBe('token-2-of-a');
    expect(await registry.getToken('a')).toBe(await call);
    await shut(registry, clock);
  });
});

it('a slow service is in the statistics, and logged once when it begins and once when it ends', async () => {
  const lines: unknown[] = [];
  const warn = (fields: object, message: string) => lines.push([message, fields]);
  const scene = scripted({ logger: { debug() {}, info() {}, warn } });
  const { registry, clock } = scene;
  await issueAfter(500, 20, scene);
  const normalMs = clock.now();
  await issueAfter(5_000, 4, scene);
  expect(registry.stats().slowService).toBeUndefined();
  await issueAfter(5_000, 12, scene);
  const { sinceMs = 0, ...slow } = registry.stats().slowService ?? {};
  expect([slow, (sinceMs - normalMs) / 1_000]).toEqual([{ latencyMs: 4992, times: 10 }, 15]);
  await issueAfter(500, 100, scene);
  expect(registry.stats().slowService).toBeUndefined();
  expect(lines).toMatchObject([
    ['tokens take much longer than usual', { 'owner_token.event': 'service.slow', 'owner_token.usual_ms': 500 }],
    ['tokens take as long as usual again', { 'owner_token.event': 'service.normal', 'owner_token.usual_ms': 500 }],
  ]);
});

it('a service is slow before ten tokens too, but nobody can say how many times as long as usual', async () => {
  const scene = scripted();
  const { registry, clock } = scene;
  await issueAfter(6_000, 5, scene);
  expect(registry.stats().slowService).toEqual({ sinceMs: clock.now() - 24_000, latencyMs: 6_000 });
});

it('a source without forget and close is asked for neither', async () => {
  const warnings: string[] = [];
  const logger = { debug() {}, info() {}, warn: (_fields: object, message: string) => void warnings.push(message) };
  const source = { requestToken: async () => ({ token: 'a-token', response: { expires_in: 100 } }) };
  const registry = new OwnerTokenRegistry({ source, logger });
  await registry.getToken('a');
  registry.forget('a');
  await registry.close();
  expect(warnings).toEqual([]);
});
