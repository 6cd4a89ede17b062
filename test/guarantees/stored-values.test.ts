/** Row L3: what is stored is garbled, cut, swapped, of another version or key: a miss, never another's token or a throw. */

import { createClient } from 'redis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fromNodeRedis, SharedTokens } from '../../src/redis/index.ts';
import { FleetSource, requestOf, SEALING_KEY } from '../helpers/model-fleet.ts';
import { noRedis, type RedisServer, startRedis } from '../helpers/redis-server.ts';
import { seeded } from '../helpers/seeded.mjs';

const FIELDS = ['v', 'g', 'u', 'h', 'l', 'n', 'f', 'e', 'w'];
const OWNERS = Array.from({ length: 100 }, (_, index) => `owner-${index}`);

describe.skipIf(noRedis)('L3', () => {
  let server: RedisServer;
  const connect = () => createClient({ url: server.url }).connect();
  let client: Awaited<ReturnType<typeof connect>>;
  beforeAll(async () => {
    server = await startRedis();
    client = await connect();
  });
  afterAll(async () => {
    client?.destroy();
    await server?.kill();
  });

  const replica = (source: FleetSource, sealingKeys = [SEALING_KEY]) =>
    new SharedTokens({ source, redis: fromNodeRedis(client), sealingKeys, namingKey: SEALING_KEY, leaseMs: 500 });

  it('400 damaged records: every call gets a token of its owner, and nothing throws', async () => {
    const source = FleetSource.answering();
    const next = seeded(7);
    const random = (below: number) => Math.floor(next() * below);
    const noise = () => String.fromCharCode(...Array.from({ length: random(40) }, () => random(256)));
    const damage = async (key: string, names: readonly string[]) => {
      // A string of an earlier round that no call has replaced.
      if ((await client.type(key)) !== 'hash') return;
      const values = (await client.hGetAll(key)) as Record<string, string>;
      const field = FIELDS[random(FIELDS.length)] ?? 'v';
      const value = values[field] ?? '';
      const other = names[random(OWNERS.length)] ?? key;
      // The other key may no longer be a hash, or never have been one.
      const swapped = (await client.hGet(other, field).catch(() => null)) ?? '';
      const changes = [
        noise(),
        value.slice(0, random(value.length + 1)),
        `${value}0`,
        swapped,
        '-1',
        '99999999999999999',
      ];
      await client.hSet(key, field, changes[random(changes.length)] ?? '');
      if (random(20) === 0) await client.set(key, noise());
    };
    await Promise.all(OWNERS.map((owner) => replica(source).requestToken(owner, requestOf())));
    for (let round = 0; round < 4; round++) {
      const names = await client.keys('otr:4:*');
      for (const key of names) if (!key.endsWith('replicas')) await damage(key, names);
      const fresh = replica(source);
      const grants = await Promise.all(OWNERS.map((owner) => fresh.requestToken(owner, requestOf())));
      expect(grants.map(({ token }) => token.replace(/^token-\d+-of-/, ''))).toEqual(OWNERS);
    }
  });

  it('a stored value of another key, or another version of the format, is a miss and an event, and is replaced', async () => {
    await client.flushAll();
    const source = FleetSource.answering();
    await replica(source).requestToken('owner', requestOf());
    const otherKey = SEALING_KEY.map((byte) => byte ^ 1);
    const stranger = replica(source, [otherKey]);
    await stranger.requestToken('owner', requestOf());
    expect(stranger.stats()).toMatchObject({ unreadable: 1, leader: 1 });
    const [key = ''] = (await client.keys('otr:4:*')).filter((name) => !name.endsWith('replicas'));
    const value = Buffer.from((await client.hGet(key, 'v')) ?? '', 'base64url');
    value[0] = 9;
    await client.hSet(key, 'v', value.toString('base64url'));
    const next = replica(source, [otherKey]);
    await next.requestToken('owner', requestOf());
    expect(next.stats()).toMatchObject({ unreadable: 1, leader: 1 });
  });
});
