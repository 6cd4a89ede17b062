/** Plays one scene with one subject in virtual time: the same seed gives the same run. */

import { ManualClock } from '../../helpers/manual-clock.ts';
import { seeded } from '../../helpers/seeded.mjs';
import { Service } from '../../world/service.ts';
import { isWithin, MIN, SEC } from '../../world/setting.ts';
import { scheduleCalls } from '../../world/traffic.ts';
import type { ApiScene } from './scene.ts';
import type { ApiClient, ApiSubject, ApiTools } from './subjects.ts';

/** A call that takes longer counts as failed. */
const GIVE_UP_MS = 30 * SEC;
/** Milliseconds with events in each turn of the event loop. */
const TURN_EACH = 20;
/** How long a run goes on after the last call, so that waiting calls can end. */
const DRAIN_MS = 90 * SEC;

export interface ApiPlayed {
  readonly scene: string;
  readonly subject: string;
  readonly seed: number;
  /** Calls in all, those that count, and what became of these. */
  readonly made: number;
  readonly calls: number;
  readonly served: number;
  readonly refused: number;
  readonly failed: number;
  readonly servedPercent: number;
  /** The longest that an owner went unserved after the fault, from its first call after it. */
  readonly backMs: number;
  readonly tokenRequests: number;
  /** Token requests during the fault. */
  readonly inFault: number;
  readonly apiCalls: number;
}

export async function playApi(scene: ApiScene, subject: ApiSubject, seed: number): Promise<ApiPlayed> {
  const { owners: count, everyMs, fault = [0, 0] } = scene;
  const time = new ManualClock();
  const group = { name: 'owner', count, everyMs, isEven: true } as const;
  const service = new Service({ ...scene, tenants: [group] }, time, seeded(seed + 1_000));
  const counts = { tokenRequests: 0, inFault: 0, apiCalls: 0 };
  const requestToken: ApiTools['requestToken'] = (accessKey) => {
    counts.tokenRequests++;
    if (isWithin(fault, time.monotonicMs)) counts.inFault++;
    return service.requestToken(accessKey);
  };
  const callApi: ApiTools['callApi'] = (...call) => {
    counts.apiCalls++;
    return service.callApi(...call);
  };
  const client = subject.create({ requestToken, callApi, clock: time, random: seeded(seed + 2_000), scene });
  const random = seeded(seed);
  const endMs = scene.minutes * MIN;
  const calls = new Calls(scene, time, client);
  scheduleCalls(group, time, random, (number) => void calls.make(number, scene.route?.(random) ?? '/'), endMs);
  scene.script?.(service);
  await time.passUntil(endMs + DRAIN_MS, TURN_EACH);
  client.close?.();
  return { scene: scene.name, subject: subject.name, seed, ...calls.result(), ...counts };
}

class Calls {
  readonly #scene: ApiScene;
  readonly #time: ManualClock;
  readonly #client: ApiClient;
  readonly #faultEndMs: number;
  readonly #counts = { made: 0, calls: 0, served: 0, refused: 0, failed: 0 };
  /** By owner: its first call after the fault, and when one was first served. */
  readonly #back = new Map<number, { readonly fromMs: number; servedMs: number }>();

  constructor(scene: ApiScene, time: ManualClock, client: ApiClient) {
    this.#scene = scene;
    this.#time = time;
    this.#client = client;
    this.#faultEndMs = scene.fault?.[1] ?? 0;
  }

  async make(number: number, route: string): Promise<void> {
    const beganMs = this.#time.monotonicMs;
    this.#counts.made++;
    const isCounted = this.#scene.counts?.({ number, route, atMs: beganMs }) ?? true;
    const isAfterFault = beganMs >= this.#faultEndMs;
    if (isCounted) {
      this.#counts.calls++;
      if (isAfterFault && !this.#back.has(number)) this.#back.set(number, { fromMs: beganMs, servedMs: Infinity });
    }
    const status = await this.#client.call(`owner-${number}`, route).catch(() => 0);
    if (!isCounted) return;
    const endedMs = this.#time.monotonicMs;
    if (endedMs - beganMs > GIVE_UP_MS || (status !== 200 && status !== 401)) this.#counts.failed++;
    else if (status === 401) this.#counts.refused++;
    else {
      this.#counts.served++;
      const back = this.#back.get(number);
      if (back && isAfterFault) back.servedMs = Math.min(back.servedMs, endedMs);
    }
  }

  result() {
    const { calls, served } = this.#counts;
    const unservedMs = [...this.#back.values()].map(({ fromMs, servedMs }) => servedMs - fromMs);
    return {
      ...this.#counts,
      servedPercent: (100 * served) / Math.max(1, calls),
      backMs: Math.max(0, ...unservedMs),
    };
  }
}
