/** How requests flow to services with limits, hanging owners and isolated failures: real sockets, time on a manual clock. */

import { afterEach, describe, expect, it } from 'vitest';
import type { OwnerTokenRegistryOptions } from '../../src/index.ts';
import { LoopbackService, type ServiceCall, status, token } from '../helpers/loopback-service.ts';
import type { ManualClock } from '../helpers/manual-clock.ts';
import { keys, overHttp, until } from '../helpers/registries.ts';

/** What the service does with a request: how long that takes, and with which status it ends. */
type Behaviour = (
  stage: Stage,
  accessKey: string,
) => { afterMs: number; status: 200 | 429 | 503; headers?: Record<string, string> };

const HUNG = { afterMs: Number.POSITIVE_INFINITY, status: 200 } as const;

/** A registry with default options before a service, and time that passes in steps once the network is quiet. */
class Stage {
  readonly service: LoopbackService;
  readonly registry: ReturnType<typeof overHttp>['registry'];
  readonly clock: ManualClock;
  readonly arrivals: { readonly atMs: number; readonly status: number }[] = [];
  inFlight = 0;
  mostInFlight = 0;

  private constructor(service: LoopbackService, behaviour: Behaviour, options: Partial<OwnerTokenRegistryOptions>) {
    this.service = service;
    const { clock, registry } = overHttp(service, options);
    this.clock = clock;
    this.registry = registry;
    service.always((call) => this.#take(call, behaviour));
  }

  static async with(behaviour: Behaviour, options: Partial<OwnerTokenRegistryOptions> = {}): Promise<Stage> {
    return new Stage(await LoopbackService.start(), behaviour, options);
  }

  get nowMs(): number {
    return this.clock.monotonic();
  }

  /** Calls for these owners at once. Gives when each was served, or its error. */
  call(owners: readonly string[]): { servedMs: number[]; errors: unknown[] } {
    const outcome = { servedMs: [] as number[], errors: [] as unknown[] };
    for (const owner of owners) {
      this.registry.getToken(owner).then(
        () => outcome.servedMs.push(this.nowMs),
        (error) => outcome.errors.push(error),
      );
    }
    return outcome;
  }

  /** Calls for these owners at once, and again whenever an error says that a call may be made. */
  callUntilServed(owners: readonly string[]): { servedMs: number[] } {
    const outcome = { servedMs: [] as number[] };
    const call = (owner: string) => {
      this.registry.getToken(owner).then(
        () => outcome.servedMs.push(this.nowMs),
        ({ retryAtMs }) => this.clock.setTimeout(() => call(owner), retryAtMs - this.clock.now()),
      );
    };
    for (const owner of owners) call(owner);
    return outcome;
  }

  /** Lets time pass until the condition holds. */
  async passUntil(holds: () => boolean, stepMs: number): Promise<void> {
    for (;;) {
      // Every request has arrived, and every response has been read.
      await until(() => {
        const { requests, inFlight } = this.registry.stats();
        return this.service.calls.length === requests && inFlight === this.inFlight;
      });
      if (holds()) return;
      this.clock.advance(stepMs);
    }
  }

  /** The share of 429s among the requests that arrived after the first second. */
  get shareRefusedLater(): number {
    const later = this.arrivals.filter(({ atMs }) => atMs > 1_000);
    return later.filter((each) => each.status === 429).length / later.length;
  }

  async close(): Promise<void> {
    const closed = this.registry.close({ timeoutMs: 0 });
    this.clock.advance(1);
    await closed;
    await this.service.close();
  }

  #take(call: ServiceCall, behaviour: Behaviour): void {
    const outcome = behaviour(this, String(call.accessKey));
    this.arrivals.push({ atMs: this.nowMs, status: outcome.status });
    this.mostInFlight = Math.max(this.mostInFlight, ++this.inFlight);
    const over = () => {
      this.inFlight--;
      call.answer(outcome.status === 200 ? token() : status(outcome.status, '', outcome.headers));
    };
    if (outcome.afterMs === Number.POSITIVE_INFINITY) void call.gone.then(() => this.inFlight--);
    else if (outcome.afterMs === 0) over();
    else this.clock.setTimeout(over, outcome.afterMs);
  }
}

