import { describe, expect, it } from 'vitest';
import { recordFailure, recordSuccess } from '../../../src/registry/owners/slot.ts';
import { Flight, laneOf } from '../../../src/registry/requests/flight.ts';
import { LANES, type Lane, REFUSED_LANES, RequestQueue, TRIAL_LANES } from '../../../src/registry/requests/queue.ts';
import { tokenOf } from '../../helpers/numbered-tokens.ts';
import { createProvenSlot, createSlot, heldOf, pauseUntil } from '../../helpers/slots.ts';

const flight = (name: string, lane: Lane, queuedAtMs = 0) => new Flight(createSlot(name), lane, queuedAtMs);

/** A queue with these requests, each at the end of its lane. */
function queueOf(...flights: Flight[]): RequestQueue<Flight> {
  const queue = new RequestQueue<Flight>();
  for (const each of flights) queue.move(each, each.lane);
  return queue;
}

const names = (flights: Iterable<Flight>) => [...flights].map(({ accessKey }) => accessKey);

/** The names of all requests, list by list. */
const namesIn = (queue: RequestQueue<Flight>) =>
  Object.values(queue.lists).flatMap(({ first }) => {
    const flights: Flight[] = [];
    for (let each = first; each; each = each.next as Flight | undefined) flights.push(each);
    return names(flights);
  });

/** The names of all requests, in the order in which they start at this time. */
function startOrder(queue: RequestQueue<Flight>, nowMs: number, onlyTrials = false): string[] {
  const order: Flight[] = [];
  for (let next = queue.startNext(nowMs, onlyTrials); next; next = queue.startNext(nowMs, onlyTrials)) order.push(next);
  return names(order);
}

