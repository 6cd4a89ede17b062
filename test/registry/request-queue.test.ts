import { describe, expect, it } from 'vitest';
import type { OwnerStanding } from '../../src/failures/circuit-breaker.ts';
import { type QueuedRequest, RequestQueue, type RequestQueueOptions } from '../../src/registry/request-queue.ts';
import { seeded } from '../helpers/seeded.mjs';

interface Named extends QueuedRequest {
  readonly name: string;
}

type Facts = { waitedFor?: boolean; failing?: boolean; newcomer?: boolean };

function standingOf(failing: boolean, newcomer: boolean): OwnerStanding {
  if (newcomer) return failing ? 'unproven' : 'new';
  return failing ? 'failing' : 'proven';
}

/** A queue of named requests at a time that the test moves. */
class Stage {
  readonly queue: RequestQueue<Named>;
  nowMs = 0;
  limit: number;
  newcomers = true;

  constructor({ limit = 2, ...options }: Partial<Omit<RequestQueueOptions, 'concurrency'>> & { limit?: number } = {}) {
    this.limit = limit;
    const concurrency = { initial: limit, min: limit, max: limit };
    this.queue = new RequestQueue({ concurrency, maxQueued: 10, maxQueueMs: 1000, ...options });
  }

  get limits() {
    return { inFlight: this.limit, newcomers: this.newcomers };
  }

  add(name: string, { waitedFor = true, failing = false, newcomer = false }: Facts = {}): Named {
    const request = { name, standing: standingOf(failing, newcomer) };
    this.queue.add(request, waitedFor, this.nowMs);
    return request;
  }

  addAll(...names: string[]): void {
    for (const name of names) this.add(name);
  }

  /** Pulls all that may start now. */
  pull(): Named[] {
    const pulled: Named[] = [];
    for (let next = this.queue.next(this.limits, this.nowMs); next; next = this.queue.next(this.limits, this.nowMs))
      pulled.push(next);
    return pulled;
  }

  pulledNames(): string[] {
    return this.pull().map(({ name }) => name);
  }

  /** Reclaims the permits of all slow requests. */
  reclaimPermits(slowAfterMs = 500): Named[] {
    const reclaimed: Named[] = [];
    const next = () => this.queue.reclaimPermit(slowAfterMs, this.nowMs);
    for (let each = next(); each; each = next()) reclaimed.push(each);
    return reclaimed;
  }

  /** Pulls requests one after another, each released before the next. */
  inOrder(): string[] {
    const names: string[] = [];
    for (let next = this.queue.next(this.limits, this.nowMs); next; next = this.queue.next(this.limits, this.nowMs)) {
      names.push(next.name);
      this.queue.release(next);
    }
    return names;
  }

  hasPlace(failing = false, newcomer = false): boolean {
    return this.queue.hasPlace || this.queue.mayStart(standingOf(failing, newcomer), this.limits);
  }

  takeOverdue(): string[] {
    const names: string[] = [];
    for (let due = this.queue.overdue(this.nowMs); due; due = this.queue.overdue(this.nowMs)) {
      names.push(due.request.name);
      this.queue.withdraw(due.request);
    }
    return names;
  }
}

