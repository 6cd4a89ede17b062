/** `stats().withoutService`: who counts, from when on, and until when. */

import { describe, expect, it } from 'vitest';
import { OwnerTokenError, type OwnerTokenRegistry } from '../../../src/index.ts';
import { WithoutService } from '../../../src/registry/owners/without-service.ts';
import { settle } from '../../helpers/manual-clock.ts';
import { answering, callAtOnce, errorOf, keys, scripted } from '../../helpers/registries.ts';
import type { ScriptedCall } from '../../helpers/scripted-source.ts';
import { createSlot } from '../../helpers/slots.ts';

const MIN = 60_000;
const HOUR = 60 * MIN;
const REVOKED = new OwnerTokenError('owner_refused', 'no', { oauthError: 'invalid_grant' });
const down = (retryAfterMs = 5_000) =>
  new OwnerTokenError('endpoint_unavailable', 'down', { failureScope: 'endpoint', retryAfterMs, status: 502 });

const refuse = (call: ScriptedCall) => call.fail(REVOKED);
const count = (registry: OwnerTokenRegistry) => registry.stats().withoutService.owners;
const stateOf = (registry: OwnerTokenRegistry) => registry.owners()[0]?.withoutService;

describe('an owner is without service', () => {
  it('from its first call that fails until it gets a token', async () => {
    const { registry, clock, source } = answering();
    source.script(refuse);
    expect([count(registry), stateOf(registry)]).toEqual([0, undefined]);
    const sinceMs = clock.now();
    await callAtOnce(2, registry, 'a');
    clock.advance(MIN);
    await errorOf(registry.getToken('a'));
    expect(registry.stats().withoutService).toEqual({ owners: 1 });
    expect(stateOf(registry)).toEqual({ sinceMs, failedAtMs: sinceMs + MIN, hasLapsed: false });
    source.script((call) => call.succeed());
    registry.resume('a');
    expect(count(registry)).toBe(1);
    await registry.getToken('a');
    expect([count(registry), stateOf(registry)]).toEqual([0, undefined]);
  });

  it('until it is forgotten, and not again by calls that still waited then', async () => {
    const { registry, source } = scripted({ concurrency: 1 });
    source.script(refuse);
    await errorOf(registry.getToken('a'));
    registry.forget('a');
    expect(count(registry)).toBe(0);
    source.script(undefined);
    const calls = [registry.getToken('sent'), registry.getToken('queued')].map(errorOf);
    await settle();
    for (const key of ['sent', 'queued']) registry.forget(key);
    source.call(1).fail(down());
    await Promise.all(calls);
    expect(count(registry)).toBe(0);
    await errorOf(registry.getToken('refused'));
    expect(count(registry)).toBe(1);
    registry.forgetAll();
    expect(count(registry)).toBe(0);
  });

  it('if an open circuit or the queue refuses its call, and is found by a walk over all owners', async () => {
    const { registry, clock, source } = answering({ concurrency: 1, maxQueued: 1 });
    source.script((call) => call.fail(down()));
    await errorOf(registry.getToken('failed'));
    await errorOf(registry.getToken('refused'));
    expect(count(registry)).toBe(2);
    registry.resume();
    source.script(undefined);
    const waiting = ['sent', 'queued'].map((key) => registry.getToken(key).catch(() => {}));
    expect((await errorOf(registry.getToken('full'))).code).toBe('queue_full');
    expect(count(registry)).toBe(3);
    const walked = [...registry.eachOwner()].filter(({ withoutService }) => withoutService);
    const reasons = walked.map(({ failure }) => `${failure?.code} ${failure?.status}`).sort();
    expect(reasons).toEqual(['endpoint_unavailable 502', 'endpoint_unavailable 502', 'queue_full undefined']);
    const failed = walked.find(({ failure }) => failure?.code === 'queue_full');
    expect(failed?.owner).toBe(registry.fingerprint('full'));
    expect(failed?.failure).toMatchObject({
      sinceMs: clock.now(),
      failedAtMs: clock.now(),
      retryAtMs: clock.now(),
      failures: 1,
    });
    await registry.close({ timeoutMs: 0 });
    await Promise.all(waiting);
    expect(count(registry)).toBe(0);
  });

  it('not if a token serves its other calls, or if nobody waits for the request', async () => {
    const { registry, clock, source } = answering();
    await registry.getToken('a');
    clock.advance(85_000);
    source.script(refuse);
    await registry.getToken('a');
    await errorOf(registry.getToken('a', { minValidityMs: 50_000 }));
    await settle();
    expect(registry.stats()).toMatchObject({ failures: 1, withoutService: { owners: 0 } });
    clock.advance(20_000);
    expect(count(registry)).toBe(0);
    await errorOf(registry.getToken('a'));
    expect(count(registry)).toBe(1);
  });

  it('not if its caller gives up, because its request may still bring a token', async () => {
    const { registry, clock } = scripted();
    const leaving = new AbortController();
    const call = registry.getToken('a', { signal: leaving.signal }).catch(() => {});
    clock.advance(5_000);
    leaving.abort();
    await call;
    expect(registry.stats()).toMatchObject({ abandonedCalls: 1, withoutService: { owners: 0 } });
    await registry.close({ timeoutMs: 0 });
  });
});

