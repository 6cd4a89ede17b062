/** Rows N4 and N5: a fleet recovers as fast as one process, and waiting for another replica delays no other owner. */

import { describe, expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import { OwnerTokenRegistry } from '../../src/registry/registry.ts';
import { settle } from '../helpers/manual-clock.ts';
import { FleetSource, ModelFleet, type ModelReplica } from '../helpers/model-fleet.ts';
import { seeded } from '../helpers/seeded.mjs';

const OUTAGE_MS = 10_000;
const OWNERS = ['one', 'two', 'three'];
const STEP_MS = 200;

/** How long after an outage each registry first gets a token again, in milliseconds. Callers come every 200 ms. */
async function recoveries(fleet: ModelFleet, registries: OwnerTokenRegistry[]): Promise<number[]> {
  const servedAtMs = new Map<OwnerTokenRegistry, number>();
  const call = () => {
    for (const registry of registries) {
      for (const owner of OWNERS) {
        const served = () => void (servedAtMs.has(registry) || servedAtMs.set(registry, fleet.clock.now()));
        registry.getToken(owner).then(served, () => {});
      }
    }
  };
  const unavailable = () => new OwnerTokenError('endpoint_unavailable', 'down', { status: 503 });
  fleet.source.script((made) => made.fail(unavailable()));
  for (let elapsedMs = 0; elapsedMs < OUTAGE_MS; elapsedMs += STEP_MS) {
    call();
    await fleet.pass(STEP_MS, STEP_MS);
  }
  const endedAtMs = fleet.clock.now();
  fleet.source.script((made) => made.succeed({ response: { expires_in: 3600 } }));
  while (servedAtMs.size < registries.length && fleet.clock.now() < endedAtMs + 120_000) {
    call();
    await fleet.pass(STEP_MS, STEP_MS);
  }
  return registries.map((registry) => (servedAtMs.get(registry) ?? Infinity) - endedAtMs);
}

describe('N4', () => {
  it('after an outage the worst of 20 replicas recovers as fast as one process, in 20 runs', {
    timeout: 120_000,
  }, async () => {
    const sums = { alone: 0, worst: 0 };
    for (let seed = 1; seed <= 20; seed++) {
      const random = seeded(seed);
      const one = new ModelFleet(new FleetSource(), random);
      const { source, clock } = one;
      sums.alone += (await recoveries(one, [new OwnerTokenRegistry({ source, clock, random })]))[0] as number;
      const fleet = new ModelFleet(new FleetSource(), random);
      const registries = Array.from({ length: 20 }, () => fleet.replica().registry);
      sums.worst += Math.max(...(await recoveries(fleet, registries)));
    }
    expect(sums.worst).toBeLessThanOrEqual(sums.alone * 1.1);
  });
});

describe('N5', () => {
  it('a replica that waits for as many requests of another as may run at once serves other owners at once', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const [leader, follower] = [0, 1].map(() => fleet.replica({ registry: { concurrency: 8 } })) as [
      ModelReplica,
      ModelReplica,
    ];
    const owners = Array.from({ length: 8 }, (_, index) => `owner-${index}`);
    for (const owner of owners) void leader.registry.getToken(owner);
    await settle();
    expect(fleet.source.calls).toHaveLength(8);
    const waits = owners.map((owner) => follower.registry.getToken(owner));
    await fleet.pass(200, 20);
    fleet.source.script((call) => call.succeed({ response: { expires_in: 3600 } }));
    await fleet.replica().registry.getToken('stored');
    // One that is in Redis, and one that nobody has.
    expect((await follower.registry.getToken('stored')).value).toMatch(/-of-stored$/);
    expect((await follower.registry.getToken('cold')).value).toMatch(/-of-cold$/);
    for (let index = 0; index < 8; index++) fleet.source.call(index).succeed({ response: { expires_in: 3600 } });
    await fleet.pass(500, 20);
    expect(await Promise.all(waits)).toHaveLength(8);
    expect(fleet.source.calls).toHaveLength(10);
  });

  it('followers whose leader dies make their own requests, at most twice `concurrency` at once', async () => {
    const fleet = new ModelFleet(new FleetSource());
    const leader = fleet.replica();
    const follower = fleet.replica({ registry: { concurrency: 2 } });
    const owners = ['a', 'b', 'c', 'd', 'e', 'f'];
    for (const owner of owners) void leader.registry.getToken(owner);
    await settle();
    const waits = owners.map((owner) => follower.registry.getToken(owner));
    await fleet.pass(500, 50);
    leader.health = 'hung';
    await fleet.pass(2_700, 50);
    // Four had yielded their places, or have them, and two are queued.
    expect(fleet.source.calls).toHaveLength(6 + 4);
    fleet.source.script((call) => call.succeed({ response: { expires_in: 3600 } }));
    for (const index of [6, 7, 8, 9]) fleet.source.call(index).succeed({ response: { expires_in: 3600 } });
    await fleet.pass(4_000, 50);
    expect((await Promise.all(waits)).map(({ value }) => value.replace(/.*-of-/, ''))).toEqual(owners);
    expect(fleet.source.calls).toHaveLength(12);
  });
});