describe('the order', () => {
  it('is FIFO, up to the limit at once', () => {
    const stage = new Stage();
    stage.addAll('a', 'b', 'c', 'd');
    const [a, b] = stage.pull();
    expect([a?.name, b?.name]).toEqual(['a', 'b']);
    expect([stage.queue.inFlight, stage.queue.queued]).toEqual([2, 2]);
    if (b) stage.queue.release(b);
    expect(stage.pulledNames()).toEqual(['c']);
    if (a) stage.queue.release(a);
    expect(stage.pulledNames()).toEqual(['d']);
    expect([stage.queue.inFlight, stage.queue.queued]).toEqual([2, 0]);
  });

  it('puts requests that a caller waits for before refreshes, and a promoted refresh behind the former', () => {
    const stage = new Stage({ limit: 1 });
    const first = stage.add('refresh 1', { waitedFor: false });
    stage.add('refresh 2', { waitedFor: false });
    stage.add('b');
    stage.queue.promote(first, stage.nowMs);
    stage.add('c');
    // A second caller does not send it back to the end.
    stage.queue.promote(first, stage.nowMs);
    expect(stage.inOrder()).toEqual(['b', 'refresh 1', 'c', 'refresh 2']);
  });

  it('does not queue a refresh again that is promoted once it is in flight', () => {
    const stage = new Stage({ limit: 1 });
    const refresh = stage.add('refresh', { waitedFor: false });
    stage.pull();
    stage.queue.promote(refresh, stage.nowMs);
    expect([stage.queue.inFlight, stage.queue.queued]).toEqual([1, 0]);
    stage.queue.release(refresh);
    expect(stage.pulledNames()).toEqual([]);
  });

  it('is by arrival among failing and other owners', () => {
    const stage = new Stage({ limit: 1 });
    for (const [name, failing] of [
      ['a', false],
      ['failing', true],
      ['b', false],
    ] as const) {
      stage.add(name, { failing });
      stage.nowMs++;
    }
    expect(stage.inOrder()).toEqual(['a', 'failing', 'b']);
  });

  it('stays the same when requests leave from its start, middle and end', () => {
    const stage = new Stage({ limit: 9 });
    const [a, , c, , e] = ['a', 'b', 'c', 'd', 'e'].map((name) => stage.add(name));
    for (const each of [c, a, e]) if (each) expect(stage.queue.withdraw(each)).toBe(true);
    stage.add('f');
    expect(stage.pulledNames()).toEqual(['b', 'd', 'f']);
  });
});

describe('the limit', () => {
  it('may change at any time', () => {
    const stage = new Stage();
    stage.limit = 1;
    stage.addAll('a', 'b');
    expect(stage.pulledNames()).toEqual(['a']);
    expect(stage.queue.isFull(stage.limits)).toBe(true);
    stage.limit = 2;
    expect(stage.pulledNames()).toEqual(['b']);
    stage.limit = 3;
    expect(stage.queue.isFull(stage.limits)).toBe(false);
  });

  it('is reached when as many requests are in flight, and when others are queued', () => {
    const stage = new Stage({ limit: 2 });
    stage.addAll('a');
    expect(stage.queue.isFull(stage.limits)).toBe(true);
    stage.pull();
    expect(stage.queue.isFull(stage.limits)).toBe(false);
    stage.addAll('b');
    stage.pull();
    expect([stage.queue.queued, stage.queue.isFull(stage.limits)]).toEqual([0, true]);
  });
});

