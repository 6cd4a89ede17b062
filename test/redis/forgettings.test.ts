/** `forget` in a fleet, over the model of the shared record. */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { expect, it, onTestFinished } from 'vitest';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import type { SharingMessage } from '../../src/redis/diagnostics.ts';
import { settle } from '../helpers/manual-clock.ts';
import { FleetSource, ModelFleet, type ModelReplica } from '../helpers/model-fleet.ts';

const KEY = 'ACCESS-KEY-1';

const replicas = (fleet: ModelFleet, count: number) =>
  Array.from({ length: count }, () => fleet.replica()) as [ModelReplica, ...ModelReplica[]];

async function holding(fleet: ModelFleet, count: number) {
  const all = replicas(fleet, count);
  for (const { registry } of all) await registry.getToken(KEY);
  await settle();
  return all as [ModelReplica, ModelReplica, ...ModelReplica[]];
}

const held = (all: readonly ModelReplica[]) => all.map(({ registry }) => registry.peek(KEY)?.value);

/** The record of the only owner. */
const record = (fleet: ModelFleet) => [...fleet.model.keys].find(([name]) => !name.endsWith('replicas'))?.[1];

/** The messages from now on. */
function messagesOf(fleet: ModelFleet): string[] {
  const heard: string[] = [];
  fleet.model.listen((_, message) => heard.push(message));
  return heard;
}

function eventsOf(): string[] {
  const events: string[] = [];
  const note = (message: unknown) => void events.push((message as SharingMessage).event);
  subscribe('owner-token-registry:sharing', note);
  onTestFinished(() => void unsubscribe('owner-token-registry:sharing', note));
  return events;
}

it('reaches the record and every replica, and costs one request when the owner is back', async () => {
  const fleet = new ModelFleet();
  const all = await holding(fleet, 3);
  expect(all[0].registry.forget(KEY)).toBe(true);
  await settle();
  expect(held(all)).toEqual([undefined, undefined, undefined]);
  expect([...(record(fleet)?.keys() ?? [])].sort()).toEqual(['g', 'n']);
  for (const { registry } of all) expect((await registry.getToken(KEY)).value).toMatch(/^token-2-/);
  expect(fleet.source.calls).toHaveLength(2);
});

it('reaches the others from a replica that does not know the owner, whose return value is its own', async () => {
  const fleet = new ModelFleet();
  const all = await holding(fleet, 2);
  expect(fleet.replica().registry.forget(KEY)).toBe(false);
  await settle();
  expect(held(all)).toEqual([undefined, undefined]);
});

it('is no rejection: the old token is not served when the service refuses the owner', async () => {
  const fleet = new ModelFleet();
  const all = await holding(fleet, 2);
  fleet.source.script((call) => call.fail(new OwnerTokenError('owner_refused', 'gone', { status: 400 })));
  all[0].registry.forget(KEY);
  await settle();
  for (const { registry } of all) await expect(registry.getToken(KEY)).rejects.toMatchObject({ code: 'owner_refused' });
});

it('a token that is used right after it is a new one, although the record had the old', async () => {
  const fleet = new ModelFleet();
  const [, second] = await holding(fleet, 2);
  second.registry.forget(KEY);
  expect((await second.registry.getToken(KEY)).value).toMatch(/^token-2-/);
  await settle();
  // Its own message has not taken that again.
  expect(second.registry.peek(KEY)?.value).toMatch(/^token-2-/);
});

it('the request under way in another replica serves its callers alone, and its token is neither stored nor shared', async () => {
  const fleet = new ModelFleet(new FleetSource());
  const [leader, forgets] = replicas(fleet, 2) as [ModelReplica, ModelReplica];
  const call = leader.registry.getToken(KEY);
  await settle();
  forgets.registry.forget(KEY);
  await settle();
  fleet.source.call(0).succeed({ response: { expires_in: 3600 } });
  expect((await call).value).toMatch(/^token-1-/);
  await settle();
  expect([leader.registry.peek(KEY), record(fleet)?.has('v')]).toEqual([undefined, false]);
  const late = fleet.replica().registry.getToken(KEY);
  await settle();
  fleet.source.call(1).succeed({ response: { expires_in: 3600 } });
  expect((await late).value).toMatch(/^token-2-/);
});

