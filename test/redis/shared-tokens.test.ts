/** The shared source over the model of its record, on a manual clock. Real servers and processes: row L of the guarantees. */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/errors.ts';
import { fixedLifetime, jwtExp, untilRejected } from '../../src/expiry/policies.ts';
import { SHARING_EVENTS, type SharingMessage } from '../../src/redis/diagnostics.ts';
import type { SharedTokensOptions } from '../../src/redis/options.ts';
import type { RedisPort } from '../../src/redis/ports.ts';
import { SharedTokens } from '../../src/redis/shared-tokens.ts';
import { AccessToken } from '../../src/token.ts';
import { shortNames } from '../helpers/log-lines.ts';
import { asTimePasses, settle } from '../helpers/manual-clock.ts';
import { FleetSource, ModelFleet, type ModelReplica, requestOf, SEALING_KEY } from '../helpers/model-fleet.ts';
import { seeded } from '../helpers/seeded.mjs';

const KEY = 'ACCESS-KEY-1';
const events: Omit<SharingMessage, 'registry'>[] = [];
const record = (message: unknown) => {
  const { registry, ...rest } = message as SharingMessage;
  expect(registry).toBe('default');
  events.push(rest);
};
beforeEach(() => subscribe('owner-token-registry:sharing', record));
afterEach(() => {
  unsubscribe('owner-token-registry:sharing', record);
  events.length = 0;
});

const values = (tokens: AccessToken[]) => new Set(tokens.map((token) => token.value));
const replicas = (fleet: ModelFleet, count: number) => Array.from({ length: count }, () => fleet.replica());

/** What a promise came to, without waiting for it. */
function watched<T>(promise: Promise<T>): { value?: T; error?: unknown; settled: boolean } {
  const seen: { value?: T; error?: unknown; settled: boolean } = { settled: false };
  promise.then(
    (value) => Object.assign(seen, { value, settled: true }),
    (error: unknown) => Object.assign(seen, { error, settled: true }),
  );
  return seen;
}

describe('sharing', () => {
  it('one replica makes the request, twenty get its token', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const calls = replicas(fleet, 20).map(({ registry }) => registry.getToken(KEY));
    await fleet.pass(500);
    expect(fleet.source.calls).toHaveLength(1);
    fleet.source.call(0).succeed({ response: { expires_in: 3600 } });
    await settle();
    expect(values(await Promise.all(calls)).size).toBe(1);
    expect(fleet.source.calls).toHaveLength(1);
  });

  it('a hit runs no script, whatever the state of Redis', async () => {
    const fleet = new ModelFleet();
    const { registry } = fleet.replica();
    await registry.getToken(KEY);
    const scripts: string[] = [];
    const { run } = fleet.model;
    fleet.model.run = (name, key, args) => {
      scripts.push(name);
      return run.call(fleet.model, name, key, args);
    };
    for (const health of ['up', 'hung', 'mute', 'down', 'up'] as const) {
      fleet.health = health;
      for (let hit = 0; hit < 100; hit++) await registry.getToken(KEY);
      await fleet.pass(10_000, 1_000);
    }
    expect(scripts).toEqual([]);
  });

  it('each owner gets its own token', async () => {
    const fleet = new ModelFleet();
    const [a, b] = replicas(fleet, 2) as [ModelReplica, ModelReplica];
    for (const owner of ['one', 'two', 'One', '']) {
      const [mine, tsuccessors] = [await a.registry.getToken(`${owner}.`), await b.registry.getToken(`${owner}.`)];
      expect(mine.value).toBe(tsuccessors.value);
      expect(mine.value).toMatch(new RegExp(`-of-${owner}\\.$`));
    }
    expect(fleet.source.calls).toHaveLength(4);
  });

  it('followers without a subscription poll', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const unsubscribed = fleet.model.port();
    delete unsubscribed.subscribe;
    const [leader, follower] = [fleet.replica({ redis: unsubscribed }), fleet.replica({ redis: unsubscribed })];
    const first = leader.registry.getToken(KEY);
    await settle();
    const second = watched(follower.registry.getToken(KEY));
    await fleet.pass(1000);
    fleet.source.call(0).succeed();
    await fleet.pass(200);
    expect(second.value?.value).toBe((await first).value);
  });

  it('L5: clocks minutes apart agree on when the token ends, each by its own', async () => {
    const fleet = new ModelFleet();
    const skews = [0, 300_000, -300_000];
    const [first, ...others] = skews.map((skewMs) => ({ skewMs, ...fleet.replica({ skewMs }) }));
    const token = await first?.registry.getToken(KEY);
    await fleet.pass(60_000, 10_000);
    for (const { skewMs, registry } of others) {
      const tsuccessors = await registry.getToken(KEY);
      expect(tsuccessors.expiresAtMs - skewMs).toBe(token?.expiresAtMs);
    }
    expect(fleet.source.calls).toHaveLength(1);
  });

  it('a refresh is one request for all, and the others share the new token without one', async () => {
    const fleet = new ModelFleet();
    const all = replicas(fleet, 5);
    for (const { registry } of all) await registry.getToken(KEY);
    await fleet.pass(3_000_000, 1_000_000);
    for (const { registry } of all) await registry.getToken(KEY);
    await fleet.pass(1000);
    const tokens = await Promise.all(all.map(({ registry }) => registry.getToken(KEY)));
    expect(values(tokens).size).toBe(1);
    expect(tokens[0]?.value).toMatch(/^token-2-/);
    expect(fleet.source.calls.map(({ request }) => request.reason)).toEqual(['absent', 'refresh']);
  });

  it('a service that answers a refresh with the same token gets one request too', async () => {
    const fleet = new ModelFleet(
      new FleetSource((call) => call.succeed({ token: 'same', response: { expires_in: 3600 } })),
    );
    const all = replicas(fleet, 5);
    for (const { registry } of all) await registry.getToken(KEY);
    await fleet.pass(3_000_000, 1_000_000);
    for (const { registry } of all) await registry.getToken(KEY);
    await fleet.pass(1000);
    expect(fleet.source.calls).toHaveLength(2);
  });

  it('an aborted follower rejects at once, and close() closes the wrapped source', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const { shared } = fleet.replica();
    void shared.requestToken(KEY, requestOf());
    await settle();
    const controller = new AbortController();
    const follower = watched(fleet.replica().shared.requestToken(KEY, requestOf({ signal: controller.signal })));
    await settle();
    controller.abort(new Error('leaving'));
    await settle();
    expect(follower.error).toEqual(new Error('leaving'));
    await shared.close();
    expect(fleet.source.closed).toBe(1);
  });

  it('a source whose identity() fails works without sharing', async () => {
    const fleet = new ModelFleet();
    fleet.source.identity = () => Promise.reject(new Error('no secret'));
    for (const { registry } of replicas(fleet, 2)) await registry.getToken(KEY);
    expect(fleet.source.calls).toHaveLength(2);
    expect(fleet.model.keys.size).toBe(0);
  });
});