describe('a slow request', () => {
  it('is slow at the very time that is given for it, however that is rounded', () => {
    const queue = new RequestQueue<QueuedRequest>({
      ...{ concurrency: { initial: 1, min: 1, max: 1 }, maxQueued: 1, maxQueueMs: 1_000 },
    });
    const request: QueuedRequest = { standing: 'proven' };
    queue.add(request, true, 0.7);
    queue.next({ inFlight: 1, newcomers: true }, 0.7);
    const slowAtMs = queue.nextSlowAtMs(500, 0.7) as number;
    expect(slowAtMs - 500).toBeLessThan(0.7); // Rounded.
    expect(queue.reclaimPermit(500, slowAtMs)).toBe(request);
  });

  /** Newcomers that are asked first and hang: none of them may be a sign that the service does. */
  const newcomers = (stage: Stage, count: number) =>
    Array.from({ length: count }, (_, index) => stage.add(`${index}`, { newcomer: true }));

  it('gives its permit back and stays in flight', () => {
    const stage = new Stage({ limit: 2 });
    const [a, b] = newcomers(stage, 5);
    stage.pull();
    expect(stage.queue.nextSlowAtMs(500, stage.nowMs)).toBe(500);
    stage.nowMs = 499;
    expect(stage.reclaimPermits()).toEqual([]);
    stage.nowMs = 500;
    expect(stage.reclaimPermits()).toEqual([a, b]);
    expect([stage.queue.permits, stage.queue.inFlight, stage.queue.queued]).toEqual([0, 2, 3]);
    expect(stage.pulledNames()).toEqual(['2', '3']);
  });

  it.each([
    [1, 32],
    [65, 32],
    [66, 33],
  ])('keeps its permit once the pool is full: with a limit of %i, %i are slow', (limit, pool) => {
    const stage = new Stage({ limit, maxQueued: 100 });
    const [first] = newcomers(stage, 100);
    let taken: Named[];
    do {
      stage.pull();
      stage.nowMs += 500;
      taken = stage.reclaimPermits();
    } while (taken.length > 0);
    expect(stage.queue.nextSlowAtMs(500, stage.nowMs)).toBeUndefined();
    expect([stage.queue.permits, stage.queue.inFlight]).toEqual([limit, pool + limit]);
    expect([stage.queue.release(first as Named), stage.queue.release(first as Named)]).toEqual([true, false]);
    expect(stage.reclaimPermits().map(({ name }) => name)).toEqual([`${pool}`]);
    expect(stage.pulledNames()).toEqual([`${pool + limit}`]);
  });

  it('keeps its permit if the service may hang: three owners that worked before wait, and none sent later was served', () => {
    const stage = new Stage({ limit: 4 });
    const [a, b] = [stage.add('a'), stage.add('b')];
    stage.pull();
    stage.nowMs = 100;
    const [c, d] = [stage.add('c'), stage.add('d', { newcomer: true })];
    stage.pull();
    // Whether the first two give theirs back is not known before they are slow.
    expect(stage.queue.nextSlowAtMs(500, stage.nowMs)).toBe(500);
    stage.nowMs = 500;
    expect(stage.queue.nextSlowAtMs(500, stage.nowMs)).toBe(600);
    stage.nowMs = 1_000;
    expect(stage.reclaimPermits()).toEqual([d]);
    expect(stage.queue.nextSlowAtMs(500, stage.nowMs)).toBeUndefined();
    stage.queue.served(b, stage.nowMs);
    stage.queue.release(b);
    expect(stage.reclaimPermits()).toEqual([a, c]);
  });

  it('gives its permit back if the service works: one sent no earlier was served', () => {
    const stage = new Stage({ limit: 4 });
    const [a, b, c, served] = [stage.add('a'), stage.add('b'), stage.add('c'), stage.add('d')];
    stage.pull();
    stage.queue.served(served, 100);
    stage.queue.release(served);
    expect(stage.queue.nextSlowAtMs(500, stage.nowMs)).toBe(500);
    stage.nowMs = 500;
    expect(stage.reclaimPermits()).toEqual([a, b, c]);
  });

  it('gives its permit back if a request that started in the same millisecond has already succeeded', () => {
    const stage = new Stage({ limit: 4 });
    const served = stage.add('d');
    stage.pull();
    stage.queue.served(served, stage.nowMs);
    stage.queue.release(served);
    const requests = [stage.add('a'), stage.add('b'), stage.add('c')];
    stage.pull();
    stage.nowMs = 500;
    expect(stage.reclaimPermits()).toEqual(requests);
  });

  it('counts as one of them even if it has given its permit back', () => {
    const stage = new Stage({ limit: 2 });
    const [a, b] = [stage.add('a'), stage.add('b')];
    stage.addAll('c', 'd');
    stage.pull();
    stage.nowMs = 500;
    expect(stage.reclaimPermits()).toEqual([a, b]);
    expect(stage.pulledNames()).toEqual(['c', 'd']);
    stage.nowMs = 1_000;
    expect(stage.reclaimPermits()).toEqual([]);
    stage.queue.served(a, stage.nowMs);
    expect(stage.queue.release(a)).toBe(true);
    expect(stage.reclaimPermits()).toEqual([]);
  });

  it('is none while nothing is in flight', () => {
    expect(new Stage().queue.nextSlowAtMs(500, 0)).toBeUndefined();
  });

  it('of a failing owner still counts against the share of such owners', () => {
    const stage = new Stage({ limit: 4 });
    const x = stage.add('x', { failing: true });
    stage.add('y', { failing: true });
    expect(stage.pulledNames()).toEqual(['x']);
    stage.nowMs = 500;
    stage.reclaimPermits();
    expect(stage.pulledNames()).toEqual([]);
    stage.queue.release(x);
    expect(stage.pulledNames()).toEqual(['y']);
  });
});

/** Which requests give their permits back, decided by a full scan each time. */
class SlowModel {
  withPermit: [Named, number][] = [];
  withoutPermit: [Named, number][] = [];
  #latestAnsweredStartMs = -Infinity;

