/** Leases that lapse: slow services, leaders that die, and replicas whose requests hang. */

import { describe, expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import { FleetSource, ModelFleet, type ModelReplica } from '../helpers/model-fleet.ts';
import { seeded } from '../helpers/seeded.mjs';
import { SharedRecordModel } from '../helpers/shared-record-model.ts';

const KEY = 'ACCESS-KEY-1';
const LEASE_MS = 3_000;

interface Call {
  value?: string;
  error?: unknown;
  /** How long it took. */
  ms?: number;
}

function called(fleet: ModelFleet, { registry }: ModelReplica): Call {
  const startedMs = fleet.clock.monotonic();
  const call: Call = {};
  const end = (outcome: Call) => Object.assign(call, outcome, { ms: fleet.clock.monotonic() - startedMs });
  registry.getToken(KEY).then(
    ({ value }) => end({ value }),
    (error: unknown) => end({ error }),
  );
  return call;
}

const replicas = (fleet: ModelFleet, count: number) => Array.from({ length: count }, () => fleet.replica());

const serviceOf = (fleet: ModelFleet, ms: number) =>
  fleet.source.script((call) => void fleet.clock.setTimeout(() => call.succeed(), ms));

/** A replica whose requests get no answer, and time out. */
function hanging(fleet: ModelFleet): ModelReplica {
  const timeOut = () => new OwnerTokenError('endpoint_unavailable', 'no answer');
  const source = new FleetSource((call) => void fleet.clock.setTimeout(() => call.fail(timeOut()), 10_000));
  return fleet.replica({ source });
}

describe('the length of a lease', () => {
  /** A record, and who asks for its lease. */
  function record() {
    let nowMs = 1_900_000_000_000;
    const model = new SharedRecordModel(() => nowMs * 1_000);
    const run = (name: string, ...args: (string | number)[]) => model.run(name, 'k', args.map(String));
    return {
      pass: (ms: number) => {
        nowMs += ms;
      },
      /** @returns its length, and its generation. */
      acquire(call: string, longestMs = 30_000) {
        const [what, , generation] = run('acquire', call, LEASE_MS, 0, 0, 0, 'c', longestMs);
        expect(what).toBe('lead');
        return { ms: Number(model.keys.get('k')?.get('l')) / 1_000 - nowMs, generation: Number(generation) };
      },
      publish: (call: string, generation: number, isLeaseless = 0) =>
        run('publish', call, 'wake', 'k', generation, 'sealed', (nowMs + 1_000) * 1_000, isLeaseless, 'proof'),
      release: (call: string, failure: string) => run('release', call, 'wake', 'k', failure),
      failure: () => model.keys.get('k')?.get('f'),
      nowUs: () => nowMs * 1_000,
    };
  }

  it('doubles each time that it lapses, up to the longest that the caller allows', () => {
    const { acquire, pass } = record();
    for (const expected of [3_000, 6_000, 12_000, 24_000, 30_000, 30_000]) {
      const { ms } = acquire(`after ${expected}`);
      expect(ms).toBe(expected);
      pass(ms);
    }
    expect(acquire('in more of a hurry', 10_000).ms).toBe(10_000);
  });

  it.each([
    [LEASE_MS, 2 * LEASE_MS],
    [2 * LEASE_MS, 2 * LEASE_MS],
    [2 * LEASE_MS + 1, LEASE_MS],
  ])('is doubled for no longer than the lapsed one was long: after %i ms it is %i', (passedMs, expected) => {
    const { acquire, pass } = record();
    acquire('died');
    pass(passedMs);
    expect(acquire('next').ms).toBe(expected);
  });

  it.each([
    ['its late answer', ({ publish }: ReturnType<typeof record>, mine: number) => publish('slow', mine)],
    ['another replica’s answer', ({ publish, nowUs }: ReturnType<typeof record>) => publish('alone', nowUs(), 1)],
    ['its late failure', ({ release }: ReturnType<typeof record>) => release('slow', 'failure')],
  ])('is set back by %s', (_, end) => {
    const at = record();
    const { generation } = at.acquire('slow');
    at.pass(LEASE_MS);
    end(at, generation);
    at.pass(1_500);
    expect(at.acquire('next').ms).toBe(LEASE_MS);
  });

  it('leaves the lease of the next leader alone when the one before answers', () => {
    const at = record();
    const { generation } = at.acquire('slow');
    at.pass(LEASE_MS);
    at.acquire('next');
    expect(at.publish('slow', generation)[0]).toBe('stored');
    at.pass(1_500);
    expect(() => at.acquire('another')).toThrow("to be 'lead'");
  });

  it('covers what it shares: a leader whose lease has lapsed shares no failure', () => {
    const at = record();
    at.acquire('slow');
    at.pass(LEASE_MS);
    expect(at.release('slow', 'failure')[0]).toBe('released');
    expect(at.failure()).toBeUndefined();
    at.acquire('in time');
    at.release('in time', 'failure');
    expect(at.failure()).toBe('failure');
  });
});

describe('a service that takes longer than a lease', () => {
  it.each([
    ['with subscribers', 2_000, 1],
    ['with subscribers', 6_000, 2],
    ['with subscribers', 8_500, 2],
    ['with subscribers', 9_500, 3],
    ['with subscribers', 20_000, 3],
    ['with subscribers', 24_000, 4],
    ['without', 4_000, 2],
    ['without', 20_000, 3],
  ])('gets few requests from eight replicas, and delays none: %s, %i ms, %i requests', async (how, ms, requests) => {
    const fleet = new ModelFleet(new FleetSource(), seeded(1));
    serviceOf(fleet, ms);
    const { subscribe, ...unsubscribed } = fleet.model.port();
    const options = how === 'without' ? { redis: unsubscribed } : {};
    const calls = Array.from({ length: 8 }, () => called(fleet, fleet.replica(options)));
    await fleet.pass(ms + 1_000, 50);
    expect(calls.map(({ value }) => value)).toEqual(Array(8).fill(expect.stringMatching(/^token-1-/)));
    expect(fleet.source.calls).toHaveLength(requests);
  });

  it('whose second answer is the newer one: it replaces the first in the record, and not in who has the first', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const [first, second] = replicas(fleet, 2) as [ModelReplica, ModelReplica];
    serviceOf(fleet, 4_000);
    for (const replica of [first, second]) called(fleet, replica);
    await fleet.pass(8_000, 50);
    const held = await second.registry.getToken(KEY);
    expect(held.value).toMatch(/^token-1-/);
    expect((await fleet.replica().registry.getToken(KEY)).value).toMatch(/^token-2-/);
    expect(second.shared.stats()).toMatchObject({ leader: 1, shared: 1 });
    // Whoever rejects the first gets the second at no cost.
    second.registry.reject(KEY, held);
    expect((await second.registry.getToken(KEY)).value).toMatch(/^token-2-/);
    expect(fleet.source.calls).toHaveLength(2);
  });

  it('keeps its quota, although a leader takes another one’s token while its own request goes on', async () => {
    const fleet = new ModelFleet(new FleetSource(), seeded(1));
    const limited = fleet.replica({ requestsPerSecond: 1 });
    const [other] = replicas(fleet, 1) as [ModelReplica];
    serviceOf(fleet, 4_000);
    called(fleet, other);
    await fleet.pass(100, 50);
    const startedMs = fleet.clock.monotonic();
    called(fleet, limited);
    // Of ten replicas that it assumes, until its second count.
    await fleet.pass(4_000, 50);
    expect(limited.shared.stats()).toMatchObject({ leader: 1, shared: 1 });
    void limited.registry.getToken('next');
    for (; fleet.source.countFor('next') === 0; await fleet.pass(50, 50));
    expect(fleet.clock.monotonic() - startedMs).toBeGreaterThan(4_900);
  });
});