describe('rejections', () => {
  async function holding(fleet: ModelFleet, count: number): Promise<ModelReplica[]> {
    const all = replicas(fleet, count);
    for (const { registry } of all) await registry.getToken(KEY);
    expect(fleet.source.calls).toHaveLength(1);
    return all;
  }

  it('L4: the second replica to reject shares the new token, and a late rejection costs no request', async () => {
    const fleet = new ModelFleet();
    const all = await holding(fleet, 4);
    const tokens: AccessToken[] = [];
    for (const { registry } of all) {
      const old = await registry.getToken(KEY);
      registry.reject(KEY, old);
      tokens.push(await registry.getToken(KEY));
    }
    expect(values(tokens).size).toBe(1);
    expect(tokens[0]?.value).toMatch(/^token-2-/);
    expect(fleet.source.calls).toHaveLength(2);
  });

  it('no later call gets a rejected token', async () => {
    const fleet = new ModelFleet();
    const [first] = (await holding(fleet, 1)) as [ModelReplica];
    first.registry.reject(KEY, await first.registry.getToken(KEY));
    fleet.source.script(undefined);
    const again = first.registry.getToken(KEY);
    await settle();
    const cold = watched(fleet.replica().registry.getToken(KEY));
    await fleet.pass(500);
    expect(cold.settled).toBe(false);
    fleet.source.call(1).succeed();
    await settle();
    expect(cold.value?.value).toBe((await again).value);
  });

  it('of a token requested without Redis: the time of its request is its generation', async () => {
    const fleet = new ModelFleet();
    const [before, away] = (await holding(fleet, 2)) as [ModelReplica, ModelReplica];
    await fleet.pass(1000);
    away.health = 'down';
    away.registry.reject(KEY, await away.registry.getToken(KEY));
    const own = await away.registry.getToken(KEY);
    expect(own.value).toMatch(/^token-2-/);
    away.health = 'up';
    await fleet.pass(1000);
    away.registry.reject(KEY, own);
    // The older one in the record must not come back.
    expect((await away.registry.getToken(KEY)).value).toMatch(/^token-3-/);
    expect((await before.registry.getToken(KEY)).value).toMatch(/^token-1-/);
  });

  const asToken = (value: string, expiresAtMs = Infinity) =>
    new AccessToken({
      ...{ value, tokenType: 'Bearer', fingerprint: '', issuedAtMs: 0 },
      ...{ refreshAtMs: expiresAtMs, expiresAtMs },
    });

  it('a replica that does not know the generation recognizes the token, and drops it for all', async () => {
    const fleet = new ModelFleet();
    const [first] = (await holding(fleet, 1)) as [ModelReplica];
    const rejected = asToken((await first.registry.getToken(KEY)).value);
    fleet.source.script(undefined);
    const again = watched(fleet.replica().shared.requestToken(KEY, requestOf({ reason: 'rejected', rejected })));
    await settle();
    const cold = watched(fleet.replica().registry.getToken(KEY));
    await fleet.pass(500);
    expect([again.settled, cold.settled, fleet.source.calls.length]).toEqual([false, false, 2]);
    fleet.source.call(1).succeed();
    await fleet.pass(500);
    expect(again.value?.token).toBe(cold.value?.value);
    expect(again.value?.token).not.toBe(rejected.value);
  });

  it('a rejected token that the service issues again is not shared', async () => {
    const fleet = new ModelFleet(new FleetSource((call) => call.succeed({ token: 'again' })));
    const { shared } = fleet.replica();
    await shared.requestToken(KEY, requestOf({ reason: 'rejected', rejected: asToken('again') }));
    await fleet.replica().registry.getToken(KEY);
    expect(fleet.source.calls).toHaveLength(2);
  });

  it('a refresh does not share a token that ends before the current one, if tsuccessor generations are unknown', async () => {
    const fleet = new ModelFleet();
    await fleet.replica().registry.getToken(KEY);
    await fleet.pass(1_000_000, 1_000_000);
    const nowMs = fleet.clock.now();
    const refresh = (endsInMs: number) => {
      const held = asToken('obtained elsewhere', nowMs + endsInMs);
      return fleet.replica().shared.requestToken(KEY, requestOf({ reason: 'refresh', held }));
    };
    expect((await refresh(2_000_000)).token).toMatch(/^token-1-/);
    expect((await refresh(3_000_000)).token).toMatch(/^token-2-/);
  });

  it('the replica that led names the rejected generation in its first script', async () => {
    const fleet = new ModelFleet();
    const [first] = (await holding(fleet, 1)) as [ModelReplica];
    const asked: string[] = [];
    const { run } = fleet.model;
    fleet.model.run = (name, key, args) => {
      asked.push(name);
      return run.call(fleet.model, name, key, args);
    };
    await fleet.pass(1, 1);
    first.registry.reject(KEY, await first.registry.getToken(KEY));
    await first.registry.getToken(KEY);
    expect(asked).toEqual(['acquire', 'publish']);
  });

  it('F7: under a service that revokes the previous token with each new one, the replicas settle on one', async () => {
    const fleet = new ModelFleet();
    const all = replicas(fleet, 2);
    const isLive = (token: AccessToken) => token.value.startsWith(`token-${fleet.source.calls.length}-`);
    const lost: string[] = [];
    for (let round = 0; round < 200; round++) {
      for (const { registry } of all) {
        const token = await registry.getToken(KEY);
        if (isLive(token)) continue;
        registry.reject(KEY, token);
        if (!isLive(await registry.getToken(KEY))) lost.push(`${round}`);
      }
      await fleet.pass(60_000, 60_000);
    }
    expect(lost).toEqual([]);
    // 200 minutes of hour-long tokens.
    expect(fleet.source.calls.length).toBeLessThanOrEqual(6);
  });
});