  next(slowAfterMs: number, nowMs: number): [Named, number] | undefined {
    if (this.withoutPermit.length >= 32) return undefined;
    const mayServiceHang =
      [...this.withPermit, ...this.withoutPermit].filter((each) => this.#isUnanswered(each)).length >= 3;
    return this.withPermit.find(
      (each) => each[1] + slowAfterMs > nowMs || !this.#isUnanswered(each) || !mayServiceHang,
    );
  }

  reclaimPermits(slowAfterMs: number, nowMs: number): Named[] {
    const next = this.next(slowAfterMs, nowMs);
    if (!next || next[1] + slowAfterMs > nowMs) return [];
    this.withPermit.splice(this.withPermit.indexOf(next), 1);
    this.withoutPermit.push(next);
    return [next[0], ...this.reclaimPermits(slowAfterMs, nowMs)];
  }

  served(request: Named): void {
    const served = this.withPermit.find(([each]) => each === request);
    if (served) this.#latestAnsweredStartMs = Math.max(this.#latestAnsweredStartMs, served[1]);
  }

  end(request: Named): void {
    this.withPermit = this.withPermit.filter(([each]) => each !== request);
    this.withoutPermit = this.withoutPermit.filter(([each]) => each !== request);
  }

  #isUnanswered([{ standing }, startedAtMs]: [Named, number]): boolean {
    return standing === 'proven' && startedAtMs > this.#latestAnsweredStartMs;
  }
}

describe('reclaiming the permits of slow requests', () => {
  it.each([1, 2, 3, 4])('matches a full scan in a random history (seed %i)', (seed) => {
    const stage = new Stage({ limit: 30, maxQueued: 1_000 });
    const model = new SlowModel();
    const random = seeded(seed);
    const draw = (below: number) => Math.floor(random() * below);
    const postponed: Named[] = [];
    const seen = { taken: 0, kept: 0, full: 0 };
    const start = () => {
      for (const request of stage.pull()) model.withPermit.push([request, stage.nowMs]);
    };
    for (let step = 0; step < 3_000; step++) {
      // Alternates calm with outages, and many proven owners with few, whose requests end sooner.
      const [isHanging, hasFewProven] = [step % 500 < 300, step % 1_000 < 500];
      const newcomer = random() < (hasFewProven ? 0.9 : 0.1);
      if (stage.queue.queued < 100) stage.add(`${step}`, { newcomer, failing: random() < 0.05 });
      start();
      stage.nowMs += draw(3) * 20;
      const inFlight = [...model.withPermit, ...model.withoutPermit].map(([request]) => request);
      const ended = draw(hasFewProven ? 1 : isHanging ? 8 : 2) === 0 ? inFlight[draw(inFlight.length)] : undefined;
      if (ended) {
        if (draw(isHanging ? 40 : 2) === 0) {
          stage.queue.served(ended, stage.nowMs);
          model.served(ended);
        }
        model.end(ended);
        if (draw(4) > 0) stage.queue.release(ended);
        else {
          stage.queue.postpone(ended);
          postponed.push(ended);
        }
      }
      if (draw(5) === 0) for (const request of postponed.splice(0)) stage.queue.putBack(request, true);
      const slowAfterMs = [200, 300, 1_000][draw(3)] as number;
      const next = model.next(slowAfterMs, stage.nowMs);
      expect(stage.queue.nextSlowAtMs(slowAfterMs, stage.nowMs)).toBe(next && next[1] + slowAfterMs);
      const taken = draw(2) === 0 ? model.reclaimPermits(slowAfterMs, stage.nowMs) : [];
      if (taken.length > 0) expect(stage.reclaimPermits(slowAfterMs)).toEqual(taken);
      expect(stage.queue.permits).toBe(model.withPermit.length);
      seen.taken += taken.length;
      if (model.withoutPermit.length >= 32) seen.full++;
      else if (next !== model.withPermit[0]) seen.kept++;
    }
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(30);
  });

  it('takes constant time on average, however many requests hang', () => {
    let steps = 0;
    /** Counts how often the queue goes from this request to another. */
    const counted = (place: NonNullable<Named['place']>) => {
      for (const link of ['next', 'previous'] as const) {
        let value = place[link];
        const get = () => {
          steps++;
          return value;
        };
        const set = (to: typeof value) => {
          value = to;
        };
        Object.defineProperty(place, link, { get, set });
      }
      return place;
    };
    const stage = new Stage({ limit: 1_000, maxQueued: 1_000 });
    for (let index = 0; index < 1_000; index++) {
      const request = stage.add(`${index}`);
      request.place = counted(request.place as NonNullable<Named['place']>);
      stage.nowMs++;
      stage.pull();
    }
    stage.nowMs += 1_000;
    steps = 0;
    for (let call = 0; call < 1_000; call++) {
      expect(stage.reclaimPermits()).toEqual([]);
      expect(stage.queue.nextSlowAtMs(500, stage.nowMs)).toBeUndefined();
    }
    expect(steps).toBeLessThan(10_000);
  });
});

