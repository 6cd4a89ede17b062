import { describe, expect, it } from 'vitest';
import { type QueuedRequest, RequestQueue, type RequestQueueOptions } from '../../src/registry/request-queue.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';

/** RequestQueue that tell what becomes of them, and end when the test says so. */
class Stage {
  readonly clock = new ManualClock();
  readonly log: string[] = [];
  readonly turns: RequestQueue;
  limit = Number.POSITIVE_INFINITY;
  readonly #ends = new Map<string, () => void>();

  constructor(options: Partial<RequestQueueOptions> = {}) {
    this.turns = new RequestQueue({
      ...{ concurrency: 2, maxQueued: 10, maxQueueMs: 1000 },
      limit: () => this.limit,
      monotonic: () => this.clock.monotonic(),
      startTimer: (fn, ms) => this.clock.setTimeout(fn, ms),
      ...options,
    });
  }

  turn(
    name: string,
    facts: { waitedFor?: boolean; failing?: boolean; hanging?: boolean; admit?: () => boolean } = {},
  ): QueuedRequest {
    return {
      waitedFor: facts.waitedFor ?? true,
      failing: facts.failing ?? facts.hanging ?? false,
      hanging: facts.hanging ?? false,
      admit: facts.admit ?? (() => true),
      run: () => {
        this.log.push(name);
        return new Promise((resolve) => this.#ends.set(name, resolve));
      },
      expire: () => this.log.push(`${name} expired`),
    };
  }

  add(name: string, facts: Parameters<Stage['turn']>[1] = {}): QueuedRequest {
    const turn = this.turn(name, facts);
    if (!this.turns.enqueue(turn)) this.log.push(`${name} has no place`);
    return turn;
  }

  async end(...names: string[]): Promise<void> {
    await settle();
    for (const name of names) this.#ends.get(name)?.();
    await settle();
  }

  /** Ends them one after another, each once it has begun. */
  async endInTurn(...names: string[]): Promise<void> {
    for (const name of names) await this.end(name);
  }

  /** What has happened since the last look. */
  async seen(): Promise<string[]> {
    await settle();
    return this.log.splice(0);
  }
}

describe('turns', () => {
  it('runs so many at once, and the rest in the order they came', async () => {
    const stage = new Stage();
    for (const name of ['a', 'b', 'c', 'd']) stage.add(name);
    expect(await stage.seen()).toEqual(['a', 'b']);
    expect([stage.turns.underWay, stage.turns.queued]).toEqual([2, 2]);
    await stage.end('b');
    expect(await stage.seen()).toEqual(['c']);
    await stage.end('a', 'c');
    expect(await stage.seen()).toEqual(['d']);
    await stage.end('d');
    expect([stage.turns.underWay, stage.turns.queued, stage.clock.pendingTimers]).toEqual([0, 0, 0]);
  });

  it('runs fewer while the limit is lower', async () => {
    const stage = new Stage();
    stage.limit = 1;
    stage.add('a');
    stage.add('b');
    expect(await stage.seen()).toEqual(['a']);
    stage.limit = 2;
    stage.turns.dispatch();
    expect(await stage.seen()).toEqual(['b']);
  });

  it('lets those who wait go before refreshes, and a refresh that is waited for join them at the end', async () => {
    const stage = new Stage({ concurrency: 1 });
    stage.add('a');
    const first = stage.add('refresh 1', { waitedFor: false });
    stage.add('refresh 2', { waitedFor: false });
    stage.add('b');
    stage.turns.raise(first);
    expect(first.waitedFor).toBe(true);
    stage.add('c');
    // Another who waits for it does not send it back to the end.
    stage.turns.raise(first);
    await stage.endInTurn('a', 'b', 'refresh 1', 'c', 'refresh 2');
    expect(await stage.seen()).toEqual(['a', 'b', 'refresh 1', 'c', 'refresh 2']);
  });

  it('does not queue a refresh anew that was waited for only once it was under way', async () => {
    const stage = new Stage({ concurrency: 1 });
    const refresh = stage.add('refresh', { waitedFor: false });
    stage.turns.raise(refresh);
    expect(stage.turns.queued).toBe(0);
    await stage.end('refresh');
    expect(await stage.seen()).toEqual(['refresh']);
  });

  it.each([
    [1, 1],
    [4, 1],
    [7, 1],
    [8, 2],
  ])('of %d turns at once, owners known to fail have at most %d', async (concurrency, share) => {
    const stage = new Stage({ concurrency });
    for (const name of ['x', 'y', 'z']) stage.add(name, { failing: true });
    expect((await stage.seen()).length).toBe(Math.min(share, concurrency));
    stage.add('refresh x', { failing: true, waitedFor: false });
    if (concurrency > 1) stage.add('well');
    expect(await stage.seen()).toEqual(concurrency > 1 ? ['well'] : []);
    await stage.end('x');
    expect((await stage.seen()).length).toBe(1);
  });

  it('lets owners known to hang begin within a lower limit, and take no place of it away from others', async () => {
    const stage = new Stage({ concurrency: 8 });
    stage.limit = 1;
    stage.add('x', { hanging: true });
    stage.add('y', { hanging: true });
    stage.add('a');
    stage.add('b');
    expect(await stage.seen()).toEqual(['x', 'a']);
    await stage.end('a', 'x');
    expect(await stage.seen()).toEqual(['b']);
    await stage.end('b');
    expect(await stage.seen()).toEqual(['y']);
  });

  it('counts owners known to fail, and not to hang, within a lower limit like any other', async () => {
    const stage = new Stage({ concurrency: 8 });
    stage.limit = 1;
    stage.add('x', { failing: true });
    stage.add('a');
    expect(await stage.seen()).toEqual(['x']);
  });

  it('keeps to the order in which they came among the failing and the others', async () => {
    const stage = new Stage({ concurrency: 1 });
    stage.add('a');
    stage.clock.advance(1);
    stage.add('failing', { failing: true });
    stage.clock.advance(1);
    stage.add('b');
    await stage.endInTurn('a', 'failing', 'b');
    expect(await stage.seen()).toEqual(['a', 'failing', 'b']);
  });

  it('goes on with the next when one may no longer run', async () => {
    const stage = new Stage({ concurrency: 1 });
    stage.add('a');
    let underWayWhenAsked = 0;
    stage.add('b', {
      admit: () => {
        underWayWhenAsked = stage.turns.underWay;
        return false;
      },
    });
    stage.add('c');
    await stage.endInTurn('a');
    expect(await stage.seen()).toEqual(['a', 'c']);
    expect(underWayWhenAsked).toBe(1);
    expect(stage.turns.underWay).toBe(1);
  });

  it('goes on when a turn rejects, though none should', async () => {
    const stage = new Stage({ concurrency: 1 });
    const bad = { ...stage.turn('bad'), run: () => Promise.reject(new Error('no')) };
    stage.turns.enqueue(bad);
    stage.add('next');
    expect(await stage.seen()).toEqual(['next']);
  });
});

describe('the queue', () => {
  it('is bounded, but a waiting caller takes the place of the refresh that waited longest', async () => {
    const stage = new Stage({ concurrency: 1, maxQueued: 2 });
    stage.add('a');
    stage.add('refresh 1', { waitedFor: false });
    stage.add('refresh 2', { waitedFor: false, failing: true });
    stage.add('refresh 3', { waitedFor: false });
    stage.add('b');
    stage.add('c');
    stage.add('d');
    expect(await stage.seen()).toEqual([
      ...['refresh 3 has no place', 'refresh 1 expired', 'refresh 2 expired', 'd has no place', 'a'],
    ]);
    expect(stage.turns.queued).toBe(2);
  });

  it('takes whoever can start at once even when it is full of those who cannot', async () => {
    const stage = new Stage({ concurrency: 2, maxQueued: 1 });
    for (const name of ['x', 'y', 'z']) stage.add(name, { failing: true });
    stage.add('well');
    expect(await stage.seen()).toEqual(['z has no place', 'x', 'well']);
    stage.add('late');
    expect(await stage.seen()).toEqual(['late has no place']);
  });

  it('takes one more into a full queue for each that may start when the limit has risen, and keeps the order', async () => {
    const stage = new Stage({ concurrency: 2, maxQueued: 1 });
    stage.limit = 1;
    for (const name of ['a', 'b']) stage.add(name);
    stage.limit = 2;
    stage.add('c');
    stage.add('d');
    expect(await stage.seen()).toEqual(['d has no place', 'a', 'b']);
    expect(stage.turns.queued).toBe(1);
  });

  it('lets go of a turn that is withdrawn, and of its timer', async () => {
    const stage = new Stage({ concurrency: 1 });
    const running = stage.add('a');
    const queued = stage.add('b');
    expect(stage.turns.withdraw(running)).toBe(false);
    expect(stage.clock.pendingTimers).toBe(1);
    expect([stage.turns.withdraw(queued), stage.turns.withdraw(queued)]).toEqual([true, false]);
    expect([stage.turns.queued, stage.clock.pendingTimers]).toEqual([0, 0]);
    await stage.end('a');
    expect(await stage.seen()).toEqual(['a']);
  });

  it('gives up those of which something is true, and its timer with the last', async () => {
    const stage = new Stage({ concurrency: 1 });
    stage.add('a');
    const left = [
      stage.add('b'),
      stage.add('c', { failing: true }),
      stage.add('d', { waitedFor: false }),
      stage.add('e', { waitedFor: false, failing: true }),
    ];
    stage.turns.remove((turn) => turn === left[0]);
    expect([stage.turns.queued, stage.clock.pendingTimers]).toEqual([3, 1]);
    stage.turns.remove(() => true);
    expect([stage.turns.queued, stage.clock.pendingTimers]).toEqual([0, 0]);
  });

  it('keeps nobody longer than the limit, with one timer for all', async () => {
    const stage = new Stage({ concurrency: 1 });
    stage.add('a');
    stage.add('b');
    stage.clock.advance(400);
    stage.add('c', { failing: true });
    stage.add('d', { waitedFor: false });
    expect(stage.clock.pendingTimers).toBe(1);
    stage.clock.advance(599);
    expect(await stage.seen()).toEqual(['a']);
    stage.clock.advance(1);
    expect(await stage.seen()).toEqual(['b expired']);
    stage.clock.advance(399);
    expect(await stage.seen()).toEqual([]);
    stage.clock.advance(1);
    expect(await stage.seen()).toEqual(['c expired', 'd expired']);
    expect([stage.turns.queued, stage.clock.pendingTimers]).toEqual([0, 0]);
  });

  it('counts the time of a refresh anew from when somebody waits for it', async () => {
    const stage = new Stage({ concurrency: 1 });
    stage.add('a');
    const refresh = stage.add('refresh', { waitedFor: false });
    stage.clock.advance(900);
    stage.turns.raise(refresh);
    stage.clock.advance(999);
    expect(await stage.seen()).toEqual(['a']);
    stage.clock.advance(1);
    expect(await stage.seen()).toEqual(['refresh expired']);
  });
});