describe('failures', () => {
  const refused = () => new OwnerTokenError('owner_refused', 'no', { status: 400, oauthError: 'invalid_grant' });
  const down = () => new OwnerTokenError('endpoint_unavailable', 'down', { failureScope: 'endpoint' });

  it('of an owner are shared until tsuccessor end; then one replica makes the next request', async () => {
    const fleet = new ModelFleet(new FleetSource((call) => call.fail(refused())));
    const all = replicas(fleet, 5);
    for (const { registry } of all) {
      const error = await registry.getToken(KEY).catch((thrown: OwnerTokenError) => thrown);
      expect(error).toMatchObject({ code: 'owner_refused', status: 400, oauthError: 'invalid_grant' });
    }
    expect(fleet.source.calls).toHaveLength(1);
    expect((await all[0]?.registry.getToken('OTHER').catch(() => 'failed')) ?? '').toBe('failed');
    expect(fleet.source.calls).toHaveLength(2);
    fleet.source.script((call) => call.succeed());
    await fleet.pass(1100, 100);
    await all[0]?.registry.getToken(KEY);
    expect(fleet.source.calls).toHaveLength(3);
  });

  it('L6: a ten-second outage costs twenty replicas and twenty owners at most ten requests after the first is known', async () => {
    const fleet = new ModelFleet(new FleetSource((call) => call.fail(down())));
    const all = replicas(fleet, 20);
    const owners = Array.from({ length: 20 }, (_, index) => `owner-${index}`);
    // Asked before the first failure was known.
    let underWay = 0;
    for (let elapsedMs = 0; elapsedMs < 10_000; elapsedMs += 200) {
      for (const { registry } of all) for (const owner of owners) registry.getToken(owner).catch(() => {});
      await fleet.pass(200, 200);
      underWay ||= fleet.source.calls.length;
    }
    const during = fleet.source.calls.length;
    expect(during - underWay).toBeGreaterThanOrEqual(3);
    expect(during - underWay).toBeLessThanOrEqual(10);
    fleet.source.script((call) => call.succeed({ response: { expires_in: 3600 } }));
    for (let elapsedMs = 0; elapsedMs < 30_000; elapsedMs += 500) {
      for (const { registry } of all) for (const owner of owners) registry.getToken(owner).catch(() => {});
      await fleet.pass(500, 250);
    }
    const ready = await Promise.all(all.flatMap(({ registry }) => owners.map((owner) => registry.getToken(owner))));
    expect(ready).toHaveLength(400);
    expect(fleet.source.calls.length - during).toBeLessThanOrEqual(21);
  });

  it('with Retry-After last that long', async () => {
    const limited = new OwnerTokenError('rate_limited', 'slow down', { retryAfterMs: 20_000, status: 429 });
    const fleet = new ModelFleet(new FleetSource((call) => call.fail(limited)));
    await fleet
      .replica()
      .registry.getToken(KEY)
      .catch(() => {});
    await fleet.pass(10_000, 1000);
    const error = await fleet
      .replica()
      .registry.getToken('OTHER')
      .catch((thrown: OwnerTokenError) => thrown);
    expect(error).toMatchObject({ code: 'rate_limited', status: 429 });
    expect((error as OwnerTokenError).retryAtMs).toBeGreaterThan(fleet.clock.now() + 9_000);
    expect(fleet.source.calls).toHaveLength(1);
    fleet.source.script((call) => call.succeed());
    await fleet.pass(11_000, 1000);
    await fleet.replica().registry.getToken('OTHER');
  });

  it('of the endpoint end with a response that refuses the owner alone', async () => {
    const fleet = new ModelFleet(new FleetSource((call) => call.fail(down())));
    await fleet
      .replica()
      .registry.getToken('one')
      .catch(() => {});
    await fleet.pass(600, 100);
    fleet.source.script((call) => call.fail(refused()));
    await fleet
      .replica()
      .registry.getToken('two')
      .catch(() => {});
    // Not one after another, as probes would be.
    fleet.source.script(undefined);
    for (const owner of ['three', 'four']) void fleet.replica().registry.getToken(owner);
    await settle();
    expect(fleet.source.calls).toHaveLength(4);
  });

  it('of the endpoint reach the followers of an owner whose request was not made at once', async () => {
    const fleet = new ModelFleet(new FleetSource((call) => call.fail(down())));
    await fleet
      .replica()
      .registry.getToken('one')
      .catch(() => {});
    await fleet
      .replica()
      .registry.getToken('two')
      .catch(() => {});
    const second = watched(fleet.replica().registry.getToken('two'));
    await settle();
    expect(second.error).toMatchObject({ code: 'endpoint_unavailable' });
    expect(fleet.model.run('acquire', [...fleet.model.keys.keys()][2] ?? '', ['x', '1', '0', '0'])[0]).toBe('failure');
    expect(fleet.source.calls).toHaveLength(1);
  });

  it('of a closing replica are not shared', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const controller = new AbortController();
    const closing = fleet.replica().shared.requestToken(KEY, requestOf({ signal: controller.signal }));
    await settle();
    controller.abort();
    fleet.source.call(0).fail(down());
    await closing.catch(() => {});
    fleet.source.script((call) => call.succeed());
    await fleet.replica().registry.getToken(KEY);
  });

  it('that do not concern the service are not shared: the next replica makes its request', async () => {
    const fleet = new ModelFleet(new FleetSource((call) => call.fail(new OwnerTokenError('closed', 'closed'))));
    await fleet
      .replica()
      .registry.getToken(KEY)
      .catch(() => {});
    fleet.source.script((call) => call.succeed());
    await fleet.replica().registry.getToken(KEY);
  });

  it('for want of a token in the response are shared, and leave no lease behind', async () => {
    const fleet = new ModelFleet(new FleetSource((call) => call.succeed({ token: 'two words' })));
    for (const { registry } of replicas(fleet, 3)) {
      await expect(registry.getToken(KEY)).rejects.toMatchObject({ code: 'invalid_response' });
    }
    expect(fleet.source.calls).toHaveLength(1);
  });
});

