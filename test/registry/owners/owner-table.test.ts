import { describe, expect, it } from 'vitest';
import { OwnerTable } from '../../../src/registry/owners/owner-table.ts';
import { clearSlot, recordFailure, recordSuccess, type Slot } from '../../../src/registry/owners/slot.ts';
import { Flight } from '../../../src/registry/requests/flight.ts';
import type { Diagnostics } from '../../../src/reporting/diagnostics.ts';
import { tokenOf } from '../../helpers/numbered-tokens.ts';
import { createSlot, heldOf, pauseUntil } from '../../helpers/slots.ts';

/** A table for two owners of either kind, with the names of those evicted. */
function tableOfTwo() {
  const evicted: string[] = [];
  const emit: Diagnostics['emit'] = (event, fieldsOf) => {
    expect(event).toBe('owner.evicted');
    evicted.push((fieldsOf() as { owner: string }).owner);
  };
  const table = new OwnerTable(2, { emit, lifted: () => {} });
  return { table, evicted };
}

/** Stores an owner with a token, or one that failed. */
function stored(table: OwnerTable, owner: string, what: 'token' | 'failure'): Slot {
  const slot = createSlot(owner);
  if (what === 'token') recordSuccess(slot, heldOf(tokenOf(owner)));
  else recordFailure(slot, pauseUntil(1));
  table.store(slot);
  return slot;
}

const newFlight = (owner: string, slot = createSlot(owner)) => new Flight(slot, 'new', 0);

const counts = ({ size, usable, failing, evictions }: OwnerTable) => [size, usable, failing.size, evictions];

it('owners with a token, and failing ones, are counted as they are stored', () => {
  const { table } = tableOfTwo();
  expect(counts(table)).toEqual([0, 0, 0, 0]);
  stored(table, 'owner_a', 'token');
  const slot = stored(table, 'owner_b', 'failure');
  expect(counts(table)).toEqual([2, 1, 1, 0]);
  recordSuccess(slot, heldOf(tokenOf('b')));
  table.store(slot);
  expect(counts(table)).toEqual([2, 2, 0, 0]);
  recordFailure(slot, pauseUntil(1));
  table.store(slot);
  expect(counts(table)).toEqual([2, 2, 1, 0]);
});

it('owners that are evicted or forgotten no longer count as failing', () => {
  const { table, evicted } = tableOfTwo();
  for (const owner of ['owner_a', 'owner_b', 'owner_c']) stored(table, owner, 'failure');
  expect([counts(table), evicted]).toEqual([[2, 0, 2, 1], ['owner_a']]);
  table.forget('b');
  expect(counts(table)).toEqual([1, 0, 1, 1]);
  table.clear();
  expect(counts(table)).toEqual([0, 0, 0, 1]);
});

it('failing owners are listed in the order of their first failure', () => {
  const table = new OwnerTable(9, { emit: () => {}, lifted: () => {} });
  const again = (slot: Slot) => {
    recordFailure(slot, pauseUntil(1, 2));
    table.store(slot);
    return slot;
  };
  const withToken = again(stored(table, 'owner_a', 'token'));
  const [b, c] = [stored(table, 'owner_b', 'failure'), stored(table, 'owner_c', 'failure')];
  again(b);
  expect([...table.failing]).toEqual([withToken, b, c]);
  recordSuccess(b, heldOf(tokenOf('b')));
  table.store(b);
  expect([...table.failing]).toEqual([withToken, c]);
});

it('each owner is found once: with a token, without one, or by its request', () => {
  const table = new OwnerTable(9, { emit: () => {}, lifted: () => {} });
  const withToken = stored(table, 'owner_a', 'token');
  const failing = stored(table, 'owner_b', 'failure');
  const requesting = newFlight('owner_c');
  for (const flight of [requesting, newFlight('owner_a', withToken), newFlight('owner_b', failing)])
    table.attach(flight);
  expect([...table.all()]).toEqual([withToken, failing, requesting.slot]);
  expect([table.peek('c'), table.use('c'), table.peek('d')]).toEqual([requesting.slot, requesting.slot, undefined]);
});

it('of the owners without a token, the least recently used one is evicted, and none with a token', () => {
  const { table, evicted } = tableOfTwo();
  stored(table, 'owner_t', 'token');
  for (const owner of ['owner_a', 'owner_b']) stored(table, owner, 'failure');
  table.use('a');
  table.peek('b');
  stored(table, 'owner_c', 'failure');
  expect([evicted, table.peek('b'), table.peek('t')?.held]).toEqual([['owner_b'], undefined, tokenOf('owner_t')]);
});

describe('a token that is to be replaced after a mix-up', () => {
  const mixedUp = () => {
    const { table } = tableOfTwo();
    return { table, slot: stored(table, 'owner_a', 'token') };
  };

  it('is no longer fresh', () => {
    const { table, slot } = mixedUp();
    expect(table.fresh('a', 0)).toBeDefined();
    table.replace(slot, 7);
    expect(table.fresh('a', 0)).toBeUndefined();
    expect(slot.history.rejection).toMatchObject({ kind: 'replacing', firstRejectedAtMs: 7, ageMs: undefined });
  });

  it('is also replaced for an owner that was evicted and has come back with it, in another slot', () => {
    const { table, slot } = mixedUp();
    table.forget('a');
    const back = createSlot('owner_a');
    recordSuccess(back, heldOf(tokenOf('owner_a')));
    table.store(back);
    recordSuccess(slot, heldOf(tokenOf('owner_a')));
    table.replace(slot, 7);
    expect(table.fresh('a', 0)).toBeUndefined();
  });

  it.each<[string, (table: OwnerTable, slot: Slot) => void]>([
    ['was evicted', (table) => void table.forget('a')],
    ['has another token by now', (table) => void stored(table, 'owner_b', 'token')],
    ['holds none', (_, slot) => void clearSlot(slot)],
  ])('is left alone if its owner %s', (_, change) => {
    const { table, slot } = mixedUp();
    const other = createSlot('owner_a');
    recordSuccess(other, heldOf(tokenOf('newer')));
    change(table, slot);
    if (table.peek('b')) table.store(other);
    table.replace(slot, 7);
    expect(table.peek('a')?.history.rejection).toBeUndefined();
  });
});

it('a walk over all owners goes on while they change, and misses none that stays', () => {
  const table = new OwnerTable(99, { emit: () => {}, lifted: () => {} });
  const kept = ['a', 'b', 'c', 'd'].map((owner) => stored(table, `owner_${owner}`, owner < 'c' ? 'token' : 'failure'));
  const seen = new Set<Slot>();
  for (const slot of table.all()) {
    seen.add(slot);
    table.use('a');
    table.use('c');
    table.forget('x');
    stored(table, 'owner_x', 'token');
  }
  for (const slot of kept) expect(seen).toContain(slot);
  table.clear();
  expect([...table.all()]).toEqual([]);
});

it('clearing the owner table returns the unsettled requests, even if these are read later', () => {
  const { table } = tableOfTwo();
  const flights = ['a', 'b', 'c'].map((owner) => newFlight(owner));
  for (const flight of flights) table.attach(flight);
  table.detach(flights[1] as Flight);
  const rest = table.clear();
  const anew = newFlight('a');
  table.attach(anew);
  table.detach(flights[2] as Flight);
  expect([...rest]).toEqual([flights[0], flights[2]]);
  expect(table.isCurrent(anew)).toBe(true);
});