describe('the queue', () => {
  const reversed = () => LANES.toReversed().map((lane) => flight(lane, lane));

  it('starts canaries, known owners, new ones, refreshes, and owners known to fail, in this order', () => {
    const queue = queueOf(...reversed());
    expect(startOrder(queue, 0)).toEqual(['canary', 'known', 'new', 'refresh', 'failing']);
    expect([queue.waiting, queue.lists.running.length]).toEqual([0, 5]);
  });

  it('starts new owners before known ones as trials', () => {
    const queue = queueOf(...reversed());
    const order = TRIAL_LANES.map(() => queue.startNext(0, false, TRIAL_LANES) as Flight);
    expect(names(order)).toEqual(['canary', 'new', 'known', 'refresh', 'failing']);
  });

  it('starts canaries alone while a circuit stops all others', () => {
    expect(startOrder(queueOf(...reversed()), 0, true)).toEqual(['canary']);
  });

  it('starts the oldest of a lane first, until it has waited for more than a second: then the newest', () => {
    const three = () => queueOf(flight('a', 'new', 0), flight('b', 'new', 400), flight('c', 'new', 800));
    expect(startOrder(three(), 1_000)).toEqual(['a', 'b', 'c']);
    expect(startOrder(three(), 1_001)).toEqual(['c', 'b', 'a']);
    const queue = three();
    queue.move(queue.lists.new.first as Flight, 'running');
    expect(startOrder(queue, 1_001)).toEqual(['b', 'c']);
  });

  it('numbers the requests as they start', () => {
    const queue = queueOf(...reversed());
    expect([0, 1, 2].map(() => queue.startNext(0, false)?.number)).toEqual([1, 2, 3]);
  });

  it('counts neither a standstill nor the second after it, as waiting or as latency', () => {
    const [running, queued] = [flight('running', 'new', 100), flight('queued', 'new', 9_500)];
    const queue = queueOf(running, queued);
    queue.startNext(200, false);
    queue.postpone(5_000, 10_000);
    expect([running.queuedAtMs, running.startedAtMs, queued.queuedAtMs]).toEqual([6_100, 6_200, 10_000]);
  });

  it('knows the request that has waited longest in any lane, or in those that an open circuit refuses', () => {
    const old = flight('old', 'known', 3);
    const others = [flight('a', 'canary', 7), flight('b', 'new', 3), flight('c', 'new', 6), flight('d', 'refresh', 4)];
    expect(queueOf(...others, old).longestWaiting()).toBe(old);
    expect(queueOf(...others, old, flight('canary', 'canary', 1)).longestWaiting(REFUSED_LANES)).toBe(old);
    expect(new RequestQueue().longestWaiting()).toBeUndefined();
  });

  it('has each request in one place, and counts those that wait, are queued and are in flight', () => {
    const [a, b] = [flight('a', 'known'), flight('b', 'new')];
    const queue = queueOf(a, b);
    const counts = () => [queue.waiting, queue.queued, queue.inFlight];
    expect(counts()).toEqual([2, 2, 0]);
    for (const place of ['running', 'slow'] as const) {
      queue.move(a, place);
      expect([a.place, ...counts()]).toEqual([place, 1, 1, 1]);
    }
    queue.move(a, 'retrying');
    expect(counts()).toEqual([1, 2, 0]);
    queue.enqueue(a, 'failing');
    queue.enqueue(b, 'known');
    expect([a.lane, a.place, ...counts()]).toEqual(['failing', 'failing', 2, 2, 0]);
    queue.move(b, undefined);
    expect([namesIn(queue), ...counts()]).toEqual([['a'], 1, 1, 0]);
  });

  it.each([
    ['abc', 'a', 'bc'],
    ['abc', 'b', 'ac'],
    ['abc', 'c', 'ab'],
    ['a', 'a', ''],
  ])('of %s without %s is %s, in either direction, and keeps no link in what has left', (all, name, left) => {
    const flights = [...all].map((each) => flight(each, 'new'));
    const queue = queueOf(...flights);
    const leaving = flights.find(({ accessKey }) => accessKey === name) as Flight;
    queue.move(leaving, undefined);
    queue.move(leaving, undefined);
    expect([leaving.place, leaving.previous, leaving.next]).toEqual([undefined, undefined, undefined]);
    const back: Flight[] = [];
    for (let each = queue.lists.new.last; each; each = each.previous as Flight | undefined) back.unshift(each);
    expect([namesIn(queue).join(''), names(back).join(''), queue.lists.new.length]).toEqual([left, left, left.length]);
  });

  it('is drained of the requests in flight, then of those that are still queued', () => {
    const [running, slow] = [flight('running', 'new'), flight('slow', 'new')];
    const [retrying, leaving, last] = [
      flight('retrying', 'new'),
      flight('leaving', 'known'),
      flight('last', 'failing'),
    ];
    const queue = queueOf(running, slow, retrying, leaving, last);
    queue.move(running, 'running');
    queue.move(slow, 'slow');
    queue.move(retrying, 'retrying');
    const drained: Flight[] = [];
    for (const each of queue.drain()) {
      drained.push(each);
      if (each === slow) queue.move(leaving, undefined);
      // A source that is still at work keeps its request in flight.
      if (each !== running) queue.move(each, undefined);
    }
    expect(names(drained)).toEqual(['running', 'slow', 'last', 'retrying']);
    expect(namesIn(queue)).toEqual(['running']);
  });
});

describe('the lane of a request', () => {
  const holding = createSlot('holding');
  recordSuccess(holding, heldOf(tokenOf('t')));
  const failing = createProvenSlot('failing');
  recordFailure(failing, pauseUntil(1));

  it.each([
    ['of an owner that never had a token is that of new ones', createSlot('new'), 'new'],
    ['of an owner with a token is that of known ones', holding, 'known'],
    ['of an owner that had one is that of known ones', createProvenSlot('known'), 'known'],
    ['of an owner whose last request failed is the last one', failing, 'failing'],
  ])('%s', (_, slot, lane) => {
    expect(laneOf(slot)).toBe(lane);
  });
});