describe('leaders', () => {
  it('L2: a leader that dies costs one more request and at most one lease of delay', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const leader = fleet.replica();
    void leader.registry.getToken(KEY).catch(() => {});
    await settle();
    const followers = replicas(fleet, 5).map(({ registry }) => registry.getToken(KEY));
    await settle();
    leader.health = 'hung';
    await fleet.pass(2900);
    expect(fleet.source.calls).toHaveLength(1);
    await fleet.pass(300);
    expect(fleet.source.calls).toHaveLength(2);
    fleet.source.call(1).succeed();
    await fleet.pass(100);
    expect(values(await Promise.all(followers)).size).toBe(1);
    expect(fleet.source.calls).toHaveLength(2);
  });

  it('L2: a leader that was frozen gets the token of its successor', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const frozen = fleet.replica();
    const late = frozen.registry.getToken(KEY);
    await settle();
    frozen.health = 'hung';
    const successor = fleet.replica().registry.getToken(KEY);
    await fleet.pass(3500);
    fleet.source.call(1).succeed({ token: 'of-the-successor' });
    await successor;
    frozen.health = 'up';
    fleet.source.call(0).succeed({ token: 'revoked-since' });
    await settle();
    expect((await late).value).toBe('of-the-successor');
  });

  it('a leader whose request takes long keeps its lease, up to a limit', async () => {
    const fleet = new ModelFleet(new FleetSource());
    void fleet.replica().registry.getToken(KEY);
    await settle();
    const follower = fleet.replica().registry.getToken(KEY);
    await fleet.pass(14_000);
    expect(fleet.source.calls).toHaveLength(1);
    await fleet.pass(5_000);
    expect(fleet.source.calls).toHaveLength(2);
    fleet.source.call(1).succeed();
    await fleet.pass(100);
    await follower;
  });

  it('a follower falls back after maxWaitMs', async () => {
    const fleet = new ModelFleet(new FleetSource());
    void fleet.replica().registry.getToken(KEY);
    await settle();
    const patient = fleet.replica({ maxWaitMs: 1_000 });
    // A call before the first reply from Redis may wait longer.
    void patient.registry.getToken('first');
    await settle();
    void patient.registry.getToken(KEY);
    await fleet.pass(900);
    expect(fleet.source.countFor(KEY)).toBe(1);
    await fleet.pass(200);
    expect(fleet.source.countFor(KEY)).toBe(2);
    expect(patient.shared.stats()).toMatchObject({ fallback: 1 });
  });

  it('L2: a replica that never got the reply to its acquire, and whose fallback fails, gives the lease back', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const replica = fleet.replica();
    await Promise.all([replica.registry.getToken('warm'), settle().then(() => fleet.source.call(0).succeed())]);
    replica.health = 'mute';
    const call = replica.registry.getToken(KEY).catch(() => 'failed');
    await fleet.pass(300, 50);
    expect(fleet.source.countFor(KEY)).toBe(1);
    replica.health = 'up';
    fleet.source.call(1).fail(new OwnerTokenError('endpoint_unavailable', 'down'));
    expect(await call).toBe('failed');
    void fleet.replica().registry.getToken(KEY);
    await settle();
    expect(fleet.source.countFor(KEY)).toBe(2);
  });

  it('a leader whose token is too large to share, or whose policy throws, gives the lease back', async () => {
    const large = new FleetSource((call) => call.succeed({ response: { padding: 'x'.repeat(200_000) } }));
    const fleet = new ModelFleet(large);
    for (const { registry } of replicas(fleet, 3)) await registry.getToken(KEY);
    expect(large.calls).toHaveLength(3);
    const lifetimeMs = () => {
      throw new Error('policy');
    };
    await fleet.replica().shared.requestToken('OTHER', requestOf({ lifetimeMs }));
    await fleet.replica().registry.getToken('OTHER');
    expect(large.countFor('OTHER')).toBe(2);
  });
});

