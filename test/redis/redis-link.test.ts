import { stat } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/clock.ts';
import { ACQUIRE } from '../../src/redis/record-scripts.ts';
import { RedisLink, type RedisTrouble, type Reply } from '../../src/redis/redis-link.ts';
import { SharedRecord } from '../../src/redis/shared-record.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';

/** A link to a Redis whose answers are given by hand. */
function linked(
  answers: ((resolve: (raw: unknown) => void, reject: (error: Error) => void) => void)[] = [],
  hasFailedToConnect?: () => boolean,
) {
  const clock = new ManualClock();
  const events: (RedisTrouble | 'resumed')[] = [];
  const sent: { name: string; resolve: (raw: unknown) => void; reject: (error: Error) => void }[] = [];
  const link = new RedisLink({
    port: {
      run: (script) =>
        new Promise((resolve, reject) => {
          sent.push({ name: script.name, resolve, reject });
          answers[sent.length - 1]?.(resolve, reject);
        }),
      ...(hasFailedToConnect && { hasFailedToConnect }),
    },
    deadlineMs: 250,
    clock,
    random: () => 1,
    diagnostics: { suspended: (trouble) => events.push(trouble), resumed: () => events.push('resumed') },
  });
  const run = () => {
    const seen: { settled: boolean; words?: Reply | undefined; late?: Reply | 'none' } = { settled: false };
    void link.run(ACQUIRE, 'key', []).then(({ reply: words, late }) => {
      Object.assign(seen, { settled: true, words });
      void late.then((reply) => Object.assign(seen, { late: reply ?? 'none' }));
    });
    return seen;
  };
  return { clock, events, sent, link, run };
}

