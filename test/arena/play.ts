/** Plays one scene with one subject in virtual time: the same seed gives the same run. */

import { ManualClock } from '../helpers/manual-clock.ts';
import { seeded } from '../helpers/seeded.mjs';
import { Service } from '../world/service.ts';
import { MIN } from '../world/setting.ts';
import { scheduleCalls } from '../world/traffic.ts';
import { Experience, type Experienced } from './experience.ts';
import type { Scene } from './scene.ts';
import type { Client, Subject, Tools } from './subjects.ts';

/** How long a run goes on after the last call, so that waiting calls can end. */
const DRAIN_MS = 3 * MIN;

export interface Played extends Experienced {
  readonly scene: string;
  readonly subject: string;
  readonly seed: number;
  /** Requests that reached the service, and those of them that it did not want, by reason. */
  readonly sent: number;
  readonly outage: number;
  readonly limit: number;
  readonly dead: number;
}

export async function play(scene: Scene, subject: Subject, seed: number): Promise<Played> {
  const time = new ManualClock();
  for (const [fromMs, toMs] of scene.standstills ?? []) time.at(fromMs, () => time.standStill(toMs - fromMs));
  const clock = clockOf(scene, time);
  const service = new Service(scene, time, seeded(seed + 1_000));
  const experience = new Experience(scene);
  const { now } = Date;
  Date.now = clock.now; // For libraries that take no clock, such as cockatiel.
  try {
    const tools = {
      fetch: service.fetch,
      clock,
      random: seeded(seed + 2_000),
      scene,
      readSecret: () => service.readSecret(),
    };
    const clients: Client[] = [];
    for (let replica = 0; replica < (scene.replicas ?? 1); replica++) clients.push(await subject.create(tools));
    let calls = 0;
    const random = seeded(seed);
    const endMs = scene.minutes * MIN;
    for (const group of scene.tenants) {
      const call = (number: number) => {
        const key = `${group.name}-${number}`;
        const ended = experience.began(group, key, time.monotonicMs);
        const client = clients[calls++ % clients.length] as Client;
        callOnce(client, service, key).then(
          () => ended(time.monotonicMs),
          (error: unknown) => ended(time.monotonicMs, error),
        );
      };
      scheduleCalls(group, time, random, call, endMs);
    }
    const { warmUp } = scene;
    if (warmUp) time.at(warmUp.atMs, () => warmUpGroup(clients[0] as Client, keysOf(scene, warmUp.group)));
    await time.passUntil(endMs + DRAIN_MS);
    const result = { scene: scene.name, subject: subject.name, seed, ...experience.result(), ...service.counts };
    for (const client of clients) client.close?.();
    return result;
  } finally {
    Date.now = now;
  }
}

/** The client's clock, which may differ from that of the service. */
function clockOf({ clockAheadMs = 0 }: Scene, time: ManualClock): Tools['clock'] {
  return {
    now: () => time.now() - clockAheadMs,
    monotonic: () => time.monotonic(),
    setTimeout: (fn, ms) => time.setTimeout(fn, ms),
  };
}

function keysOf({ tenants }: Scene, group: string): string[] {
  const { count = 0 } = tenants.find(({ name }) => name === group) ?? {};
  return Array.from({ length: count }, (_, number) => `${group}-${number}`);
}

/** What becomes of it, the calls show. */
function warmUpGroup(client: Client, keys: readonly string[]): void {
  if (client.warmUp) client.warmUp(keys);
  else for (const key of keys) client.getToken(key).catch(() => {});
}

/** A call of a tenant: if the API does not accept its token, it rejects that token and asks for another, once. */
async function callOnce(client: Client, service: Service, key: string): Promise<void> {
  const isAccepted = async (token: string) => {
    const accepted = (await service.callApi(key, token)) === 200;
    if (accepted) client.accept?.(key, token);
    else client.reject(key, token);
    return accepted;
  };
  const token = await client.getToken(key);
  if (!service.hasApi || (await isAccepted(token))) return;
  if (!(await isAccepted(await client.getToken(key)))) {
    throw Object.assign(new Error('the API accepts no token'), { code: 'unauthorized' });
  }
}