describe('without help from Redis', () => {
  it.each(['down', 'hung', 'read_only'] as const)(
    '%s: each replica makes one request per owner; then they share again',
    async (health) => {
      const fleet = new ModelFleet();
      fleet.health = health;
      const all = replicas(fleet, 3);
      const owners = Array.from({ length: 8 }, (_, index) => `owner-${index}`);
      const calls = all.flatMap(({ registry }) => owners.map((owner) => registry.getToken(owner)));
      // Redis may be slow: most calls wait for its first reply for up to 22.5 s. An error says more.
      await fleet.pass(health === 'hung' ? 20_600 : 800, 25);
      await Promise.all(calls);
      expect(fleet.source.calls).toHaveLength(24);
      if (health === 'hung') {
        expect(events).toEqual([]);
        const next = all.map(({ registry }) => registry.getToken('next'));
        await fleet.pass(300);
        await Promise.all(next);
      }
      expect(events).toEqual(Array(3).fill({ event: 'suspended', trouble: TROUBLE[health] }));
      expect(all.map(({ shared }) => shared.stats().sharing)).toEqual([false, false, false]);
      // Once the breaker is open an unavailable Redis costs nothing any more.
      const quick = watched(all[0]?.registry.getToken('quick') ?? Promise.reject());
      await settle();
      expect(quick.settled).toBe(true);
      fleet.health = 'up';
      await fleet.pass(20_000, 1000);
      const before = fleet.source.calls.length;
      for (const { registry } of all) await registry.getToken('new owner');
      expect(fleet.source.calls.length - before).toBe(1);
      expect(events.slice(3)).toEqual(Array(3).fill({ event: 'resumed' }));
    },
  );

  it('a replica whose client cannot connect waits for its first reply no longer than for any other', async () => {
    const fleet = new ModelFleet();
    const redis = { ...fleet.model.port(() => new Promise(() => {})), hasFailedToConnect: () => true };
    const { registry } = fleet.replica({ redis });
    const calls = Promise.all(Array.from({ length: 8 }, (_, index) => registry.getToken(`owner-${index}`)));
    // A quarter of a second until the reply is late, and 9 s.
    await fleet.pass(9_300);
    expect(await calls).toHaveLength(8);
  });

  it('nor does one that already waits when the client reports that it cannot connect', async () => {
    const fleet = new ModelFleet();
    let hasFailed = false;
    const redis = { ...fleet.model.port(() => new Promise(() => {})), hasFailedToConnect: () => hasFailed };
    const { registry } = fleet.replica({ redis });
    const calls = Promise.all(Array.from({ length: 8 }, (_, index) => registry.getToken(`owner-${index}`)));
    await fleet.pass(1_600);
    hasFailed = true;
    await fleet.pass(7_700);
    expect(fleet.source.calls).toHaveLength(8);
    expect(await calls).toHaveLength(8);
  });

  it('calls that wait for a late reply fall back within a second once sharing is suspended', async () => {
    const fleet = new ModelFleet();
    const { shared, registry } = fleet.replica({ redis: fleet.model.port(() => new Promise(() => {})) });
    const before = Array.from({ length: 8 }, (_, index) => registry.getToken(`owner-${index}`));
    await fleet.pass(10_000);
    const later = Array.from({ length: 8 }, (_, index) => watched(registry.getToken(`later-${index}`)));
    await fleet.pass(8_000);
    // Opens the circuit after 18 s.
    const last = watched(registry.getToken('last'));
    await fleet.pass(200);
    expect([shared.stats().sharing, later.filter(({ settled }) => settled).length]).toEqual([true, 0]);
    await fleet.pass(1_100);
    expect([shared.stats().sharing, last.settled]).toEqual([false, true]);
    expect(later.filter(({ settled }) => settled)).toHaveLength(8);
    expect(await Promise.all(before)).toHaveLength(8);
  });

  it.each([
    [20_000, 17_000],
    [15_000, 12_000],
    [5_000, 2_500],
  ])('no call fails if the registry waits for %i ms: all fall back by %i ms', async (requestTimeoutMs, ms) => {
    const times: number[] = [];
    const fleet = new ModelFleet(
      new FleetSource((call) => {
        times.push(fleet.clock.monotonic() - startedAtMs);
        call.succeed();
      }),
    );
    const startedAtMs = fleet.clock.monotonic();
    const { registry } = fleet.replica({
      ...{ redis: fleet.model.port(() => new Promise(() => {})), random: seeded(1), maxWaitMs: 300_000 },
      registry: { requestTimeoutMs },
    });
    const calls = Promise.all(Array.from({ length: 12 }, (_, index) => registry.getToken(`owner-${index}`)));
    await fleet.pass(requestTimeoutMs);
    expect(await calls).toHaveLength(12);
    expect(Math.max(...times)).toBeLessThanOrEqual(ms);
    // Those for which the budget has nothing do not fall back at the same moment.
    expect(new Set(times).size).toBeGreaterThan(3);
  });

  it('a follower leaves time for its own request, too', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const [leader, follower] = [fleet.replica(), fleet.replica({ registry: { requestTimeoutMs: 10_000 } })];
    const leading = leader.registry.getToken(KEY);
    await settle();
    const call = follower.registry.getToken(KEY);
    await fleet.pass(6_900);
    expect(fleet.source.calls).toHaveLength(1);
    await fleet.pass(200);
    expect(fleet.source.calls).toHaveLength(2);
    for (const each of fleet.source.calls) each.succeed();
    await Promise.all([leading, call]);
  });

  const TROUBLE = { down: 'connection', hung: 'timeout', read_only: 'read_only' };

  it('a call that finds Redis hung falls back after the deadline, and offers its token to the others', async () => {
    const fleet = new ModelFleet();
    const replica = fleet.replica();
    await replica.registry.getToken('warm');
    replica.health = 'hung';
    const call = watched(replica.registry.getToken(KEY));
    await fleet.pass(200, 50);
    expect(call.settled).toBe(false);
    replica.health = 'up';
    await fleet.pass(100, 50);
    expect(call.settled).toBe(true);
    await fleet.replica().registry.getToken(KEY);
    expect(fleet.source.countFor(KEY)).toBe(1);
    expect(replica.shared.stats()).toMatchObject({ fallback: 1, leader: 1, sharing: true });
  });

  it('flushed: one more request', async () => {
    const fleet = new ModelFleet();
    for (const { registry } of replicas(fleet, 3)) await registry.getToken(KEY);
    fleet.model.flush();
    for (const { registry } of replicas(fleet, 3)) await registry.getToken(KEY);
    expect(fleet.source.calls).toHaveLength(2);
  });

  it('L3: values that do not open are a miss and an event, and are replaced', async () => {
    const fleet = new ModelFleet();
    const [first, second] = replicas(fleet, 2) as [ModelReplica, ModelReplica];
    await first.registry.getToken('one');
    await first.registry.getToken('two');
    const records = [...fleet.model.keys.values()].filter((fields) => fields.has('v'));
    const [one, two] = records.map((fields) => fields.get('v') ?? '');
    // Swapped between the owners.
    records[0]?.set('v', two ?? '');
    records[1]?.set('v', one ?? '');
    expect((await second.registry.getToken('one')).value).toMatch(/-of-one$/);
    expect((await second.registry.getToken('two')).value).toMatch(/-of-two$/);
    expect(fleet.source.calls).toHaveLength(4);
    expect(events).toEqual([
      { event: 'unreadable', count: 1 },
      { event: 'unreadable', count: 2 },
    ]);
    await fleet.replica().registry.getToken('one');
    expect(fleet.source.calls).toHaveLength(4);
  });
});

