/** L4 and P1 in a fleet: three replicas on one manual clock, each with its own clients of a real Redis, and an API that says no. */

import { createClient } from 'redis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type AccessToken, OwnerTokenError, OwnerTokenRegistry } from '../../src/index.ts';
import { fromNodeRedis, SharedTokens } from '../../src/redis/index.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';
import { FleetSource, SEALING_KEY } from '../helpers/model-fleet.ts';
import { noRedis, type RedisServer, startRedis } from '../helpers/redis-server.ts';
import { keys, until } from '../helpers/registries.ts';

const OWNERS = keys(3);

describe.skipIf(noRedis)('three replicas over a real Redis', () => {
  let redis: RedisServer;
  const closing: (() => unknown)[] = [];
  beforeEach(async () => {
    redis = await startRedis();
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
    await redis.kill();
  });

  /** Replicas on one clock. All calls to the API are answered by `accepts`. */
  async function fleet(count = 3, source = FleetSource.answering()) {
    const clock = new ManualClock(Date.now());
    let pending = 0;
    const accepts = { token: (_token: AccessToken): boolean => true };
    const start = async () => {
      const client = await createClient({ url: redis.url }).connect();
      const subscriber = await client.duplicate().connect();
      closing.push(...[client, subscriber].map((connection) => () => connection.destroy()));
      const port = fromNodeRedis(client, { subscriber });
      const run: typeof port.run = (...script) => {
        pending++;
        return port.run(...script).finally(() => pending--);
      };
      const shared = new SharedTokens({
        source,
        redis: { ...port, run },
        sealingKeys: [SEALING_KEY],
        redisTimeoutMs: 5_000,
        clock,
        random: () => 0.5,
      });
      const registry = new OwnerTokenRegistry({ source: shared, clock, random: () => 0.5 });
      closing.push(() => registry.close());
      // Subscribed: from now on it hears of every rejection.
      await registry.getToken('warm');
      await new Promise((resolve) => setTimeout(resolve, 50));
      return registry;
    };
    const registries: OwnerTokenRegistry[] = [];
    for (let replica = 0; replica < count; replica++) registries.push(await start());
    /** A call, made again after a 401. Returns whether it was served. */
    const call = async (registry: OwnerTokenRegistry, owner: string): Promise<boolean> => {
      for (let attempt = 0; attempt < 2; attempt++) {
        const token = await registry.getToken(owner);
        if (accepts.token(token)) {
          registry.accept(owner, token);
          return true;
        }
        registry.reject(owner, token);
      }
      return false;
    };
    /** Every owner calls once a second, through every replica at the same time. Returns how many calls were served. */
    const pass = async (seconds: number): Promise<number> => {
      let served = 0;
      for (let second = 0; second < seconds; second++) {
        const calls = registries.flatMap((registry) => OWNERS.map((owner) => call(registry, owner)));
        served += (await Promise.all(calls)).filter(Boolean).length;
        clock.advance(1_000);
        await settle();
        // No time passes while Redis works.
        await until(() => pending === 0);
      }
      return served;
    };
    const requests = () => OWNERS.reduce((sum, owner) => sum + source.countFor(owner), 0);
    return { clock, source, accepts, registries, start, call, pass, requests };
  }

  it('P1 an outage of the API for five minutes costs the fleet one request for each time that a token is kept, not one per replica', async () => {
    const { accepts, pass, requests, registries } = await fleet();
    expect(await pass(5)).toBe(5 * 9);
    expect(requests()).toBe(OWNERS.length);
    accepts.token = () => false;
    expect(await pass(300)).toBe(0);
    // A single process: two at once, and after 10, 30, 70 and 150 s.
    const perOwner = requests() / OWNERS.length - 1;
    expect(perOwner).toBeGreaterThanOrEqual(5);
    expect(perOwner).toBeLessThanOrEqual(6);
    accepts.token = () => true;
    expect(await pass(1)).toBe(9);
    for (const registry of registries) expect(registry.stats().pauses.owners).toBe(0);
  });

  it('P1 the same with a service that issues the rejected token again', async () => {
    const again = new FleetSource((call) =>
      call.succeed({ token: `of-${call.accessKey}`, response: { expires_in: 36_000 } }),
    );
    const { accepts, pass, requests } = await fleet(3, again);
    await pass(5);
    accepts.token = () => false;
    await pass(300);
    expect(requests() / OWNERS.length - 1).toBeLessThanOrEqual(6);
  });

  it('P1 and with a token service that refuses: nothing newer can be had, and every replica keeps what it has', async () => {
    const { source, accepts, pass, registries } = await fleet();
    await pass(5);
    const before = await Promise.all(registries.map((registry) => registry.getToken('key-1')));
    source.script((call) => call.fail(new OwnerTokenError('owner_refused', 'no', { oauthError: 'invalid_grant' })));
    accepts.token = () => false;
    expect(await pass(60)).toBe(0);
    expect(await Promise.all(registries.map((registry) => registry.getToken('key-1')))).toEqual(before);
    accepts.token = () => true;
    expect(await pass(1)).toBe(9);
  });

  it.each([0, 900, 9_000])(
    'L4 a replica that was given a shared token %i ms ago hears of its rejection by another one',
    async (ms) => {
      const { clock, source, registries, start } = await fleet();
      const hold = async (registry: OwnerTokenRegistry) => registry.getToken('key-1');
      for (const registry of registries) registry.accept('key-1', await hold(registry));
      for (const registry of registries) registry.reject('key-1', await hold(registry));
      const [second] = await Promise.all(registries.map(hold));
      expect(source.countFor('key-1')).toBe(2);
      clock.advance(ms);
      // A new replica rejects the second one.
      const late = await start();
      late.reject('key-1', await hold(late));
      const third = await hold(late);
      expect(third.value).not.toBe(second?.value);
      await until(() => registries.every((registry) => registry.peek('key-1') === undefined));
      for (const registry of registries) expect((await hold(registry)).value).toBe(third.value);
      expect(source.countFor('key-1')).toBe(3);
    },
  );
});
