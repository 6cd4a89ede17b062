/** The quota of the whole fleet: one replica's pacer, then several replicas over the model of the record. */

import { setMaxListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { Pacer, type PacerOptions, type SendTime } from '../../src/redis/pacer.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';
import { FleetSource, ModelFleet } from '../helpers/model-fleet.ts';

const { signal } = new AbortController();
setMaxListeners(0, signal);

function setUp(options: Partial<PacerOptions> = {}) {
  const clock = new ManualClock();
  const reserved: number[] = [];
  let nextMs = 0;
  const pacer = new Pacer({
    requestsPerSecond: 10,
    clock,
    random: () => 0.5,
    replicas: () => 4,
    reserve: async (count, intervalMs) => {
      reserved.push(count);
      const firstMs = Math.max(nextMs, clock.monotonic());
      nextMs = firstMs + count * intervalMs;
      return firstMs - clock.monotonic();
    },
    ...options,
  });
  const taken: { atMs: number; sendTime: SendTime }[] = [];
  const failed: unknown[] = [];
  const take = (count = 1, patienceMs = 60_000, abort = signal) => {
    for (let call = 0; call < count; call++) {
      pacer.take(abort, patienceMs).then(
        (sendTime) => taken.push({ atMs: clock.monotonic(), sendTime }),
        (error: unknown) => failed.push(error),
      );
    }
  };
  const pass = async (ms: number) => {
    for (let elapsedMs = 0; elapsedMs < ms; elapsedMs += 5) {
      await settle();
      clock.advance(5);
    }
    await settle();
  };
  return { clock, pacer, reserved, taken, failed, take, pass, times: () => taken.map(({ atMs }) => atMs) };
}

describe('one replica', () => {
  it('sends at the reserved times, one reservation after the other, and saves nothing up', async () => {
    const { take, pass, times, reserved } = setUp();
    take(3);
    await pass(300);
    expect(times()).toEqual([0, 100, 200]);
    expect(reserved).toEqual([1, 1, 1]);
    await pass(1_000);
    take(2);
    await pass(300);
    expect(times().slice(3)).toEqual([1_300, 1_400]);
  });

  it('reserves a tenth of a second at once, and no more than it needs', async () => {
    const { take, pass, reserved, times } = setUp({ requestsPerSecond: 100 });
    take(24);
    await pass(500);
    expect(reserved).toEqual([1, 10, 10, 3]);
    expect(times().at(-1)).toBe(230);
  });

  it('without Redis keeps to its share of the quota, from a random moment on', async () => {
    const { take, pass, times } = setUp({ reserve: async () => undefined });
    take(3);
    await pass(2_000);
    expect(times()).toEqual([200, 600, 1_000]);
  });

  it('hands a send time that is not needed to the next call, unless it has lapsed', async () => {
    const { take, pass, taken, pacer, times } = setUp({ requestsPerSecond: 0.1 });
    take(3);
    await settle();
    const first = taken[0]?.sendTime as SendTime;
    expect(pacer.isUsable(first)).toBe(true);
    pacer.passOn(first);
    await settle();
    expect(times()).toEqual([0, 0]);
    await pass(505);
    expect(pacer.isUsable(first)).toBe(false);
    pacer.passOn(first);
    await settle();
    expect(times()).toEqual([0, 0]);
  });

  it('lets a call go after its patience, or when its signal is aborted, and leaves no timer behind', async () => {
    const { take, pass, failed, clock } = setUp({ requestsPerSecond: 0.1 });
    take();
    await settle();
    const controller = new AbortController();
    take(1, 1_000);
    take(1, 60_000, controller.signal);
    await pass(1_000);
    expect(failed).toMatchObject([{ code: 'queue_timeout' }]);
    controller.abort(new Error('leaving'));
    await settle();
    expect(failed[1]).toEqual(new Error('leaving'));
    expect(clock.pendingTimers).toBe(0);
    take(1, 60_000, controller.signal);
    await settle();
    expect(failed).toHaveLength(3);
  });

  it('takes 10,000 waiting calls at most', async () => {
    const { take, failed } = setUp({ reserve: () => new Promise(() => {}) });
    take(10_001);
    await settle();
    expect(failed).toMatchObject([{ code: 'queue_full' }]);
  });
});

describe('eight replicas', () => {
  const PER_SECOND = 20;
  const OWNERS = Array.from({ length: 150 }, (_, index) => `owner-${index}`);

  /** The most requests above the quota in any window, by the times at which they were sent. */
  function excessOf(sentAtMs: number[]): number {
    let most = 0;
    for (const [first, fromMs] of sentAtMs.entries()) {
      for (let last = first; last < sentAtMs.length; last++) {
        const quota = (((sentAtMs[last] as number) - fromMs) / 1_000) * PER_SECOND;
        most = Math.max(most, last - first + 1 - quota);
      }
    }
    return most;
  }

  function start() {
    const sentAtMs: number[] = [];
    const source = new FleetSource((call) => {
      sentAtMs.push(fleet.clock.monotonic());
      call.succeed({ response: { expires_in: 3600 } });
    });
    const fleet: ModelFleet = new ModelFleet(source);
    const all = Array.from({ length: 8 }, () => fleet.replica({ requestsPerSecond: PER_SECOND, maxWaitMs: 60_000 }));
    return { fleet, all, source, sentAtMs };
  }

  it('together keep the quota, make one request per owner, and use the quota up', async () => {
    const { fleet, all, source, sentAtMs } = start();
    const calls = all.flatMap(({ registry }) => OWNERS.map((owner) => registry.getToken(owner)));
    await fleet.pass(9_000, 10);
    const tokens = await Promise.all(calls);
    expect(tokens).toHaveLength(8 * OWNERS.length);
    expect(source.calls).toHaveLength(OWNERS.length);
    expect(excessOf(sentAtMs)).toBeLessThanOrEqual(2);
    // 150 at 20 a second take 7.45 s.
    expect(sentAtMs.at(-1)).toBeLessThanOrEqual(8_200);
  });

  it('keep it while Redis goes away and comes back', async () => {
    const { fleet, all, sentAtMs } = start();
    // Each has counted the others once all have announced themselves.
    for (const owner of ['first', 'second']) {
      for (const { shared } of all) await shared.requestToken(owner, requestFor());
      await fleet.pass(6_000, 1_000);
    }
    const calls = all.flatMap(({ registry }, replica) =>
      OWNERS.slice(0, 40).map((owner) => registry.getToken(`${replica}-${owner}`)),
    );
    for (let round = 0; round < 6; round++) {
      fleet.health = round % 2 ? 'down' : 'up';
      await fleet.pass(5_000, 25);
    }
    expect(await Promise.all(calls)).toHaveLength(320);
    // Each of the five changes: what was reserved before it, at most one send time for each replica.
    expect(excessOf(sentAtMs)).toBeLessThanOrEqual(2 + 5 * 8);
  });

  it('a call that waits for its turn is served by the token of another, at once', async () => {
    const { fleet, all, source } = start();
    const [busy, other] = all as [(typeof all)[0], (typeof all)[0]];
    const calls = [busy, other].map(({ registry }) => registry.getToken('wanted'));
    await fleet.pass(20, 5);
    expect(source.calls).toHaveLength(1);
    expect(new Set((await Promise.all(calls)).map(({ value }) => value)).size).toBe(1);
  });
});

function requestFor() {
  return { signal, reason: 'absent' as const, lifetimeMs: () => 3_600_000 };
}