describe('an owner whose token the API rejected', () => {
  async function rejected() {
    const scene = answering();
    const token = await scene.registry.getToken('a');
    scene.registry.reject('a', token);
    return { ...scene, token };
  }

  it('is without service once its own request is refused, until a new token comes', async () => {
    const { registry, clock, source, token } = await rejected();
    expect(count(registry)).toBe(0);
    source.script(refuse);
    expect(await registry.getToken('a')).toBe(token);
    expect(count(registry)).toBe(1);
    source.script((call) => call.succeed({ token: 'new' }));
    clock.advance(2_000);
    await registry.getToken('a');
    expect(count(registry)).toBe(0);
  });

  it('does not count as one with a token meanwhile, which it has for another while', async () => {
    const { registry, clock, source } = await rejected();
    await registry.getToken('b');
    expect(registry.stats()).toMatchObject({ owners: 2, usable: 2 });
    source.script(refuse);
    await registry.getToken('a');
    expect(registry.stats()).toMatchObject({ owners: 2, usable: 1, withoutService: { owners: 1 } });
    clock.advance(100_000);
    await errorOf(registry.getToken('a'));
    expect(registry.stats()).toMatchObject({ owners: 2, usable: 1, withoutService: { owners: 1 } });
    source.script((call) => call.succeed({ token: 'new' }));
    clock.advance(2 * HOUR);
    await registry.getToken('a');
    expect(registry.stats()).toMatchObject({ owners: 2, usable: 2, withoutService: { owners: 0 } });
  });

  it.each<[string, (registry: OwnerTokenRegistry) => unknown]>([
    ['forgotten', (registry) => registry.forget('a')],
    ['evicted', (registry) => registry.getToken('b')],
  ])('leaves the counts of tokens when it is %s', async (_, leave) => {
    const { registry, source } = answering({ maxOwners: 1 });
    registry.reject('a', await registry.getToken('a'));
    source.script((call) => (call.accessKey === 'a' ? refuse(call) : call.succeed()));
    await registry.getToken('a');
    expect(registry.stats()).toMatchObject({ owners: 1, usable: 0 });
    await leave(registry);
    registry.forget('a');
    const { owners, usable } = registry.stats();
    expect(usable).toBe(owners);
  });

  it('is with service once a call with the old token is accepted', async () => {
    const { registry, source, token } = await rejected();
    source.script(refuse);
    await registry.getToken('a');
    registry.accept('a', token);
    expect(count(registry)).toBe(0);
  });

  it('stays with service if its request fails for another reason, or a pause refuses it', async () => {
    const { registry, source, token } = await rejected();
    source.script((call) => call.fail(down()));
    for (let calls = 0; calls < 2; calls++) expect(await registry.getToken('a')).toBe(token);
    expect(registry.stats()).toMatchObject({ failures: 1, withoutService: { owners: 0 } });
  });
});