describe('a request that is sent again', () => {
  it('keeps its place outside the queue, and then is first in its class', () => {
    const stage = new Stage({ limit: 1, maxQueued: 2 });
    const a = stage.add('a');
    stage.pull();
    stage.addAll('b', 'c');
    stage.queue.postpone(a);
    expect([stage.queue.permits, stage.queue.inFlight, stage.queue.queued]).toEqual([0, 0, 3]);
    expect([stage.pulledNames(), stage.queue.sinceMs(a)]).toEqual([['b'], 0]);
    stage.queue.putBack(a, true);
    stage.limit = 3;
    expect(stage.pulledNames()).toEqual(['a', 'c']);
  });

  it('is followed by those that were queued before it, in their order', () => {
    const stage = new Stage({ limit: 1 });
    const a = stage.add('a');
    stage.pull();
    stage.queue.postpone(a);
    stage.queue.putBack(a, true);
    stage.addAll('b', 'c');
    expect(stage.pull()).toEqual([a]);
    stage.queue.postpone(a);
    stage.queue.putBack(a, true);
    expect(stage.queue.first('proven')).toBe(a);
    stage.queue.withdraw(a);
    expect(stage.inOrder()).toEqual(['b', 'c']);
  });

  it('leaves the queue intact when the one behind it is withdrawn', () => {
    const stage = new Stage({ limit: 1 });
    const a = stage.add('a');
    stage.pull();
    const b = stage.add('b');
    stage.queue.postpone(a);
    stage.queue.putBack(a, true);
    stage.queue.withdraw(b);
    stage.addAll('c');
    expect(stage.inOrder()).toEqual(['a', 'c']);
  });

  it('can be withdrawn before it is back', () => {
    const stage = new Stage({ limit: 1 });
    const a = stage.add('a');
    stage.pull();
    stage.queue.postpone(a);
    expect([stage.queue.withdraw(a), stage.queue.queued]).toEqual([true, 0]);
  });

  it('that nobody waits for comes after those that callers wait for', () => {
    const stage = new Stage({ limit: 1 });
    const refresh = stage.add('refresh', { waitedFor: false });
    stage.pull();
    stage.addAll('b');
    stage.queue.postpone(refresh);
    stage.queue.putBack(refresh, false);
    expect(stage.inOrder()).toEqual(['b', 'refresh']);
  });
});

describe('failing owners', () => {
  it.each([
    [16, 4],
    [8, 2],
    [7, 1],
    [1, 1],
  ])('of %i permits have at most %i', (concurrency, share) => {
    const stage = new Stage({ limit: concurrency, maxQueued: 100 });
    for (let n = 0; n < concurrency; n++) stage.add(`failing ${n}`, { failing: true, waitedFor: n % 2 === 0 });
    expect(stage.pull()).toHaveLength(share);
    for (let n = 0; n < concurrency; n++) stage.add(`other ${n}`);
    expect(stage.pull()).toHaveLength(concurrency - share);
    expect(stage.queue.inFlight).toBe(concurrency);
  });

  it('get the next permit of their share when one is released', () => {
    const stage = new Stage({ limit: 4 });
    const x = stage.add('x', { failing: true });
    stage.add('y', { failing: true });
    expect(stage.pulledNames()).toEqual(['x']);
    stage.queue.release(x);
    expect(stage.pulledNames()).toEqual(['y']);
  });

  it('include owners that have only failed', () => {
    const stage = new Stage({ limit: 4 });
    stage.add('unproven', { failing: true, newcomer: true });
    stage.add('failing', { failing: true });
    expect(stage.pulledNames()).toEqual(['unproven']);
  });

  it('get no permit when that of another owner is released', () => {
    const stage = new Stage({ limit: 4 });
    const other = stage.add('other');
    for (const name of ['x', 'y']) stage.add(name, { failing: true });
    expect(stage.pulledNames()).toEqual(['other', 'x']);
    stage.queue.release(other);
    expect(stage.pulledNames()).toEqual([]);
  });
});

