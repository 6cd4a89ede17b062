/** The scripts on a real server, against their model: the same operations, the same replies, fields and messages. */

import { createClient } from 'redis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fromNodeRedis } from '../../src/redis/ports.ts';
import * as scripts from '../../src/redis/record-scripts.ts';
import { isBefore7, noRedis, type RedisServer, startRedis } from '../helpers/redis-server.ts';
import { seeded } from '../helpers/seeded.mjs';
import { SharedRecordModel } from '../helpers/shared-record-model.ts';

const SCRIPTS = [
  scripts.ACQUIRE,
  scripts.ACQUIRE,
  scripts.RENEW,
  scripts.PUBLISH,
  scripts.PUBLISH,
  scripts.RELEASE,
  scripts.RELEASE,
  scripts.RESERVE,
];
const FIELDS = ['v', 'g', 'u', 'h', 'l', 'n', 's', 'f', 'x', 'w', 't'];
const DAMAGE = [
  '',
  'x',
  '-1',
  'nan',
  'inf',
  '-inf',
  '1e300',
  '0x10',
  ' 7 ',
  '9007199254740993',
  '99999999999999999',
  '\u0000',
];

/** For a machine that is busy. */
const PATIENT = { timeout: 15_000 };

describe.skipIf(noRedis)('the scripts and their model', () => {
  let server: RedisServer;
  const connect = () => createClient({ url: server.url }).connect();
  let client: Awaited<ReturnType<typeof connect>>;
  let subscriber: typeof client;
  const seen = new Set<string>();

  beforeAll(async () => {
    server = await startRedis();
    client = await connect();
    subscriber = await connect();
  });
  afterAll(async () => {
    client?.destroy();
    subscriber?.destroy();
    await server?.kill();
  });

  /** Epoch milliseconds, or -2 without the key. Redis 6.2 knows only the time that is left. */
  async function expiryOf(key: string): Promise<number> {
    if (!isBefore7) return client.pExpireTime(key);
    const [leftMs, [seconds, microseconds]] = (await client
      .multi()
      .pTTL(key)
      .addCommand(['TIME'])
      .exec()) as unknown as [number, [string, string]];
    return leftMs < 0 ? leftMs : Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000) + leftMs;
  }

  /** Runs one operation on both, at the server's time, and compares all there is to compare. */
  function pair() {
    const port = fromNodeRedis(client, { subscriber });
    let nowUs = 0;
    const model = new SharedRecordModel(() => nowUs);
    const run = async (script: scripts.RecordScript, key: string, args: (string | number)[]) => {
      const words = args.map(String);
      const real = (await port.run(script, key, words)) as string[];
      nowUs = Number(real[1]);
      expect(model.run(script.name, key, words), `${script.name} ${words.join(' ')}`).toEqual(real);
      expect(Object.fromEntries(model.keys.get(key) ?? [])).toEqual({ ...(await client.hGetAll(key)) });
      // Redis 6.2 tells only the time left, by a clock that it reads a moment earlier.
      const apartMs = Math.abs((model.expiries.get(key) ?? -2) - (await expiryOf(key)));
      expect(apartMs, 'expiry').toBeLessThanOrEqual(isBefore7 ? 100 : 0);
      return { what: real[0], nowUs, rest: real.slice(2) };
    };
    return { run, model };
  }

  it.each([1, 2, 3, 4])('agree on 700 random operations, damaged fields among them (seed %i)', async (seed) => {
    const random = seeded(seed);
    const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
    const { run, model } = pair();
    const heard: string[] = [];
    const expected: string[] = [];
    const channel = `wake-${seed}`;
    const listener = (message: string) => void heard.push(message);
    await subscriber.subscribe(channel, listener);
    const names = [`a${seed}`, `b${seed}`, `pace${seed}`];
    const onShard = (message: string) => void heard.push(`shard ${message}`);
    if (!isBefore7) for (const name of names) await subscriber.sSubscribe(name, onShard);
    model.listen((to, message) => {
      if (to === channel) expected.push(message);
      else if (!isBefore7) expected.push(`shard ${message}`);
    });
    let generation = 0;
    let nowUs = Date.now() * 1000;
    for (let step = 0; step < 700; step++) {
      const script = pick(SCRIPTS);
      // Each of the two has a record of its own kind.
      const key = script === scripts.RESERVE ? `pace${seed}` : pick([`a${seed}`, `b${seed}`]);
      const call = pick(['f1', 'f2', 'f3']);
      const mine = pick([generation, generation, generation - 1, generation + 1, 0, nowUs - 100]);
      const until = nowUs + pick([-5, 500, 2000, 60_000_000, 9e15]);
      const failure = pick(['', 'failure-a', 'failure-b']);
      const mode = pick(['c', 'c', 's']);
      const args = {
        acquire: [
          call,
          pick([0, 1, 3, -1]),
          pick([0, generation, generation - 1]),
          pick([0, 0, 50]),
          pick([0, 0, generation]),
          pick(['', '', failure]),
          mode,
          pick([nowUs, nowUs - 1_000, nowUs - 9e6, nowUs + 1e6, 0]),
        ],
        renew: [call, 2, pick([1, 1000])],
        publish: [call, channel, key, mine, `sealed-${step}`, until, pick([0, 1]), mode],
        release: [
          call,
          channel,
          key,
          pick(['failed', 'failed', 'passed', 'unknown']),
          failure,
          until,
          pick([0, 1]),
          mode,
        ],
        reserve: [pick([1, 7]), pick([1_000, 333_333])],
      }[script.name] as (string | number)[];
      const answer = await run(script, key, args);
      nowUs = answer.nowUs;
      seen.add(`${script.name} ${answer.what}`);
      if (answer.what === 'lead' || answer.what === 'token') generation = Number(answer.rest[0]);
      if (random() < 0.03 && model.keys.has(key)) {
        const [field, value] = [key.startsWith('pace') ? 't' : pick(FIELDS), pick(DAMAGE)];
        await client.hSet(key, field, value);
        model.keys.set(key, new Map(model.keys.get(key)).set(field, value));
      }
      if (random() < 0.01) {
        await client.flushAll();
        model.flush();
      }
    }
    await expect.poll(() => heard.length, PATIENT).toBe(expected.length);
    expect(heard).toEqual(expected);
    await subscriber.unsubscribe(channel, listener);
    if (!isBefore7) for (const name of names) await subscriber.sUnsubscribe(name, onShard);
  });

  it('gave every reply, so the comparison compared something', () => {
    const answers = ['acquire lead', 'acquire token', 'acquire failure', 'acquire wait', 'acquire free', 'renew held'];
    for (const answer of [...answers, 'renew lost', 'publish stored', 'publish superseded', 'publish refused']) {
      expect(seen).toContain(answer);
    }
    for (const answer of ['release changed', 'release released', 'reserve reserved']) expect(seen).toContain(answer);
  });

  const FAR = 9e15;
  const publish = (call: string, generation: number | string, value: string) =>
    [call, 'wake', 'k', generation, value, FAR, 0, 'c'] as (string | number)[];

  const acquire = (
    call: string,
    changes: { leaseMs?: number; avoid?: string; rejected?: string; unreadable?: string; sentUs?: number } = {},
  ) => {
    const { leaseMs = 3000, avoid = '0', rejected = '0', unreadable = '', sentUs = FAR } = changes;
    return [call, leaseMs, avoid, 0, rejected, unreadable, 'c', sentUs];
  };
  const release = (call: string, outcome: string, failure = '', endsAtUs = 0, all = 0) =>
    [call, 'wake', 'k', outcome, failure, endsAtUs, all, 'c'] as (string | number)[];

  it('a call that resends gets its lease again, another waits, and a publish serves both', async () => {
    const { run } = pair();
    await client.flushAll();
    const lead = await run(scripts.ACQUIRE, 'k', acquire('c1'));
    expect(lead.what).toBe('lead');
    expect(await run(scripts.ACQUIRE, 'k', acquire('c1'))).toMatchObject({ what: 'lead', rest: lead.rest });
    expect(await run(scripts.ACQUIRE, 'k', acquire('c2'))).toMatchObject({ what: 'wait' });
    const generation = lead.rest[0] ?? '';
    expect(await run(scripts.PUBLISH, 'k', publish('c1', generation, 'T1'))).toMatchObject({ what: 'stored' });
    expect(await run(scripts.PUBLISH, 'k', publish('c1', generation, 'T1'))).toMatchObject({ what: 'stored' });
    expect(await run(scripts.ACQUIRE, 'k', acquire('c2'))).toMatchObject({ what: 'token', rest: [generation, 'T1'] });
    expect(await run(scripts.ACQUIRE, 'k', acquire('c3', { avoid: generation }))).toMatchObject({ what: 'lead' });
  });

  it('a call that only reads takes no lease', async () => {
    const { run } = pair();
    await client.flushAll();
    expect(await run(scripts.ACQUIRE, 'k', acquire('c1', { leaseMs: 0 }))).toMatchObject({
      what: 'free',
      rest: ['0', ''],
    });
    expect(await run(scripts.ACQUIRE, 'k', acquire('c2'))).toMatchObject({ what: 'lead' });
    expect(await run(scripts.ACQUIRE, 'k', acquire('c1', { leaseMs: 0 }))).toMatchObject({ what: 'wait' });
  });

  it("extends a lease by the script's delay, and leaves an expired lease to its holder for as long", async () => {
    const { run, model } = pair();
    const flush = async () => {
      await client.flushAll();
      model.flush();
    };
    const leaseOf = async (sentUs: number) => {
      await flush();
      const { nowUs } = await run(scripts.ACQUIRE, 'k', acquire('c1', { leaseMs: 3_000, sentUs }));
      return Number(await client.hGet('k', 'l')) - nowUs - 3_000_000;
    };
    await flush();
    const { nowUs } = await run(scripts.RENEW, 'k', ['nobody', 1, 1]);
    expect(await leaseOf(nowUs + 60e6)).toBe(0);
    const lateUs = await leaseOf(nowUs - 2e6);
    expect(lateUs).toBeGreaterThanOrEqual(2e6);
    expect(lateUs).toBeLessThan(8e6);
    expect(await leaseOf(nowUs - 60e6)).toBe(8e6);
    // The time of the server is not known yet.
    expect(await leaseOf(0)).toBe(8e6);
    await flush();
    await run(scripts.ACQUIRE, 'k', acquire('c1', { leaseMs: 1 }));
    const late = acquire('c2', { sentUs: 0 });
    // Expired, but not given to a caller that may itself be late.
    const waits = async () => (await run(scripts.ACQUIRE, 'k', late)).rest[0];
    await expect.poll(waits, PATIENT).toBe('0');
    expect((await run(scripts.ACQUIRE, 'k', acquire('c2'))).what).toBe('lead');
  });

  /** A leader that froze for longer than its lease, and the one that took over. */
  async function takenOver(run: ReturnType<typeof pair>['run']) {
    await client.flushAll();
    const frozen = await run(scripts.ACQUIRE, 'k', acquire('frozen', { leaseMs: 1 }));
    await expect.poll(async () => (await run(scripts.ACQUIRE, 'k', acquire('successor'))).what, PATIENT).toBe('lead');
    const successor = await run(scripts.ACQUIRE, 'k', acquire('successor'));
    return [frozen.rest[0] ?? '', successor.rest[0] ?? ''] as const;
  }

  it('a late publish of an older lease is answered with the newer token', async () => {
    const { run } = pair();
    const [frozen, successor] = await takenOver(run);
    await run(scripts.PUBLISH, 'k', publish('successor', successor, 'new'));
    const late = await run(scripts.PUBLISH, 'k', publish('frozen', frozen, 'old'));
    expect(late).toMatchObject({ what: 'superseded', rest: [successor, 'new'] });
  });

  it('L2: the generation is a fencing token: a thawed leader stores nothing over a newer lease', async () => {
    const { run } = pair();
    const [frozen, successor] = await takenOver(run);
    expect(await run(scripts.PUBLISH, 'k', publish('frozen', frozen, 'old'))).toMatchObject({ what: 'refused' });
    expect(await run(scripts.ACQUIRE, 'k', acquire('other'))).toMatchObject({ what: 'wait' });
    expect(await run(scripts.PUBLISH, 'k', publish('successor', successor, 'new'))).toMatchObject({ what: 'stored' });
  });

  it('L4: a late rejection of an old generation leaves the newer token, and a rejected one does not come back', async () => {
    const { run } = pair();
    await client.flushAll();
    const first = (await run(scripts.ACQUIRE, 'k', acquire('c1'))).rest[0] ?? '';
    await run(scripts.PUBLISH, 'k', publish('c1', first, 'T1'));
    const rejecting = acquire('c2', { avoid: first, rejected: first });
    const second = (await run(scripts.ACQUIRE, 'k', rejecting)).rest[0] ?? '';
    expect(await client.hGet('k', 'v')).toBeNull();
    expect(await run(scripts.PUBLISH, 'k', publish('c1', first, 'T1'))).toMatchObject({ what: 'refused' });
    await run(scripts.PUBLISH, 'k', publish('c2', second, 'T2'));
    expect(await run(scripts.ACQUIRE, 'k', rejecting)).toMatchObject({ what: 'token', rest: [second, 'T2'] });
  });

  it('a failure stands until its end, the later of two, and a token or the trial clears it', async () => {
    const { run } = pair();
    await client.flushAll();
    const { nowUs } = await run(scripts.ACQUIRE, 'k', acquire('c1'));
    await run(scripts.RELEASE, 'k', release('c1', 'failed', 'F1', nowUs + 90e6));
    expect(await run(scripts.RELEASE, 'k', release('c2', 'failed', 'F2', nowUs + 50e6))).toMatchObject({
      what: 'released',
    });
    expect(await run(scripts.ACQUIRE, 'k', acquire('c3'))).toMatchObject({
      what: 'failure',
      rest: [expect.anything(), 'F1'],
    });
    // One that does not open is dropped by name.
    expect(await run(scripts.ACQUIRE, 'k', acquire('c3', { unreadable: 'F2' }))).toMatchObject({ what: 'failure' });
    const trial = await run(scripts.ACQUIRE, 'k', acquire('c3', { unreadable: 'F1' }));
    expect(trial).toMatchObject({ what: 'lead', rest: [expect.anything(), ''] });
    // It ends before it is stored if this process gets no CPU time meanwhile.
    const fails = async () => {
      const { nowUs } = await run(scripts.ACQUIRE, 'k', acquire('c3'));
      return (await run(scripts.RELEASE, 'k', release('c3', 'failed', 'F3', nowUs + 60_000))).what;
    };
    await expect.poll(fails, PATIENT).toBe('changed');
    await expect
      .poll(async () => JSON.stringify(await run(scripts.ACQUIRE, 'k', acquire('c4'))), PATIENT)
      .toMatch(/"lead".*"F3"/);
    await run(scripts.RELEASE, 'k', release('c5', 'passed'));
    expect(await client.hGet('k', 'f')).toBe('F3');
    await run(scripts.RELEASE, 'k', release('c4', 'passed'));
    expect(await client.hGet('k', 'f')).toBeNull();
  });

  it('replicas are counted while they announce themselves, and those with another naming key apart', async () => {
    const { run, model } = pair();
    await client.flushAll();
    expect(await run(scripts.ANNOUNCE, 'k', ['r1', 'key', 50_000])).toMatchObject({ rest: ['1', '0'] });
    expect(await run(scripts.ANNOUNCE, 'k', ['r2', 'key', 50_000])).toMatchObject({ rest: ['2', '0'] });
    expect(await run(scripts.ANNOUNCE, 'k', ['r3', 'other', 50_000])).toMatchObject({ rest: ['3', '2'] });
    await client.hSet('k', 'r1', 'key 17');
    model.keys.get('k')?.set('r1', 'key 17');
    expect(await run(scripts.ANNOUNCE, 'k', ['r2', 'key', 50_000])).toMatchObject({ rest: ['2', '1'] });
    expect(await run(scripts.ANNOUNCE, 'k', ['r3', 'other', 0])).toMatchObject({ what: 'left' });
    expect(await run(scripts.ANNOUNCE, 'k', ['r2', 'key', 50_000])).toMatchObject({ rest: ['1', '0'] });
  });

  it('generations grow across a flush, and a key of another type is replaced', async () => {
    const { run, model } = pair();
    await client.flushAll();
    const before = Number((await run(scripts.ACQUIRE, 'k', acquire('f1'))).rest[0]);
    await client.flushAll();
    model.flush();
    const after = Number((await run(scripts.ACQUIRE, 'k', acquire('f2', { avoid: `${before}` }))).rest[0]);
    expect(after).toBeGreaterThan(before);
    await client.set('k', 'a string');
    model.flush();
    expect(await run(scripts.ACQUIRE, 'k', acquire('f3'))).toMatchObject({ what: 'lead' });
  });

  it('without rights to the channel a publish still stores and answers', async () => {
    const rights = ['~k', '+evalsha', '+eval', '+time', '+hmget', '+hset', '+hdel', '+del', '+pexpireat', '+publish'];
    await client.sendCommand(['ACL', 'SETUSER', 'poor', 'on', '>pw', 'resetchannels', ...rights]);
    const poor = await createClient({ url: server.url, username: 'poor', password: 'pw' }).connect();
    await client.flushAll();
    const port = fromNodeRedis(poor);
    const lead = (await port.run(scripts.ACQUIRE, 'k', acquire('f1').map(String))) as string[];
    const stored = await port.run(scripts.PUBLISH, 'k', publish('f1', lead[2] ?? '', 'T1').map(String));
    expect(stored).toMatchObject(['stored', expect.anything()]);
    expect(await client.hGet('k', 'v')).toBe('T1');
    poor.destroy();
  });
});
