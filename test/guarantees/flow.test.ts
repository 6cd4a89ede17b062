/** How requests flow to services with limits, hanging owners and isolated failures: real sockets, time on a manual clock. */

import { afterEach, describe, expect, it } from 'vitest';
import type { OwnerTokenRegistryOptions } from '../../src/index.ts';
import { LoopbackService, type ServiceCall, status, token } from '../helpers/loopback-service.ts';
import { type ManualClock, settle } from '../helpers/manual-clock.ts';
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
      // Time limits let the event loop turn.
      await settle(1);
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
async function passUntilSettled(owners: readonly string[], stepMs = 10) {
  const outcome = stage.call(owners);
  await stage.passUntil(() => outcome.servedMs.length + outcome.errors.length === owners.length, stepMs);
  return outcome;
}

const LONG = { timeout: 120_000 };

describe('N1', LONG, () => {
  it.each([20, 300])(
    '3,000 cold owners at once, %i ms each: none fails, nearly as fast as with 100 at once',
    async (latencyMs) => {
      stage = await Stage.with(() => ({ afterMs: latencyMs, status: 200 }));
      const { servedMs, errors } = await passUntilSettled(keys(3_000), latencyMs / 2);
      expect([errors, servedMs.length]).toEqual([[], 3_000]);
      expect(Math.max(...servedMs)).toBeLessThanOrEqual(1.5 * (3_000 / 100) * latencyMs);
      expect(stage.mostInFlight).toBeLessThanOrEqual(100);
    },
  );

  it('300 cold owners at once, 3 s each: none fails', async () => {
    stage = await Stage.with(() => ({ afterMs: 3_000, status: 200 }));
    const { errors, servedMs } = await passUntilSettled(keys(300), 500);
    expect([errors, servedMs.length]).toEqual([[], 300]);
  });

  it('a service that works on 32 requests at once, 50 ms each: owners are served as fast as it can', async () => {
    const freeAtMs = Array<number>(32).fill(0);
    stage = await Stage.with(({ nowMs }) => {
      const startMs = Math.max(nowMs, Math.min(...freeAtMs));
      freeAtMs[freeAtMs.indexOf(Math.min(...freeAtMs))] = startMs + 50;
      return { afterMs: startMs + 50 - nowMs, status: 200 };
    });
    const { servedMs, errors } = await passUntilSettled(keys(1_500));
    expect(errors).toEqual([]);
    expect(Math.max(...servedMs)).toBeLessThanOrEqual(1.2 * (1_500 / 32) * 50);
  });

  const RETRY_AFTER = { 'retry-after': '1' };

  it.each([
    ['without Retry-After', 20, 1_500, 50, {}, 0.1],
    ['with Retry-After', 20, 1_500, 50, RETRY_AFTER, 0.1],
    ['without Retry-After', 8, 300, 200, {}, 0.2],
    ['with Retry-After', 8, 300, 200, RETRY_AFTER, 0.15],
  ] as const)('429 %s beyond %i at once: all of %i are served to callers that try again', async (...row) => {
    const [, atOnce, count, busyMs, headers, mostRefused] = row;
    let busy = 0;
    stage = await Stage.with(({ clock }) => {
      if (busy >= atOnce) return { afterMs: 0, status: 429, headers };
      busy++;
      clock.setTimeout(() => busy--, busyMs);
      return { afterMs: busyMs, status: 200 };
    });
    const { servedMs } = stage.callUntilServed(keys(count));
    await stage.passUntil(() => servedMs.length === count, busyMs / 5);
    expect(stage.shareRefusedLater).toBeLessThanOrEqual(mostRefused);
    expect(Math.max(...servedMs)).toBeLessThanOrEqual(2_500 + (count * busyMs) / atOnce);
  });

  it.each([
    ['without Retry-After', 200, 1_000, {}, 0.15],
    ['without Retry-After', 100, 800, {}, 0.15],
    ['with Retry-After', 100, 800, RETRY_AFTER, 0.15],
    ['without Retry-After', 10, 200, {}, 0.25],
    ['with Retry-After', 10, 200, RETRY_AFTER, 0.27],
  ] as const)('429 %s beyond %i a second: all of %i are served to callers that try again', async (...row) => {
    const [, perSecond, count, headers, mostRefused] = row;
    const inSecond = new Map<number, number>();
    stage = await Stage.with(({ nowMs }) => {
      const second = Math.floor((nowMs + 400) / 1_000);
      inSecond.set(second, (inSecond.get(second) ?? 0) + 1);
      const isOver = (inSecond.get(second) as number) > perSecond;
      return isOver ? { afterMs: 0, status: 429, headers } : { afterMs: 20, status: 200 };
    });
    const { servedMs } = stage.callUntilServed(keys(count));
    await stage.passUntil(() => servedMs.length === count, 10);
    expect(stage.shareRefusedLater).toBeLessThanOrEqual(mostRefused);
    expect(Math.max(...servedMs)).toBeLessThanOrEqual((2 * count * 1_000) / perSecond);
  });

  it('a known quota of 50 a second is kept from the first request on', async () => {
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
  const isHung = (key: string) => key.startsWith('hung');
  const behaviour: Behaviour = (_stage, key) => (isHung(key) ? HUNG : { afterMs: 20, status: 200 });
  /** One success tells how long a request usually takes. */
  const withLatency = async (options: Partial<OwnerTokenRegistryOptions> = {}) => {
    stage = await Stage.with(behaviour, options);
    await passUntilSettled(['known']);
    return stage.nowMs;
  };

  it.each([
    ['30 of 3,000 owners hang and are asked first', [...keys(30).map((key) => `hung-${key}`), ...keys(2_970)]],
    ['10 of 1,000 owners hang, in any order', keys(1_000).map((key, n) => (n % 100 === 50 ? `hung-${key}` : key))],
  ] as const)('%s: all others are served, 99 of 100 within 1.5 s', async (_, owners) => {
    const startMs = await withLatency();
    const hung = stage.call(owners.filter(isHung));
    const { servedMs, errors } = await passUntilSettled(owners.filter((owner) => !isHung(owner)));
    expect([errors, hung.servedMs]).toEqual([[], []]);
    expect(percentile(servedMs, 0.99) - startMs).toBeLessThanOrEqual(1_500);
  });

  it('30 of 300 owners hang and come first, concurrency 4: the others are served, with 8 in flight at most', async () => {
    await withLatency({ concurrency: 4 });
    stage.call(keys(30).map((key) => `hung-${key}`));
    const { servedMs } = stage.callUntilServed(keys(270));
    await stage.passUntil(() => servedMs.length === 270, 10);
    expect(stage.mostInFlight).toBeLessThanOrEqual(2 * 4);
  });

  it('the deadlines of hanging requests stop nobody', async () => {
    await withLatency();
    const hung = stage.call(keys(30).map((key) => `hung-${key}`));
    await stage.passUntil(() => hung.errors.length === 30, 100);
    await stage.passUntil(() => stage.inFlight === 0, 100);
    const sinceMs = stage.nowMs;
    const late = await passUntilSettled(keys(50));
    expect(stage.registry.stats().pauses.endpoint).toBeUndefined();
    expect(late.errors).toEqual([]);
    expect(Math.max(...late.servedMs) - sinceMs).toBeLessThanOrEqual(500);
  });
});

describe('N3', LONG, () => {
  it('every hundredth request gets a 503: no caller sees one', async () => {
    let arrived = 0;
    stage = await Stage.with(() => ({ afterMs: 20, status: ++arrived % 100 === 0 ? 503 : 200 }));
    const { servedMs, errors } = stage.call(keys(2_000));
    await stage.passUntil(() => servedMs.length + errors.length === 2_000, 10);
    expect(errors).toEqual([]);
    expect(stage.registry.stats()).toMatchObject({ requests: 2_020, failures: 20 });
  });

  it('in an outage, retries stop within a second', async () => {
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