describe('the bound', () => {
  it('leaves no place in a full queue but that of the oldest refresh', () => {
    const stage = new Stage({ limit: 1, maxQueued: 3 });
    stage.add('running');
    stage.pull();
    const older = stage.add('refresh 1', { waitedFor: false });
    stage.nowMs++;
    const younger = stage.add('refresh 2', { waitedFor: false, failing: true });
    expect(stage.hasPlace()).toBe(true);
    stage.add('a');
    expect(stage.hasPlace()).toBe(false);
    expect(stage.queue.oldestRefresh).toBe(older);
    stage.queue.withdraw(older);
    expect(stage.hasPlace()).toBe(true);
    expect(stage.queue.oldestRefresh).toBe(younger);
    stage.queue.withdraw(younger);
    expect(stage.queue.oldestRefresh).toBeUndefined();
  });

  it('has a place for whatever may start at once, even when it is full of what may not', () => {
    const stage = new Stage({ limit: 2, maxQueued: 1 });
    for (const name of ['x', 'y']) stage.add(name, { failing: true });
    expect(stage.pulledNames()).toEqual(['x']);
    expect([stage.hasPlace(true), stage.hasPlace(false)]).toEqual([false, true]);
    stage.add('healthy');
    expect(stage.pulledNames()).toEqual(['healthy']);
    expect(stage.hasPlace(false)).toBe(false);
  });

  it('has a place for each that may start once the limit has risen', () => {
    const stage = new Stage({ limit: 2, maxQueued: 1 });
    stage.limit = 1;
    stage.addAll('a', 'b');
    expect(stage.pulledNames()).toEqual(['a']);
    expect(stage.hasPlace()).toBe(false);
    stage.limit = 2;
    expect(stage.hasPlace()).toBe(true);
    stage.add('c');
    expect(stage.pulledNames()).toEqual(['b']);
    expect([stage.hasPlace(), stage.queue.queued]).toEqual([false, 1]);
  });
});

describe('newcomers', () => {
  it('wait while they may not start, and others start', () => {
    const stage = new Stage({ limit: 8, maxQueued: 3 });
    stage.newcomers = false;
    stage.add('new', { newcomer: true });
    stage.add('unproven', { newcomer: true, failing: true });
    stage.add('failing', { failing: true });
    stage.add('proven');
    expect(stage.pulledNames().sort()).toEqual(['failing', 'proven']);
    stage.nowMs++;
    stage.add('another', { newcomer: true });
    expect([stage.hasPlace(false, true), stage.hasPlace(true, true), stage.hasPlace()]).toEqual([false, false, true]);
    stage.newcomers = true;
    expect(stage.pulledNames()).toEqual(['new', 'unproven', 'another']);
  });
});

describe('what is ahead of a request', () => {
  it('is all that callers wait for, of which some are newcomers', () => {
    const stage = new Stage({ limit: 1 });
    const [first, second] = [stage.add('a', { newcomer: true }), stage.add('b', { newcomer: true, failing: true })];
    stage.addAll('c', 'd');
    stage.add('e', { failing: true });
    const refresh = stage.add('refresh', { waitedFor: false });
    expect(stage.queue.ahead).toBe(5);
    stage.queue.promote(refresh, stage.nowMs);
    expect(stage.queue.ahead).toBe(6);
    stage.queue.withdraw(second);
    expect(stage.queue.ahead).toBe(5);
    expect(stage.pull()).toEqual([first]);
    expect(stage.queue.ahead).toBe(4);
    stage.queue.postpone(first);
    expect(stage.queue.ahead).toBe(4);
    stage.queue.putBack(first, true);
    expect(stage.queue.ahead).toBe(5);
  });
});