describe('an owner that nobody calls for two hours', () => {
  it('lapses: it is counted apart, until it is called again, gets a token or is forgotten', async () => {
    const { registry, clock, source } = answering();
    source.script(refuse);
    const startMs = clock.now();
    for (const key of keys(4)) {
      await errorOf(registry.getToken(key));
      clock.advance(MIN);
    }
    clock.advance(2 * HOUR - 4 * MIN - 1);
    expect(registry.stats().withoutService).toEqual({ owners: 4 });
    clock.advance(1);
    expect(registry.stats().withoutService).toEqual({
      owners: 3,
      lapsed: { owners: 1, firstFailedAtMs: startMs, lastFailedAtMs: startMs },
    });
    clock.advance(HOUR);
    const lapsed = (owners: number, first: number, last: number) => ({
      owners,
      firstFailedAtMs: startMs + first * MIN,
      lastFailedAtMs: startMs + last * MIN,
    });
    expect(registry.stats().withoutService).toEqual({ owners: 0, lapsed: lapsed(4, 0, 3) });
    expect(stateOf(registry)).toEqual({ sinceMs: startMs, failedAtMs: startMs, hasLapsed: true });
    expect([...registry.eachOwner()]).toHaveLength(4);
    await errorOf(registry.getToken('key-4'));
    expect(registry.stats().withoutService).toEqual({ owners: 1, lapsed: lapsed(3, 0, 2) });
    source.script((call) => call.succeed());
    await registry.getToken('key-1');
    expect(registry.stats().withoutService).toEqual({ owners: 1, lapsed: lapsed(2, 1, 2) });
    registry.forget('key-2');
    registry.forget('key-3');
    expect(registry.stats().withoutService).toEqual({ owners: 1 });
  });

  it('does not lapse while a circuit is open', async () => {
    const { registry, clock, source } = answering();
    source.script((call) => call.fail(down(24 * HOUR)));
    await errorOf(registry.getToken('a'));
    clock.advance(3 * HOUR);
    expect(registry.stats().withoutService).toEqual({ owners: 1 });
    registry.resume();
    expect(registry.stats().withoutService).toMatchObject({ owners: 0, lapsed: { owners: 1 } });
  });
});

describe('the list', () => {
  const DOWN = new OwnerTokenError('endpoint_unavailable', 'down');
  /** The count, and how many have lapsed. */
  const sizes = (list: WithoutService) => [list.size, list.lapsed];

  it('holds a number of owners, and as many that have lapsed: the earliest last calls leave first', () => {
    const list = new WithoutService(2);
    const [a, b, c, d, e] = ['a', 'b', 'c', 'd', 'e'].map((owner) => createSlot(`owner_${owner}`));
    const slots = [a, b, c, d, e] as ReturnType<typeof createSlot>[];
    for (const [at, slot] of slots.slice(0, 3).entries()) list.add(slot, at, DOWN);
    expect([...list.slots()]).toEqual([b, c]);
    list.lapse(2 * HOUR + 2);
    expect(sizes(list)).toEqual([0, 2]);
    for (const slot of slots.slice(3)) list.add(slot, 3 * HOUR, DOWN);
    expect(sizes(list)).toEqual([2, 2]);
    list.lapse(5 * HOUR);
    expect(sizes(list)).toEqual([0, 2]);
    expect(slots.map((slot) => list.of(slot)?.hasLapsed)).toEqual([undefined, undefined, undefined, true, true]);
  });

  it('yields each owner once, even if its calls keep failing during the walk', () => {
    const list = new WithoutService(5);
    for (const owner of ['owner_a', 'owner_b', 'owner_c']) list.add(createSlot(owner), 0, DOWN);
    let yielded = 0;
    for (const slot of list.slots()) {
      if (++yielded > 3) break;
      list.add(slot, yielded, DOWN);
    }
    expect(yielded).toBe(3);
  });

  it('keeps its order through random changes, like a sorted array', () => {
    const list = new WithoutService(5);
    const slots = Array.from({ length: 12 }, (_, n) => createSlot(`owner_${n}`));
    let model: { owner: number; atMs: number; hasLapsed: boolean }[] = [];
    for (let step = 0; step < 2_000; step++) {
      const nowMs = step * 10 * MIN;
      const owner = (step * 7 + ((step * step) >> 3)) % 12;
      const slot = slots[owner] as ReturnType<typeof createSlot>;
      model = model.filter((each) => each.owner !== owner);
      if (step % 4 === 3) list.remove(slot.accessKey);
      else {
        list.add(slot, nowMs, DOWN);
        model.push({ owner, atMs: nowMs, hasLapsed: false });
        const current = model.filter(({ hasLapsed }) => !hasLapsed);
        if (current.length > 5) model = model.filter((each) => each !== current[0]);
      }
      if (step % 3 === 0) {
        list.lapse(nowMs);
        model = model.map((each) => ({ ...each, hasLapsed: nowMs - each.atMs >= 2 * HOUR }));
        const lapsed = model.filter(({ hasLapsed }) => hasLapsed);
        model = model.filter((each) => !lapsed.slice(0, -5).includes(each));
      }
      const lapsed = model.filter(({ hasLapsed }) => hasLapsed);
      expect(sizes(list)).toEqual([model.length - lapsed.length, lapsed.length]);
      const [first] = lapsed;
      expect(list.lapsedMs).toEqual(first && { firstMs: first.atMs, lastMs: lapsed.at(-1)?.atMs });
      const current = model.filter(({ hasLapsed }) => !hasLapsed).map((each) => slots[each.owner]);
      expect([...list.slots()]).toEqual(current);
    }
  });
});
