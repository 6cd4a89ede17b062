/** Plays one scene with one subject in virtual time: the same seed gives the same run. */

import { ManualClock } from '../../helpers/manual-clock.ts';
import { seeded } from '../../helpers/seeded.mjs';
import { MIN, SEC } from '../scene.ts';
import type { ApiScene } from './scene.ts';
import { keyOf, Services } from './services.ts';
import type { ApiClient, ApiSubject } from './subjects.ts';

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
  const time = new ManualClock();
  const services = new Services(scene, time, seeded(seed + 1_000));
  const client = subject.create({ services, clock: time, random: seeded(seed + 2_000), scene });
  const random = seeded(seed);
  const endMs = scene.minutes * MIN;
  const calls = new Calls(scene, time, client);
  for (let owner = 0; owner < scene.owners; owner++) {
    const next = (atMs: number) =>
      time.at(atMs, () => {
        if (time.monotonicMs >= endMs) return;
        void calls.make(owner, scene.route?.(random) ?? '/');
        next(time.monotonicMs + scene.everyMs * (0.5 + random()));
      });
    next(scene.everyMs * random());
  }
  scene.script?.(services);
  await time.passUntil(endMs + DRAIN_MS, TURN_EACH);
  client.close?.();
  return { scene: scene.name, subject: subject.name, seed, ...calls.result(), ...services.counts };
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

  async make(owner: number, route: string): Promise<void> {
    const beganMs = this.#time.monotonicMs;
    this.#counts.made++;
    const isCounted = this.#scene.counts?.({ owner, route, atMs: beganMs }) ?? true;
    const isAfterFault = beganMs >= this.#faultEndMs;
    if (isCounted) {
      this.#counts.calls++;
      if (isAfterFault && !this.#back.has(owner)) this.#back.set(owner, { fromMs: beganMs, servedMs: Infinity });
    }
    const status = await this.#client.call(keyOf(owner), route).catch(() => 0);
    if (!isCounted) return;
    const endedMs = this.#time.monotonicMs;
    if (endedMs - beganMs > GIVE_UP_MS || (status !== 200 && status !== 401)) this.#counts.failed++;
    else if (status === 401) this.#counts.refused++;
    else {
      this.#counts.served++;
      const back = this.#back.get(owner);
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