describe('policies', () => {
  const jwt = (claims: object) => `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.c2ln`;

  it.each([
    ['fixed', fixedLifetime(600_000)],
    ['JWT with iat', jwtExp()],
  ])('%s: the same end in every replica', async (_, expiry) => {
    const fleet = new ModelFleet(
      new FleetSource((call) => {
        const now = Math.floor(fleet.clock.now() / 1000);
        call.succeed({ token: jwt({ iat: now, exp: now + 600 }) });
      }),
    );
    const first = await fleet.replica({ registry: { expiry } }).registry.getToken(KEY);
    await fleet.pass(100_000, 50_000);
    const second = await fleet.replica({ registry: { expiry } }).registry.getToken(KEY);
    expect(second.expiresAtMs).toBe(first.expiresAtMs);
    expect(fleet.source.calls).toHaveLength(1);
  });

  it('until rejected: shared as that', async () => {
    const fleet = new ModelFleet();
    const expiry = untilRejected();
    await fleet.replica({ registry: { expiry } }).registry.getToken(KEY);
    await fleet.pass(86_400_000, 43_200_000);
    expect((await fleet.replica({ registry: { expiry } }).registry.getToken(KEY)).expiresAtMs).toBe(Infinity);
    expect(fleet.source.calls).toHaveLength(1);
  });

  it('a JWT without iat, shared where the clock is five minutes slow, ends no later than by its exp', async () => {
    const fleet = new ModelFleet(
      new FleetSource((call) => call.succeed({ token: jwt({ exp: Math.floor(fleet.clock.now() / 1000) + 600 }) })),
    );
    await fleet.replica().registry.getToken(KEY);
    const skewMs = -300_000;
    const slow = await fleet.replica({ skewMs }).registry.getToken(KEY);
    expect(slow.expiresAtMs).toBeLessThanOrEqual(fleet.clock.now() + skewMs + 600_000);
    expect(fleet.source.calls).toHaveLength(1);
  });

  it('a replica with a shorter policy keeps to it; one with a longer policy is limited to the sealed lifetime', async () => {
    const fleet = new ModelFleet();
    const made = fleet.clock.now();
    await fleet.replica({ registry: { expiry: fixedLifetime(600_000) } }).registry.getToken(KEY);
    const shorter = await fleet.replica({ registry: { expiry: fixedLifetime(60_000) } }).registry.getToken(KEY);
    const longer = await fleet.replica({ registry: { expiry: fixedLifetime(3_600_000) } }).registry.getToken(KEY);
    expect(shorter.expiresAtMs).toBe(made + 57_000);
    expect(longer.expiresAtMs).toBeLessThanOrEqual(made + 600_000);
    expect(fleet.source.calls).toHaveLength(1);
  });

  it('a token near its end is not shared', async () => {
    const fleet = new ModelFleet();
    await fleet.replica().registry.getToken(KEY);
    await fleet.pass(3_589_500, 3_589_500);
    const token = await fleet.replica().registry.getToken(KEY);
    expect(token.value).toMatch(/^token-2-/);
  });
});

describe('keys', () => {
  const [old, fresh] = [SEALING_KEY, SEALING_KEY.map((byte) => byte ^ 0xff)];

  it('rotate without one request more when the naming key is given', async () => {
    const fleet = new ModelFleet();
    const namingKey = SEALING_KEY.map((byte) => byte ^ 0x55);
    for (const sealingKeys of [[old], [old, fresh], [fresh, old], [fresh]]) {
      await fleet.replica({ sealingKeys, namingKey }).registry.getToken(KEY);
      // Each step is rolled out while the replicas of the step before still run.
      const { registry } = fleet.replica({ sealingKeys, namingKey });
      registry.reject(KEY, await registry.getToken(KEY));
      await registry.getToken(KEY);
      await fleet.pass(30_000, 30_000);
    }
    expect(fleet.source.calls).toHaveLength(5);
    expect(events).toEqual([]);
  });

  it('that differ are reported: replicas of one prefix that share nothing', async () => {
    const fleet = new ModelFleet();
    await fleet.replica({ sealingKeys: [old] }).registry.getToken(KEY);
    await fleet.replica({ sealingKeys: [fresh] }).registry.getToken(KEY);
    expect(fleet.source.calls).toHaveLength(2);
    expect(events).toEqual([{ event: 'key_mismatch', replicas: 1 }]);
  });

  it('a rotated client secret begins anew', async () => {
    const fleet = new ModelFleet();
    await fleet.replica().registry.getToken(KEY);
    fleet.source.identity = () => 'endpoint and client, new secret';
    await fleet.replica().registry.getToken(KEY);
    expect(fleet.source.calls).toHaveLength(2);
  });
});

it('G1: no secret is in a key, a field, a message, an event, a log line or an error', async () => {
  const secrets = ['canary-access-key', 'canary-token', 'canary-secret'];
  const fleet = new ModelFleet(
    new FleetSource((call) => {
      if (call.accessKey.endsWith('refused')) {
        const cause = new Error('canary-secret canary-access-key');
        return call.fail(new OwnerTokenError('owner_refused', 'refused', { status: 400, cause }));
      }
      return call.succeed({ token: 'canary-token', response: { access_token: 'canary-token', echo: 'canary-secret' } });
    }),
  );
  fleet.source.identity = () => 'digest';
  const seen: unknown[] = [];
  fleet.model.listen((...message) => seen.push(message));
  const lines: unknown[] = [];
  const log = (fields: object, text: string) => {
    seen.push([fields, text]);
    lines.push([shortNames(fields), text]);
  };
  const logger = { debug: log, info: log, warn: log };
  const first = fleet.replica({ logger });
  await first.registry.getToken('canary-access-key');
  for (const fields of fleet.model.keys.values()) fields.set('v', `A${fields.get('v')}`);
  const second = fleet.replica({ logger });
  await second.registry.getToken('canary-access-key');
  for (const { registry } of [first, second]) {
    seen.push(await registry.getToken('canary-access-key-refused').catch((error: unknown) => error));
  }
  fleet.health = 'down';
  for (let call = 0; call < 5; call++) {
    await asTimePasses(second.registry.getToken(`canary-access-key-${call}`), fleet.clock);
  }
  seen.push(first.shared, second.shared, first.shared.stats(), events, [...fleet.model.keys]);
  expect(events.map(({ event }) => event)).toEqual(['unreadable', 'suspended']);
  const message = SHARING_EVENTS['sharing.unreadable'].message;
  expect(lines).toContainEqual([{ event: 'sharing.unreadable', registry: 'default', count: 1 }, message]);
  const text = inspect(seen, { depth: 20, showHidden: true, maxStringLength: null }) + JSON.stringify(seen);
  for (const secret of secrets) expect(text).not.toContain(secret);
});