let stage: Stage;
afterEach(() => stage.close());

const percentile = (values: readonly number[], share: number) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] as number;

/** Calls for these owners at once, and lets time pass until each has a token or an error. */
async function passUntilSettled(owners: readonly string[]) {
  const outcome = stage.call(owners);
  await stage.passUntil(() => outcome.servedMs.length + outcome.errors.length === owners.length, 10);
  return outcome;
}

const LONG = { timeout: 120_000 };

describe('N1', LONG, () => {
  it.each([20, 300, 3_000])(
    'N1 3,000 cold owners at once, %i ms each: none fails, nearly as fast as with 128 at once',
    async (latencyMs) => {
      stage = await Stage.with(() => ({ afterMs: latencyMs, status: 200 }));
      const { servedMs, errors } = stage.call(keys(3_000));
      await stage.passUntil(() => servedMs.length + errors.length === 3_000, latencyMs / 2);
      expect(errors).toEqual([]);
      expect(Math.max(...servedMs)).toBeLessThanOrEqual((1.5 * 3_000 * latencyMs) / 128);
      expect(stage.mostInFlight).toBeLessThanOrEqual(128 + 32);
    },
  );

  it('N1 2,000 cold owners at once after a few new ones failed: none fails, because the next success ends their pace', async () => {
    stage = await Stage.with((_, owner) => ({ afterMs: 20, status: owner.startsWith('failing') ? 503 : 200 }));
    await passUntilSettled(['proven']);
    for (const owner of ['failing 1', 'failing 2', 'failing 3']) await passUntilSettled([owner]);
    const { errors, servedMs } = await passUntilSettled(keys(2_000));
    expect([errors, servedMs.length]).toEqual([[], 2_000]);
  });

  it.each([50, 1_000, 2_500])(
    'N1 a service that works on 32 requests at once, %i ms each: as fast as it can, with at most three times as many sent',
    async (latencyMs) => {
      const freeAtMs = Array<number>(32).fill(0);
      stage = await Stage.with(({ nowMs }) => {
        const startMs = Math.max(nowMs, Math.min(...freeAtMs));
        freeAtMs[freeAtMs.indexOf(Math.min(...freeAtMs))] = startMs + latencyMs;
        return { afterMs: startMs + latencyMs - nowMs, status: 200 };
      });
      const { servedMs, errors } = stage.call(keys(1_500));
      await stage.passUntil(() => servedMs.length + errors.length === 1_500, latencyMs / 2);
      expect(errors).toEqual([]);
      expect(Math.max(...servedMs)).toBeLessThanOrEqual((1.5 * 1_500 * latencyMs) / 32);
      expect(stage.mostInFlight).toBeLessThanOrEqual(96);
    },
  );

  it.each([
    [20, 1_500, 50],
    // The last one is queued for longer than maxQueueMs.
    [8, 400, 800],
  ])('N1 429 beyond %i at once: all %i served, few 429s', async (atOnce, count, busyMs) => {
    let busy = 0;
    stage = await Stage.with(({ clock }) => {
      if (busy >= atOnce) return { afterMs: 0, status: 429 };
      busy++;
      clock.setTimeout(() => busy--, busyMs);
      return { afterMs: busyMs, status: 200 };
    });
    const { servedMs, errors } = stage.call(keys(count));
    await stage.passUntil(() => servedMs.length + errors.length === count, busyMs / 5);
    expect(errors).toEqual([]);
    expect(stage.shareRefusedLater).toBeLessThanOrEqual(0.05);
    expect(Math.max(...servedMs)).toBeLessThanOrEqual((2.5 * count * busyMs) / atOnce);
  });

  it('N1 429 beyond 100 a second: all served, few 429s', async () => {
    const inSecond = new Map<number, number>();
    stage = await Stage.with(({ nowMs }) => {
      const second = Math.floor((nowMs + 400) / 1_000);
      inSecond.set(second, (inSecond.get(second) ?? 0) + 1);
      return (inSecond.get(second) as number) > 100 ? { afterMs: 0, status: 429 } : { afterMs: 20, status: 200 };
    });
    const { servedMs, errors } = stage.call(keys(800));
    await stage.passUntil(() => servedMs.length + errors.length === 800, 10);
    expect(errors).toEqual([]);
    expect(stage.shareRefusedLater).toBeLessThanOrEqual(0.05);
    expect(Math.max(...servedMs)).toBeLessThanOrEqual(12_000);
  });

  it.each([
    [8, 400, 100],
    [32, 1_500, 50],
  ])('N1 429 with Retry-After beyond %i at once: all %i served, few 429s', async (atOnce, count, busyMs) => {
    let busy = 0;
    stage = await Stage.with(({ clock }) => {
      if (busy >= atOnce) return { afterMs: 0, status: 429, headers: { 'retry-after': '1' } };
      busy++;
      clock.setTimeout(() => busy--, busyMs);
      return { afterMs: busyMs, status: 200 };
    });
    const { servedMs } = stage.callUntilServed(keys(count));
    await stage.passUntil(() => servedMs.length === count, busyMs / 5);
    expect(stage.shareRefusedLater).toBeLessThanOrEqual(0.05);
    // Three pauses of a second are what it takes to find the limit.
    expect(Math.max(...servedMs)).toBeLessThanOrEqual(4_000 + (2 * count * busyMs) / atOnce);
  });

  it.each([
    [10, 300],
    [100, 800],
  ])('N1 429 with Retry-After beyond %i a second: all %i served, few 429s', async (perSecond, count) => {
    const inSecond = new Map<number, number>();
    stage = await Stage.with(({ nowMs }) => {
      const second = Math.floor((nowMs + 400) / 1_000);
      inSecond.set(second, (inSecond.get(second) ?? 0) + 1);
      const isOver = (inSecond.get(second) as number) > perSecond;
      return isOver ? { afterMs: 0, status: 429, headers: { 'retry-after': '1' } } : { afterMs: 20, status: 200 };
    });
    const { servedMs } = stage.callUntilServed(keys(count));
    await stage.passUntil(() => servedMs.length === count, 10);
    expect(stage.shareRefusedLater).toBeLessThanOrEqual(0.05);
    expect(Math.max(...servedMs)).toBeLessThanOrEqual((1.75 * count * 1_000) / perSecond);
  });

  it('N1 one 429 with Retry-After while there is little to do delays no later burst', async () => {
    let arrived = 0;
    const refusal = { afterMs: 20, status: 429, headers: { 'retry-after': '1' } } as const;
    stage = await Stage.with(() => (++arrived === 3 ? refusal : { afterMs: 20, status: 200 }));
    for (const owner of keys(6).map((key) => `early-${key}`)) {
      const startMs = stage.nowMs;
      const early = stage.callUntilServed([owner]);
      await stage.passUntil(() => early.servedMs.length === 1 && stage.nowMs - startMs >= 300, 10);
    }
    const startMs = stage.nowMs;
    const { servedMs, errors } = stage.call(keys(1_000));
    await stage.passUntil(() => servedMs.length + errors.length === 1_000, 10);
    expect(errors).toEqual([]);
    expect(Math.max(...servedMs) - startMs).toBeLessThanOrEqual(1_000);
  });

  it('N1 a known quota of 50 a second is kept from the first request on', async () => {
    stage = await Stage.with(() => ({ afterMs: 20, status: 200 }), { requestsPerSecond: 50 });
    const { servedMs } = stage.call(keys(200));
    await stage.passUntil(() => servedMs.length === 200, 10);
    const { arrivals } = stage;
    for (const [index, { atMs }] of arrivals.entries()) {
      if (index >= 51) expect(atMs - (arrivals[index - 51]?.atMs as number)).toBeGreaterThanOrEqual(1_000);
    }
    expect(Math.max(...servedMs)).toBeLessThanOrEqual(4_500);
  });
});

