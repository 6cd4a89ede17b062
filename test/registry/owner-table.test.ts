import { afterEach, describe, expect, it, vi } from 'vitest';
import { nextTurn } from '../../src/clock.ts';
import { OwnerTokenError } from '../../src/errors.ts';
import { Flight } from '../../src/registry/flight.ts';
import { OwnerTable } from '../../src/registry/owner-table.ts';
import { failed, lifted, type Slot, succeeded } from '../../src/registry/slot.ts';
import { tokenOf } from '../helpers/numbered-tokens.ts';
import { createSlot } from '../helpers/slots.ts';

/** A table for two owners of either kind, with the names of those evicted. */
function tableOfTwo() {
  const evicted: string[] = [];
  const table = new OwnerTable(2, { evicted: ({ owner }) => void evicted.push(owner), lifted: () => {} });
  return { table, evicted };
}

/** Stores an owner with a token, or one that failed. */
function stored(table: OwnerTable, owner: string, what: 'token' | 'failure'): Slot {
  const slot = createSlot(owner);
  if (what === 'token') succeeded(slot, { token: tokenOf(owner), aheadMs: 0 });
  else failed(slot, { error: new OwnerTokenError('owner_refused', 'no'), count: 1, retryAtMonotonicMs: 1 });
  table.store(slot);
  return slot;
}

const newFlight = (owner: string, slot = createSlot(owner)) => new Flight(owner, slot, 'new', 0);

afterEach(() => vi.unstubAllGlobals());

const counts = ({ size, usable, failingCount, evictions }: OwnerTable) => [size, usable, failingCount, evictions];

