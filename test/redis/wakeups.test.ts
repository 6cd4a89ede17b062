import { describe, expect, it } from 'vitest';
import type { RedisPort } from '../../src/redis/ports.ts';
import { Wakeups, type Watch } from '../../src/redis/wakeups.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';

type Subscribe = NonNullable<RedisPort['subscribe']>;

function setUp(port: Partial<RedisPort> = {}) {
  const clock = new ManualClock();
  const told: string[] = [];
  const wakeups = new Wakeups({
    ...{ port: { run: async () => [], ...port }, channel: 'wake', clock, random: () => 1 },
    onOther: (message) => told.push(message),
    onSubscribeFailed: () => told.push('subscribe_failed'),
  });
  const waits = (watch: Watch, ms = 60_000, signal = new AbortController().signal) => {
    const seen = { over: false };
    void watch.next(ms, clock.monotonic(), signal).then(() => Object.assign(seen, { over: true }));
    return seen;
  };
  return { clock, told, wakeups, waits };
}

/** A subscription whose messages are sent by hand. */
function channel() {
  const open = new Map<string, (message: string) => void>();
  const ended: string[] = [];
  const subscribe: Subscribe = async (name, onMessage) => {
    open.set(name, onMessage);
    return async () => void ended.push(name);
  };
  const send = (message: string, to = 'wake') => open.get(to)?.(message);
  return { open, ended, subscribe, send };
}

describe('wake-ups', () => {
  it('wake-ups come with a message about that record; other messages are passed on', async () => {
    const { subscribe, send } = channel();
    const { wakeups, waits, told } = setUp({ subscribe });
    wakeups.watch('warm').stop();
    await settle();
    const [mine, other] = [waits(wakeups.watch('mine')), waits(wakeups.watch('other'))];
    send('mine');
    send('news of somebody');
    await settle();
    expect([mine.over, other.over, told]).toEqual([true, false, ['news of somebody']]);
  });

  it('wake-ups that come before the wait are not lost, and count once', async () => {
    const { subscribe, send } = channel();
    const { wakeups, waits } = setUp({ subscribe });
    const watch = wakeups.watch('mine');
    await settle();
    send('mine');
    const wait = waits(watch);
    await settle();
    expect(wait.over).toBe(true);
    const next = waits(watch);
    await settle();
    expect(next.over).toBe(false);
  });

  it('a record is read every 150 ms without a subscription, and every second with one', async () => {
    const { subscribe } = channel();
    for (const [port, ms] of [
      [{}, 150],
      [{ subscribe }, 1_000],
    ] as const) {
      const { wakeups, waits, clock } = setUp(port);
      const watch = wakeups.watch('mine');
      await settle();
      const wait = waits(watch);
      clock.advance(ms - 1);
      await settle();
      expect(wait.over).toBe(false);
      clock.advance(1);
      await settle();
      expect(wait.over).toBe(true);
    }
  });

  it('a subscription that was confirmed after the record was read may have missed a message', async () => {
    let confirm = () => {};
    const subscribe: Subscribe = () => new Promise((resolve) => (confirm = () => resolve(async () => {})));
    const { wakeups, waits, clock } = setUp({ subscribe });
    const watch = wakeups.watch('mine');
    const first = waits(watch);
    clock.advance(10);
    confirm();
    await settle();
    clock.advance(140);
    await settle();
    expect(first.over).toBe(true);
    const second = waits(watch);
    clock.advance(999);
    await settle();
    expect(second.over).toBe(false);
  });

  it('wake-ups end with the lease, and with the signal', async () => {
    const { wakeups, waits, clock } = setUp();
    const lease = waits(wakeups.watch('mine'), 20);
    clock.advance(20);
    await settle();
    expect(lease.over).toBe(true);
    const controller = new AbortController();
    const aborted = waits(wakeups.watch('mine'), 20, controller.signal);
    controller.abort();
    await settle();
    expect([aborted.over, clock.pendingTimers]).toEqual([true, 0]);
  });

  it('a failed subscription is reported, and tried again after half a minute', async () => {
    let tries = 0;
    const subscribe: Subscribe = async () => {
      tries++;
      throw new Error('NOPERM');
    };
    const { wakeups, told, clock } = setUp({ subscribe });
    for (let call = 0; call < 5; call++) {
      wakeups.watch('mine').stop();
      await settle();
    }
    expect([tries, told]).toEqual([1, ['subscribe_failed']]);
    clock.advance(30_000);
    wakeups.watch('mine').stop();
    await settle();
    expect(tries).toBe(2);
  });

  it('sharded: each record has a channel of its own, from the first call that waits to the last', async () => {
    const { subscribe, send, open, ended } = channel();
    const { wakeups, waits } = setUp({ subscribeSharded: subscribe });
    expect(wakeups.mode).toBe('s');
    const watches = [wakeups.watch('one'), wakeups.watch('one')] as const;
    expect([...open.keys()]).toEqual([]);
    const [first] = watches.map((watch) => waits(watch));
    await settle();
    expect([...open.keys()]).toEqual(['one']);
    send('one', 'one');
    await settle();
    expect(first?.over).toBe(true);
    watches[0].stop();
    await settle();
    expect(ended).toEqual([]);
    watches[1].stop();
    await settle();
    expect(ended).toEqual(['one']);
  });

  it('closing unsubscribes, and does not wait for a subscription that is not confirmed', async () => {
    const { subscribe, ended } = channel();
    const { wakeups } = setUp({ subscribe });
    wakeups.watch('mine');
    await settle();
    await wakeups.close();
    expect(ended).toEqual(['wake']);
    const hung = setUp({ subscribe: () => new Promise(() => {}) }).wakeups;
    hung.watch('mine');
    await hung.close();
    let confirm = () => {};
    const late: Subscribe = (name) =>
      new Promise((resolve) => {
        confirm = () => resolve(async () => void ended.push(`late ${name}`));
      });
    const { wakeups: closedEarly } = setUp({ subscribe: late });
    closedEarly.watch('mine');
    await closedEarly.close();
    confirm();
    await settle();
    expect(ended).toEqual(['wake', 'late wake']);
    expect(wakeups.mode).toBe('c');
  });
});