it('calls that wait for a leader elsewhere get a token that is requested after it', async () => {
  const fleet = new ModelFleet(new FleetSource());
  const [leader, follower, forgets] = replicas(fleet, 3) as [ModelReplica, ModelReplica, ModelReplica];
  leader.registry.getToken(KEY).catch(() => {});
  await settle();
  const call = follower.registry.getToken(KEY);
  await settle();
  forgets.registry.forget(KEY);
  await fleet.pass(100, 50);
  fleet.source.call(0).succeed({ response: { expires_in: 3600 } });
  await settle();
  fleet.source.call(1).succeed({ response: { expires_in: 3600 } });
  await fleet.pass(1_000, 50);
  expect((await call).value).toMatch(/^token-2-/);
});

it('what a fallback requested before it is not stored either', async () => {
  const fleet = new ModelFleet();
  const [first, alone] = await holding(fleet, 2);
  fleet.source.script(undefined);
  alone.health = 'down';
  alone.registry.forget(KEY);
  const call = alone.registry.getToken(KEY);
  await fleet.pass(1_000, 50);
  first.registry.forget(KEY);
  await settle();
  alone.health = 'up';
  fleet.source.call(-1).succeed({ response: { expires_in: 3600 } });
  await call;
  await fleet.pass(10_000, 50);
  expect(record(fleet)?.has('v')).toBe(false);
});

it('its message proves itself: nobody who knows the record’s name, or repeats a message, can make a replica forget', async () => {
  const fleet = new ModelFleet();
  const heard = messagesOf(fleet);
  const all = await holding(fleet, 2);
  all[0].registry.forget(KEY);
  await settle();
  const message = heard.find((each) => each.includes(' forgotten ')) ?? '';
  const renewed = (await all[0].registry.getToken(KEY)).value;
  await all[1].registry.getToken(KEY);
  const [name, , generation = '', proof] = message.split(' ');
  const later = `${Number(generation) + 60_000_000}`;
  for (const forged of [message, `${name} forgotten ${later} ${proof}`, `${name} forgotten ${later}`]) {
    fleet.model.tell('otr:4:wake', forged);
  }
  await settle();
  expect(held(all)).toEqual([renewed, renewed]);
});

it('an old message changes nothing in a replica that started after it, not even its request under way', async () => {
  const fleet = new ModelFleet();
  const heard = messagesOf(fleet);
  const [first] = await holding(fleet, 1);
  first.registry.forget(KEY);
  await settle();
  const message = heard.find((each) => each.includes(' forgotten ')) ?? '';
  await fleet.pass(1_000, 500);
  fleet.source.script(undefined);
  const late = fleet.replica();
  late.registry.getToken('warm').catch(() => {});
  await settle();
  const call = late.registry.getToken(KEY);
  await settle();
  fleet.model.tell('otr:4:wake', message);
  await settle();
  fleet.source.call(-1).succeed({ response: { expires_in: 3600 } });
  expect(late.registry.peek(KEY)).toBeUndefined();
  const { value } = await call;
  expect(late.registry.peek(KEY)?.value).toBe(value);
});

it('a replica without a subscriber serves the token to its end', async () => {
  const fleet = new ModelFleet();
  const { subscribe: _, ...unsubscribed } = fleet.model.port();
  const deaf = fleet.replica({ redis: unsubscribed });
  const [first] = await holding(fleet, 1);
  const { value } = await deaf.registry.getToken(KEY);
  first.registry.forget(KEY);
  await settle();
  expect(deaf.registry.peek(KEY)?.value).toBe(value);
});

it('the generation stays in the record for ten minutes', async () => {
  const fleet = new ModelFleet();
  const [first] = await holding(fleet, 1);
  first.registry.forget(KEY);
  await settle();
  const name = [...fleet.model.keys.keys()].find((key) => !key.endsWith('replicas')) ?? '';
  expect((fleet.model.expiries.get(name) ?? 0) - fleet.clock.now()).toBe(600_000);
});