describe('the owners', () => {
  it('are counted with a token and failing, as they are stored', () => {
    const { table } = tableOfTwo();
    expect(counts(table)).toEqual([0, 0, 0, 0]);
    stored(table, 'owner_a', 'token');
    const slot = stored(table, 'owner_b', 'failure');
    expect(counts(table)).toEqual([2, 1, 1, 0]);
    succeeded(slot, { token: tokenOf('b'), aheadMs: 0 });
    table.store(slot);
    expect(counts(table)).toEqual([2, 2, 0, 0]);
    failed(slot, { error: new OwnerTokenError('owner_refused', 'no'), count: 1, retryAtMonotonicMs: 1 });
    table.store(slot);
    expect(counts(table)).toEqual([2, 2, 1, 0]);
  });

  it('that are evicted or forgotten are no longer failing', () => {
    const { table, evicted } = tableOfTwo();
    for (const owner of ['owner_a', 'owner_b', 'owner_c']) stored(table, owner, 'failure');
    expect([counts(table), evicted]).toEqual([[2, 0, 2, 1], ['owner_a']]);
    table.forget('b');
    expect(counts(table)).toEqual([1, 0, 1, 1]);
    table.clear();
    expect(counts(table)).toEqual([0, 0, 0, 1]);
  });

  it('are failing until their pause is lifted, also while a request is in flight', () => {
    const { table } = tableOfTwo();
    const [a, b] = [stored(table, 'owner_a', 'failure'), stored(table, 'owner_b', 'failure')];
    table.began(newFlight('a', a));
    expect([...table.failing()]).toEqual([a, b]);
    lifted(b);
    table.lifted(b);
    expect([...table.failing()]).toEqual([a]);
  });

  it('that fail are listed in the order of their first failure, those without a token first', () => {
    const table = new OwnerTable(9, { evicted: () => {}, lifted: () => {} });
    const again = (slot: Slot) => {
      failed(slot, { error: new OwnerTokenError('owner_refused', 'no'), count: 2, retryAtMonotonicMs: 1 });
      table.store(slot);
      return slot;
    };
    const withToken = again(stored(table, 'owner_a', 'token'));
    const [b, c] = [stored(table, 'owner_b', 'failure'), stored(table, 'owner_c', 'failure')];
    again(b);
    expect([...table.failing()]).toEqual([b, c, withToken]);
    succeeded(b, { token: tokenOf('b'), aheadMs: 0 });
    table.store(b);
    expect([...table.failing()]).toEqual([c, withToken]);
  });

  it('that work are listed from the one used last, without those that fail', () => {
    const table = new OwnerTable(9, { evicted: () => {}, lifted: () => {} });
    const [a, b, c] = ['a', 'b', 'c'].map((name) => stored(table, `owner_${name}`, 'token'));
    stored(table, 'owner_d', 'failure');
    table.use('a');
    failed(b as Slot, { error: new OwnerTokenError('owner_refused', 'no'), count: 1, retryAtMonotonicMs: 1 });
    table.store(b as Slot);
    expect([...table.working()]).toEqual([a, c]);
    table.clear();
    expect([...table.working(), ...table.failing()]).toEqual([]);
  });

  it('are no longer failing once all are resumed; each recovery is reported once, at the latest when its slot is read', async () => {
    const resumed: string[] = [];
    const lifted = (paused: unknown) => void resumed.push((paused as Slot).owner);
    const table = new OwnerTable(1_000, { evicted: () => {}, lifted });
    const names = Array.from({ length: 600 }, (_, n) => `owner_${n}`);
    const slots = names.map((name) => stored(table, name, 'failure'));
    table.resumeAll();
    expect(counts(table)).toEqual([600, 0, 0, 0]);
    expect(resumed).toEqual(names.slice(0, 256));
    const [read, again, forgotten] = [slots[599], slots[598], slots[597]] as [Slot, Slot, Slot];
    expect(table.peek(read.accessKey)?.trouble?.failure).toBeUndefined();
    failed(again, { error: new OwnerTokenError('owner_refused', 'no'), count: 1, retryAtMonotonicMs: 1 });
    table.store(again);
    table.forget(forgotten.accessKey);
    table.resumeAll();
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    expect([...resumed].sort()).toEqual([...names].sort());
  });

  it('are resumed one by one too; a recovery is reported only of one that failed', () => {
    const resumed: unknown[] = [];
    const table = new OwnerTable(2, { evicted: () => {}, lifted: (slot) => void resumed.push(slot) });
    const [failing, healthy] = [stored(table, 'owner_a', 'failure'), stored(table, 'owner_b', 'token')];
    for (const slot of [failing, healthy, failing]) table.resume(slot);
    expect(resumed).toEqual([failing]);
    expect(counts(table)).toEqual([2, 1, 0, 0]);
  });

  it('that fail displace none with a token', () => {
    const { table, evicted } = tableOfTwo();
    stored(table, 'owner_a', 'token');
    for (const owner of ['owner_b', 'owner_c', 'owner_d']) stored(table, owner, 'failure');
    expect(evicted).toEqual(['owner_b']);
    expect(table.peek('a')?.held).toBeDefined();
    stored(table, 'owner_e', 'token');
    table.use('a');
    stored(table, 'owner_f', 'token');
    expect(evicted).toEqual(['owner_b', 'owner_e']);
  });

  it('allocate no cache when they are cleared; the next owner of each kind does', () => {
    const lengths: number[] = [];
    const Counted = class extends Float64Array {
      constructor(length: number) {
        super(length);
        lengths.push(length);
      }
    };
    vi.stubGlobal('Float64Array', Counted);
    const { table } = tableOfTwo();
    expect(lengths).toEqual([3]);
    const held = stored(table, 'owner_a', 'token');
    stored(table, 'owner_b', 'failure');
    expect(lengths).toEqual([3, 3]);
    table.clear();
    table.forget('a');
    expect([lengths.length, counts(table), table.use('a'), table.peek('b')]).toEqual([
      ...[2, [0, 0, 0, 0], undefined, undefined],
    ]);
    expect(table.freshToken('a', 0)).toBeUndefined();
    stored(table, 'owner_b', 'failure');
    expect([lengths.length, counts(table)]).toEqual([3, [1, 0, 1, 0]]);
    table.store(held);
    expect([lengths.length, counts(table)]).toEqual([4, [2, 1, 1, 0]]);
  });

  it('give back the requests unsettled when they are cleared, even if these are read later', () => {
    const { table } = tableOfTwo();
    const flights = ['a', 'b', 'c'].map((owner) => newFlight(owner));
    for (const flight of flights) table.began(flight);
    table.detach(flights[1] as Flight);
    const rest = table.clear();
    const anew = newFlight('a');
    table.began(anew);
    table.detach(flights[2] as Flight);
    expect([...rest]).toEqual([flights[0], flights[2]]);
    expect(table.isCurrent(anew)).toBe(true);
  });
});
