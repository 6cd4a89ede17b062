/** The scripts on a real server, against their model: the same operations, the same replies, fields and messages. */

import { createClient } from 'redis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fromNodeRedis } from '../../src/redis/ports.ts';
import * as scripts from '../../src/redis/record-scripts.ts';
import { isBefore7, noRedis, type RedisServer, startRedis } from '../helpers/redis-server.ts';
import { seeded } from '../helpers/seeded.mjs';
import { SharedRecordModel } from '../helpers/shared-record-model.ts';

const SCRIPTS = [scripts.ACQUIRE, scripts.ACQUIRE, scripts.PUBLISH, scripts.RELEASE, scripts.FORGET];
const FIELDS = ['v', 'g', 'u', 'h', 'l', 'n', 'f', 'e', 'w'];
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

  it.each([1, 2, 3, 4])('agree on 700 operations and damaged fields (seed %i)', async (seed) => {
    const random = seeded(seed);
    const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
    const { run, model } = pair();
    const heard: string[] = [];
    const expected: string[] = [];
    const channel = `wake-${seed}`;
    const listener = (message: string) => void heard.push(message);
    await subscriber.subscribe(channel, listener);
    const names = [`a${seed}`, `b${seed}`];
    const onShard = (message: string) => void heard.push(`shard ${message}`);
    if (!isBefore7) for (const name of names) await subscriber.sSubscribe(name, onShard);
    model.listen((to, message) => {
      if (to === channel) expected.push(message);
      else if (!isBefore7) expected.push(`shard ${message}`);
    });
    let generation = 0;
    let failed = 0;
    let nowUs = Date.now() * 1000;
    for (let step = 0; step < 700; step++) {
      const script = pick(SCRIPTS);
      const key = pick(names);
      const call = pick(['f1', 'f2', 'f3']);
      const mine = pick([generation, generation, generation - 1, generation + 1, 0, nowUs - 100, nowUs + 60_000_000]);
      const until = nowUs + pick([-5, 500, 2000, 60_000_000, 9e15]);
      const args = {
        acquire: [
          ...[call, pick([0, 1, 3]), pick([0, generation, generation - 1]), pick([0, 0, generation])],
          ...[pick([0, generation, failed]), pick(['c', 'c', 's', '']), pick([0, 5, 100]), channel, key, 'proof'],
        ],
        publish: [call, channel, key, mine, `sealed-${step}`, until, pick([0, 1]), 'proof'],
        forget: [channel, key, pick([0, generation]), ...pick([[], [], [generation, 'proof']])],
        release: [call, channel, key, pick(['', 'failure-a', 'failure-b'])],
      }[script.name] as (string | number)[];
      const answer = await run(script, key, args);
      nowUs = answer.nowUs;
      seen.add(`${script.name} ${answer.what}`);
      if (answer.what === 'lead' || answer.what === 'token') generation = Number(answer.rest[0]);
      failed = Number(model.keys.get(key)?.get('e') ?? 0);
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
    await expect.poll(() => heard.length, PATIENT).toBe(expected.length);
    expect(heard).toEqual(expected);
    await subscriber.unsubscribe(channel, listener);
    if (!isBefore7) for (const name of names) await subscriber.sUnsubscribe(name, onShard);
  });

  it('gave every reply during the random operations, so the comparison is meaningful', () => {
    const answers = ['acquire lead', 'acquire token', 'acquire failure', 'acquire wait', 'acquire free'];
    for (const answer of [
      ...answers,
      'publish stored',
      'publish refused',
      'forget forgotten',
      'forget told',
      'release released',
      'release lost',
    ]) {
      expect(seen).toContain(answer);
    }
  });

  const ACQUIRED = ['f1', 3_000, 0, 0, 0, 'c', 30_000, 'wake', 'k', 'proof'];

  it('replace a Redis key of another type', async () => {
    const { run } = pair();
    await client.set('k', 'a string');
    expect(await run(scripts.ACQUIRE, 'k', ACQUIRED)).toMatchObject({ what: 'lead' });
  });

  it('list a replica while its announcement is recent, and at most MAX_COUNTED in a reply', async () => {
    const { run, model } = pair();
    await client.flushAll();
    const { nowUs } = await run(scripts.ANNOUNCE, 'replicas', ['first', '0 of unknown time']);
    const ages = { first: 0, second: 299, third: 301, fourth: -299, fifth: -301 };
    for (const [name, age] of Object.entries(ages)) {
      await run(scripts.ANNOUNCE, 'replicas', [name, `${nowUs - age * 1_000_000} said`]);
    }
    const { rest } = await run(scripts.ANNOUNCE, 'replicas', ['first', '0 leaves']);
    expect(rest.map((each) => each.split(' ').at(-1))).toEqual(['second', 'fourth']);
    const many = Array.from({ length: scripts.MAX_COUNTED + 9 }, (_, index) => [`r${index}`, `${nowUs} said`] as const);
    await client.hSet('many', Object.fromEntries(many));
    const port = fromNodeRedis(client);
    const reply = (await port.run(scripts.ANNOUNCE, 'many', ['first', '0 leaves'])) as string[];
    expect(reply).toHaveLength(2 + scripts.MAX_COUNTED);
    await client.set('replicas', 'a string');
    model.flush();
    expect((await run(scripts.ANNOUNCE, 'replicas', ['first', `${nowUs} said`])).rest).toHaveLength(1);
  });

  it('store the token and reply, even without the right to publish to the channel', async () => {
    const rights = ['~k', '+evalsha', '+eval', '+time', '+hmget', '+hset', '+hdel', '+del', '+pexpireat', '+publish'];
    await client.sendCommand(['ACL', 'SETUSER', 'poor', 'on', '>pw', 'resetchannels', ...rights]);
    const poor = await createClient({ url: server.url, username: 'poor', password: 'pw' }).connect();
    await client.flushAll();
    const port = fromNodeRedis(poor);
    const [, , generation = ''] = (await port.run(scripts.ACQUIRE, 'k', ACQUIRED.map(String))) as string[];
    const token = ['f1', 'wake', 'k', generation, 'T1', `${9e15}`, '0', 'proof'];
    const stored = await port.run(scripts.PUBLISH, 'k', token);
    expect(stored).toMatchObject(['stored', expect.anything()]);
    expect(await client.hGet('k', 'v')).toBe('T1');
    poor.destroy();
  });
});