it('the shared source is told as well, here and elsewhere, and what it throws reaches nobody', async () => {
  const fleet = new ModelFleet();
  const told: string[] = [];
  Object.assign(fleet.source, {
    forget: (accessKey: string) => {
      told.push(accessKey);
      throw new Error('canary');
    },
  });
  const all = await holding(fleet, 2);
  expect(all[0].registry.forget(KEY)).toBe(true);
  await settle();
  expect(told).toEqual([KEY, KEY]);
  expect(held(all)).toEqual([undefined, undefined]);
});

it('is newer than any token that the replica knows, even if the server’s clock is behind and its data are lost', async () => {
  const fleet = new ModelFleet();
  const all = await holding(fleet, 2);
  fleet.model.flush();
  fleet.clock.jumpWall(-60_000);
  all[0].registry.forget(KEY);
  await settle();
  expect(held(all)).toEqual([undefined, undefined]);
});

it('while Redis is unavailable it is kept, warned of once, sent when Redis is back, and once more five seconds later', async () => {
  const events = eventsOf();
  const fleet = new ModelFleet();
  const heard = messagesOf(fleet);
  const all = await holding(fleet, 2);
  const [away] = all;
  await away.registry.getToken('another');
  away.health = 'down';
  away.registry.forget(KEY);
  away.registry.forget('another');
  await fleet.pass(10_000, 100);
  expect(events).toEqual(['suspended', 'forget_delayed']);
  expect(held(all)).toEqual([undefined, expect.any(String)]);
  away.health = 'up';
  await fleet.pass(4_000, 100);
  expect(events).toEqual(['suspended', 'forget_delayed', 'resumed']);
  expect(held(all)).toEqual([undefined, undefined]);
  const forgotten = () => heard.filter((message) => message.includes(' forgotten '));
  expect(forgotten()).toHaveLength(2);
  await fleet.pass(30_000, 100);
  expect(forgotten()).toHaveLength(4);
  expect(new Set(forgotten()).size).toBe(2);
});

it('while it is kept, a call of the owner requests its own token', async () => {
  const fleet = new ModelFleet();
  const [first] = await holding(fleet, 2);
  let isLate = true;
  const { run } = fleet.model;
  fleet.model.run = (name, key, args) => {
    if (isLate && name === 'forget') throw new Error('OOM command not allowed');
    return run.call(fleet.model, name, key, args);
  };
  first.registry.forget(KEY);
  const call = first.registry.getToken(KEY);
  await fleet.pass(1_000, 50);
  expect((await call).value).toMatch(/^token-2-/);
  expect(first.shared.stats()).toMatchObject({ fallback: 1 });
  isLate = false;
  await fleet.pass(10_000, 50);
  expect(record(fleet)?.has('v')).toBe(false);
});

it('keeps ten thousand owners', async () => {
  const fleet = new ModelFleet();
  const heard = messagesOf(fleet);
  const { registry } = fleet.replica();
  await registry.getToken(KEY);
  fleet.health = 'down';
  for (let owner = 0; owner < 10_500; owner++) registry.forget(`owner-${owner}`);
  await settle();
  fleet.health = 'up';
  await fleet.pass(20_000, 1_000);
  expect(new Set(heard.filter((message) => message.includes(' forgotten '))).size).toBe(10_000);
});

it('a source whose identity() fails for a while is asked again', async () => {
  const fleet = new ModelFleet();
  const all = await holding(fleet, 2);
  const { identity } = fleet.source;
  fleet.source.identity = () => Promise.reject(new Error('no secret'));
  all[0].registry.forget(KEY);
  await fleet.pass(1_000, 100);
  expect(held(all)).toEqual([undefined, expect.any(String)]);
  fleet.source.identity = identity;
  await fleet.pass(6_000, 100);
  expect(held(all)).toEqual([undefined, undefined]);
});

it('close() sends what is kept first, within its time', async () => {
  const fleet = new ModelFleet();
  const all = await holding(fleet, 3);
  all[0].registry.forget(KEY);
  await all[0].registry.close();
  await settle();
  expect(held(all).slice(1)).toEqual([undefined, undefined]);
  all[1].health = 'hung';
  all[1].registry.forget(KEY);
  const closed = all[1].registry.close({ timeoutMs: 2_000 });
  await fleet.pass(2_000, 100);
  await closed;
});
