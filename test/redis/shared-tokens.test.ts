/** The shared source over the model of its record, on a manual clock. Real servers and processes: row L of the guarantees. */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { decoratedSource } from '../../src/decorated-source.ts';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import { fixedLifetime } from '../../src/expiry/policies.ts';
import { SHARING_EVENTS, type SharingMessage } from '../../src/redis/diagnostics.ts';
import type { SharedTokensOptions } from '../../src/redis/options.ts';
import { Names, namingKeyFrom } from '../../src/redis/sealing.ts';
import { SharedTokens } from '../../src/redis/shared-tokens.ts';
import { OwnerTokenRegistry } from '../../src/registry/registry.ts';
import { AccessToken } from '../../src/token.ts';
import { shortNames } from '../helpers/log-lines.ts';
import { asTimePasses, ManualClock, settle } from '../helpers/manual-clock.ts';
import { FleetSource, ModelFleet, type ModelReplica, requestOf, SEALING_KEY } from '../helpers/model-fleet.ts';
import { seeded } from '../helpers/seeded.mjs';
import { SharedRecordModel } from '../helpers/shared-record-model.ts';

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

const replicas = (fleet: ModelFleet, count: number) => Array.from({ length: count }, () => fleet.replica());

/** The scripts that run from now on. */
function scriptsOf({ model }: ModelFleet) {
  const scripts: { name: string; key: string; args: readonly string[] }[] = [];
  const { run } = model;
  model.run = (name, key, args) => {
    scripts.push({ name, key, args });
    return run.call(model, name, key, args);
  };
  return scripts;
}

/** What a promise came to, without waiting for it. */
function watched<T>(promise: Promise<T>): { value?: T; error?: unknown; settled: boolean } {
  const seen: { value?: T; error?: unknown; settled: boolean } = { settled: false };
  promise.then(
    (value) => Object.assign(seen, { value, settled: true }),
    (error: unknown) => Object.assign(seen, { error, settled: true }),
  );
  return seen;
}