describe('the link to Redis', () => {
  it('waits for its deadline, and no longer', async () => {
    const { clock, run } = linked();
    const call = run();
    for (let part = 0; part < 5; part++) {
      clock.advance(49);
      await settle();
      expect(call.settled).toBe(false);
    }
    clock.advance(50);
    await settle();
    expect(call).toEqual({ settled: true, words: undefined });
    expect(clock.pendingTimers).toBe(0);
  });

  /** Passes the deadline of the operations that were sent. */
  async function pastDeadline(clock: ManualClock): Promise<void> {
    for (let part = 0; part < 5; part++) clock.advance(50);
    await settle();
  }

  it('gives the reply that comes after the deadline to whoever still waits for it', async () => {
    const { clock, run, sent, link } = linked();
    const [answered, failed, garbled] = [run(), run(), run()];
    await pastDeadline(clock);
    expect(answered).toEqual({ settled: true, words: undefined });
    clock.advance(5_000);
    sent[0]?.resolve(['wait', '5000000', '1']);
    sent[1]?.reject(new Error('Socket closed unexpectedly'));
    sent[2]?.resolve('OK');
    await settle();
    sent[3]?.reject(new Error('Socket closed unexpectedly'));
    await settle();
    expect([answered.late, failed.late, garbled.late]).toEqual([['wait', '5000000', '1'], 'none', 'none']);
    expect(link.serverTimeUs(clock.monotonic())).toBe(5_000_000);
  });

  it('is suspended after eight seconds without a reply, and a late one ends that', async () => {
    const { clock, run, sent, events } = linked([(resolve) => resolve(['wait', '1', '1'])]);
    run();
    await settle();
    for (let call = 0; call < 20; call++) run();
    await pastDeadline(clock);
    expect(events).toEqual([]);
    clock.advance(7_600);
    run();
    await pastDeadline(clock);
    expect(events).toEqual(['timeout']);
    const refused = run();
    await settle();
    expect([refused.settled, refused.late]).toEqual([true, 'none']);
    sent.at(-1)?.resolve(['wait', '1', '1']);
    await settle();
    expect(events).toEqual(['timeout', 'resumed']);
  });

  it.each([
    ['18 seconds', undefined, 17_700],
    ['18 seconds, if the client can connect,', () => false, 17_700],
    ['8 seconds, if the client cannot connect,', () => true, 7_700],
  ])('is suspended after %s without a first reply', async (_, hasFailedToConnect, ms) => {
    const { clock, run, events } = linked([], hasFailedToConnect);
    run();
    await pastDeadline(clock);
    // The first operation misses its deadline just before the limit, the second just after.
    clock.advance(ms - 250 - 1);
    run();
    await pastDeadline(clock);
    expect(events).toEqual([]);
    clock.advance(51);
    run();
    await pastDeadline(clock);
    expect(events).toEqual(['timeout']);
  });

  it('does not blame Redis for a process that was busy itself all the time', async () => {
    const run = async () => {
      await stat('package.json');
      return ['lead', '1', '1'];
    };
    const diagnostics = { suspended: () => {}, resumed: () => {} };
    const link = new RedisLink({ port: { run }, deadlineMs: 20, clock: systemClock, random: () => 1, diagnostics });
    const call = link.run(ACQUIRE, 'key', []);
    // The answer comes while nobody reads; then the timer is due before it.
    for (const startedMs = performance.now(); performance.now() - startedMs < 60; );
    expect((await call).reply).toEqual(['lead', '1', '1']);
  });

  it('sends once more when the connection was lost under it, and not for a reply of the server', async () => {
    const lost = linked([
      (_, reject) => reject(new Error('Socket closed unexpectedly')),
      (resolve) => resolve(['wait', '1', '1']),
    ]);
    const retried = lost.run();
    await settle();
    expect(retried.words).toEqual(['wait', '1', '1']);
    const refused = linked([(_, reject) => reject(new Error('OOM command not allowed'))]);
    refused.run();
    await settle();
    expect(refused.sent).toHaveLength(1);
  });

  // As the servers reply to our scripts.
  it.each([
    ["OOM command not allowed when used memory > 'maxmemory'. script: 441edb74, on @user_script:1.", 'full'],
    [
      "ERR Error running script (call to f_441edb74): @user_script:1: -OOM command not allowed when used memory > 'maxmemory'.",
      'full',
    ],
    ["READONLY You can't write against a read only replica. script: 441edb74, on @user_script:1.", 'read_only'],
    [
      "ERR Error running script (call to f_441edb74): @user_script:1: -READONLY You can't write against a read only replica.",
      'read_only',
    ],
    ["NOPERM this user has no permissions to run the 'eval' command or its subcommand", 'denied'],
    [
      "ERR Error running script (call to f_441edb74): @user_script:1: The user executing the script can't run this command or subcommand",
      'denied',
    ],
    [
      "ERR The user executing the script can't run this command or subcommand script: 441edb74, on @user_script:1.",
      'denied',
    ],
    [
      "ERR ACL failure in script: User otr has no permissions to run the 'hset' command script: 441edb74, on @user_script:1.",
      'denied',
    ],
    ['NOPERM No permissions to access a key', 'denied'],
    ['CLUSTERDOWN The cluster is down', 'refused'],
    ['connect ECONNREFUSED 127.0.0.1:6379', 'connection'],
    ['The client is closed', 'connection'],
  ])('reports the trouble once: %s', async (message, trouble) => {
    const { events, run, clock, sent } = linked(
      Array(30).fill((_: unknown, reject: (error: Error) => void) => reject(new Error(message))),
    );
    for (let call = 0; call < 12; call++) {
      run();
      await settle();
    }
    expect(events).toEqual([trouble]);
    const before = sent.length;
    clock.advance(500);
    run();
    run();
    await settle();
    // One trial, with its second try where the connection is lost.
    expect(sent.length - before).toBe(trouble === 'connection' ? 2 : 1);
  });

  it.each([[undefined], [null], ['OK'], [[]], [['token']], [['token', 'x']], [[{}, '1']], [Array(9).fill('1')]])(
    'takes an answer that makes no sense for none: %j',
    async (raw) => {
      const { run } = linked([(resolve) => resolve(raw)]);
      const call = run();
      await settle();
      expect(call).toEqual({ settled: true, words: undefined, late: 'none' });
    },
  );

  it('gives back a lease that comes when the call no longer waits for it', async () => {
    const { clock, sent, link } = linked();
    const record = new SharedRecord(link, { channel: 'wake', mode: 'c', leaseMs: 3000, maxHoldMs: 15_000 });
    const acquiring = record.acquire('name', { call: 'call', mayLead: true });
    await pastDeadline(clock);
    const { inTime, late } = await acquiring;
    expect(inTime).toBeUndefined();
    record.abandon('name', 'call', late);
    sent[0]?.resolve(['lead', '1', '1']);
    await settle();
    expect(sent.map(({ name }) => name)).toEqual(['acquire', 'release']);
  });

  it('counts the replicas from a late reply too', async () => {
    const { clock, sent, link } = linked();
    const record = new SharedRecord(link, { channel: 'wake', mode: 'c', leaseMs: 3000, maxHoldMs: 15_000 });
    const counts: unknown[] = [];
    void record.announce('replicas', 'replica', 'key', 1_000, (count) => counts.push(count));
    await pastDeadline(clock);
    sent[0]?.resolve(['listed', '1', '20', '3']);
    await settle();
    expect(counts).toEqual([{ replicas: 20, mismatched: 3 }]);
  });

  it("estimates the server's time from replies, and is never ahead of it", async () => {
    const { clock, run, link } = linked([(resolve) => resolve(['wait', '5000000', '1'])]);
    expect(link.serverTimeUs(clock.monotonic())).toBeUndefined();
    run();
    await settle();
    clock.advance(10);
    expect(link.serverTimeUs(clock.monotonic())).toBe(5_010_000);
  });
});
