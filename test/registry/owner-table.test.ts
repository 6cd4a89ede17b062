import { expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import { Flight } from '../../src/registry/flight.ts';
import { OwnerTable } from '../../src/registry/owner-table.ts';
import { recordFailure, recordSuccess, type Slot } from '../../src/registry/slot.ts';
import type { Diagnostics } from '../../src/reporting/diagnostics.ts';
import { at } from '../helpers/instants.ts';
import { tokenOf } from '../helpers/numbered-tokens.ts';
import { createSlot } from '../helpers/slots.ts';

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
  if (what === 'token') recordSuccess(slot, { token: tokenOf(owner), offsetMs: 0 });
  else recordFailure(slot, { error: new OwnerTokenError('owner_refused', 'no'), count: 1, retryAtMonotonicMs: 1 });
  table.store(slot);
  return slot;
}

const newFlight = (owner: string, slot = createSlot(owner)) => new Flight(slot, 'new', 0);

const counts = ({ size, usable, failingCount, evictions }: OwnerTable) => [size, usable, failingCount, evictions];

it('owners with a token, and failing ones, are counted as they are stored', () => {
  const { table } = tableOfTwo();
  expect(counts(table)).toEqual([0, 0, 0, 0]);
  stored(table, 'owner_a', 'token');
  const slot = stored(table, 'owner_b', 'failure');
  expect(counts(table)).toEqual([2, 1, 1, 0]);
  recordSuccess(slot, { token: tokenOf('b'), offsetMs: 0 });
  table.store(slot);
  expect(counts(table)).toEqual([2, 2, 0, 0]);
  recordFailure(slot, { error: new OwnerTokenError('owner_refused', 'no'), count: 1, retryAtMonotonicMs: 1 });
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

it('failing owners are listed in the order of their first failure, those without a token first', () => {
  const table = new OwnerTable(9, { emit: () => {}, lifted: () => {} });
  const again = (slot: Slot) => {
    recordFailure(slot, { error: new OwnerTokenError('owner_refused', 'no'), count: 2, retryAtMonotonicMs: 1 });
    table.store(slot);
    return slot;
  };
  const withToken = again(stored(table, 'owner_a', 'token'));
  const [b, c] = [stored(table, 'owner_b', 'failure'), stored(table, 'owner_c', 'failure')];
  again(b);
  expect([...table.failing()]).toEqual([b, c, withToken]);
  recordSuccess(b, { token: tokenOf('b'), offsetMs: 0 });
  table.store(b);
  expect([...table.failing()]).toEqual([c, withToken]);
});

it('each owner is found once: with a token, without one, by its request, or by its failure in the queue', () => {
  const table = new OwnerTable(9, { emit: () => {}, lifted: () => {} });
  const withToken = stored(table, 'owner_a', 'token');
  const failing = stored(table, 'owner_b', 'failure');
  const requesting = newFlight('owner_c');
  for (const flight of [requesting, newFlight('owner_a', withToken), newFlight('owner_b', failing)])
    table.attach(flight);
  const timedOut = [newFlight('owner_d'), newFlight('owner_b', failing), newFlight('owner_c', requesting.slot)];
  for (const flight of timedOut) {
    flight.callers.together = 1;
    table.queueFailures.refused(flight, new OwnerTokenError('queue_timeout', 'no'), at(0));
  }
  const { slot } = timedOut[0] as Flight;
  expect([...table.all()]).toEqual([withToken, failing, requesting.slot, slot]);
  expect([table.peek('d'), table.use('d')]).toEqual([slot, slot]);
  expect([...table.failing()]).toEqual([failing, slot, failing, requesting.slot]);
});

it.each<[string, (table: OwnerTable, slot: Slot) => void]>([
  ['is stored', (table, slot) => table.store(slot)],
  ['is forgotten', (table) => void table.forget('a')],
  ['is resumed', (table, slot) => table.resume(slot)],
  ['is forgotten with all others', (table) => void table.clear()],
  ['is resumed with all others', (table) => table.resumeAll()],
])('an owner whose call failed in the queue no longer counts once it %s', (_, end) => {
  const { table } = tableOfTwo();
  const flight = newFlight('owner_a');
  flight.callers.together = 1;
  table.queueFailures.refused(flight, new OwnerTokenError('queue_timeout', 'no'), at(0));
  expect([...table.failing()]).toEqual([flight.slot]);
  end(table, flight.slot);
  expect([...table.failing()]).toEqual([]);
});

it('an owner of which only a failure in the queue is known counts as known when it is forgotten', () => {
  const table = new OwnerTable(9, { emit: () => {}, lifted: () => {} });
  const flight = newFlight('owner_a');
  flight.callers.together = 1;
  table.queueFailures.refused(flight, new OwnerTokenError('queue_timeout', 'no'), at(0));
  expect([table.forget('a'), table.forget('a')]).toEqual([true, false]);
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
