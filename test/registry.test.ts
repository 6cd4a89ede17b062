import { describe, expect, it } from 'vitest';
import { OwnerTokenRegistry, type OwnerTokenRegistryOptions } from '../src/index.ts';
import { ManualClock, settle } from './helpers/manual-clock.ts';
import { ScriptedSource } from './helpers/scripted-source.ts';

function make(source: ScriptedSource, options: Partial<OwnerTokenRegistryOptions> = {}) {
  const clock = new ManualClock();
  const registry = new OwnerTokenRegistry({ source, clock, random: () => 0.5, ...options });
  return { clock, registry };
}

describe('getToken', () => {
  it('asks once for many callers of a cold owner, and serves all later ones from what is held', async () => {
    const source = ScriptedSource.answering();
    const { registry } = make(source);
    const tokens = await Promise.all(Array.from({ length: 1000 }, () => registry.getToken('key-1')));
    expect(new Set(tokens).size).toBe(1);
    await registry.getToken('key-1');
    expect(source.calls).toHaveLength(1);
    expect(registry.stats()).toMatchObject({ owners: 1, usable: 1, hits: 1, joined: 999, requests: 1, inFlight: 0 });
  });

  it('serves past the refresh point and asks once in the background', async () => {
    const source = ScriptedSource.answering(100);
    const { registry, clock } = make(source);
    const first = await registry.getToken('key-1');
    clock.advance(70_000);
    source.script(undefined);
    expect(await registry.getToken('key-1')).toBe(first);
    expect(await registry.getToken('key-1')).toBe(first);
    expect(source.calls).toHaveLength(2);
    expect(source.call(1).request).toMatchObject({ reason: 'refresh', held: first });
    source.call(1).succeed({ response: { expires_in: 100 } });
    await settle();
    expect((await registry.getToken('key-1')).value).not.toBe(first.value);
  });

  it('shares a failure, pauses the owner alone, and refuses at once until the pause is over', async () => {
    const source = new ScriptedSource((call) => call.fail(new Error('no')));
    const { registry, clock } = make(source);
    const outcomes = await Promise.allSettled(Array.from({ length: 10 }, () => registry.getToken('key-1')));
    expect(outcomes.every((outcome) => outcome.status === 'rejected')).toBe(true);
    expect(source.calls).toHaveLength(1);
    await expect(registry.getToken('key-1')).rejects.toMatchObject({
      code: 'source_failed',
      failureScope: 'owner',
      retryAtMs: clock.now() + 750,
    });
    expect(source.calls).toHaveLength(1);
    clock.advance(750);
    source.script((call) => call.succeed());
    await registry.getToken('key-1');
    expect(source.calls).toHaveLength(2);
  });
});
