/** D. Hangs, poison, cancellation. D1 at the endpoint, each way of hanging over real sockets: `endpoint-deadline.test.ts`. */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { describe, expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/index.ts';
import { LoopbackService, silence, token } from '../helpers/loopback-service.ts';
import { settle } from '../helpers/manual-clock.ts';
import { callAtOnce, errorOf, isSettled, keys, overHttp, scripted, shut, tally } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';

const DEADLINE_MS = 10_000;

it('D1 a hung request is over by its deadline for all its callers, and the next call works', async () => {
  await using service = await LoopbackService.start();
  service.next(silence());
  const { registry, clock } = overHttp(service);
  const waiting = callAtOnce(100, registry, 'key-1');
  await service.arrived(1);
  clock.advance(DEADLINE_MS - 1);
  expect(await isSettled(waiting)).toBe(false);
  clock.advance(1);
  expect(tally(await waiting).codes).toEqual({ endpoint_unavailable: 100 });
  clock.advance(1_000);
  expect((await registry.getToken('key-1')).value).toBe('token-2-of-key-1');
  expect(service.calls).toHaveLength(2);
  await registry.close();
});

it('D2 a rejected request is never cached as a promise: the next attempt is a new one', async () => {
  await using service = await LoopbackService.start();
  const { registry, clock } = overHttp(service);
  service.next((call) => call.socket.resetAndDestroy());
  const first = await errorOf(registry.getToken('key-1'));
  const refused = await errorOf(registry.getToken('key-1'));
  expect(refused).not.toBe(first);
  expect(refused.code).toBe(first.code);
  expect(await errorOf(registry.getToken('key-1'))).not.toBe(refused);
  clock.advance(1_000);
  expect((await registry.getToken('key-1')).value).toBe('token-2-of-key-1');
  expect(await registry.getToken('key-1')).toBe(registry.peek('key-1'));
  await registry.close();
});

describe('D3', () => {
  it.each([2, 4, 16])(
    '%i owners hang with that concurrency before any success: the others wait for one deadline, then hardly at all',
    async (concurrency) => {
      const { registry, clock, source } = scripted({ concurrency, maxQueueMs: 15_000 });
      source.script((call) => {
        if (!call.accessKey.startsWith('hung')) return void clock.setTimeout(() => call.succeed(), 50);
        clock.setTimeout(() => call.fail(new OwnerTokenError('endpoint_unavailable', 'no response')), DEADLINE_MS);
      });
      const others: { atMs: number; tookMs: number; error?: unknown }[] = [];
      for (let atMs = 0; atMs < 60_000; atMs += 50) {
        if (atMs % 100 === 0) for (const key of keys(concurrency)) registry.getToken(`hung-${key}`).catch(() => {});
        if (atMs % 1_000 === 0) {
          registry.getToken(`other-${atMs}`).then(
            () => others.push({ atMs, tookMs: clock.monotonic() - atMs }),
            (error: unknown) => others.push({ atMs, tookMs: clock.monotonic() - atMs, error }),
          );
        }
        await settle();
        clock.advance(50);
      }
      expect(others.filter(({ error }) => error)).toEqual([]);
      expect(Math.max(...others.map(({ tookMs }) => tookMs))).toBeLessThanOrEqual(DEADLINE_MS + 1_000);
      const late = others.filter(({ atMs }) => atMs > DEADLINE_MS);
      expect(late.length).toBeGreaterThan(40);
      expect(Math.max(...late.map(({ tookMs }) => tookMs))).toBeLessThanOrEqual(1_000 + 100);
      await shut(registry, clock);
    },
  );
});

describe('D4', () => {
  const left = new Error('the caller left');

  it('the first of two waiters aborts: the second is served, with one POST', async () => {
    await using service = await LoopbackService.start();
    service.always(silence());
    const { registry } = overHttp(service);
    const caller = new AbortController();
    const first = registry.getToken('key-1', { signal: caller.signal });
    const second = registry.getToken('key-1');
    const post = await service.arrived(1);
    caller.abort(left);
    await expect(first).rejects.toBe(left);
    post.answer(token());
    expect((await second).value).toBe('token-1-of-key-1');
    expect(service.calls).toHaveLength(1);
    await registry.close();
  });

  it('a signal that is already aborted joins and sends no request, and rejects even if a token is cached', async () => {
    const { registry, source } = scripted({}, ScriptedSource.answering());
    const signal = AbortSignal.abort(left);
    await expect(registry.getToken('key-1', { signal })).rejects.toBe(left);
    expect(source.calls).toHaveLength(0);
    await registry.getToken('key-1');
    await expect(registry.getToken('key-1', { signal })).rejects.toBe(left);
  });

  it('all abort while queued: nothing is sent', async () => {
    await using service = await LoopbackService.start();
    service.always(silence());
    const { registry } = overHttp(service, { concurrency: 1 });
    const first = registry.getToken('key-1');
    await service.arrived(1);
    const caller = new AbortController();
    const queued = keys(20)
      .slice(1)
      .flatMap((key) => [1, 2].map(() => registry.getToken(key, { signal: caller.signal })));
    expect(registry.stats()).toMatchObject({ queued: 19 });
    caller.abort(left);
    expect((await Promise.allSettled(queued)).every((outcome) => outcome.status === 'rejected')).toBe(true);
    expect(registry.stats()).toMatchObject({ queued: 0, waiting: 1 });
    service.calls[0]?.answer(token());
    await first;
    await registry.getToken('key-1');
    expect(service.calls).toHaveLength(1);
    await registry.close();
  });

  it('the only caller aborts right after its call: nothing is sent either, and the place is free', async () => {
    const { registry, source } = scripted({ concurrency: 1 });
    const caller = new AbortController();
    const called = registry.getToken('key-1', { signal: caller.signal });
    caller.abort(left);
    await expect(called).rejects.toBe(left);
    await settle();
    expect(source.calls).toHaveLength(0);
    expect(registry.stats()).toMatchObject({ inFlight: 0, queued: 0, waiting: 0 });
    const next = registry.getToken('key-2');
    await settle();
    source.call(0).succeed();
    expect((await next).value).toBe('token-1-of-key-2');
  });

  it('all abort once it is sent: it is finished, and kept', async () => {
    const { registry, source } = scripted();
    const caller = new AbortController();
    const called = registry.getToken('key-1', { signal: caller.signal });
    await settle();
    caller.abort(left);
    await expect(called).rejects.toBe(left);
    expect(source.call(0).request.signal.aborted).toBe(false);
    const joined = registry.getToken('key-1');
    source.call(0).succeed();
    expect(await joined).toBe(await registry.getToken('key-1'));
    expect(source.calls).toHaveLength(1);
  });
});

it('D5 maxOwners 2 and three owners in flight: all three are served with their own', async () => {
  await using service = await LoopbackService.start();
  service.always(silence());
  const { registry } = overHttp(service, { maxOwners: 2 });
  const owners = keys(3);
  const calls = owners.map((key) => registry.getToken(key));
  await service.arrived(3);
  const joiners = owners.map((key) => registry.getToken(key));
  for (const call of [...service.calls].reverse()) call.answer(token());
  expect((await Promise.all(calls)).map(({ value }) => value.replace(/^.*-of-/, ''))).toEqual(owners);
  expect(await Promise.all(joiners)).toEqual(await Promise.all(calls));
  expect(registry.stats().owners).toBe(2);
  await registry.close();
});

it('D5 an owner that is evicted during its refresh is still served, and keeps the answer', async () => {
  const source = ScriptedSource.answering(100);
  const { registry, clock } = scripted({ maxOwners: 2 }, source);
  const held = await registry.getToken('key-1');
  clock.advance(80_000);
  source.script(undefined);
  await registry.getToken('key-1');
  await settle();
  source.script((call) => call.succeed({ response: { expires_in: 100 } }));
  for (const key of ['key-2', 'key-3']) await registry.getToken(key);
  const before = source.calls.length;
  expect(registry.peek('key-1')).toBe(held);
  expect(await registry.getToken('key-1')).toBe(held);
  source.call(1).succeed({ response: { expires_in: 100 } });
  await settle();
  expect((await registry.getToken('key-1')).value).not.toBe(held.value);
  expect(source.calls).toHaveLength(before);
});

describe('D6', () => {
  it.each(['forget', 'forgetAll'] as const)('%s during a request: its late answer is not stored', async (what) => {
    const source = ScriptedSource.answering(100);
    const { registry, clock } = scripted({}, source);
    await registry.getToken('key-1');
    clock.advance(80_000);
    source.script(undefined);
    await registry.getToken('key-1');
    await settle();
    if (what === 'forget') expect(registry.forget('key-1')).toBe(true);
    else registry.forgetAll();
    source.call(1).succeed({ response: { expires_in: 100 } });
    await settle();
    expect(registry.peek('key-1')).toBeUndefined();
    const next = registry.getToken('key-1');
    await settle();
    source.call(2).succeed();
    expect((await next).value).toBe('token-3-of-key-1');
  });

  it('callers that wait when their owner is forgotten are still served, by that request', async () => {
    const { registry, source } = scripted();
    const waiting = registry.getToken('key-1');
    await settle();
    expect(registry.forget('key-1')).toBe(true);
    expect(registry.describe('key-1')).toEqual({ phase: 'empty' });
    source.call(0).succeed();
    expect((await waiting).value).toBe('token-1-of-key-1');
    expect(registry.peek('key-1')).toBeUndefined();
    expect(registry.stats()).toMatchObject({ owners: 0, inFlight: 0 });
  });

  it('a request that fails after its owner was forgotten pauses nobody, and reports no pause', async () => {
    const { registry, source } = scripted();
    const messages: unknown[] = [];
    const record = (message: unknown) => messages.push(message);
    subscribe('owner-token-registry:pause', record);
    const waiting = registry.getToken('key-1');
    await settle();
    registry.forget('key-1');
    source.call(0).fail(new OwnerTokenError('endpoint_unavailable', 'no response'));
    expect((await errorOf(waiting)).retryAtMs).toBeUndefined();
    unsubscribe('owner-token-registry:pause', record);
    expect(messages).toEqual([]);
    const next = registry.getToken('key-1');
    await settle();
    source.call(1).succeed();
    await next;
  });
});