describe('replicas whose requests hang', () => {
  it.each([
    [1, 3_000],
    [2, 9_000],
    [3, 19_000],
  ])('cost the others no call: %i of ten lead in turn, %i ms', async (count, delayMs) => {
    const fleet = new ModelFleet(new FleetSource(), seeded(1));
    const hung = Array.from({ length: count }, () => hanging(fleet));
    serviceOf(fleet, 100);
    // Each hung replica leads when the lease before has lapsed; the healthy ones follow.
    const atMs = [0, 3_000, 9_000];
    const healthy = replicas(fleet, 7);
    const calls: Call[] = [];
    for (const [index, replica] of hung.entries()) {
      await fleet.pass((atMs[index] as number) - (atMs[index - 1] ?? 0), 50);
      called(fleet, replica);
      if (index === count - 1) await fleet.pass(10, 10);
    }
    for (const replica of healthy) calls.push(called(fleet, replica));
    await fleet.pass(12_500, 50);
    const since = fleet.source.calls.length;
    expect(since).toBe(1);
    expect(new Set(calls.map(({ value }) => value)).size).toBe(1);
    expect(calls.every(({ value }) => value)).toBe(true);
    for (const { ms = Infinity } of calls) expect(ms + (atMs[count - 1] as number)).toBeLessThan(delayMs + 1_000);
  });

  it('get the token of a healthy one, although their own requests are still unanswered', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const hung = called(fleet, hanging(fleet));
    await fleet.pass(100, 50);
    serviceOf(fleet, 100);
    const healthy = called(fleet, fleet.replica());
    await fleet.pass(4_000, 50);
    expect(hung.value).toBe(healthy.value);
    expect(hung.value).toBeDefined();
  });

  it('give nobody their timeout, but a refusal that took as long is shared', async () => {
    for (const [error, requests] of [
      [new OwnerTokenError('endpoint_unavailable', 'no answer'), 2],
      [new OwnerTokenError('owner_refused', 'no', { status: 400 }), 1],
    ] as const) {
      const fleet = new ModelFleet(new FleetSource());
      // Two leaders that died: the lease of the next is four times as long.
      called(fleet, fleet.replica());
      await fleet.pass(LEASE_MS, 50);
      called(fleet, fleet.replica());
      await fleet.pass(2 * LEASE_MS, 50);
      const [leader, follower] = replicas(fleet, 2) as [ModelReplica, ModelReplica];
      called(fleet, leader);
      await fleet.pass(100, 50);
      const follows = called(fleet, follower);
      await fleet.pass(10_000, 50);
      const before = fleet.source.calls.length - 1;
      fleet.source.call(-1).fail(error);
      await fleet.pass(600, 50);
      expect(fleet.source.calls.length - before).toBe(requests);
      expect(follows.error === undefined).toBe(requests === 2);
    }
  });
});

it('a lease that somebody prolongs in the record makes no call fail: it requests its own token in time', async () => {
  const fleet = new ModelFleet(new FleetSource());
  const [dead, replica] = replicas(fleet, 2) as [ModelReplica, ModelReplica];
  called(fleet, dead);
  await fleet.pass(50, 50);
  serviceOf(fleet, 100);
  const { run } = fleet.model;
  fleet.model.run = (name, key, args) => {
    if (name === 'acquire') fleet.model.keys.get(key)?.set('l', `${(fleet.clock.now() + 59_000) * 1_000}`);
    return run.call(fleet.model, name, key, args);
  };
  const call = called(fleet, replica);
  await fleet.pass(26_000, 50);
  expect(call.value).toBeDefined();
  expect(replica.shared.stats().fallback).toBe(1);
});