describe('options', () => {
  const good = () => {
    const fleet = new ModelFleet();
    return { source: fleet.source, redis: fleet.model.port(), sealingKeys: [SEALING_KEY] };
  };
  const bad: [string, object, string][] = [
    ['no key', { sealingKeys: [] }, 'sealingKeys'],
    ['no keys', { sealingKeys: undefined }, 'sealingKeys'],
    ['a short key', { sealingKeys: [new Uint8Array(16).map((_, index) => index)] }, 'sealingKeys'],
    ['an empty buffer', { sealingKeys: [new Uint8Array(32)] }, 'sealingKeys'],
    ['a key as text', { sealingKeys: ['canary-canary-canary-canary-cana'] }, 'sealingKeys'],
    ['a naming key of text', { namingKey: 'canary' }, 'namingKey'],
    ['a client in place of a port', { redis: { evalSha: () => {} } }, 'redis'],
    ['a port with a flag for a method', { redis: { run: async () => [], hasFailedToConnect: true as never } }, 'redis'],
    ['a source without identity', { source: { requestToken: () => {} } }, 'identity()'],
    ['a mistyped one', { leaseMS: 3000 }, 'leaseMs'],
    ['a prefix with braces', { prefix: '{otr}' }, 'prefix'],
  ];
  it.each(bad)('%s: no start', (_, change, told) => {
    const options = { ...good(), ...change } as unknown as SharedTokensOptions;
    let message = '';
    try {
      new SharedTokens(options);
    } catch (error) {
      message = (error as Error).message;
    }
    expect(message).toContain(told);
    expect(message).not.toContain('canary');
  });
});

