/** Which replicas are counted. docs/security.md describes an attacker with access to Redis but no keys. */

import { expect, it } from 'vitest';
import { ModelFleet, type ModelReplica } from '../helpers/model-fleet.ts';

const KEY = 'ACCESS-KEY-1';
const REPLICAS = 'otr:4:replicas';

/** Replicas that have counted each other. */
async function counted(fleet: ModelFleet, count: number): Promise<ModelReplica[]> {
  const all = Array.from({ length: count }, () => fleet.replica({ requestsPerSecond: 10 }));
  await announceForTwoMinutes(fleet, all);
  return all;
}

async function announceForTwoMinutes(fleet: ModelFleet, all: readonly ModelReplica[]): Promise<void> {
  for (let round = 0; round < 6; round++) {
    for (const { registry } of all) void registry.getToken(`count-${fleet.clock.now()}`);
    await fleet.pass(20_000, 500);
  }
}

it('invented replicas take no share of the quota, and do not move the time of the fleet forward', async () => {
  const fleet = new ModelFleet();
  const all = await counted(fleet, 2);
  const listed = fleet.model.keys.get(REPLICAS) ?? new Map<string, string>();
  const [[, announced]] = [...listed] as [[string, string]];
  const [seenUs, keyId, , proof] = announced.split(' ');
  const nowUs = fleet.clock.now() * 1_000;
  for (let index = 0; index < 500; index++) {
    listed.set(`copied-${index}`, announced);
    listed.set(`forged-${index}`, `${nowUs} ${keyId} 0 forged`);
    listed.set(`ahead-${index}`, `${seenUs} ${keyId} 3600000000 ${proof}`);
    listed.set(`short-${index}`, `${nowUs}`);
    listed.set(`odd-${index}`, 'x');
  }
  await announceForTwoMinutes(fleet, all);
  for (const { shared } of all) {
    expect(shared.members()).toMatchObject({ count: 2, names: { length: 2 } });
    expect(shared.stats()).toMatchObject({ replicas: 2, sharing: true });
  }
  const { value } = await (all[0] as ModelReplica).registry.getToken(KEY);
  expect((await (all[1] as ModelReplica).registry.getToken(KEY)).value).toBe(value);
});

it.each(['as it was', 'with a new time'])(
  'an announcement that somebody puts back %s is not counted five minutes after it was made',
  async (how) => {
    const fleet = new ModelFleet();
    const [left, stays] = (await counted(fleet, 2)) as [ModelReplica, ModelReplica];
    const listed = () => fleet.model.keys.get(REPLICAS) ?? new Map<string, string>();
    const { name } = left.shared.members();
    const announced = listed().get(name) ?? '';
    await left.registry.close();
    for (let round = 0; round < 36; round++) {
      const nowUs = fleet.clock.now() * 1_000;
      listed().set(name, how === 'as it was' ? announced : announced.replace(/^\d+/, `${nowUs}`));
      void stays.registry.getToken(`${round}`);
      await fleet.pass(10_000, 500);
    }
    expect(stays.shared.stats().replicas).toBe(1);
  },
);
