/** When requests start, by a runner that sends nothing. Their whole life: `flights.test.ts`. */

import { describe, expect, it, vi } from 'vitest';
import { Cancellation } from '../../src/cancellation.ts';
import type { Diagnostics } from '../../src/diagnostics.ts';
import { OwnerTokenError } from '../../src/errors.ts';
import type { Permit } from '../../src/failures/circuit-breaker.ts';
import { type FailedRequest, FailureScopes } from '../../src/failures/failure-scopes.ts';
import { Dispatch, type Runner, SLICE } from '../../src/registry/dispatch.ts';
import { Flight } from '../../src/registry/flight.ts';
import { type OwnerTokenRegistryOptions, registrySettings } from '../../src/registry/options.ts';
import { failed } from '../../src/registry/slot.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';
import { createProvenSlot, createSlot } from '../helpers/slots.ts';

const down = new OwnerTokenError('endpoint_unavailable', 'it is down', { failureScope: 'endpoint' });
const rateLimited = new OwnerTokenError('rate_limited', 'it answered 429', { status: 429 });
const broken = new OwnerTokenError('endpoint_unavailable', 'it answered 503', { status: 503 });

/** A dispatch on a manual clock, with what it started and refused. */
class Stage implements Runner {
  readonly clock = new ManualClock();
  readonly failures: FailureScopes;
  readonly dispatch: Dispatch;
  readonly reported = vi.fn();
  readonly started: string[] = [];
  readonly refused: { owner: string; code: string; message: string }[] = [];
  readonly #permits = new Map<Flight, Permit>();

  constructor(options: Partial<OwnerTokenRegistryOptions> = {}) {
    const settings = registrySettings({
      ...{ source: new ScriptedSource(), clock: this.clock, random: () => 0.5 },
      ...{ concurrency: 2, maxQueued: 4, maxQueueMs: 5_000, ...options },
    });
    this.failures = new FailureScopes({ ...settings, ranges: settings.pauses });
    const diagnostics = { refused: this.reported } as unknown as Diagnostics;
    this.dispatch = new Dispatch(settings, this.failures, diagnostics, this);
  }

  run(flight: Flight, permit: Permit): void {
    this.#permits.set(flight, permit);
    flight.state = { phase: 'sent', abort: new Cancellation() };
    this.started.push(flight.accessKey);
  }

  refuse(flight: Flight, error: OwnerTokenError): void {
    this.dispatch.withdraw(flight);
    flight.state = { phase: 'settled' };
    this.refused.push({ owner: error.owner ?? '', code: error.code, message: error.message });
  }

  /** A caller requests a token. */
  async request(accessKey: string, slot = createSlot(`owner_${accessKey}`)): Promise<Flight> {
    const flight = new Flight(accessKey, slot);
    void flight.wait();
    this.dispatch.request(flight);
    await settle();
    return flight;
  }

  async requestAll(...accessKeys: string[]): Promise<Flight[]> {
    const flights: Flight[] = [];
    for (const key of accessKeys) flights.push(await this.request(key));
    return flights;
  }

  /** A request that nobody waits for. */
  refresh(accessKey: string): boolean {
    return this.dispatch.refresh(new Flight(accessKey, createSlot(`owner_${accessKey}`)));
  }

  async end(flight: Flight | undefined): Promise<void> {
    this.dispatch.releasePermit(flight as Flight);
    await settle();
  }

  async advance(ms: number): Promise<void> {
    this.clock.advance(ms);
    await settle();
  }

