import { describe, expect, it } from 'vitest';
import { Wakeups } from '../../src/redis/wakeups.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';

function setUp(subscribe?: (onMessage: (name: string) => void) => Promise<() => Promise<void>>) {
  const clock = new ManualClock();
  const told: string[] = [];
  const wakeups = new Wakeups({
    port: { run: async () => [], ...(subscribe && { subscribe: (_, onMessage) => subscribe(onMessage) }) },
    channel: 'wake',
    clock,
    random: () => 1,
    onSubscribeFailed: () => told.push('subscribe_failed'),
  });
  const waits = (watch: ReturnType<Wakeups['watch']>, leaseMs = 60_000, abort = new AbortController().signal) => {
    const seen = { over: false };
    void watch.next(leaseMs, clock.monotonic(), abort).then(() => Object.assign(seen, { over: true }));
    return seen;
  };
  return { clock, told, wakeups, waits };
}

describe('wake-ups', () => {
  it('with a subscription come with a message about that record, and only that', async () => {
    let send: (name: string) => void = () => {};
    const { wakeups, waits, clock } = setUp(async (onMessage) => {
      send = onMessage;
      return async () => {};
    });
    wakeups.watch('warm').stop();
    await settle();
    const [mine, other] = [waits(wakeups.watch('mine')), waits(wakeups.watch('other'))];
    send('mine');
    send('unknown');
    await settle();
    expect([mine.over, other.over]).toEqual([true, false]);
    expect(clock.pendingTimers).toBe(1);
  });

  it('that come before the wait are not lost', async () => {
    let send: (name: string) => void = () => {};
    const { wakeups, waits } = setUp(async (onMessage) => {
      send = onMessage;
      return async () => {};
    });
    const watch = wakeups.watch('mine');
    await settle();
    send('mine');
    const wait = waits(watch);
    await settle();
    expect(wait.over).toBe(true);
    // One message, one look.
    expect(waits(watch).over).toBe(false);
  });

  it('without a subscription, followers poll at growing intervals', async () => {
    const { wakeups, waits, clock } = setUp();
    const watch = wakeups.watch('mine');
    for (const ms of [15, 30, 60, 120, 150, 150]) {
      const wait = waits(watch);
      clock.advance(ms - 1);
      await settle();
      expect(wait.over).toBe(false);
      clock.advance(1);
      await settle();
      expect(wait.over).toBe(true);
    }
  });

  it('waits between polls, before jitter, for at least an eighth of the time that the last read took', async () => {
    const { wakeups, clock } = setUp();
    const seen = { over: false };
    const readAtMs = clock.monotonic();
    clock.advance(4_000);
    void wakeups
      .watch('mine')
      .next(60_000, readAtMs, new AbortController().signal)
      .then(() => Object.assign(seen, { over: true }));
    clock.advance(499);
    await settle();
    expect(seen.over).toBe(false);
    clock.advance(1);
    await settle();
    expect(seen.over).toBe(true);
  });

  it('a wait ends soon after the lease, and at once with an aborted signal', async () => {
    const { wakeups, waits, clock } = setUp();
    const lapsed = waits(wakeups.watch('mine'), 0);
    const abort = new AbortController();
    const aborted = waits(wakeups.watch('mine'), 60_000, abort.signal);
    abort.abort();
    await settle();
    expect([lapsed.over, aborted.over]).toEqual([false, true]);
    clock.advance(40);
    await settle();
    expect(lapsed.over).toBe(true);
    expect(clock.pendingTimers).toBe(0);
  });

  it('a subscription that fails is reported once, and tried again after half a minute', async () => {
    let tries = 0;
    const { wakeups, told, clock } = setUp(async () => {
      tries++;
      throw new Error('NOPERM');
    });
    for (let watch = 0; watch < 3; watch++) {
      wakeups.watch('mine').stop();
      await settle();
    }
    expect([tries, told]).toEqual([1, ['subscribe_failed']]);
    clock.advance(30_000);
    wakeups.watch('mine').stop();
    expect(tries).toBe(2);
  });

  describe('after a lease that ended without a message', () => {
    async function missing() {
      const calls: string[] = [];
      let send: (name: string) => void = () => {};
      const context = setUp(async (onMessage) => {
        calls.push('subscribe');
        send = onMessage;
        return async () => void calls.push('unsubscribe');
      });
      const { wakeups, waits, clock } = context;
      wakeups.watch('warm').stop();
      await settle();
      const pass = async (ms: number) => {
        clock.advance(ms);
        await settle();
      };
      const watch = wakeups.watch('mine');
      waits(watch, 3_000);
      await pass(3_040);
      return { ...context, calls, watch, pass, send: (name: string) => send(name) };
    }

    it('the replica subscribes again, and followers poll until a message comes', async () => {
      const { wakeups, waits, calls, watch, pass, send } = await missing();
      expect(wakeups.isSubscribed('mine')).toBe(true);
      watch.stop();
      expect(calls).toEqual(['subscribe', 'unsubscribe', 'subscribe']);
      const next = wakeups.watch('next');
      await settle();
      expect(wakeups.isSubscribed('next')).toBe(false);
      const polls = waits(next, 3_000);
      await pass(15);
      expect(polls.over).toBe(true);
      send('another');
      expect(wakeups.isSubscribed('next')).toBe(true);
      const wait = waits(next, 3_000);
      await pass(2_999);
      expect(wait.over).toBe(false);
      // Its own message came in time, so nothing was missed.
      send('next');
      next.stop();
      expect(calls).toHaveLength(3);
    });

    it('a leader that renewed its lease is not a missed message', async () => {
      const { wakeups, waits, calls, watch, send } = await missing();
      waits(watch, 3_000);
      send('mine');
      watch.stop();
      expect([wakeups.isSubscribed('mine'), calls]).toEqual([true, ['subscribe']]);
    });

    it('one missed message is enough for all followers, and none counts after the end', async () => {
      const { wakeups, waits, calls, watch, pass } = await missing();
      watch.stop();
      const others = [wakeups.watch('mine'), wakeups.watch('mine')];
      for (const other of others) waits(other, 0);
      await pass(3_040);
      for (const other of others) other.stop();
      await settle();
      expect(calls).toEqual(['subscribe', 'unsubscribe', 'subscribe']);
      await wakeups.close();
      expect(calls).toHaveLength(4);
    });
  });

  it('closing ends the subscription, even where the connection is gone', async () => {
    let ended = 0;
    const { wakeups } = setUp(async () => async () => {
      ended++;
      throw new Error('connection is closed');
    });
    wakeups.watch('mine').stop();
    await settle();
    await wakeups.close();
    expect(ended).toBe(1);
  });

  describe('on sharded channels', () => {
    function sharded() {
      const channels = new Map<string, (message: string) => void>();
      const log: string[] = [];
      const clock = new ManualClock();
      const heard: string[] = [];
      const wakeups = new Wakeups({
        port: {
          run: async () => [],
          subscribeSharded: async (channel, onMessage) => {
            log.push(`+${channel}`);
            channels.set(channel, onMessage);
            return async () => {
              log.push(`-${channel}`);
              channels.delete(channel);
            };
          },
        },
        channel: 'wake',
        clock,
        random: () => 1,
        onMessage: (name) => void heard.push(name),
        onSubscribeFailed: () => {},
      });
      const waits = (watch: ReturnType<Wakeups['watch']>) => {
        const seen = { over: false };
        void watch.next(60_000, clock.monotonic(), signal).then(() => Object.assign(seen, { over: true }));
        return seen;
      };
      return { channels, log, clock, heard, wakeups, waits };
    }
    const { signal } = new AbortController();

    it('the first follower that waits subscribes to its record, and the last one leaves', async () => {
      const { wakeups, waits, log, channels, clock } = sharded();
      const [one, two] = [wakeups.watch('mine'), wakeups.watch('mine')];
      await settle();
      expect(log).toEqual([]);
      // The subscription began after the record was read: it is read again soon, and only then waits for a message.
      waits(one);
      clock.advance(15);
      await settle();
      const [first, second] = [waits(one), waits(two)];
      clock.advance(30_000);
      await settle();
      expect([first.over, second.over, wakeups.isSubscribedSince('mine', 15)]).toEqual([false, false, true]);
      channels.get('mine')?.('mine');
      await settle();
      expect([first.over, second.over]).toEqual([true, true]);
      one.stop();
      expect(log).toEqual(['+mine']);
      two.stop();
      expect(log).toEqual(['+mine', '-mine']);
    });

    it('a record that is listened to for good stays subscribed until close', async () => {
      const { wakeups, log, channels, heard, clock } = sharded();
      wakeups.listen('circuit');
      await settle();
      expect(wakeups.isSubscribed('circuit')).toBe(true);
      wakeups.watch('circuit').stop();
      channels.get('circuit')?.('circuit');
      expect(heard).toEqual(['circuit']);
      // Also after a message that was missed.
      const watch = wakeups.watch('circuit');
      void watch.next(3_000, clock.monotonic(), signal);
      clock.advance(3_040);
      await settle();
      watch.stop();
      expect(log).toEqual(['+circuit', '-circuit', '+circuit']);
      await settle();
      await wakeups.close();
      expect(log).toEqual(['+circuit', '-circuit', '+circuit', '-circuit']);
    });
  });
});
