import { describe, expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/errors.ts';
import { Flight, type LaneName } from '../../src/registry/flight.ts';
import { LANES, Lanes, laneOf } from '../../src/registry/lanes.ts';
import { failed, succeeded } from '../../src/registry/slot.ts';
import { tokenOf } from '../helpers/numbered-tokens.ts';
import { createProvenSlot, createSlot } from '../helpers/slots.ts';

const flight = (name: string, lane: LaneName, queuedAtMs = 0) => new Flight(name, createSlot(name), lane, queuedAtMs);

/** Lanes with these requests, pushed in this order. */
function lanesOf(...flights: Flight[]): Lanes {
  const lanes = new Lanes();
  for (const each of flights) lanes.push(each);
  return lanes;
}

/** The names of all requests, in the order in which they start at this time. */
function startOrder(lanes: Lanes, nowMs: number, onlyCanaries = false): string[] {
  const names: string[] = [];
  for (let next = lanes.next(nowMs, onlyCanaries); next; next = lanes.next(nowMs, onlyCanaries)) {
    names.push(next.accessKey);
    next.list?.remove(next);
  }
  return names;
}

describe('the queue', () => {
  const reversed = () => LANES.toReversed().map((lane) => flight(lane, lane));

  it('the queue starts canaries, known owners, new ones, refreshes, and owners known to fail, in this order', () => {
    expect(startOrder(lanesOf(...reversed()), 0)).toEqual(['canary', 'known', 'new', 'refresh', 'failing']);
  });

  it('the queue starts canaries alone while a circuit stops all others', () => {
    expect(startOrder(lanesOf(...reversed()), 0, true)).toEqual(['canary']);
  });

  it('the queue starts the oldest of a lane first, until it has waited for more than a second: then the newest', () => {
    const three = () => lanesOf(flight('a', 'new', 0), flight('b', 'new', 400), flight('c', 'new', 800));
    expect(startOrder(three(), 1_000)).toEqual(['a', 'b', 'c']);
    expect(startOrder(three(), 1_001)).toEqual(['c', 'b', 'a']);
    const lanes = three();
    const oldest = lanes.oldest('new') as Flight;
    oldest.list?.remove(oldest);
    expect(startOrder(lanes, 1_001)).toEqual(['b', 'c']);
  });

  it('the queue is as long as all lanes together, and iterates over them in order', () => {
    const lanes = lanesOf(...reversed(), flight('second', 'known'));
    expect(lanes.length).toBe(6);
    expect([...lanes].map(({ accessKey }) => accessKey)).toEqual([
      ...['canary', 'known', 'second', 'new', 'refresh', 'failing'],
    ]);
  });

  it('the queue knows the oldest of each lane, and of all', () => {
    const old = flight('old', 'failing', 3);
    const lanes = lanesOf(
      flight('a', 'canary', 7),
      flight('b', 'new', 5),
      flight('c', 'new', 6),
      old,
      flight('d', 'refresh', 4),
    );
    expect(lanes.oldest('new')?.accessKey).toBe('b');
    expect(lanes.oldest('known')).toBeUndefined();
    expect(lanes.longestWaiting).toBe(old);
    expect(new Lanes().longestWaiting).toBeUndefined();
  });

  it('the queue has a request until that leaves its lane', () => {
    const [a, b] = [flight('a', 'known'), flight('b', 'known')];
    const lanes = lanesOf(a);
    expect([lanes.has(a), lanes.has(b)]).toEqual([true, false]);
    a.list?.remove(a);
    expect([lanes.has(a), lanes.length, lanes.next(0, false)]).toEqual([false, 0, undefined]);
  });
});

describe('the lane of a request', () => {
  const failure = { error: new OwnerTokenError('owner_refused', 'no'), count: 1, retryAtMonotonicMs: 1 };
  const holding = createSlot('holding');
  succeeded(holding, { token: tokenOf('t'), aheadMs: 0 });
  const failing = createProvenSlot('failing');
  failed(failing, failure);

  it.each([
    ['of an owner that never had a token is that of new ones', createSlot('new'), 'new'],
    ['of an owner with a token is that of known ones', holding, 'known'],
    ['of an owner that had one is that of known ones', createProvenSlot('known'), 'known'],
    ['of an owner whose last request failed is the last one', failing, 'failing'],
  ])('%s', (_, slot, lane) => {
    expect(laneOf(slot)).toBe(lane);
  });
});
