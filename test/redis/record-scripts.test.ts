/** The scripts on a real server, against their model: the same operations, the same answers, fields and messages. */

import { createClient } from 'redis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fromNodeRedis } from '../../src/redis/ports.ts';
import * as scripts from '../../src/redis/record-scripts.ts';
import { noRedis, type RedisServer, startRedis } from '../helpers/redis-server.ts';
import { seeded } from '../helpers/seeded.mjs';
import { SharedRecordModel } from '../helpers/shared-record-model.ts';

const SCRIPTS = [
  scripts.ACQUIRE,
  scripts.RENEW,
  scripts.PUBLISH,
  scripts.OFFER,
  scripts.FAIL,
  scripts.REJECT,
  scripts.ENTER,
  scripts.ENTER,
  scripts.SETTLE,
];
const FIELDS = ['v', 'g', 'u', 'p', 'h', 'l', 'n', 's', 'f', 'x', 'c', 'r', 'k', 'b'];
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
      expect(model.expiries.get(key) ?? -2, 'expiry').toBe(await client.pExpireTime(key));
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
    model.listen((to, message) => expected.push(`${to === channel ? '' : to}${message}`));
    let generation = 0;
    let nowUs = Date.now() * 1000;
    for (let step = 0; step < 700; step++) {
      const key = pick([`a${seed}`, `b${seed}`]);
      const flight = pick(['f1', 'f2', 'f3']);
      const mine = pick([generation, generation, generation - 1, generation + 1, 0, nowUs - 100]);
      const until = nowUs + pick([-5, 500, 2000, 60_000_000, 9e15]);
      const failure = pick(['', '{"code":"a","scope":"endpoint"}', '{"code":"b"}']);
      const [baseMs, capMs] = pick([
        [0, 2],
        [1, 4],
        [1, 1],
      ]) as [number, number];
      const script = pick(SCRIPTS);
      const args = {
        acquire: [flight, pick([1, 3]), pick([0, generation, generation - 1]), pick([0, 0, 50])],
        renew: [flight, 2, pick([1, 1000])],
        publish: [flight, channel, key, mine, `sealed-${step}`, until],
        offer: [flight, channel, key, mine, `sealed-${step}`, until],
        fail: [flight, channel, key, failure, baseMs, capMs],
        reject: [mine, pick([0, 1000]), '{"code":"r"}', 1, 2],
        enter: [flight, 2],
        settle: [
          flight,
          nowUs - pick([0, 1000, 4000]),
          pick(['passed', 'answered', 'blamed', 'struck', 'struck', 'struck', 'released']),
          pick(['endpoint', 'client']),
          pick(['o1', 'o2', 'o3', 'o4']),
          `${failure || '{}'}`,
          baseMs,
          capMs,
        ],
      }[script.name] as (string | number)[];
      const answer = await run(script, key, args);
      nowUs = answer.nowUs;
      seen.add(`${script.name} ${answer.what}`);
      if (answer.what === 'lead' || answer.what === 'token') generation = Number(answer.rest[0]);
      if (random() < 0.03 && model.keys.has(key)) {
        const [field, value] = [pick(FIELDS), pick(DAMAGE)];
        await client.hSet(key, field, value);
        model.keys.set(key, new Map(model.keys.get(key)).set(field, value));
      }
      if (random() < 0.01) {
        await client.flushAll();
        model.flush();
      }
    }
    await expect.poll(() => heard.length).toBe(expected.length);
    expect(heard).toEqual(expected);
    await subscriber.unsubscribe(channel, listener);
  });

  it('met every answer, so that the comparison compared something', () => {
    const rare = [
      'publish superseded',
      'offer stored',
      'reject dropped',
      'enter probe',
      'settle failed',
      'settle late',
    ];
    for (const answer of ['acquire lead', 'acquire token', 'acquire failure', 'acquire wait', 'renew held', ...rare]) {
      expect(seen).toContain(answer);
    }
  });

  const FAR = 9e15;
  const publish = (flight: string, generation: number | string, value: string) =>
    [flight, 'wake', 'k', generation, value, FAR] as (string | number)[];

  it('a flight that resends gets its lease again, another waits, and a publish serves both', async () => {
    const { run } = pair();
    await client.flushAll();
    const lead = await run(scripts.ACQUIRE, 'k', ['f1', 3000, 0, 0]);
    expect(lead.what).toBe('lead');
    expect(await run(scripts.ACQUIRE, 'k', ['f1', 3000, 0, 0])).toMatchObject({ what: 'lead', rest: lead.rest });
    expect(await run(scripts.ACQUIRE, 'k', ['f2', 3000, 0, 0])).toMatchObject({ what: 'wait' });
    const generation = lead.rest[0] ?? '';
    expect(await run(scripts.PUBLISH, 'k', publish('f1', generation, 'T1'))).toMatchObject({ what: 'stored' });
    expect(await run(scripts.PUBLISH, 'k', publish('f1', generation, 'T1'))).toMatchObject({ what: 'stored' });
    expect(await run(scripts.ACQUIRE, 'k', ['f2', 3000, 0, 0])).toMatchObject({
      what: 'token',
      rest: [generation, 'T1'],
    });
    expect(await run(scripts.ACQUIRE, 'k', ['f3', 3000, generation, 0])).toMatchObject({ what: 'lead' });
  });

  it('a late publish of an older lease is answered with the newer token', async () => {
    const { run } = pair();
    await client.flushAll();
    const frozen = await run(scripts.ACQUIRE, 'k', ['frozen', 1, 0, 0]);
    await expect.poll(async () => (await run(scripts.ACQUIRE, 'k', ['heir', 3000, 0, 0])).what).toBe('lead');
    const heir = await run(scripts.ACQUIRE, 'k', ['heir', 3000, 0, 0]);
    await run(scripts.PUBLISH, 'k', publish('heir', heir.rest[0] ?? '', 'new'));
    const late = await run(scripts.PUBLISH, 'k', publish('frozen', frozen.rest[0] ?? '', 'old'));
    expect(late).toMatchObject({ what: 'superseded', rest: [heir.rest[0], 'new'] });
  });

  it('L4: a late reject of an old generation leaves the newer token, and what was rejected does not come back', async () => {
    const { run } = pair();
    await client.flushAll();
    const first = (await run(scripts.ACQUIRE, 'k', ['f1', 3000, 0, 0])).rest[0] ?? '';
    await run(scripts.PUBLISH, 'k', publish('f1', first, 'T1'));
    const reject = (generation: string) => run(scripts.REJECT, 'k', [generation, 10_000, '{"code":"r"}', 1000, 2000]);
    expect(await reject(first)).toMatchObject({ what: 'dropped' });
    expect(await run(scripts.PUBLISH, 'k', publish('f1', first, 'T1'))).toMatchObject({ what: 'refused' });
    const second = (await run(scripts.ACQUIRE, 'k', ['f2', 3000, first, 0])).rest[0] ?? '';
    await run(scripts.PUBLISH, 'k', publish('f2', second, 'T2'));
    expect(await reject(first)).toMatchObject({ what: 'kept' });
    expect(await run(scripts.ACQUIRE, 'k', ['f3', 3000, first, 0])).toMatchObject({ rest: [second, 'T2'] });
  });

  it('three fresh tokens rejected in a row are a failure', async () => {
    const { run } = pair();
    await client.flushAll();
    for (let round = 1, avoid = '0'; round <= 3; round++) {
      const lead = await run(scripts.ACQUIRE, 'k', [`f${round}`, 3000, avoid, 0]);
      expect(lead.what).toBe('lead');
      avoid = lead.rest[0] ?? '';
      await run(scripts.PUBLISH, 'k', publish(`f${round}`, avoid, `T${round}`));
      await run(scripts.REJECT, 'k', [avoid, 10_000, '{"code":"token_rejected"}', 1000, 2000]);
    }
    expect(await run(scripts.ACQUIRE, 'k', ['f4', 3000, 0, 0])).toMatchObject({ what: 'failure' });
  });

  it('generations grow across a flush, and a key of another type is replaced', async () => {
    const { run, model } = pair();
    await client.flushAll();
    const before = Number((await run(scripts.ACQUIRE, 'k', ['f1', 3000, 0, 0])).rest[0]);
    await client.flushAll();
    model.flush();
    const after = Number((await run(scripts.ACQUIRE, 'k', ['f2', 3000, before, 0])).rest[0]);
    expect(after).toBeGreaterThan(before);
    await client.set('k', 'a string');
    model.flush();
    expect(await run(scripts.ACQUIRE, 'k', ['f3', 3000, 0, 0])).toMatchObject({ what: 'lead' });
  });

  it('without rights to the channel a publish still stores and answers', async () => {
    const rights = ['~k', '+evalsha', '+eval', '+time', '+hmget', '+hset', '+hdel', '+del', '+pexpireat', '+publish'];
    await client.sendCommand(['ACL', 'SETUSER', 'poor', 'on', '>pw', 'resetchannels', ...rights]);
    const poor = await createClient({ url: server.url, username: 'poor', password: 'pw' }).connect();
    await client.flushAll();
    const port = fromNodeRedis(poor);
    const lead = (await port.run(scripts.ACQUIRE, 'k', ['f1', '3000', '0', '0'])) as string[];
    const stored = await port.run(scripts.PUBLISH, 'k', publish('f1', lead[2] ?? '', 'T1').map(String));
    expect(stored).toMatchObject(['stored', expect.anything()]);
    expect(await client.hGet('k', 'v')).toBe('T1');
    poor.destroy();
  });
});
