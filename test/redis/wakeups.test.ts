import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import type { SharingDiagnostics } from '../../src/redis/diagnostics.ts';
import type { RedisPort } from '../../src/redis/ports.ts';
import type { Names } from '../../src/redis/sealing.ts';
import { Wakeups, type Watch } from '../../src/redis/wakeups.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';

type Subscribe = NonNullable<RedisPort['subscribe']>;

function setUp(port: Partial<RedisPort> = {}) {
  const clock = new ManualClock();
  const told: string[] = [];
  const wakeups = new Wakeups({
    port: { run: async () => [], ...port },
    names: { channel: 'wake' } as Names,
    deadlineMs: 250,
    clock,
    random: () => 1,
    onOther: (message) => told.push(message),
    diagnostics: { report: (event) => void told.push(event) } as SharingDiagnostics,
  });
  const watch = (name: string, signal = new AbortController().signal) => wakeups.watch(name, signal);
  const waits = (at: Watch, ms = 60_000) => {
    const seen = { over: false };
    void at.next(ms, clock.monotonic()).then(() => Object.assign(seen, { over: true }));
    return seen;
  };
  return { clock, told, wakeups, watch, waits };
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
  it('come with a message about their record; other messages are passed on', async () => {
    const { subscribe, send } = channel();
    const { watch, waits, told } = setUp({ subscribe });
    watch('warm').stop();
    await settle();
    const [mine, other] = [waits(watch('mine')), waits(watch('other'))];
    send('mine');
    send('news of somebody');
    await settle();
    expect([mine.over, other.over, told]).toEqual([true, false, ['news of somebody']]);
  });

  it('leave no listener at the signal of a call that no longer waits', () => {
    const { watch } = setUp();
    const { signal } = new AbortController();
    const watches = [watch('mine', signal), watch('other', signal)];
    expect(getEventListeners(signal, 'abort')).toHaveLength(2);
    for (const each of watches) each.stop();
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('that come before the wait are not lost, and count once', async () => {
    const { subscribe, send } = channel();
    const { watch, waits } = setUp({ subscribe });
    const mine = watch('mine');
    await settle();
    send('mine');
    const wait = waits(mine);
    await settle();
    expect(wait.over).toBe(true);
    const next = waits(mine);
    await settle();
    expect(next.over).toBe(false);
  });

  it('are backed by a read of the record every 150 ms without a subscription, and every 750 ms with one', async () => {
    const { subscribe } = channel();
    for (const [port, ms] of [
      [{}, 150],
      [{ subscribe }, 750],
    ] as const) {
      const { watch, waits, clock } = setUp(port);
      const mine = watch('mine');
      await settle();
      const wait = waits(mine);
      clock.advance(ms - 1);
      await settle();
      expect(wait.over).toBe(false);
      clock.advance(1);
      await settle();
      expect(wait.over).toBe(true);
    }
  });

  it('that may have come before the subscription was confirmed are made up for by another read soon', async () => {
    let confirm = () => {};
    const subscribe: Subscribe = () => new Promise((resolve) => (confirm = () => resolve(async () => {})));
    const { watch, waits, clock } = setUp({ subscribe });
    const mine = watch('mine');
    const first = waits(mine);
    clock.advance(10);
    confirm();
    await settle();
    clock.advance(140);
    await settle();
    expect(first.over).toBe(true);
    const second = waits(mine);
    clock.advance(749);
    await settle();
    expect(second.over).toBe(false);
  });

  it('end soon if the last read was before the confirmation', async () => {
    const { subscribe } = channel();
    const { watch, clock } = setUp({ subscribe });
    const mine = watch('mine');
    const readAtMs = clock.monotonic();
    clock.advance(10);
    await settle();
    let isOver = false;
    void mine.next(60_000, readAtMs).then(() => (isOver = true));
    clock.advance(150);
    await settle();
    expect(isOver).toBe(true);
  });

  it('are waited for until the lease ends, or the signal aborts', async () => {
    const { watch, waits, clock } = setUp();
    const lease = waits(watch('mine'), 20);
    clock.advance(20);
    await settle();
    expect(lease.over).toBe(true);
    const controller = new AbortController();
    const aborted = waits(watch('mine', controller.signal), 20);
    controller.abort();
    await settle();
    expect([aborted.over, clock.pendingTimers]).toEqual([true, 0]);
  });

  it('report a failed subscription, and retry it after half a minute', async () => {
    let tries = 0;
    const subscribe: Subscribe = async () => {
      tries++;
      throw new Error('NOPERM');
    };
    const { watch, told, clock } = setUp({ subscribe });
    for (let call = 0; call < 5; call++) {
      watch('mine').stop();
      await settle();
    }
    expect([tries, told]).toEqual([1, ['subscribe_failed']]);
    clock.advance(30_000);
    watch('mine').stop();
    await settle();
    expect(tries).toBe(2);
  });

  it('have a sharded subscription per record, which lasts from the first call that waits to the last', async () => {
    const { subscribe, send, open, ended } = channel();
    const { wakeups, watch, waits } = setUp({ subscribeSharded: subscribe });
    expect(wakeups.mode).toBe('s');
    const watches = [watch('one'), watch('one')] as const;
    expect([...open.keys()]).toEqual([]);
    const [first] = watches.map((each) => waits(each));
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

  it('unsubscribe when they are closed, without waiting for an unconfirmed subscription', async () => {
    const { subscribe, ended } = channel();
    const { wakeups, watch } = setUp({ subscribe });
    watch('mine');
    await settle();
    await wakeups.close();
    expect(ended).toEqual(['wake']);
    const hung = setUp({ subscribe: () => new Promise(() => {}) });
    hung.watch('mine');
    await hung.wakeups.close();
    let confirm = () => {};
    const late: Subscribe = (name) =>
      new Promise((resolve) => {
        confirm = () => resolve(async () => void ended.push(`late ${name}`));
      });
    const closedEarly = setUp({ subscribe: late });
    closedEarly.watch('mine');
    await closedEarly.wakeups.close();
    confirm();
    await settle();
    expect(ended).toEqual(['wake', 'late wake']);
    expect(wakeups.mode).toBe('c');
  });
});
