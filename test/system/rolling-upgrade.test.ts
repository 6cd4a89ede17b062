/**
 * Row L, during a rolling upgrade: replicas whose sharing is of an earlier version beside those of this one, on one Redis, as the
 * user that the fleet page sets up. All have the registry of this version, because only the sharing speaks to other replicas.
 */

import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import * as current from '../../src/redis/index.ts';
import { Names, namingKeyFrom } from '../../src/redis/sealing.ts';
import { OwnerTokenRegistry } from '../../src/registry/registry.ts';
import { denied, documentedRights, USER } from '../helpers/documented-rights.ts';
import * as earlier from '../helpers/earlier-sharing.mjs';
import { FleetSource, SEALING_KEY } from '../helpers/model-fleet.ts';
import { noRedis, type RedisServer, startRedis } from '../helpers/redis-server.ts';

const OWNER = 'owner';

/** Short where a test waits for it to end; elsewhere far longer than a busy machine takes. */
const LEASE_MS = { short: 1_000, long: 30_000 } as const;

/** So that a busy machine is not taken for a slow Redis. */
const REDIS_TIMEOUT_MS = 5_000;

interface Replica {
  readonly source: FleetSource;
  readonly shared: current.SharedTokens;
  readonly registry: OwnerTokenRegistry;
}

const VERSIONS = { earlier, current };
const BOTH = [
  ['earlier', 'current'],
  ['current', 'earlier'],
] as const;

