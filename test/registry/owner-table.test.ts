import { describe, expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/errors.ts';
import { Flight } from '../../src/registry/flight.ts';
import { OwnerTable } from '../../src/registry/owner-table.ts';
import { failed, lifted, type Slot, succeeded } from '../../src/registry/slot.ts';
import { tokenOf } from '../helpers/numbered-tokens.ts';
import { createSlot } from '../helpers/slots.ts';

/** A table for two owners of either kind, with the names of those evicted. */
function tableOfTwo() {
  const evicted: string[] = [];
  const table = new OwnerTable(2, { evicted: ({ owner }) => void evicted.push(owner) });
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

const counts = ({ size, usable, pausing, evictions }: OwnerTable) => [size, usable, pausing.size, evictions];

describe('the owners', () => {
  it('are counted with a token and pausing, as they are stored', () => {
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

  it('that are evicted or forgotten no longer pause', () => {
    const { table, evicted } = tableOfTwo();
    for (const owner of ['owner_a', 'owner_b', 'owner_c']) stored(table, owner, 'failure');
    expect([counts(table), evicted]).toEqual([[2, 0, 2, 1], ['owner_a']]);
    table.forget('b');
    expect(counts(table)).toEqual([1, 0, 1, 1]);
    table.clear();
    expect(counts(table)).toEqual([0, 0, 0, 1]);
  });

  it('no longer pause once a request begins, or their pause was lifted', () => {
    const { table } = tableOfTwo();
    const [a, b] = [stored(table, 'owner_a', 'failure'), stored(table, 'owner_b', 'failure')];
    table.began(new Flight('a', a));
    expect([...table.pausing]).toEqual([b]);
    lifted(b);
    table.lifted(b);
    expect(counts(table)).toEqual([2, 0, 0, 0]);
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
});
