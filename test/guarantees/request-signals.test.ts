/** Each request has a signal of its own, aborted when nothing will use its outcome; callers' signals stay as they are. */

import { getEventListeners, getMaxListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { settle } from '../helpers/manual-clock.ts';
import { keys, scripted } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';

it('the signal of a request is aborted once nobody waits and the token would not be kept; that is no failure', async () => {
  const { registry, source } = scripted();
  const caller = new AbortController();
  const call = registry.getToken('key-1', { signal: caller.signal });
  await settle();
  const { signal } = source.call(0).request;
  registry.forget('key-1');
  expect(signal.aborted).toBe(false);
  caller.abort(new Error('left'));
  await expect(call).rejects.toThrow('left');
  expect(signal.aborted).toBe(true);
  expect(signal.reason).toMatchObject({ name: 'AbortError', message: 'no callers' });
  source.call(0).fail(signal.reason);
  await settle();
  expect(registry.stats()).toMatchObject({ failures: 0, inFlight: 0, owners: 0 });
  expect(registry.describe('key-1').phase).toBe('empty');
  await registry.close();
});

it('the signal of a caller keeps its limit of listeners, and gets one listener for all calls', async () => {
  const { registry, source } = scripted();
  const { signal } = new AbortController();
  const before = getMaxListeners(signal);
  const calls = keys(100).map((key) => registry.getToken(key, { signal }));
  expect(getMaxListeners(signal)).toBe(before);
  expect(getEventListeners(signal, 'abort')).toHaveLength(1);
  source.script((call) => call.succeed());
  for (const call of source.calls) call.succeed();
  await settle();
  for (const call of source.calls) if (!call.settled) call.succeed();
  await Promise.all(calls);
  expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  await registry.close();
});

it('the signal of a caller may be null or undefined, which count as no signal', async () => {
  const { registry } = scripted({}, ScriptedSource.answering());
  const token = await registry.getToken('key-1', { signal: null });
  expect(await registry.getToken('key-1', { signal: undefined })).toBe(token);
  expect(await registry.warmUp(['key-1'], { signal: undefined })).toMatchObject({ ready: 1 });
  await registry.close({ timeoutMs: undefined });
});

it('the signal of a caller once aborted leaves nothing of its call in memory while the request goes on', async () => {
  const { registry, source } = scripted();
  const kept = registry.getToken('key-1');
  const collected: string[] = [];
  const registryOfGone = new FinalizationRegistry<string>((name) => collected.push(name));
  const leave = async () => {
    const caller = new AbortController();
    registryOfGone.register(caller.signal, 'signal');
    const call = registry.getToken('key-1', { signal: caller.signal });
    caller.abort(new Error('left'));
    await expect(call).rejects.toThrow('left');
  };
  await leave();
  expect(registry.stats().waiting).toBe(1);
  const { setFlagsFromString } = await import('node:v8');
  const { runInNewContext } = await import('node:vm');
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  for (let round = 0; round < 50 && collected.length === 0; round++) {
    collect();
    await settle();
  }
  expect(collected).toEqual(['signal']);
  source.call(0).succeed();
  await kept;
  await registry.close();
});

describe('forget and forgetAll', () => {
  it.each(['forget', 'forgetAll'] as const)('withdraw queued requests that nobody waits for: %s', async (method) => {
    const { registry, source, clock } = scripted({ concurrency: 1 }, ScriptedSource.answering(100));
    for (const key of keys(2)) await registry.getToken(key);
    clock.advance(80_000);
    source.script(undefined);
    // The first refresh is sent, the second queued; a caller waits for a third owner.
    for (const key of keys(2)) await registry.getToken(key);
    const waiting = registry.getToken('key-3');
    await settle();
    expect(registry.stats()).toMatchObject({ inFlight: 1, queued: 2 });
    registry[method]('key-2');
    expect(registry.stats()).toMatchObject({ inFlight: 1, queued: 1 });
    source.script((call) => call.succeed());
    source.call(2).succeed();
    expect((await waiting).value).toMatch(/-of-key-3$/);
    expect(source.countFor('key-2')).toBe(1);
    await registry.close();
  });
});