describe('a request', () => {
  it('whose source has given its permit back is not queued when a caller joins it', () => {
    const stage = new Stage();
    const a = stage.add('a');
    stage.pull();
    stage.queue.release(a);
    stage.queue.promote(a, stage.nowMs);
    expect([stage.queue.queued, stage.pulledNames()]).toEqual([0, []]);
  });

  it('is withdrawn only while it is queued', () => {
    const stage = new Stage({ limit: 1 });
    const running = stage.add('a');
    const queued = stage.add('b');
    stage.pull();
    expect(stage.queue.withdraw(running)).toBe(false);
    expect([stage.queue.withdraw(queued), stage.queue.withdraw(queued)]).toEqual([true, false]);
    expect([stage.queue.queued, stage.queue.inFlight]).toEqual([0, 1]);
    stage.queue.release(running);
    expect([stage.queue.queued, stage.queue.inFlight]).toEqual([0, 0]);
  });

  it('is released once', () => {
    const stage = new Stage();
    const a = stage.add('a', { failing: true });
    stage.add('b');
    stage.pull();
    stage.queue.release(a);
    stage.queue.release(a);
    expect(stage.queue.inFlight).toBe(1);
    for (const name of ['c', 'd']) stage.add(name, { failing: true });
    expect(stage.pulledNames()).toEqual(['c']);
  });

  it('is released only while it is in flight', () => {
    const stage = new Stage({ limit: 0 });
    const queued = stage.add('a');
    expect([stage.queue.release(queued), stage.queue.queued]).toEqual([false, 1]);
  });

  it('is found first among its kind', () => {
    const stage = new Stage();
    expect([stage.queue.first('failing'), stage.queue.first('proven')]).toEqual([undefined, undefined]);
    const failing = stage.add('failing refresh', { failing: true, waitedFor: false });
    stage.nowMs++;
    const refresh = stage.add('refresh', { waitedFor: false });
    // Of two that came at the same time, it is the one that a caller waits for.
    const other = stage.add('a');
    stage.add('failing', { failing: true });
    expect(stage.queue.first('failing')).toBe(failing);
    expect(stage.queue.first('proven')).toBe(other);
    stage.queue.withdraw(other);
    expect(stage.queue.first('proven')).toBe(refresh);
  });
});

describe('an overdue request', () => {
  it('is the one that has waited longest, in whatever class', () => {
    const stage = new Stage();
    expect([stage.queue.overdueAtMs, stage.takeOverdue()]).toEqual([undefined, []]);
    stage.add('b');
    stage.nowMs = 400;
    stage.add('c', { failing: true });
    stage.add('d', { waitedFor: false });
    stage.add('e', { waitedFor: false, failing: true });
    expect(stage.queue.overdueAtMs).toBe(1000);
    stage.nowMs = 999;
    expect(stage.takeOverdue()).toEqual([]);
    stage.nowMs = 1000;
    expect(stage.takeOverdue()).toEqual(['b']);
    expect(stage.queue.overdueAtMs).toBe(1400);
    stage.nowMs = 1400;
    expect(stage.takeOverdue()).toEqual(['d', 'c', 'e']);
    expect(stage.queue.queued).toBe(0);
  });

  it.each<Facts>([{}, { failing: true }, { newcomer: true }, { newcomer: true, failing: true }])(
    'is so after maxQueueMs if no owner like it was served: %o',
    (facts) => {
      const stage = new Stage();
      stage.add('a', facts);
      expect(stage.queue.overdueAtMs).toBe(1000);
    },
  );

  it('counts from its promotion, if it was a refresh', () => {
    const stage = new Stage();
    const refresh = stage.add('refresh', { waitedFor: false });
    stage.nowMs = 900;
    stage.queue.promote(refresh, stage.nowMs);
    expect(stage.queue.overdueAtMs).toBe(1900);
  });

  it('is none while owners like it are served, up to ten times as long', () => {
    const stage = new Stage();
    const served = stage.add('served');
    stage.pull();
    stage.nowMs = 1;
    stage.limit = 0;
    stage.add('a');
    stage.add('x', { failing: true });
    stage.nowMs = 500;
    stage.queue.served(served, stage.nowMs);
    expect(stage.queue.overdueAtMs).toBe(1001);
    stage.nowMs = 1001;
    expect(stage.queue.overdue(stage.nowMs)).toMatchObject({ request: { name: 'x' }, isStalled: true });
    expect(stage.takeOverdue()).toEqual(['x']);
    expect(stage.queue.overdueAtMs).toBe(1500);
    stage.queue.served(served, 9_900);
    stage.nowMs = 10_000;
    expect(stage.takeOverdue()).toEqual([]);
    stage.nowMs = 10_001;
    expect(stage.queue.overdue(stage.nowMs)).toMatchObject({ request: { name: 'a' }, isStalled: false });
  });
});