describe.skipIf(noRedis)('L: in a rolling upgrade', () => {
  const names = new Names('otr', namingKeyFrom(SEALING_KEY));
  let redis: RedisServer;
  let admin: Redis;
  let closing: (() => unknown)[] = [];

  beforeEach(async () => {
    redis = await startRedis();
    admin = new Redis(redis.port);
    await admin.call('ACL', 'SETUSER', ...documentedRights('standalone'));
    closing = [() => redis.kill(), () => admin.disconnect()];
  });
  afterEach(async () => {
    for (const close of closing.reverse()) await close();
  });

  /** A replica whose sharing is of that version, with a source of its own that counts. */
  async function start(
    version: keyof typeof VERSIONS,
    source = new FleetSource(),
    lease: keyof typeof LEASE_MS = 'long',
  ): Promise<Replica> {
    const { SharedTokens, fromNodeRedis } = VERSIONS[version];
    const client = createClient({ url: redis.url, ...USER });
    const subscriber = client.duplicate();
    for (const each of [client, subscriber]) {
      await each.on('error', () => {}).connect();
      closing.push(() => each.destroy());
    }
    const port = fromNodeRedis(client, { subscriber });
    const options = { source, redis: port, sealingKeys: [SEALING_KEY] };
    const shared = new SharedTokens({ ...options, leaseMs: LEASE_MS[lease], redisTimeoutMs: REDIS_TIMEOUT_MS });
    const registry = new OwnerTokenRegistry({ source: shared });
    closing.push(() => registry.close());
    return { source, shared, registry };
  }

  const startHasty = (version: keyof typeof VERSIONS) => start(version, new FleetSource(), 'short');

  /** The call of a leader, and that of a follower which waits for it. */
  async function leadAndFollow(leader: Replica, follower: Replica) {
    const led = leader.registry.getToken(OWNER);
    await expect.poll(() => leader.source.calls.length).toBe(1);
    const followed = follower.registry.getToken(OWNER);
    followed.catch(() => {});
    await expect.poll(() => admin.hget(names.ofOwner('endpoint and client', OWNER), 'w')).toBe('c');
    return { led, followed };
  }

  const answer = (replica: Replica, index = -1) =>
    replica.source.call(index).succeed({ response: { expires_in: 3600 } });
  const isSharing = ({ shared }: Replica) => shared.stats().sharing;

  it.each(BOTH)('the %s version leads, and the %s one gets its token', async (first, second) => {
    const [leader, follower] = [await start(first), await start(second)];
    const { led, followed } = await leadAndFollow(leader, follower);
    answer(leader);
    expect((await followed).value).toBe((await led).value);
    expect(follower.source.calls).toHaveLength(0);
    expect(await denied(admin)).toEqual([]);
  });

  it.each(BOTH)('the %s version leads and fails, and the %s one learns why', async (first, second) => {
    const [leader, follower] = [await start(first), await start(second)];
    const { led, followed } = await leadAndFollow(leader, follower);
    leader.source.call(0).fail(new OwnerTokenError('owner_refused', 'gone', { failureScope: 'owner', status: 401 }));
    await expect(led).rejects.toMatchObject({ code: 'owner_refused', status: 401 });
    await expect(followed).rejects.toMatchObject({ code: 'owner_refused', status: 401 });
    expect(follower.source.calls).toHaveLength(0);
  });

  it.each(BOTH)('the %s version hangs, and the %s one leads after it', async (first, second) => {
    const [leader, follower] = [await startHasty(first), await startHasty(second)];
    const { led, followed } = await leadAndFollow(leader, follower);
    await expect.poll(() => follower.source.calls.length, { timeout: 15_000 }).toBe(1);
    answer(follower);
    const { value } = await followed;
    // The late answer replaces nothing.
    answer(leader);
    await led;
    const late = await start('current');
    expect((await late.registry.getToken(OWNER)).value).toBe(value);
    expect(late.source.calls).toHaveLength(0);
  });

  it('a leader of this version takes the token of the earlier one that led before it', async () => {
    const [leader, follower] = [await startHasty('earlier'), await startHasty('current')];
    const { led, followed } = await leadAndFollow(leader, follower);
    await expect.poll(() => follower.source.calls.length, { timeout: 15_000 }).toBe(1);
    answer(leader);
    expect((await followed).value).toBe((await led).value);
    answer(follower);
  });

  it.each(BOTH)('what the %s version rejects, the %s one replaces too, with one request', async (first, second) => {
    const source = FleetSource.answering();
    const [rejecting, hearing] = [await start(first, source), await start(second, source)];
    const token = await rejecting.registry.getToken(OWNER);
    expect((await hearing.registry.getToken(OWNER)).value).toBe(token.value);
    rejecting.registry.reject(OWNER, token);
    const { value } = await rejecting.registry.getToken(OWNER);
    expect(value).not.toBe(token.value);
    // Its first call after the news replaces the token, too.
    await expect.poll(async () => (await hearing.registry.getToken(OWNER)).value).toBe(value);
    expect(source.calls).toHaveLength(2);
  });

  it('what this version forgets, the earlier one neither stores again nor shares', async () => {
    const [asking, forgetting] = [await start('earlier'), await start('current')];
    const asked = asking.registry.getToken(OWNER);
    await expect.poll(() => asking.source.calls.length).toBe(1);
    forgetting.registry.forget(OWNER);
    await expect.poll(() => admin.hkeys(names.ofOwner('endpoint and client', OWNER))).not.toContain('h');
    answer(asking);
    const before = await asked;
    // Its token is not in the record, and its rejection names a generation of before.
    forgetting.source.script((call) => call.succeed({ token: 'after', response: { expires_in: 3600 } }));
    expect((await forgetting.registry.getToken(OWNER)).value).toBe('after');
    asking.registry.reject(OWNER, before);
    expect((await asking.registry.getToken(OWNER)).value).toBe('after');
    expect(forgetting.registry.peek(OWNER)?.value).toBe('after');
    expect([asking, forgetting].map(({ source }) => source.calls.length)).toEqual([1, 1]);
    expect([asking, forgetting].every(isSharing)).toBe(true);
  });

  it('six replicas of both, thirty owners, and a rejection of each: one request for each token', async () => {
    const source = FleetSource.answering();
    const replicas: Replica[] = [];
    for (const version of ['earlier', 'current', 'earlier', 'current', 'earlier', 'current'] as const) {
      replicas.push(await start(version, source));
    }
    const owners = Array.from({ length: 30 }, (_, index) => `owner-${index}`);
    const values = async (owner: string) => {
      const tokens = await Promise.all(replicas.map(({ registry }) => registry.getToken(owner)));
      return [...new Set(tokens.map(({ value }) => value))];
    };
    const before = await Promise.all(owners.map(values));
    expect(before.flat()).toHaveLength(owners.length);
    for (const [index, owner] of owners.entries()) {
      const { registry } = replicas[index % replicas.length] as Replica;
      registry.reject(owner, before[index]?.[0] ?? '');
      await registry.getToken(owner);
    }
    const isReplaced = async (owner: string, index: number) => {
      const [value, ...others] = await values(owner);
      return others.length === 0 && value !== before[index]?.[0];
    };
    const replaced = async () => (await Promise.all(owners.map(isReplaced))).filter(Boolean);
    await expect.poll(replaced, { timeout: 15_000 }).toHaveLength(owners.length);
    expect(source.calls).toHaveLength(owners.length * 2);
    expect(replicas.every(isSharing)).toBe(true);
    expect(await denied(admin)).toEqual([]);
  });
});
