import { afterEach, expect, it, vi } from 'vitest';
import { nextTurn } from '../../src/clock.ts';
import type { Diagnostics } from '../../src/diagnostics.ts';
import { OwnerTokenError } from '../../src/errors.ts';
import { Flight } from '../../src/registry/flight.ts';
import { OwnerTable } from '../../src/registry/owner-table.ts';
import { endPause, recordFailure, recordSuccess, type Slot } from '../../src/registry/slot.ts';
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
  if (what === 'token') recordSuccess(slot, { token: tokenOf(owner), aheadMs: 0 });
  else recordFailure(slot, { error: new OwnerTokenError('owner_refused', 'no'), count: 1, retryAtMonotonicMs: 1 });
  table.store(slot);
  return slot;
}

const newFlight = (owner: string, slot = createSlot(owner)) => new Flight(slot, 'new', 0);

afterEach(() => vi.unstubAllGlobals());

const counts = ({ size, usable, failingCount, evictions }: OwnerTable) => [size, usable, failingCount, evictions];

it('the owners are counted with a token and failing, as they are stored', () => {
  const { table } = tableOfTwo();
  expect(counts(table)).toEqual([0, 0, 0, 0]);
  stored(table, 'owner_a', 'token');
  const slot = stored(table, 'owner_b', 'failure');
  expect(counts(table)).toEqual([2, 1, 1, 0]);
  recordSuccess(slot, { token: tokenOf('b'), aheadMs: 0 });
  table.store(slot);
  expect(counts(table)).toEqual([2, 2, 0, 0]);
  recordFailure(slot, { error: new OwnerTokenError('owner_refused', 'no'), count: 1, retryAtMonotonicMs: 1 });
  table.store(slot);
  expect(counts(table)).toEqual([2, 2, 1, 0]);
});

it('the owners that are evicted or forgotten are no longer failing', () => {
  const { table, evicted } = tableOfTwo();
  for (const owner of ['owner_a', 'owner_b', 'owner_c']) stored(table, owner, 'failure');
  expect([counts(table), evicted]).toEqual([[2, 0, 2, 1], ['owner_a']]);
  table.forget('b');
  expect(counts(table)).toEqual([1, 0, 1, 1]);
  table.clear();
  expect(counts(table)).toEqual([0, 0, 0, 1]);
});

it('the owners are failing until their pause is lifted, also while a request is in flight', () => {
  const { table } = tableOfTwo();
  const [a, b] = [stored(table, 'owner_a', 'failure'), stored(table, 'owner_b', 'failure')];
  table.attach(newFlight('a', a));
  expect([...table.failing()]).toEqual([a, b]);
  endPause(b);
  table.pauseEnded(b);
  expect([...table.failing()]).toEqual([a]);
});

it('the owners that fail are listed in the order of their first failure, those without a token first', () => {
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
  recordSuccess(b, { token: tokenOf('b'), aheadMs: 0 });
  table.store(b);
  expect([...table.failing()]).toEqual([c, withToken]);
});

it('owners are no longer failing once all are resumed, with a token or without, and twice before the first has ended', async () => {
  const resumed: string[] = [];
  const lifted = (paused: unknown) => void resumed.push((paused as Slot).owner);
  const table = new OwnerTable(1_000, { emit: () => {}, lifted });
  const names = Array.from({ length: 300 }, (_, n) => `owner_${n}`);
  for (const name of names) stored(table, name, 'failure');
  const withToken = stored(table, 'owner_with', 'token');
  recordFailure(withToken, { error: new OwnerTokenError('owner_refused', 'no'), count: 1, retryAtMonotonicMs: 1 });
  table.store(withToken);
  table.resumeAll();
  expect([...table.failing()]).toEqual([]);
  // Its turn has not come yet.
  expect(resumed).not.toContain('owner_299');
  expect(table.peek('299')?.trouble?.failure).toBeUndefined();
  table.resume(table.peek('299') as Slot);
  stored(table, 'owner_later', 'failure');
  table.resumeAll();
  expect(table.failingCount).toBe(0);
  while (resumed.length < 302) await nextTurn();
  expect([...resumed].sort()).toEqual([...names, 'owner_later', 'owner_with'].sort());
});

it('the owners that work are listed from the one used last, without those that fail', () => {
  const table = new OwnerTable(9, { emit: () => {}, lifted: () => {} });
  const [a, b, c] = ['a', 'b', 'c'].map((name) => stored(table, `owner_${name}`, 'token'));
  stored(table, 'owner_d', 'failure');
  table.use('a');
  recordFailure(b as Slot, { error: new OwnerTokenError('owner_refused', 'no'), count: 1, retryAtMonotonicMs: 1 });
  table.store(b as Slot);
  expect([...table.working()]).toEqual([a, c]);
  table.clear();
  expect([...table.working(), ...table.failing()]).toEqual([]);
});

it('the owners that fail displace none with a token', () => {
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

it('the owners give back the requests unsettled when they are cleared, even if these are read later', () => {
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