  async succeed(flight: Flight | undefined, sentAtMs = 0): Promise<void> {
    const nowMs = this.clock.monotonic();
    this.dispatch.succeeded(flight as Flight, this.#permits.get(flight as Flight) as Permit, sentAtMs, nowMs);
    await this.end(flight);
  }

  async sendAgain(flight: Flight | undefined, error: OwnerTokenError): Promise<boolean> {
    const permit = this.#permits.get(flight as Flight) as Permit;
    const nowMs = this.clock.monotonic();
    const request = { permit, error, owner: 'a', ownerFailures: 0, nowMs, sentAtMs: nowMs, resends: 0 };
    const afterMs = this.dispatch.resendAfterMs(flight as Flight, { ...request, isOnlyRequest: false });
    const sent = this.dispatch.sendAgain(flight as Flight, afterMs);
    await settle();
    return sent;
  }

  /** The service refuses all requests. */
  openCircuit(): void {
    const permit = this.failures.admit(0, 'new', 1) as Permit;
    const at = { owner: 'elsewhere', ownerFailures: 0, nowMs: 0, sentAtMs: 0, resends: 0, isOnlyRequest: true };
    this.failures.failed({ permit, error: down, ...at } satisfies FailedRequest);
  }

  /** The owners and the codes of what was refused since the last look. */
  get refusals(): string[] {
    return this.refused.splice(0).map(({ owner, code }) => `${owner} ${code}`);
  }
}

describe('requests', () => {
  it('start at once while there are permits, and then as others end', async () => {
    const stage = new Stage();
    const [a, , c] = await stage.requestAll('a', 'b', 'c', 'd');
    expect([stage.started, stage.dispatch.queued]).toEqual([['a', 'b'], 2]);
    await stage.end(a);
    expect([stage.started, stage.dispatch.queued]).toEqual([['a', 'b', 'c'], 1]);
    // It has ended already.
    await stage.end(a);
    expect(stage.started).toEqual(['a', 'b', 'c']);
    await stage.end(c);
    expect([stage.started, stage.dispatch.queued]).toEqual([['a', 'b', 'c', 'd'], 0]);
  });

  it('are permitted before they are sent, so that their callers may still leave', async () => {
    const stage = new Stage();
    const flight = new Flight('a', createSlot('owner_a'));
    stage.dispatch.request(flight);
    expect([flight.state.phase, stage.started]).toEqual(['permitted', []]);
    await settle();
    expect([flight.state.phase, stage.started]).toEqual(['sent', ['a']]);
  });

  it('keep their permits, however slow they are, while nothing is queued', async () => {
    const stage = new Stage();
    const a = await stage.request('a');
    await stage.advance(2_000);
    stage.dispatch.startNext();
    await stage.dispatch.takePermit(a);
    expect(stage.dispatch.sinceMs(a)).toBe(0);
    await stage.request('b');
    await stage.dispatch.takePermit(a);
    // It queued for a new permit.
    expect(stage.dispatch.sinceMs(a)).toBe(2_000);
  });

  it('are dated from when they were queued', async () => {
    const stage = new Stage();
    await stage.advance(70);
    expect(stage.dispatch.sinceMs(await stage.request('a'))).toBe(70);
  });

  it('know whether another one is in flight', async () => {
    const stage = new Stage();
    await stage.request('a');
    expect(stage.dispatch.isOnlyRequest).toBe(true);
    await stage.request('b');
    expect(stage.dispatch.isOnlyRequest).toBe(false);
  });

  it('that callers wait for start before refreshes, as does one that a caller joins', async () => {
    const stage = new Stage({ concurrency: 1 });
    const a = await stage.request('a');
    const joined = new Flight('joined', createSlot('owner_joined'));
    expect([stage.refresh('refresh'), stage.dispatch.refresh(joined)]).toEqual([true, true]);
    const [b] = await stage.requestAll('b');
    stage.dispatch.promote(joined);
    for (const flight of [a, b, joined]) await stage.end(flight);
    expect(stage.started).toEqual(['a', 'b', 'joined', 'refresh']);
  });

  it('wait while they are blocked, until that has ended as often as it began', async () => {
    const stage = new Stage();
    stage.dispatch.block();
    stage.dispatch.block();
    await stage.requestAll('a', 'b');
    stage.dispatch.unblock();
    await settle();
    expect(stage.started).toEqual([]);
    stage.dispatch.unblock();
    await settle();
    expect(stage.started).toEqual(['a', 'b']);
  });

  it('do not start once the registry has closed', async () => {
    const stage = new Stage({ concurrency: 1 });
    const [a] = await stage.requestAll('a', 'b');
    stage.dispatch.close();
    await stage.end(a);
    expect(stage.started).toEqual(['a']);
  });

  it('leave the queue, and its timer, when they are withdrawn, but not once they are in flight', async () => {
    const stage = new Stage({ concurrency: 1 });
    const [a, b] = (await stage.requestAll('a', 'b')) as [Flight, Flight];
    expect(stage.clock.pendingTimers).toBe(1);
    expect([stage.dispatch.withdraw(a), stage.dispatch.withdraw(b), stage.dispatch.withdraw(b)]).toEqual([
      ...[false, true, false],
    ]);
    expect([stage.dispatch.queued, stage.clock.pendingTimers]).toEqual([0, 0]);
  });
});

describe('a full queue', () => {
  it('refuses a request, and does not take a refresh', async () => {
    const stage = new Stage({ concurrency: 1, maxQueued: 1 });
    await stage.requestAll('a', 'b', 'c');
    expect(stage.refused).toEqual([
      {
        ...{ owner: 'owner_c', code: 'queue_full' },
        message: 'the queue of token requests is full: raise maxQueued or concurrency, or make fewer calls',
      },
    ]);
    expect([stage.refresh('d'), stage.dispatch.queued]).toEqual([false, 1]);
  });

  it('gives the place of its oldest refresh to a request', async () => {
    const stage = new Stage({ concurrency: 1, maxQueued: 2 });
    const a = await stage.request('a');
    stage.refresh('b');
    stage.refresh('c');
    await stage.request('d');
    expect([stage.refusals, stage.dispatch.queued]).toEqual([['owner_b queue_full'], 2]);
    await stage.end(a);
    expect(stage.started).toEqual(['a', 'd']);
  });

  it('refuses what would wait longer than ten times maxQueueMs', async () => {
    const stage = new Stage({ maxQueueMs: 100, requestsPerSecond: 1 });
    await stage.requestAll('a', 'b', 'c');
    expect(stage.refused).toEqual([]);
    await stage.request('d');
    expect(stage.refused).toEqual([
      {
        ...{ owner: 'owner_d', code: 'queue_timeout' },
        message: expect.stringContaining('would wait 2 s, over 10 times maxQueueMs'),
      },
    ]);
    expect(stage.dispatch.queued).toBe(2);
  });
});

describe('the timer', () => {
  it('refuses requests that were not served in time', async () => {
    const stage = new Stage({ concurrency: 1, maxQueueMs: 250 });
    await stage.requestAll('a', 'b');
    await stage.advance(50);
    await stage.request('c');
    expect(stage.clock.pendingTimers).toBe(1);
    await stage.advance(199);
    expect(stage.refusals).toEqual([]);
    await stage.advance(1);
    expect(stage.refused[0]?.message).toContain('no queued token request was served for 250 ms');
    expect(stage.refusals).toEqual(['owner_b queue_timeout']);
    await stage.advance(50);
    expect(stage.refusals).toEqual(['owner_c queue_timeout']);
    expect(stage.clock.pendingTimers).toBe(0);
  });

  it('refuses them in slices, and stops where the next is not overdue', async () => {
    const stage = new Stage({ concurrency: 1, maxQueued: 1_000, maxQueueMs: 250 });
    await stage.request('a');
    for (let count = 0; count < SLICE + 1; count++) stage.refresh(`key ${count}`);
    const { flow } = stage.failures;
    const limitsAt = flow.limitsAt.bind(flow);
    // What was refused when the next request was about to start.
    const refused: number[] = [];
    vi.spyOn(flow, 'limitsAt').mockImplementation((nowMs) => {
      refused.push(stage.refused.length);
      return limitsAt(nowMs);
    });
    stage.clock.advance(250);
    expect([refused, stage.refused.length]).toEqual([[SLICE], SLICE + 1]);
    const other = new Stage({ concurrency: 1, maxQueueMs: 250 });
    await other.requestAll('a', 'b');
    await other.advance(1);
    await other.request('c');
    await other.advance(249);
    expect([other.refusals, other.dispatch.queued]).toEqual([['owner_b queue_timeout'], 1]);
  });

  it('refuses what has waited ten times as long although others are served', async () => {
    const stage = new Stage({ concurrency: 1, maxQueueMs: 100, maxQueued: 20 });
    const flights = await stage.requestAll(...Array.from({ length: 12 }, (_, n) => `${n}`));
    for (const flight of flights.slice(0, 10)) {
      await stage.advance(99);
      await stage.succeed(flight);
    }
    await stage.advance(9);
    expect(stage.refused).toEqual([]);
    await stage.advance(1);
    expect(stage.refused).toEqual([
      {
        ...{ owner: 'owner_11', code: 'queue_timeout' },
        message: expect.stringContaining('waited 10 times maxQueueMs: raise'),
      },
    ]);
  });

  it('starts the next request when the pace lets it, to the millisecond', async () => {
    const stage = new Stage({ requestsPerSecond: 3 });
    await stage.requestAll('a', 'b');
    await stage.advance(333);
    expect([stage.started, stage.clock.pendingTimers]).toEqual([['a'], 1]);
    await stage.advance(1);
    expect(stage.started).toEqual(['a', 'b']);
    expect(stage.clock.pendingTimers).toBe(0);
  });

  it('gives the permit of a slow request to the next', async () => {
    const stage = new Stage({ concurrency: 1 });
    const [a] = await stage.requestAll('a', 'b');
    await stage.advance(299);
    expect(stage.started).toEqual(['a']);
    await stage.advance(1);
    expect([stage.started, stage.dispatch.queued]).toEqual([['a', 'b'], 0]);
    await stage.end(a);
    expect(stage.dispatch.isOnlyRequest).toBe(true);
  });

  it('lets a second request start for a slow one while no latency is known', async () => {
    const stage = new Stage({ concurrency: { initial: 1, max: 4 } });
    const [, b] = await stage.requestAll('a', 'b', 'c', 'd', 'e');
    await stage.advance(500);
    expect(stage.started).toEqual(['a', 'b', 'c']);
    await stage.end(b);
    expect(stage.started).toEqual(['a', 'b', 'c', 'd']);
  });

  it('is not set again for something that is due later, or at the same time', async () => {
    const stage = new Stage({ concurrency: 1 });
    await stage.requestAll('a', 'b');
    const timers = vi.spyOn(stage.clock, 'setTimeout');
    await stage.request('c');
    await stage.advance(10);
    await stage.request('d');
    expect(timers).not.toHaveBeenCalled();
  });

  it('is replaced when something is due earlier', async () => {
    const stage = new Stage({ concurrency: 1, maxQueueMs: 800 });
    await stage.requestAll('a', 'b');
    // Now the next may start after 100 ms at most.
    stage.failures.flow.rateLimited({ number: 1, standing: 'new', inFlight: 1, nowMs: 0, isOnlyRequest: false });
    await stage.request('c');
    expect(stage.clock.pendingTimers).toBe(1);
    const wakes = vi.spyOn(stage.failures.flow, 'limitsAt');
    await stage.advance(49);
    expect(wakes).not.toHaveBeenCalled();
    await stage.advance(1);
    expect(wakes).toHaveBeenCalled();
  });
});

describe('an open circuit', () => {
  /** So many requests are queued, and the first slice of them has been refused. */
  const refusing = async (queued: number) => {
    const stage = new Stage({ concurrency: 1, maxQueued: 1_000 });
    await stage.request('first');
    for (let count = 0; count < queued; count++) stage.refresh(`key ${count}`);
    stage.openCircuit();
    stage.dispatch.refuseQueued();
    return stage;
  };

  it('refuses all queued requests, in one slice per turn, and reports each with its callers', async () => {
    const stage = await refusing(SLICE + 50);
    stage.dispatch.refuseQueued();
    expect(stage.refused).toHaveLength(SLICE);
    await settle();
    expect(stage.refused).toHaveLength(SLICE + 50);
    expect(stage.reported).toHaveBeenCalledWith('endpoint', 0);
    expect(new Set(stage.refused.map(({ code }) => code))).toEqual(new Set(['endpoint_unavailable']));
    stage.dispatch.refuseQueued();
    expect(stage.started).toEqual(['first']);
  });

  it('refuses no more requests once the registry closes', async () => {
    const stage = await refusing(SLICE + 50);
    stage.dispatch.close();
    await settle();
    expect(stage.refused).toHaveLength(SLICE);
  });

  it('refuses the next one when it would start, then all others', async () => {
    const stage = new Stage({ concurrency: 1 });
    const [a] = await stage.requestAll('a', 'b', 'c');
    stage.openCircuit();
    await stage.end(a);
    expect(stage.refusals).toEqual(['owner_b endpoint_unavailable', 'owner_c endpoint_unavailable']);
    expect(stage.reported.mock.calls).toEqual([
      ['endpoint', 1],
      ['endpoint', 1],
    ]);
    expect([stage.started, stage.dispatch.queued, stage.clock.pendingTimers]).toEqual([['a'], 0, 0]);
  });

  it('refuses nothing while no circuit is open, and starts what may start', async () => {
    const stage = new Stage({ concurrency: 2 });
    stage.openCircuit();
    await stage.advance(400);
    const trial = await stage.request('trial');
    await stage.succeed(trial);
    // After a pause one request starts at a time.
    await stage.requestAll('a', 'b');
    expect(stage.started).toEqual(['trial', 'a']);
    stage.failures.resume();
    stage.dispatch.refuseQueued();
    await settle();
    expect([stage.started, stage.refusals]).toEqual([['trial', 'a', 'b'], []]);
  });

  it('does not refuse a request that may be its trial, and starts it', async () => {
    const stage = new Stage({ concurrency: 2 });
    const before = await stage.request('before');
    await stage.advance(100);
    await stage.succeed(before);
    const [a] = await stage.requestAll('a', 'b');
    const failing = createSlot('owner_failing');
    failed(failing, { error: down, count: 1, retryAtMonotonicMs: 0 });
    await stage.request('failing', failing);
    await stage.request('next');
    stage.openCircuit();
    await stage.advance(400);
    stage.dispatch.refuseQueued();
    expect(stage.refusals).toEqual([]);
    await stage.end(a);
    expect(stage.started).toHaveLength(4);
    expect(stage.failures.state('endpoint')?.probing).toBe(true);
  });
});

describe('a permit that a source takes again', () => {
  const released = async () => {
    const stage = new Stage({ concurrency: 1 });
    const a = await stage.request('a');
    await stage.end(a);
    const b = await stage.request('b');
    return { stage, a, b };
  };

  it('is waited for once, behind the others', async () => {
    const { stage, a, b } = await released();
    const taken: string[] = [];
    const { abort } = a.state as { abort: Cancellation };
    const added = vi.spyOn(abort, 'addEventListener');
    const removed = vi.spyOn(abort, 'removeEventListener');
    for (const name of ['first', 'second']) void stage.dispatch.takePermit(a).then(() => taken.push(name));
    await settle();
    expect([stage.dispatch.queued, taken]).toEqual([1, []]);
    expect(removed).not.toHaveBeenCalled();
    await stage.end(b);
    expect(taken).toEqual(['first', 'second']);
    expect(added).toHaveBeenCalledOnce();
    expect(removed.mock.calls).toEqual(added.mock.calls);
    await stage.request('c');
    expect(stage.dispatch.queued).toBe(1);
    await stage.end(a);
    expect(stage.started).toEqual(['a', 'b', 'c']);
  });

  it('comes before the requests that nobody waits for', async () => {
    const { stage, a, b } = await released();
    stage.refresh('refresh');
    const taken = stage.dispatch.takePermit(a);
    await stage.end(b);
    await taken;
    expect(stage.started).toEqual(['a', 'b']);
  });

  it('is not waited for by a request that has one, or that has settled', async () => {
    const { stage, a, b } = await released();
    await stage.dispatch.takePermit(b);
    a.state = { phase: 'settled' };
    await stage.dispatch.takePermit(a);
    expect(stage.dispatch.queued).toBe(0);
  });

  it('is waited for even if the queue is full, which then has no place for others', async () => {
    const { stage, a, b } = await released();
    await stage.requestAll('c', 'd', 'e', 'f');
    void stage.dispatch.takePermit(a);
    expect([stage.dispatch.queued, stage.refusals]).toEqual([5, []]);
    await stage.end(b);
    await stage.request('g');
    expect([stage.dispatch.queued, stage.refusals]).toEqual([4, ['owner_g queue_full']]);
  });

  it('is no longer waited for when the signal aborts', async () => {
    const { stage, a } = await released();
    const taken = stage.dispatch.takePermit(a);
    (a.state as { abort: Cancellation }).abort.abort('enough');
    await expect(taken).rejects.toBe('enough');
  });
});

describe('a request that is sent again', () => {
  it('goes to the front of the queue, without the permit that it had', async () => {
    const stage = new Stage({ concurrency: 1 });
    const [a] = await stage.requestAll('a', 'b');
    expect(await stage.sendAgain(a, rateLimited)).toBe(true);
    expect([a?.resends, a?.state.phase, a?.cancelTimer]).toEqual([1, 'queued', undefined]);
    await stage.advance(50);
    expect(stage.started).toEqual(['a', 'a']);
  });

  it('waits first if it failed by itself, and can be withdrawn with its timer', async () => {
    const stage = new Stage({ concurrency: 1 });
    for (let count = 0; count < 20; count++) await stage.succeed(await stage.request('paying'));
    const a = await stage.request('a', createProvenSlot('owner_a'));
    expect(await stage.sendAgain(a, broken)).toBe(true);
    expect(stage.dispatch.isOnlyRequest).toBe(true);
    await stage.advance(99);
    expect(stage.started.at(-1)).toBe('a');
    expect(stage.started).toHaveLength(21);
    await stage.advance(1);
    expect([stage.started.length, a.state.phase]).toEqual([22, 'sent']);
    await stage.end(a);
    const b = await stage.request('b');
    expect(await stage.sendAgain(b, broken)).toBe(true);
    expect([stage.dispatch.withdraw(b), stage.clock.pendingTimers, stage.dispatch.queued]).toEqual([true, 0, 0]);
  });

  it('is a refresh again if nobody waits for it', async () => {
    const stage = new Stage({ concurrency: 1 });
    const refresh = new Flight('refresh', createSlot('owner_refresh'));
    stage.dispatch.refresh(refresh);
    await settle();
    await stage.request('b');
    await stage.sendAgain(refresh, rateLimited);
    await stage.advance(50);
    expect(stage.started).toEqual(['refresh', 'b']);
  });

  it('is none that has given its permit back, or failed for a known reason', async () => {
    const stage = new Stage();
    const [a, b] = await stage.requestAll('a', 'b');
    await stage.end(a);
    expect(await stage.sendAgain(a, rateLimited)).toBe(false);
    expect(await stage.sendAgain(b, down)).toBe(false);
  });

  it('may have been queued for long, because a failure of the endpoint would refuse all that wait behind it', async () => {
    const stage = new Stage({ maxQueueMs: 1_000 });
    const a = await stage.request('a');
    await stage.advance(1_000);
    expect(await stage.sendAgain(a, rateLimited)).toBe(true);
  });
});

describe('a success', () => {
  const waitMs = (stage: Stage) => stage.failures.flow.waitMs(1_000);

  it('shows how long the service takes, unless the request has given its permit back', async () => {
    const stage = new Stage({ concurrency: 10 });
    const [a, b] = await stage.requestAll('a', 'b');
    await stage.advance(300);
    await stage.end(b);
    await stage.succeed(b, 0);
    expect(waitMs(stage)).toBe(0);
    await stage.succeed(a, 100);
    expect(waitMs(stage)).toBe((1_000 * 200) / 10);
  });

  it('raises the limit only while requests wait for it', async () => {
    const limit = (stage: Stage) => stage.failures.flow.limitsAt(0).inFlight;
    const stage = new Stage({ concurrency: { initial: 2, min: 1, max: 8 } });
    await stage.succeed(await stage.request('a'));
    await stage.succeed(await stage.request('b'));
    expect(limit(stage)).toBe(2);
    const flights = await stage.requestAll('c', 'd', 'e', 'f', 'g');
    for (const flight of flights.slice(0, 4)) await stage.succeed(flight);
    expect(limit(stage)).toBe(3);
  });

  it('lets the others of its kind wait for longer', async () => {
    const stage = new Stage({ concurrency: 2, maxQueueMs: 500 });
    const [a] = await stage.requestAll('a', 'b', 'c', 'd');
    await stage.advance(299);
    await stage.succeed(a);
    await stage.advance(499);
    expect(stage.refusals).toEqual([]);
    await stage.advance(1);
    expect(stage.refusals).toEqual(['owner_d queue_timeout']);
  });
});