describe('N2', LONG, () => {
  it.each([
    ['30 of 3,000 owners hang and are asked first', [...keys(30).map((key) => `hung-${key}`), ...keys(2_970)], 20],
    ['50 of 1,000 owners hang and are asked first', [...keys(50).map((key) => `hung-${key}`), ...keys(950)], 20],
    ['10 of 1,000 owners hang, in any order', keys(1_000).map((key, n) => (n % 100 === 50 ? `hung-${key}` : key)), 50],
  ] as const)('N2 %s: all others are served, 99 of 100 within 1.3 s', async (_, owners, latencyMs) => {
    stage = await Stage.with((_stage, key) => (key.startsWith('hung') ? HUNG : { afterMs: latencyMs, status: 200 }));
    const outcomes = owners.map((owner) => ({ owner, outcome: stage.call([owner]) }));
    const others = outcomes.filter(({ owner }) => !owner.startsWith('hung')).map(({ outcome }) => outcome);
    await stage.passUntil(() => others.every(({ servedMs, errors }) => servedMs.length + errors.length === 1), 10);
    expect(others.flatMap(({ errors }) => errors)).toEqual([]);
    expect(
      percentile(
        others.flatMap(({ servedMs }) => servedMs),
        0.99,
      ),
    ).toBeLessThanOrEqual(1_300);
  });

  it('N2 30 of 300 owners hang and are asked first, and only 4 requests may be in flight: all others are served', async () => {
    const isHung = (key: string) => key.startsWith('hung');
    const behaviour: Behaviour = (_stage, key) => (isHung(key) ? HUNG : { afterMs: 20, status: 200 });
    stage = await Stage.with(behaviour, { concurrency: { max: 4 } });
    stage.call(keys(30).map((key) => `hung-${key}`));
    const { servedMs, errors } = stage.call(keys(270));
    await stage.passUntil(() => servedMs.length + errors.length === 270, 10);
    expect(errors).toEqual([]);
    expect(Math.max(...servedMs)).toBeLessThanOrEqual(6_000);
    expect(stage.mostInFlight).toBeLessThanOrEqual(30 + 4);
  });

  it('N2 the deadlines of those that hung stop nobody, and no newcomer waits for them', async () => {
    stage = await Stage.with((_stage, key) => (key.startsWith('hung') ? HUNG : { afterMs: 50, status: 200 }));
    const hung = stage.call(keys(30).map((key) => `hung-${key}`));
    const early = stage.call(keys(100));
    await stage.passUntil(() => early.servedMs.length === 100, 10);
    await stage.passUntil(() => hung.errors.length === 30, 100);
    expect(stage.registry.stats().pauses.endpoint).toBeUndefined();
    const sinceMs = stage.nowMs;
    const late = stage.call(keys(50).map((key) => `late-${key}`));
    await stage.passUntil(() => late.servedMs.length + late.errors.length === 50, 10);
    expect(late.errors).toEqual([]);
    expect(Math.max(...late.servedMs) - sinceMs).toBeLessThanOrEqual(500);
  });
});