describe('defects that an attack on a real fleet found', () => {
  const replicaOf = (fleet: ModelFleet, count: number) => replicas(fleet, count).map(({ registry }) => registry);

  it('rejections by several replicas are no streak: the registry counts them, each its own', async () => {
    const fleet = new ModelFleet();
    for (const registry of replicaOf(fleet, 5)) {
      const token = await registry.getToken(KEY);
      registry.reject(KEY, token);
      expect((await registry.getToken(KEY)).value).not.toBe(token.value);
      await fleet.pass(5_000, 5_000);
    }
  });

  it('with Redis back for six seconds, the first burst is shared: callers await the trial of the circuit breaker', async () => {
    const fleet = new ModelFleet();
    const owners = Array.from({ length: 32 }, (_, index) => `owner-${index}`);
    let isDown = true;
    const away = Array.from({ length: 8 }, () =>
      fleet.replica({
        redis: fleet.model.port(async (answer) => {
          if (isDown) throw new Error('connect ECONNREFUSED');
          // A network between them: the trial takes longer than the callers take to come.
          await settle();
          return answer();
        }),
      }),
    );
    const warm = away.flatMap(({ registry }) =>
      Array.from({ length: 6 }, (_, call) => registry.getToken(`warm-${call}`)),
    );
    await fleet.pass(1_000);
    await Promise.all(warm);
    expect(away.map(({ shared }) => shared.stats().sharing)).toEqual(Array(8).fill(false));
    isDown = false;
    const filler = fleet.replica();
    for (const owner of owners) await filler.registry.getToken(owner);
    await fleet.pass(6_000, 1_000);
    const before = fleet.source.calls.length;
    await Promise.all(away.flatMap(({ registry }) => owners.map((owner) => registry.getToken(owner))));
    expect(fleet.source.calls.length - before).toBe(0);
  });

  it('a planted failure refuses nobody: it is dropped, reported, and the fleet goes on sharing', async () => {
    const fleet = new ModelFleet();
    await fleet.replica().registry.getToken(KEY);
    const [name = ''] = [...fleet.model.keys].find(([, fields]) => fields.has('v')) ?? [];
    const planted = JSON.stringify({ code: 'client_refused', scope: 'client', status: 401 });
    const untilUs = String((fleet.clock.now() + 3_599_000) * 1000);
    for (const key of fleet.model.keys.keys()) fleet.model.keys.get(key)?.set('f', planted).set('x', untilUs);
    fleet.model.keys.set(
      name,
      new Map([
        ['f', planted],
        ['x', untilUs],
      ]),
    );
    for (const registry of replicaOf(fleet, 3)) await registry.getToken(KEY);
    expect(fleet.source.calls).toHaveLength(2);
    expect(events).toContainEqual({ event: 'unreadable', count: 1 });
  });

  it('a Retry-After counts from the answer, though Redis froze before it was stored', async () => {
    const limited = new OwnerTokenError('rate_limited', 'slow down', { retryAfterMs: 30_000, status: 429 });
    const fleet = new ModelFleet(new FleetSource((call) => call.fail(limited)));
    const writes: (() => void)[] = [];
    const frozen = fleet.model.port(async (answer) => {
      if (fleet.source.calls.length > 0) await new Promise<void>((resolve) => writes.push(resolve));
      return answer();
    });
    await fleet
      .replica({ redis: frozen })
      .registry.getToken(KEY)
      .catch(() => {});
    await fleet.pass(8_000, 50);
    for (const write of writes) write();
    await settle();
    const error = await fleet
      .replica()
      .registry.getToken(KEY)
      .catch((thrown: OwnerTokenError) => thrown);
    expect((error as OwnerTokenError).retryAtMs).toBeLessThanOrEqual(fleet.clock.now() + 22_100);
    expect((error as OwnerTokenError).retryAtMs).toBeGreaterThan(fleet.clock.now() + 21_000);
  });

  it('a failover to a server whose clock is behind extends no token', async () => {
    let behindMs = 0;
    const fleet = new ModelFleet(FleetSource.answering(60));
    const ahead = fleet.model.run.bind(fleet.model);
    fleet.model.run = (name, key, args) => {
      const reply = ahead(name, key, args);
      return [reply[0] as string, String(Number(reply[1]) - behindMs * 1000), ...reply.slice(2)];
    };
    const issuedAtMs = fleet.clock.now();
    const [first, second] = replicaOf(fleet, 2) as [ModelReplica['registry'], ModelReplica['registry']];
    await second.getToken('another');
    await first.getToken(KEY);
    await fleet.pass(30_000, 10_000);
    behindMs = 17_000;
    expect((await second.getToken(KEY)).expiresAtMs).toBeLessThanOrEqual(issuedAtMs + 60_000);
    expect(fleet.source.countFor(KEY)).toBe(1);
  });

  it('a token of 1,500 characters is stored once', async () => {
    const token = 'x'.repeat(1_500);
    const response = {
      access_token: token,
      nested: { copy: token, marked: '\u0000', list: [token, `\u0000${token}`] },
    };
    const fleet = new ModelFleet(new FleetSource((call) => call.succeed({ token, response })));
    await fleet.replica().shared.requestToken(KEY, requestOf());
    const stored = [...fleet.model.keys.values()].find((fields) => fields.has('v'))?.get('v') ?? '';
    // The list holds a longer string that only begins with a mark: one token more.
    expect(stored.length).toBeLessThan(2 * 1_500 * (4 / 3) + 600);
    expect((await fleet.replica().shared.requestToken(KEY, requestOf())).response).toEqual(response);
  });

  it('closing gives the leases back before it settles, so that the client can be destroyed after it', async () => {
    const fleet = new ModelFleet(new FleetSource());
    fleet.source.script((call) => {
      call.request.signal.addEventListener('abort', () => call.fail(call.request.signal.reason as Error));
    });
    let destroyed = false;
    const redis = fleet.model.port(async (answer) => {
      await settle();
      if (destroyed) throw new Error('The client is closed');
      return answer();
    });
    const leaving = fleet.replica({ redis });
    leaving.registry.getToken(KEY).catch(() => {});
    await fleet.pass(100, 20);
    await leaving.registry.close();
    destroyed = true;
    fleet.source.script(undefined);
    void fleet.replica().registry.getToken(KEY);
    await settle();
    expect(fleet.source.countFor(KEY)).toBe(2);
  });

  /** How many requests 20 replicas make for 40 cold owners that they want from their first moment on, 0.3 s apart. */
  async function requestsOfAStart(
    through: (fleet: ModelFleet, answer: () => string[], startedAtMs: number) => Promise<string[]>,
  ) {
    const fleet = new ModelFleet(new FleetSource(), seeded(1));
    const { run } = fleet.model;
    const newPort = (startedAtMs: number): RedisPort => ({
      ...fleet.model.port(),
      run: (script, key, args) => through(fleet, () => run.call(fleet.model, script.name, key, args), startedAtMs),
    });
    fleet.source.script(
      (call) => void fleet.clock.setTimeout(() => call.succeed({ response: { expires_in: 3600 } }), 20),
    );
    const owners = Array.from({ length: 40 }, (_, index) => `owner-${index}`);
    const calls: Promise<unknown>[] = [];
    for (let replica = 0; replica < 20; replica++) {
      const { registry } = fleet.replica({ redis: newPort(fleet.clock.monotonic()) });
      calls.push(...owners.map((owner) => registry.getToken(owner)));
      await fleet.pass(300, 100);
    }
    await asTimePasses(Promise.all(calls), fleet.clock);
    expect(events).toEqual([]);
    return fleet.source.calls.length;
  }
  const later = (fleet: ModelFleet, ms: number) => new Promise<void>((resolve) => fleet.clock.setTimeout(resolve, ms));

  /**
   * What the fallback budget allows in the longest time that a start may take: 8 at once and 2 a second, for the 6 s in which
   * the replicas start and the 27 s (`maxWaitMs` × 4/3) that the last one's calls may wait. It takes about 12 s, but
   * replicas that have not counted all others yet use more than their share.
   */
  const FALLBACK_ALLOWANCE = 8 + 2 * (6 + 27);

  it('a fleet of 20 that starts over a Redis 4 s slow per script stays within one request per owner plus the fallback budget', async () => {
    const requests = await requestsOfAStart(async (fleet, answer) => {
      await later(fleet, 4_000);
      return answer();
    });
    expect(requests).toBeLessThanOrEqual(40 + FALLBACK_ALLOWANCE);
  });

  it('a fleet of 20 that starts over a Redis whose replies are 4 s late stays within one request per owner plus the fallback budget', async () => {
    const requests = await requestsOfAStart(async (fleet, answer) => {
      const reply = answer();
      await later(fleet, 4_000);
      return reply;
    });
    expect(requests).toBeLessThanOrEqual(40 + FALLBACK_ALLOWANCE);
  });

  it('a fleet of 20 whose clients need two replies to connect, each 5.6 s late, shares from its first reply on', async () => {
    const requests = await requestsOfAStart(async (fleet, answer, startedAtMs) => {
      await later(fleet, Math.max(0, startedAtMs + 2 * 5_600 - fleet.clock.monotonic()));
      const reply = answer();
      await later(fleet, 5_600);
      return reply;
    });
    // 20 replicas, each assuming ten, use twice the budget: for the 6 s in which they start and the 16.8 s to the first
    // reply.
    expect(requests).toBeLessThanOrEqual(40 + 2 * (8 + 2 * (6 + 17)));
  });

  it('a fleet of 20 over a Redis that answers after 5.6 s stays within one request per owner plus the fallback budget', async () => {
    const drawn = seeded(1);
    const fleet = new ModelFleet(new FleetSource(), drawn);
    let isSlow = false;
    const redis = fleet.model.port(async (answer) => {
      const reply = answer();
      if (isSlow) await new Promise<void>((resolve) => fleet.clock.setTimeout(resolve, 5_600));
      return reply;
    });
    fleet.source.script(
      (call) => void fleet.clock.setTimeout(() => call.succeed({ response: { expires_in: 3600 } }), 20),
    );
    const all = Array.from({ length: 20 }, () => fleet.replica({ redis }));
    const get = async (owners: string[], ms: number) => {
      const calls = Promise.all(all.flatMap(({ registry }) => owners.map((owner) => registry.getToken(owner))));
      await fleet.pass(ms, 100);
      return calls;
    };
    await get(['warm'], 5_000);
    await get(['warm, and all are counted'], 1_000);
    expect(all.every(({ shared }) => shared.stats().replicas === 20)).toBe(true);
    isSlow = true;
    const before = fleet.source.calls.length;
    const owners = Array.from({ length: 40 }, (_, index) => `owner-${index}`);
    expect(await get(owners, 21_000)).toHaveLength(800);
    // The budget allows 20 in 6 s.
    expect(fleet.source.calls.length - before).toBeLessThanOrEqual(40 + 25);
    expect(events).toEqual([]);
  });
});