describe('in a fleet', () => {
  it('fields of the answer reach every replica with the token, sealed', async () => {
    const source = new FleetSource((call) =>
      call.succeed({ response: { expires_in: 3600, instance_url: 'https://eu1.example' } }),
    );
    const fleet = new ModelFleet(source);
    const scripts = scriptsOf(fleet);
    const registry = { responseFields: ['instance_url'] };
    for (const replica of [fleet.replica({ registry }), fleet.replica({ registry })]) {
      expect({ ...(await replica.registry.getToken(KEY)).response }).toEqual({ instance_url: 'https://eu1.example' });
      await fleet.pass(100);
    }
    expect(source.calls).toHaveLength(1);
    expect(JSON.stringify(scripts)).not.toContain('eu1');
  });

  it('a cache hit runs no script of its owner, whatever the state of Redis', async () => {
    const fleet = new ModelFleet();
    const { registry } = fleet.replica();
    await registry.getToken(KEY);
    const scripts = scriptsOf(fleet);
    for (const health of ['up', 'hung', 'mute', 'down', 'up'] as const) {
      fleet.health = health;
      for (let hit = 0; hit < 100; hit++) await registry.getToken(KEY);
      await fleet.pass(10_000, 1_000);
    }
    expect(new Set(scripts.map(({ name }) => name))).toEqual(new Set(['announce']));
  });

  it('20 replicas that need a cold owner at once run two scripts each: a wake-up leads to one read, and none polls', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const all = replicas(fleet, 20);
    fleet.source.script((call) => call.succeed({ response: { expires_in: 3600 } }));
    for (const { registry } of all) await registry.getToken('warm');
    fleet.source.script(undefined);
    const scripts = scriptsOf(fleet);
    const calls = all.map(({ registry }) => registry.getToken(KEY));
    await fleet.pass(300, 10);
    fleet.source.call(1).succeed({ response: { expires_in: 3600 } });
    await fleet.pass(100, 10);
    expect(new Set((await Promise.all(calls)).map(({ value }) => value)).size).toBe(1);
    expect(scripts.map(({ name }) => name).sort()).toEqual([...Array(39).fill('acquire'), 'publish']);
  });

  it('a service that answers a refresh with the same token gets one request from all replicas too', async () => {
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

  it('an aborted follower rejects at once, and close() of SharedTokens closes the wrapped source', async () => {
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

  it('a source whose identity() fails works without sharing, and says so in log, channel and counts', async () => {
    const fleet = new ModelFleet();
    fleet.source.identity = () => Promise.reject(new Error('no secret'));
    const lines: unknown[] = [];
    const write = (fields: object) => void lines.push(shortNames(fields));
    const logger = { debug: write, info: write, warn: write, error: write };
    const [first, second] = [fleet.replica({ logger }), fleet.replica()];
    for (const { registry } of [first, second]) await registry.getToken(KEY);
    for (const owner of ['b', 'c']) await first.registry.getToken(owner);
    expect(fleet.source.calls).toHaveLength(4);
    expect(fleet.model.keys.size).toBe(0);
    expect(first.shared.stats()).toMatchObject({ sharing: false, unidentified: 3, fallback: 3 });
    expect(lines).toEqual([{ event: 'sharing.unidentified', registry: 'default', count: 1 }]);
    expect(events.map(({ count }) => count)).toEqual([1, 1, 2, 3]);
    fleet.source.identity = () => 'known again';
    await first.registry.getToken('d');
    expect(first.shared.stats()).toMatchObject({ sharing: true, unidentified: 3 });
  });

  it.each(['stated', () => 'stated', async () => 'stated'])(
    'a stated identity takes the place of one that the source cannot give: %s',
    async (identity) => {
      const fleet = new ModelFleet();
      fleet.source.identity = () => {
        throw new SyntaxError('Unexpected token in JSON');
      };
      for (const _ of [1, 2]) await fleet.replica({ identity }).registry.getToken(KEY);
      await fleet.replica({ identity: 'another client' }).registry.getToken(KEY);
      expect(fleet.source.calls).toHaveLength(2);
      expect(events).toEqual([]);
    },
  );

  it('a replica that only serves cached tokens notices within seconds that Redis is unavailable, and back', async () => {
    const fleet = new ModelFleet();
    const { registry, shared } = fleet.replica();
    await registry.getToken(KEY);
    for (const health of ['hung', 'down', 'read_only'] as const) {
      fleet.health = health;
      await fleet.pass(5_000, 50);
      expect(shared.stats().sharing).toBe(false);
      fleet.health = 'up';
      await fleet.pass(7_000, 50);
      expect(shared.stats().sharing).toBe(true);
    }
    expect(events.map(({ event }) => event)).toEqual(Array(3).fill(['suspended', 'resumed']).flat());
    await registry.close();
    const { pendingTimers } = fleet.clock;
    await fleet.pass(10_000, 1_000);
    expect(fleet.clock.pendingTimers).toBeLessThanOrEqual(pendingTimers);
  });

  it('replicas know the names of the others and how many there are, without those that have closed', async () => {
    const fleet = new ModelFleet();
    const all = [fleet.replica({ replica: 'web-1' }), fleet.replica({ replica: 'web-1' }), fleet.replica()];
    expect(all[0]?.shared.members()).toMatchObject({ names: [], count: 0 });
    for (const round of ['a', 'b', 'c']) {
      for (const { registry } of all) await registry.getToken(round);
      await fleet.pass(5_000, 500);
    }
    const names = all.map(({ shared }) => shared.members().name);
    expect(new Set(names).size).toBe(3);
    expect(names.map((name) => name.replace(/[0-9a-f]{10}$/, ''))).toEqual(['web-1-', 'web-1-', 'replica-']);
    for (const { shared } of all) expect(shared.members()).toMatchObject({ names: [...names].sort(), count: 3 });
    const [leaves, ...stay] = all as [ModelReplica, ...ModelReplica[]];
    await leaves.registry.close();
    await fleet.pass(5_000, 500);
    for (const { shared } of stay) expect(shared.members()).toMatchObject({ names: names.slice(1).sort(), count: 2 });
  });
});

describe('when tokens are rejected', () => {
  async function holding(fleet: ModelFleet, count: number): Promise<ModelReplica[]> {
    const all = replicas(fleet, count);
    for (const { registry } of all) await registry.getToken(KEY);
    expect(fleet.source.calls).toHaveLength(1);
    return all;
  }

  it('the generation of a token requested without Redis is the time of its request', async () => {
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
      value,
      tokenType: 'Bearer',
      fingerprint: '',
      issuedAtMs: 0,
      refreshAtMs: expiresAtMs,
      expiresAtMs,
    });

  it('a replica that does not know the generation of a rejected token recognizes it, and drops it for all', async () => {
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

  it('a rejected token that the service issues again costs one request for all replicas', async () => {
    const fleet = new ModelFleet(new FleetSource((call) => call.succeed({ token: 'again' })));
    const all = await holding(fleet, 3);
    for (const { registry } of all) registry.reject(KEY, 'again');
    for (const { registry } of all) expect((await registry.getToken(KEY)).value).toBe('again');
    expect((await fleet.replica().registry.getToken(KEY)).value).toBe('again');
    expect(fleet.source.calls).toHaveLength(2);
    expect(fleet.source.call(1).request.reason).toBe('rejected');
  });

  it('when one replica replaces a rejected token, the others ask once too, and get what it got', async () => {
    const fleet = new ModelFleet();
    const all = await holding(fleet, 3);
    const [first] = all as [ModelReplica];
    first.registry.reject(KEY, await first.registry.getToken(KEY));
    expect(all.map(({ registry }) => registry.peek(KEY) !== undefined)).toEqual([false, true, true]);
    // It tells the others when it asks for a new one.
    const renewed = await first.registry.getToken(KEY);
    await settle();
    expect(all.map(({ registry }) => registry.peek(KEY)?.value)).toEqual([renewed.value, undefined, undefined]);
    for (const { registry } of all) expect((await registry.getToken(KEY)).value).toBe(renewed.value);
    expect(fleet.source.calls).toHaveLength(2);
  });

  it('while no newer token can be had, every replica keeps the rejected one', async () => {
    const fleet = new ModelFleet();
    const all = await holding(fleet, 3);
    const { value } = await (all[0] as ModelReplica).registry.getToken(KEY);
    fleet.source.script((call) => call.fail(new OwnerTokenError('endpoint_unavailable', 'down', { status: 503 })));
    all[0]?.registry.reject(KEY, value);
    for (const { registry } of all) expect((await asTimePasses(registry.getToken(KEY), fleet.clock)).value).toBe(value);
    expect(fleet.source.calls.length).toBeLessThanOrEqual(4);
  });

  it('P1: an outage of the API for five minutes costs the fleet one request for each time that a token is kept', async () => {
    const fleet = new ModelFleet();
    const all = await holding(fleet, 3);
    for (let second = 0; second < 300; second++) {
      // Each replica makes a call, and makes it again after the 401.
      for (let attempt = 0; attempt < 2; attempt++) {
        await Promise.all(all.map(async ({ registry }) => registry.reject(KEY, await registry.getToken(KEY))));
      }
      await fleet.pass(1_000, 1_000);
    }
    // At once, and after 10, 30, 70 and 150 s.
    expect(fleet.source.calls).toHaveLength(1 + 5);
  });

  it('a replica whose replaced token is rejected by another one asks for a newer one', async () => {
    const fleet = new ModelFleet();
    const all = await holding(fleet, 3);
    for (const { registry } of all) registry.accept(KEY, await registry.getToken(KEY));
    for (const { registry } of all) registry.reject(KEY, await registry.getToken(KEY));
    for (const { registry } of all) expect((await registry.getToken(KEY)).value).toMatch(/^token-2-/);
    // It has held no token that was rejected.
    const { registry } = fleet.replica();
    registry.reject(KEY, await registry.getToken(KEY));
    const renewed = await registry.getToken(KEY);
    await settle();
    for (const { registry } of all) expect((await registry.getToken(KEY)).value).toBe(renewed.value);
    expect(fleet.source.calls).toHaveLength(3);
  });

  it('a token that was rejected while it was on its way here is not accepted', async () => {
    const fleet = new ModelFleet();
    await holding(fleet, 1);
    const { run } = fleet.model;
    const late = fleet.replica();
    fleet.model.run = (...script) => {
      const reply = run.apply(fleet.model, script);
      if (reply[0] !== 'token') return reply;
      // The news overtakes the reply.
      const [name] = [...fleet.model.keys].find(([, record]) => record.has('v')) ?? [''];
      const names = new Names('otr', namingKeyFrom(SEALING_KEY));
      fleet.model.tell(
        'otr:4:wake',
        `${name} rejected ${reply[2]} ${names.proofOf('rejected', name, Number(reply[2]))}`,
      );
      fleet.model.run = run;
      return reply;
    };
    expect((await late.registry.getToken(KEY)).value).toMatch(/^token-2-/);
    expect(fleet.source.calls).toHaveLength(2);
  });

  it('a rejection that is published before a new replica has subscribed is not missed', async () => {
    const fleet = new ModelFleet();
    const [first] = (await holding(fleet, 1)) as [ModelReplica];
    const port = fleet.model.port();
    const subscribe = async (channel: string, onMessage: (message: string) => void) => {
      await new Promise<void>((resolve) => fleet.clock.setTimeout(resolve, 100));
      return (port.subscribe as NonNullable<typeof port.subscribe>)(channel, onMessage);
    };
    const late = fleet.replica({ redis: { ...port, subscribe } });
    const call = watched(late.registry.getToken(KEY));
    await fleet.pass(50, 10);
    first.registry.reject(KEY, await first.registry.getToken(KEY));
    const renewed = await first.registry.getToken(KEY);
    await fleet.pass(100, 10);
    expect(call.value?.value).toBe(renewed.value);
    const unsubscribed = fleet.replica({ redis: { ...port, subscribe: () => new Promise(() => {}) } });
    const patient = watched(unsubscribed.registry.getToken(KEY));
    await fleet.pass(240, 10);
    expect(patient.settled).toBe(false);
    await fleet.pass(20, 10);
    expect(patient.value?.value).toBe(renewed.value);
  });

  it('news of a rejection reaches every owner that the registry keeps', async () => {
    const fleet = new ModelFleet();
    const [rejects, hears] = replicas(fleet, 2) as [ModelReplica, ModelReplica];
    const owners = ['first', ...Array.from({ length: 10_500 }, (_, index) => `owner-${index}`)];
    for (const owner of owners.slice(0, 10_000)) await hears.registry.getToken(owner);
    // Used again, so that others are evicted before it.
    await hears.registry.getToken('owner-0');
    for (const owner of owners.slice(10_000)) await hears.registry.getToken(owner);
    for (const owner of ['owner-10499', 'owner-600', 'owner-0']) {
      rejects.registry.reject(owner, await rejects.registry.getToken(owner));
      await rejects.registry.getToken(owner);
      await settle();
      expect(hears.registry.peek(owner)).toBeUndefined();
    }
    expect(hears.registry.peek('owner-601')).toBeDefined();
  });

  it('a late rejection of an older token does not affect the newer one', async () => {
    const fleet = new ModelFleet();
    const [{ registry }] = (await holding(fleet, 1)) as [ModelReplica];
    const [name, fields] = [...fleet.model.keys].find(([, record]) => record.has('v')) ?? ['', new Map()];
    const names = new Names('otr', namingKeyFrom(SEALING_KEY));
    const reject = (generation: number) => {
      const proof = names.proofOf('rejected', name, generation);
      fleet.model.tell('otr:4:wake', `${name} rejected ${generation} ${proof}`);
    };
    reject(Number(fields.get('g')) - 1);
    await settle();
    expect(registry.peek(KEY)).toBeDefined();
    reject(Number(fields.get('g')));
    await settle();
    expect(registry.peek(KEY)).toBeUndefined();
  });

  it('a forged message on the channel rejects no token', async () => {
    const fleet = new ModelFleet();
    const [{ registry }] = (await holding(fleet, 1)) as [ModelReplica];
    const [name, fields] = [...fleet.model.keys].find(([, record]) => record.has('v')) ?? ['', new Map()];
    for (const text of [
      `${name} rejected ${fields.get('g')}`,
      `${name} rejected ${fields.get('g')} forged`,
      `${name} recovered ${fields.get('g')} forged`,
      '',
    ]) {
      fleet.model.tell('otr:4:wake', text);
    }
    await settle();
    expect(registry.peek(KEY)).toBeDefined();
  });

  it('a rejected token whose record is put back is served only by replicas that missed the rejection', async () => {
    const fleet = new ModelFleet();
    const replica = () => fleet.replica({ registry: { maxOwners: 1 } });
    const [rejects, hears] = [replica(), replica()];
    for (const { registry } of [rejects, hears]) await registry.getToken(KEY);
    const [name, old] = [...fleet.model.keys].find(([, record]) => record.has('v')) ?? ['', new Map()];
    const revoked = await rejects.registry.getToken(KEY);
    rejects.registry.reject(KEY, revoked);
    await rejects.registry.getToken(KEY);
    await settle();
    const tokenFrom = async ({ registry }: ModelReplica) => {
      fleet.model.keys.set(name, new Map(old));
      // Evicts the owner.
      await registry.getToken('another');
      return (await registry.getToken(KEY)).value;
    };
    expect(await tokenFrom(rejects)).not.toBe(revoked.value);
    expect(await tokenFrom(hears)).not.toBe(revoked.value);
    expect(await tokenFrom(replica())).toBe(revoked.value);
  });
});

describe('when requests fail', () => {
  const refused = () =>
    new OwnerTokenError('owner_refused', 'canary', { status: 400, oauthError: 'invalid_grant', retryAfterMs: 7_000 });

  it('the failure of a leader reaches the calls that waited for it, and no others', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const [leader, ...followers] = replicas(fleet, 5).map(({ shared }) => shared);
    const calls = [leader, ...followers].map((shared) =>
      watched((shared as SharedTokens).requestToken(KEY, requestOf())),
    );
    await settle();
    expect(fleet.source.calls).toHaveLength(1);
    fleet.source.call(0).fail(refused());
    await fleet.pass(600);
    for (const { error } of calls) {
      expect(error).toMatchObject({ code: 'owner_refused', status: 400, oauthError: 'invalid_grant' });
      expect(error).toMatchObject({ retryAfterMs: 7_000, failureScope: 'owner' });
    }
    expect(followers.map((shared) => shared.stats().refused)).toEqual([1, 1, 1, 1]);
    // Neither a later call of the owner nor one of another owner.
    for (const owner of [KEY, 'OTHER']) void fleet.replica().shared.requestToken(owner, requestOf());
    await settle();
    expect(fleet.source.calls).toHaveLength(3);
  });

  it.each([{}, { failureScope: 'client' }, { failureScope: 'owner' }, { oauthError: 'invalid_grant' }] as const)(
    'a shared failure says as much of other owners as the original, and no more: %j',
    async (options) => {
      const fleet = new ModelFleet(new FleetSource());
      const calls = replicas(fleet, 2).map(({ shared }) => watched(shared.requestToken(KEY, requestOf())));
      await settle();
      const original = new OwnerTokenError('client_refused', 'no', options);
      fleet.source.call(0).fail(original);
      await fleet.pass(600);
      const error = calls[1]?.error as OwnerTokenError;
      expect(OwnerTokenError.escalationOf(error)).toEqual(OwnerTokenError.escalationOf(original));
    },
  );

  it('a failure for lack of a token in the response is shared, and leaves no lease behind', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const all = replicas(fleet, 3).map(({ shared }) => watched(shared.requestToken(KEY, requestOf())));
    await settle();
    fleet.source.call(0).succeed({ token: 'two words' });
    await fleet.pass(600);
    expect(all.map(({ error }) => (error as OwnerTokenError).code)).toEqual(Array(3).fill('invalid_response'));
    void fleet.replica().shared.requestToken(KEY, requestOf());
    await settle();
    expect(fleet.source.calls).toHaveLength(2);
  });

  it.each([
    ['a closing replica', new OwnerTokenError('endpoint_unavailable', 'aborted'), true],
    ['a call that did not concern the service', new OwnerTokenError('closed', 'closed'), false],
  ])('failures of %s are not shared: the next replica leads', async (_, error, isAborted) => {
    const fleet = new ModelFleet(new FleetSource());
    const controller = new AbortController();
    const leading = watched(fleet.replica().shared.requestToken(KEY, requestOf({ signal: controller.signal })));
    await settle();
    const following = watched(fleet.replica().shared.requestToken(KEY, requestOf()));
    await settle();
    if (isAborted) controller.abort();
    fleet.source.call(0).fail(error);
    await fleet.pass(600);
    expect(leading.error).toBe(error);
    fleet.source.call(1).succeed();
    await settle();
    expect(following.value).toBeDefined();
  });

  it('any other error that a source throws is a failure of the source', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const calls = replicas(fleet, 2).map(({ shared }) => watched(shared.requestToken(KEY, requestOf())));
    await settle();
    fleet.source.call(0).fail(new TypeError('canary'));
    await fleet.pass(600);
    expect(calls[1]?.error).toMatchObject({ code: 'source_failed' });
    expect(String(calls[1]?.error)).not.toContain('canary');
  });

  it('a failure that cannot be decrypted is ignored, and a follower leads', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const calls = replicas(fleet, 2).map(({ shared }) => watched(shared.requestToken(KEY, requestOf())));
    await settle();
    const { run } = fleet.model;
    fleet.model.run = (name, key, args) =>
      run.call(fleet.model, name, key, name === 'release' ? [...args.slice(0, 3), 'planted'] : args);
    fleet.source.call(0).fail(refused());
    await fleet.pass(600);
    fleet.source.call(1).succeed();
    await settle();
    expect(calls[1]?.value).toBeDefined();
  });
});

it('a token that one replica gets after a failure ends the pause of its owner in the other replicas', async () => {
  const fleet = new ModelFleet(new FleetSource((call) => call.fail(new OwnerTokenError('owner_refused', 'no'))));
  const [first, second] = replicas(fleet, 2) as [ModelReplica, ModelReplica];
  for (const { registry } of [first, second]) await registry.getToken(KEY).catch(() => {});
  expect(second.registry.describe(KEY).phase).toBe('backing-off');
  fleet.source.script((call) => call.succeed());
  first.registry.resume(KEY);
  const { value } = await first.registry.getToken(KEY);
  await settle();
  expect((await second.registry.getToken(KEY)).value).toBe(value);
});

const phaseOf = ({ registry }: ModelReplica) => registry.describe(KEY).phase;

/** Both fail for the owner; then one gets a token, which ends the pause of the other. Gives the report of that. */
async function recovery(fleet: ModelFleet, [first, second]: readonly [ModelReplica, ModelReplica]): Promise<string> {
  const heard: string[] = [];
  const stop = fleet.model.listen((_channel, message) => heard.push(message));
  await fail(fleet, first, second);
  fleet.source.script((call) => call.succeed());
  first.registry.resume(KEY);
  await first.registry.getToken(KEY);
  await settle();
  stop();
  expect(phaseOf(second)).not.toBe('backing-off');
  return heard.find((message) => message.includes(' recovered ')) ?? '';
}

async function fail(fleet: ModelFleet, ...replicas: readonly ModelReplica[]): Promise<void> {
  fleet.source.script((call) => call.fail(new OwnerTokenError('owner_refused', 'no')));
  for (const replica of replicas) {
    replica.registry.forget(KEY);
    await replica.registry.getToken(KEY).catch(() => {});
    expect(phaseOf(replica)).toBe('backing-off');
  }
}

it('a report of a recovery that somebody on the same Redis repeats ends no pause', async () => {
  const fleet = new ModelFleet();
  const [first, second] = [fleet.replica(), fleet.replica()];
  const report = await recovery(fleet, [first, second]);
  fleet.model.flush();
  await fail(fleet, second);
  fleet.model.tell('otr:4:wake', report);
  await settle();
  expect(phaseOf(second)).toBe('backing-off');
});

it('a report of a recovery of over a minute ago ends no pause, even if it was not heard before', async () => {
  for (const [afterMs, phase] of [
    [55_000, 'empty'],
    [65_000, 'backing-off'],
  ] as const) {
    const fleet = new ModelFleet();
    const report = await recovery(fleet, [fleet.replica(), fleet.replica()]);
    await fleet.pass(afterMs, 1_000);
    fleet.model.flush();
    const late = fleet.replica();
    await fail(fleet, late);
    fleet.model.tell('otr:4:wake', report);
    await settle();
    expect(phaseOf(late)).toBe(phase);
  }
});

describe('while a leader holds the lease', () => {
  it.each([
    [3_000, 20],
    [3_000, 600],
    [3_000, 2_900],
    [10_000, 600],
    [10_000, 9_000],
  ])(
    'L2: a dead leader costs one request and a lease: leases of %i ms, a service that takes %i ms',
    async (leaseMs, serviceMs) => {
      const fleet = new ModelFleet(new FleetSource(), seeded(1));
      const [dead, ...others] = Array.from({ length: 20 }, () => fleet.replica({ leaseMs })) as [ModelReplica];
      void dead.registry.getToken(KEY);
      await settle();
      fleet.source.script((call) => void fleet.clock.setTimeout(() => call.succeed(), serviceMs));
      const calls = (others as ModelReplica[]).map(({ registry }) => watched(registry.getToken(KEY)));
      await fleet.pass(leaseMs + serviceMs + 100, 10);
      expect(new Set(calls.map(({ value }) => value?.value)).size).toBe(1);
      expect(calls.every(({ value }) => value)).toBe(true);
      expect(fleet.source.calls).toHaveLength(2);
    },
  );

  it.each([
    ['replies that are read late', 600, 0, 240],
    ['replies that are read late, and a slow service', 2_700, 0, 240],
    ['a lease that is taken over late, and a slow service', 2_900, 240, 0],
  ])('a dead leader costs one request despite %s', async (_, serviceMs, lateAtEndMs, lateMs) => {
    const random = seeded(2);
    const fleet = new ModelFleet(new FleetSource(), random);
    const leaseEndsMs = fleet.clock.monotonic() + 3_000;
    const pause = (ms: number) => new Promise<void>((resolve) => fleet.clock.setTimeout(resolve, ms));
    const redis = fleet.model.port(async (carryOut) => {
      const endedMs = fleet.clock.monotonic() - leaseEndsMs;
      if (endedMs >= 0 && endedMs < 500) await pause(lateAtEndMs);
      const reply = carryOut();
      await pause(random() * lateMs);
      return reply;
    });
    void fleet.replica().registry.getToken(KEY);
    await settle();
    fleet.source.script((call) => void fleet.clock.setTimeout(() => call.succeed(), serviceMs));
    const others = Array.from({ length: 20 }, () => fleet.replica({ redis }));
    const calls = others.map(({ registry }) => watched(registry.getToken(KEY)));
    await fleet.pass(7_000, 10);
    expect(calls.every(({ value }) => value)).toBe(true);
    expect(fleet.source.calls).toHaveLength(2);
  });

  it('a lease that does not end, because the clock of the server steps back, is waited for no longer than it lasts', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const [leader, follower] = replicas(fleet, 2) as [ModelReplica, ModelReplica];
    void leader.registry.getToken(KEY);
    await settle();
    void follower.registry.getToken(KEY);
    await settle();
    fleet.clock.jumpWall(-50_000);
    await fleet.pass(3_900, 50);
    expect(fleet.source.calls).toHaveLength(2);
  });

  it('a replica whose policy throws for a shared token requests its own', async () => {
    const fleet = new ModelFleet();
    await fleet.replica().registry.getToken(KEY);
    const expiry = {
      lifetimeMs: () => {
        throw new Error('policy');
      },
    };
    const { registry, shared } = fleet.replica({ registry: { expiry } });
    await expect(registry.getToken(KEY)).rejects.toMatchObject({ code: 'source_failed' });
    expect(shared.stats()).toMatchObject({ shared: 0, leader: 1 });
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

  it('a flush of Redis, after which no wake-up comes, delays a follower by less than a second', async () => {
    const fleet = new ModelFleet(new FleetSource(), () => 1 - Number.EPSILON);
    const [leader, follower] = replicas(fleet, 2) as [ModelReplica, ModelReplica];
    void leader.registry.getToken(KEY);
    await fleet.pass(300, 50);
    const following = watched(follower.registry.getToken(KEY));
    await fleet.pass(200, 50);
    fleet.model.flush();
    fleet.source.call(0).succeed({ response: { expires_in: 3600 } });
    await settle();
    expect(following.settled).toBe(false);
    await fleet.pass(1_000, 50);
    expect([following.value !== undefined, fleet.source.calls.length]).toEqual([true, 1]);
  });

  it('a leader answers without waiting for Redis to store its token', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const replica = fleet.replica();
    const call = watched(replica.registry.getToken(KEY));
    await settle();
    replica.health = 'hung';
    fleet.source.call(0).succeed();
    await settle();
    expect(call.value).toBeDefined();
  });
});

describe('without help from Redis', () => {
  const TROUBLE = {
    down: { trouble: 'connection' },
    hung: { trouble: 'timeout' },
    read_only: { trouble: 'read_only', redisCode: 'READONLY' },
  };

  it.each(['down', 'hung', 'read_only'] as const)(
    'L2: with Redis %s, each replica makes one request per owner within a second; later they share again',
    async (health) => {
      const fleet = new ModelFleet(FleetSource.answering(), seeded(1));
      fleet.health = health;
      const all = replicas(fleet, 3);
      const calls = all.flatMap(({ registry }) =>
        Array.from({ length: 8 }, (_, index) => registry.getToken(`o-${index}`)),
      );
      await fleet.pass(1_000, 25);
      expect(fleet.source.calls).toHaveLength(24);
      await Promise.all(calls);
      expect(events).toEqual(Array(3).fill({ event: 'suspended', ...TROUBLE[health] }));
      await fleet.pass(300);
      // From then on an unavailable Redis costs nothing, but for the probe.
      const quick = watched(all[0]?.registry.getToken('quick') ?? Promise.reject());
      await settle();
      expect(quick.settled).toBe(true);
      fleet.health = 'up';
      await fleet.pass(5_000, 1000);
      const before = fleet.source.calls.length;
      for (const { registry } of all) await registry.getToken('new owner');
      expect(fleet.source.calls.length - before).toBe(1);
      expect(events.slice(3)).toEqual(Array(3).fill({ event: 'resumed' }));
    },
  );

  it('L2: no call waits longer than for one probe', async () => {
    const fleet = new ModelFleet(FleetSource.answering(), seeded(1));
    const replica = fleet.replica();
    fleet.health = 'hung';
    const beganMs = fleet.clock.now();
    let slowestMs = 0;
    for (let call = 0; call < 400; call++) {
      const startedMs = fleet.clock.now();
      const waited = () => {
        if (startedMs > beganMs + 2_000) slowestMs = Math.max(slowestMs, fleet.clock.now() - startedMs);
      };
      void replica.registry.getToken(`owner-${call}`).then(waited);
      await fleet.pass(150, 50);
    }
    await fleet.pass(1_000);
    expect(fleet.source.calls).toHaveLength(400);
    expect(slowestMs).toBeLessThanOrEqual(250);
  });

  it('the first call of a burst requests its token at once, the others spread over a second', async () => {
    const times: number[] = [];
    const fleet = new ModelFleet(
      new FleetSource((call) => {
        times.push(fleet.clock.monotonic() - startedMs);
        call.succeed();
      }),
      seeded(1),
    );
    const { registry } = fleet.replica();
    fleet.health = 'hung';
    const startedMs = fleet.clock.monotonic();
    const calls = Array.from({ length: 12 }, (_, index) => registry.getToken(`owner-${index}`));
    await fleet.pass(1_000, 10);
    await Promise.all(calls);
    expect(Math.min(...times)).toBe(250);
    expect(new Set(times).size).toBeGreaterThan(6);
  });

  it('followers do not wait for the lease to end when Redis goes away', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const [leader, follower] = replicas(fleet, 2) as [ModelReplica, ModelReplica];
    void leader.registry.getToken(KEY);
    await settle();
    void follower.registry.getToken(KEY);
    await settle();
    follower.health = 'hung';
    await fleet.pass(1_000);
    expect(fleet.source.calls).toHaveLength(2);
  });

  it('a Redis client that has never been connected is given the time of a reply to connect', async () => {
    const fleet = new ModelFleet();
    const state = { isReady: false };
    const redis = {
      ...fleet.model.port(async (answer) => {
        await new Promise<void>((resolve) => fleet.clock.setTimeout(resolve, 100));
        state.isReady = true;
        return answer();
      }),
      isReady: () => state.isReady,
    };
    const { registry, shared } = fleet.replica({ redis });
    const call = watched(registry.getToken(KEY));
    await fleet.pass(300);
    expect(call.settled).toBe(true);
    expect(shared.stats()).toMatchObject({ leader: 1, fallback: 0 });
  });

  it('a subscription that is silent for an hour costs no request, and no call more than a second', async () => {
    const fleet = new ModelFleet(
      new FleetSource(
        (call) => void fleet.clock.setTimeout(() => call.succeed({ response: { expires_in: 7_200 } }), 300),
      ),
    );
    const silent = { ...fleet.model.port(), subscribe: async () => async () => {} };
    const all = Array.from({ length: 4 }, () => fleet.replica({ redis: silent }));
    const waitsMs: number[] = [];
    const getAll = async (owner: string) => {
      const startedMs = fleet.clock.monotonic();
      const calls = all.map(async ({ registry }) => {
        const { value } = await registry.getToken(owner);
        waitsMs.push(fleet.clock.monotonic() - startedMs);
        return value;
      });
      await fleet.pass(1_500, 50);
      return new Set(await Promise.all(calls));
    };
    for (let minute = 0; minute < 60; minute++) {
      expect((await getAll(`owner ${minute}`)).size).toBe(1);
      await fleet.pass(58_500, 29_250);
    }
    expect(fleet.source.calls).toHaveLength(60);
    expect(Math.max(...waitsMs)).toBeLessThanOrEqual(300 + 1_000);
    // Each replica hears of a revoked token from the API alone, and takes the one that the first of them requested.
    for (const { registry } of all) {
      registry.reject('owner 0', (await registry.getToken('owner 0')).value);
      const call = registry.getToken('owner 0');
      await fleet.pass(1_500, 50);
      await call;
    }
    expect(fleet.source.countFor('owner 0')).toBe(2);
    expect((await getAll('owner 0')).size).toBe(1);
  });

  it('a fallback offers its token to the other replicas', async () => {
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

  it('L2: a replica that never got the reply to its acquire, and whose fallback fails, gives the lease back', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const replica = fleet.replica();
    replica.health = 'mute';
    const call = watched(replica.shared.requestToken(KEY, requestOf()));
    await fleet.pass(300, 50);
    replica.health = 'up';
    fleet.source.call(0).fail(new OwnerTokenError('endpoint_unavailable', 'down'));
    await settle();
    expect(call.error).toBeDefined();
    void fleet.replica().registry.getToken(KEY);
    await settle();
    expect(fleet.source.countFor(KEY)).toBe(2);
  });

  it('L2: a lease that Redis grants after the call has given up is given back, so that nobody waits for its end', async () => {
    const fleet = new ModelFleet(
      new FleetSource(
        (call) => void fleet.clock.setTimeout(() => call.succeed({ response: { expires_in: 3600 } }), 100),
      ),
    );
    let resume = () => {};
    let stall: Promise<void> | undefined;
    const redis = fleet.model.port(async (answer) => {
      await stall;
      return answer();
    });
    const [stalled, other] = [fleet.replica({ redis }), fleet.replica()];
    for (const { registry } of [stalled, other]) void registry.getToken('warm');
    await fleet.pass(1_000, 50);
    stall = new Promise((resolve) => (resume = resolve));
    void stalled.registry.getToken('opens the circuit');
    await fleet.pass(900, 50);
    const late = watched(stalled.registry.getToken(KEY));
    await fleet.pass(900, 50);
    expect([late.value !== undefined, stalled.shared.stats().sharing]).toEqual([true, false]);
    resume();
    await fleet.pass(100, 50);
    const next = watched(other.registry.getToken(KEY));
    await fleet.pass(1_000, 50);
    expect(next.value).toBeDefined();
  });

  it('a refresh, for which nobody waits, gives Redis a second to reply', async () => {
    const fleet = new ModelFleet();
    const redis = fleet.model.port(async (answer) => {
      await new Promise<void>((resolve) => fleet.clock.setTimeout(resolve, isSlow ? 500 : 0));
      return answer();
    });
    let isSlow = false;
    const all = Array.from({ length: 4 }, () => fleet.replica({ redis }));
    const get = async () => {
      const calls = Promise.all(all.map(({ registry }) => registry.getToken(KEY)));
      await fleet.pass(3_000, 50);
      return calls;
    };
    await get();
    expect(fleet.source.calls).toHaveLength(1);
    isSlow = true;
    await fleet.pass(3_000_000, 1_000_000);
    await get();
    expect(fleet.source.calls).toHaveLength(2);
  });
});

describe('with different policies', () => {
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
});

describe('with new keys', () => {
  const [old, fresh] = [SEALING_KEY, SEALING_KEY.map((byte) => byte ^ 0xff)];

  it('sealing keys rotate without an extra request when the naming key is given', async () => {
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

  it('replicas of one prefix that share nothing, because their sealing keys differ, are reported', async () => {
    const fleet = new ModelFleet();
    await fleet.replica({ sealingKeys: [old] }).registry.getToken(KEY);
    await fleet.replica({ sealingKeys: [fresh] }).registry.getToken(KEY);
    expect(fleet.source.calls).toHaveLength(2);
    expect(events).toEqual([{ event: 'key_mismatch', replicas: 1 }]);
  });

  it('replicas with a rotated client secret share none of the tokens from before', async () => {
    const fleet = new ModelFleet();
    await fleet.replica().registry.getToken(KEY);
    fleet.source.identity = () => 'endpoint and client, new secret';
    await fleet.replica().registry.getToken(KEY);
    expect(fleet.source.calls).toHaveLength(2);
  });
});

it('G1: no secret is in a Redis key, a field, a message, an event, a log line or an error', async () => {
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

describe('invalid options', () => {
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
    ['a rate as text', { requestsPerSecond: '5' }, 'requestsPerSecond'],
    ['a client in place of a port', { redis: { evalSha: () => {} } }, 'redis'],
    ['a port with a flag for a method', { redis: { run: async () => [], isReady: true as never } }, 'redis'],
    ['a source without identity', { source: { requestToken: () => {} } }, 'identity()'],
    ['an empty identity', { identity: '' }, 'identity'],
    ['an identity of another type', { identity: 7 }, 'identity'],
    ['a name of a replica with spaces', { replica: 'web 1' }, 'replica'],
    ['no source', { source: undefined }, 'source'],
    ['a mistyped option', { leaseMS: 3000 }, 'leaseMs'],
    ['a prefix with braces', { prefix: '{otr}' }, 'prefix'],
  ];
  it.each(bad)('are refused: %s', (_, change, told) => {
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

describe('where an attack on a real fleet found a defect', () => {
  const replicaOf = (fleet: ModelFleet, count: number) => replicas(fleet, count).map(({ registry }) => registry);

  it('rejections by several replicas are no streak: each registry counts only its own', async () => {
    const fleet = new ModelFleet();
    for (const registry of replicaOf(fleet, 5)) {
      const token = await registry.getToken(KEY);
      registry.reject(KEY, token);
      expect((await registry.getToken(KEY)).value).not.toBe(token.value);
      await fleet.pass(5_000, 5_000);
    }
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
  it.each([60, 3_600, 86_400])(
    'the clock of Redis steps back by %i s: it is logged once and costs nothing',
    async (seconds) => {
      let behindMs = 0;
      let nowMs = () => 0;
      const model = new SharedRecordModel(() => Math.floor((nowMs() - behindMs) * 1000));
      const fleet = new ModelFleet();
      nowMs = () => fleet.clock.now();
      const replica = () => fleet.replica({ redis: model.port() });
      const old = [replica(), replica(), replica()];
      const get = async (owner: string, from: readonly ModelReplica[]) => {
        const before = fleet.source.calls.length;
        const calls = from.map(({ registry }) => watched(registry.getToken(owner)));
        await fleet.pass(500, 50);
        expect(calls.every(({ value }) => value)).toBe(true);
        return fleet.source.calls.length - before;
      };
      expect(await get('known', old)).toBe(1);
      expect(await get('before', old.slice(0, 2))).toBe(1);
      await fleet.pass(30_000, 1_000);
      behindMs = seconds * 1_000;
      expect(await get('after', old)).toBe(1);
      expect(await get('again', old)).toBe(1);
      expect(events.map(({ event, behindMs: ms }) => [event, ms])).toEqual(
        old.map(() => ['clock_behind', seconds * 1_000]),
      );
      // The third knew the clock of before, so it knows the token's age.
      const aged = await old[2]?.registry.getToken('before');
      expect(aged?.expiresAtMs).toBeLessThanOrEqual((await old[0]?.registry.getToken('before'))?.expiresAtMs ?? 0);
      expect(fleet.source.countFor('before')).toBe(1);
      // Replicas that start then hear the fleet's time.
      const fresh = [replica(), replica()];
      await get('warm', fresh);
      await fleet.pass(3_000, 500);
      expect(await get('both', [...old, ...fresh])).toBe(1);
      expect(await get('after', fresh)).toBe(0);
      expect(await get('before', fresh)).toBe(0);
    },
  );

  it('a replica that can use none of the stored tokens does not queue behind those that store them', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const namingKey = SEALING_KEY.map((byte) => byte ^ 0x55);
    const others = Array.from({ length: 8 }, (_, index) =>
      fleet.replica({ namingKey, sealingKeys: [SEALING_KEY.map((byte) => byte ^ index)] }),
    );
    fleet.source.script((call) => void fleet.clock.setTimeout(() => call.succeed(), 1_000));
    const calls = others.map(({ registry }) => watched(registry.getToken(KEY)));
    await fleet.pass(3_300, 50);
    expect(calls.every(({ value }) => value)).toBe(true);
  });

  it('a token that a fallback got is not stored while the time of its request is in the future of the server', async () => {
    const fleet = new ModelFleet();
    const replica = fleet.replica();
    await replica.registry.getToken('warm');
    replica.health = 'hung';
    fleet.clock.jumpWall(-60_000);
    const call = watched(replica.registry.getToken(KEY));
    await fleet.pass(200, 50);
    replica.health = 'up';
    await fleet.pass(100, 50);
    expect([call.value !== undefined, replica.shared.stats().fallback]).toEqual([true, 1]);
    const stored = [...fleet.model.keys.values()].filter((fields) => fields.has('v'));
    expect(stored).toHaveLength(1);
  });
  it('a token of 1,500 characters is stored once', async () => {
    const token = 'x'.repeat(1_500);
    const response = { access_token: token, again: token, expires_in: 60 };
    const fleet = new ModelFleet(new FleetSource((call) => call.succeed({ token, response })));
    await fleet.replica().shared.requestToken(KEY, requestOf());
    const stored = [...fleet.model.keys.values()].find((fields) => fields.has('v'))?.get('v') ?? '';
    expect(stored.length).toBeLessThan(1_500 * (4 / 3) + 300);
    expect((await fleet.replica().shared.requestToken(KEY, requestOf())).response).toEqual(response);
  });
  it('closing a registry gives its leases back before it settles, so the client can then be destroyed', async () => {
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

  it('a shared token with no life left on arrival counts as absent: the replica requests its own', async () => {
    const fleet = new ModelFleet(FleetSource.answering(10));
    await fleet.replica().registry.getToken(KEY);
    await fleet.pass(8_900, 100);
    const redis = fleet.model.port(async (answer) => {
      const reply = answer();
      await new Promise<void>((resolve) => fleet.clock.setTimeout(resolve, 240));
      return reply;
    });
    const call = watched(fleet.replica({ redis }).registry.getToken(KEY));
    await fleet.pass(1_000, 10);
    expect(call.value?.value).toMatch(/^token-2-/);
  });
});

describe('a quota', () => {
  const PER_SECOND = 10;

  /** Replicas that have counted each other. */
  async function counted(count: number, registry: { requestTimeoutMs?: number } = {}) {
    const times: number[] = [];
    const fleet = new ModelFleet(
      new FleetSource((call) => {
        times.push(fleet.clock.monotonic());
        call.succeed({ response: { expires_in: 3600 } });
      }),
      seeded(1),
    );
    const all = Array.from({ length: count }, () => fleet.replica({ requestsPerSecond: PER_SECOND, registry }));
    for (let round = 0; round < 3; round++) {
      for (const { registry } of all) void registry.getToken(`count-${round}`);
      await fleet.pass(20_000, 100);
    }
    expect(all.map(({ shared }) => shared.stats().replicas)).toEqual(Array(count).fill(count));
    times.length = 0;
    return { fleet, all, times };
  }

  it.each(['up', 'hung'] as const)(
    'holds for all replicas together, each keeping to its share (Redis %s)',
    async (health) => {
      const { fleet, all, times } = await counted(5);
      fleet.health = health;
      const owners = Array.from({ length: 20 }, (_, index) => `owner-${index}`);
      const calls = all.flatMap(({ registry }) => owners.map((owner) => registry.getToken(owner)));
      await fleet.pass(12_000, 50);
      expect(await Promise.all(calls)).toHaveLength(100);
      // A request that waits a second for Redis is slow, so canaries may be asked.
      const canaries = all.reduce((sum, { registry }) => sum + registry.stats().canaries, 0);
      expect(times).toHaveLength(health === 'up' ? 20 : 100 + canaries);
      for (const from of times) {
        // Each of the five may begin with one.
        expect(times.filter((time) => time >= from && time < from + 1_000).length).toBeLessThanOrEqual(PER_SECOND + 5);
      }
    },
  );

  it('fails a call with queue_timeout if it gets no turn in two thirds of its time', async () => {
    const { fleet, all } = await counted(1, { requestTimeoutMs: 15_000 });
    const [{ registry }] = all as [ModelReplica];
    const calls = Array.from({ length: 300 }, (_, index) => watched(registry.getToken(`owner-${index}`)));
    await fleet.pass(21_000, 100);
    const failed = calls.filter(({ error }) => error);
    expect(failed.length).toBeGreaterThan(50);
    for (const { error } of failed) expect(error).toMatchObject({ code: 'queue_timeout' });
    expect(calls.filter(({ value }) => value).length).toBeGreaterThan(190);
  });

  it('makes a call that followed another replica and then falls back wait for its turn', async () => {
    const fleet = new ModelFleet(new FleetSource(), seeded(1));
    const times = [0, 1].map((): number[] => []);
    const [first, ...limited] = [
      fleet.replica(),
      ...times.map((sent) => {
        const source = new FleetSource(() => sent.push(fleet.clock.monotonic()));
        return fleet.replica({ source, requestsPerSecond: 3 });
      }),
    ] as [ModelReplica, ...ModelReplica[]];
    // Each counts three replicas, so its share is one request a second.
    for (const { shared } of [first, ...limited]) void shared.requestToken('count', requestOf()).catch(() => {});
    await fleet.pass(20_000, 100);
    for (const sent of times) sent.length = 0;
    const owners = ['a', 'b', 'c', 'd'];
    for (const { shared } of [first, ...limited]) {
      for (const owner of owners) void shared.requestToken(owner, requestOf()).catch(() => {});
      await settle();
    }
    for (const replica of limited) replica.health = 'hung';
    await fleet.pass(15_000, 50);
    expect(limited.some(({ shared }) => shared.stats().fallback > 0)).toBe(true);
    for (const sent of times) {
      for (const [index, atMs] of sent.slice(1).entries()) {
        expect(atMs - (sent[index] as number)).toBeGreaterThanOrEqual(1_000);
      }
    }
    expect(times.flat().length).toBeGreaterThan(4);
  });

  it('is divided by ten until the replicas have counted each other', async () => {
    const fleet = new ModelFleet();
    const { registry } = fleet.replica({ requestsPerSecond: PER_SECOND });
    for (let index = 0; index < 20; index++) void registry.getToken(`owner-${index}`);
    await fleet.pass(1_900, 50);
    expect(fleet.source.calls.length).toBeLessThanOrEqual(2);
  });
});

it('an idle replica does not keep its process running', async () => {
  const { model, source } = new ModelFleet();
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
  const before = timers();
  const shared = new SharedTokens({ source, redis: model.port(), sealingKeys: [SEALING_KEY] });
  expect((await shared.requestToken(KEY, requestOf())).token).toMatch(/^token-1-/);
  expect(timers()).toBeLessThanOrEqual(before);
  await shared.close();
});

describe('what the registry has as well', () => {
  it('is asked once: name, logger, clock and random are the registry’s, by way of what decorates the source', async () => {
    const { model, source, clock } = new ModelFleet();
    const lines: unknown[] = [];
    const note = (fields: object) => void lines.push(shortNames(fields));
    const logger = { debug: note, info: note, warn: note, error: note };
    const down = model.port(async () => {
      throw new Error('connect ECONNREFUSED');
    });
    const shared = new SharedTokens({ source, redis: down, sealingKeys: [SEALING_KEY] });
    const { name } = shared.members();
    const decorated = decoratedSource(shared, (...args) => shared.requestToken(...args));
    unsubscribe('owner-token-registry:sharing', record);
    const registry = new OwnerTokenRegistry({ source: decorated, name: 'crm', logger, clock, random: () => 0.5 });
    await registry.getToken(KEY);
    expect(lines).toContainEqual({ event: 'sharing.suspended', registry: 'crm', trouble: 'connection' });
    // Its timers run on the registry's clock.
    expect(clock.pendingTimers).toBeGreaterThan(0);
    expect(shared.members().name).toBe(name);
  });

  it('is SharedTokens’ own where it was given', async () => {
    const fleet = new ModelFleet();
    fleet.health = 'down';
    const registry = { name: 'crm', clock: new ManualClock() };
    const call = watched(fleet.replica({ name: 'default', registry }).registry.getToken(KEY));
    await fleet.pass(1_000, 50);
    expect(call.settled).toBe(true);
    expect(events).toEqual([{ event: 'suspended', trouble: 'connection' }]);
  });

  it('is that of the first registry: a second one over the same source changes nothing, and is warned of', async () => {
    const fleet = new ModelFleet();
    const [first, other] = replicas(fleet, 2) as [ModelReplica, ModelReplica];
    new OwnerTokenRegistry({ source: first.shared, name: 'second', clock: fleet.clock });
    expect(events).toEqual([{ event: 'second_registry' }]);
    const { value } = await first.registry.getToken(KEY);
    other.registry.reject(KEY, await other.registry.getToken(KEY));
    expect((await other.registry.getToken(KEY)).value).not.toBe(value);
    await settle();
    expect(first.registry.peek(KEY)).toBeUndefined();
  });
});
