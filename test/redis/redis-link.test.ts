import { describe, expect, it } from 'vitest';
import { ACQUIRE, ANNOUNCE } from '../../src/redis/record-scripts.ts';
import { RedisLink, type RedisTrouble, type Reply, ServerTime } from '../../src/redis/redis-link.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';

/** A link to a Redis that is answered by hand. */
function linked(isReady?: () => boolean | undefined) {
  const clock = new ManualClock();
  const events: (RedisTrouble | 'resumed')[] = [];
  const sent: { name: string; resolve: (raw: unknown) => void; reject: (error: Error) => void }[] = [];
  const link = new RedisLink({
    port: {
      run: ({ name }) => new Promise((resolve, reject) => sent.push({ name, resolve, reject })),
      ...(isReady && { isReady }),
    },
    deadlineMs: 250,
    clock,
    random: () => 1,
    probe: { operation: () => [ANNOUNCE, 'replicas', []], onReply: () => {} },
    onChange: (trouble) => events.push(trouble?.trouble ?? 'resumed'),
    onBehind: () => {},
  });
  const run = () => {
    const seen: { settled: boolean; reply?: Reply | undefined } = { settled: false };
    void link.run([ACQUIRE, 'key', []]).then((reply) => Object.assign(seen, { settled: true, reply }));
    return seen;
  };
  const pass = async (ms: number) => {
    clock.advance(ms);
    await settle();
  };
  return { clock, events, sent, link, run, pass };
}

const OK = ['free', '1900000000000000'];

describe('the link to Redis', () => {
  it('waits for a reply until its deadline, and no longer', async () => {
    const { run, pass } = linked();
    const call = run();
    await pass(249);
    expect(call.settled).toBe(false);
    await pass(1);
    expect(call).toEqual({ settled: true, reply: undefined });
  });

  it('is not lost if a reply came before the client reported ready', async () => {
    const { run, pass, sent, events } = linked(() => false);
    run();
    sent[0]?.resolve(OK);
    await pass(0);
    const next = run();
    sent[1]?.resolve(OK);
    await pass(0);
    expect([next.reply, events]).toEqual([OK, []]);
  });

  it('keeps its circuit closed after a late reply, and opens it after a second of silence', async () => {
    const { run, pass, sent, link, events } = linked();
    run();
    await pass(999);
    sent[0]?.resolve(OK);
    await pass(1_000);
    expect([link.isAvailable, events]).toEqual([true, []]);
    run();
    await pass(250);
    await pass(749);
    expect(link.isAvailable).toBe(true);
    await pass(1);
    expect([link.isAvailable, events]).toEqual([false, ['timeout']]);
  });

  it.each([
    ["READONLY You can't write against a read only replica.", 'read_only'],
    ['OOM command not allowed when used memory > maxmemory', 'full'],
    ["ERR Error running script: can't write: -OOM used", 'full'],
    ['NOPERM this user has no permissions to run the eval command', 'denied'],
    ['WRONGPASS invalid username-password pair or user is disabled.', 'denied'],
    ['NOAUTH Authentication required.', 'denied'],
    ['MISCONF Redis is configured to save RDB snapshots', 'refused'],
    ['CLUSTERDOWN Hash slot not served', 'refused'],
    ['connect ECONNREFUSED 127.0.0.1:6379', 'connection'],
    ['Socket closed unexpectedly', 'connection'],
  ] as const)('opens its circuit at once on the error "%s", as %s', async (message, trouble) => {
    const { run, sent, events } = linked();
    const call = run();
    await settle();
    sent[0]?.reject(new Error(message));
    await settle();
    expect([call.settled, call.reply, events]).toEqual([true, undefined, [trouble]]);
  });

  it.each([[['free']], ['OK'], [null], [['free', 'soon']], [{ 1: '1' }]])(
    'reports a reply that no script gives as a protocol error: %j',
    async (raw) => {
      const { run, sent, events } = linked();
      run();
      await settle();
      sent[0]?.resolve(raw);
      await settle();
      expect(events).toEqual(['protocol_error']);
    },
  );

  it('sends one probe at a time while its circuit is open, and only a probe closes it', async () => {
    const { run, sent, events, pass, link } = linked();
    const early = [run(), run()];
    await settle();
    sent[0]?.reject(new Error('OOM'));
    await settle();
    // Sent before: proves nothing.
    sent[1]?.resolve(OK);
    await settle();
    expect([link.isAvailable, early[1]?.reply]).toEqual([false, OK]);
    await pass(4_000);
    const calls = [run(), run()];
    await settle();
    expect(sent.map(({ name }) => name)).toEqual(['acquire', 'acquire', 'announce']);
    sent[2]?.resolve(['listed', '1900000000000000', '1', '0']);
    await settle();
    expect(sent).toHaveLength(5);
    for (const { resolve } of sent) resolve(OK);
    await settle();
    expect(calls.every(({ reply }) => reply)).toBe(true);
    expect(events).toEqual(['full', 'resumed']);
  });

  it('sends a probe every four seconds, and has calls wait for it until its deadline at most', async () => {
    const { run, sent, pass, events } = linked();
    run();
    await pass(250);
    await pass(750);
    for (let probe = 0; probe < 3; probe++) {
      const before = sent.length;
      await pass(3_999);
      const refused = run();
      await settle();
      expect([refused.settled, sent.length]).toEqual([true, before]);
      await pass(1);
      const call = run();
      await settle();
      expect(sent.length).toBe(before + 1);
      await pass(250);
      expect(call.settled).toBe(true);
    }
    expect(events).toEqual(['timeout']);
  });

  it('checks a lost connection every second, without sending anything', async () => {
    let isReady = true;
    const { run, sent, pass, events, link } = linked(() => isReady);
    run();
    await settle();
    isReady = false;
    for (let second = 0; second < 5; second++) {
      const call = run();
      await settle();
      expect(call.settled).toBe(true);
      await pass(1_000);
    }
    expect([sent.length, events]).toEqual([1, ['connection']]);
    isReady = true;
    run();
    await settle();
    sent[1]?.resolve(OK);
    await settle();
    expect(link.isAvailable).toBe(true);
  });

  it('waits for commands in flight when it is closed, until their deadline', async () => {
    const { run, link, pass } = linked();
    run();
    let idle = false;
    void link.idle().then(() => {
      idle = true;
    });
    await settle();
    expect(idle).toBe(false);
    await pass(250);
    expect(idle).toBe(true);
  });
});

const HOUR_MS = 3_600_000;
const SERVER_US = 1_900_000_000_000_000;

it("the server's time is that of the server furthest ahead in the last hour, and is forgotten after two", () => {
  const time = new ServerTime();
  time.sample(SERVER_US, 0, 0);
  const isAhead = (nowMs: number) => {
    // After a failover to a server whose clock is a minute behind.
    time.sample(SERVER_US + (nowMs - 60_000) * 1_000, nowMs, nowMs);
    return time.at(nowMs) === SERVER_US + nowMs * 1_000;
  };
  expect([HOUR_MS - 1, HOUR_MS, 2 * HOUR_MS - 1, 2 * HOUR_MS].map(isAhead)).toEqual([true, true, true, false]);
});