describe('N3', LONG, () => {
  it('N3 every hundredth request gets a 503: no caller sees one', async () => {
    let arrived = 0;
    stage = await Stage.with(() => ({ afterMs: 20, status: ++arrived % 100 === 0 ? 503 : 200 }));
    const { servedMs, errors } = stage.call(keys(2_000));
    await stage.passUntil(() => servedMs.length + errors.length === 2_000, 10);
    expect(errors).toEqual([]);
    expect(stage.registry.stats()).toMatchObject({ requests: 2_020, failures: 20 });
  });

  it('N3 in an outage, retries stop within a second', async () => {
    let isDown = false;
    stage = await Stage.with(() => ({ afterMs: 20, status: isDown ? 503 : 200 }));
    const early = stage.call(keys(500));
    await stage.passUntil(() => early.servedMs.length === 500, 10);
    isDown = true;
    const [startMs, before] = [stage.nowMs, stage.arrivals.length];
    const callEvery100Ms = (owner: string) => {
      if (stage.nowMs - startMs >= 60_000) return;
      stage.call([owner]);
      stage.clock.setTimeout(() => callEvery100Ms(owner), 100);
    };
    for (const owner of keys(20)) callEvery100Ms(`late-${owner}`);
    await stage.passUntil(() => stage.nowMs - startMs >= 60_000, 50);
    const sinceMs = stage.arrivals.slice(before).map(({ atMs }) => atMs - startMs);
    const first = sinceMs.filter((ms) => ms <= 1_000).length;
    expect(first).toBeGreaterThan(3);
    expect(first).toBeLessThanOrEqual(20 + 10);
    expect(sinceMs.length - first).toBeLessThanOrEqual(120);
  });
});
