import { expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import { Flight } from '../../src/registry/flight.ts';
import { QueueFailures } from '../../src/registry/queue-failures.ts';
import { recordSuccess } from '../../src/registry/slot.ts';
import { at } from '../helpers/instants.ts';
import { tokenOf } from '../helpers/numbered-tokens.ts';
import { createSlot } from '../helpers/slots.ts';

const error = (code: 'queue_full' | 'queue_timeout' | 'client_refused') => new OwnerTokenError(code, 'no');

/** A request that `waiting` calls wait for. */
function flightOf(owner: string, waiting = 1): Flight {
  const flight = new Flight(createSlot(owner), 'new', 0);
  flight.callers.together = waiting;
  return flight;
}

const names = (failures: QueueFailures) => Array.from(failures.slots(), ({ owner }) => owner);

it('failures in the queue are counted by call, and the others are not', () => {
  const failures = new QueueFailures();
  failures.refused(flightOf('owner_a', 3), error('queue_full'), at(0));
  failures.refused(flightOf('owner_b', 2), error('queue_timeout'), at(0));
  failures.refused(flightOf('owner_c', 9), error('client_refused'), at(0));
  failures.started(flightOf('owner_d', 4), 1_000);
  failures.started(flightOf('owner_e', 5), 1_001);
  expect(failures.counts).toEqual({ late: 5, queueFull: 3, queueTimeouts: 2 });
  expect(names(failures)).toEqual(['owner_a', 'owner_b']);
});

it('an owner counts as failing in the queue if a call of it failed there', () => {
  const failures = new QueueFailures();
  failures.refused(flightOf('owner_a', 0), error('queue_full'), at(0));
  const rejected = flightOf('owner_b');
  recordSuccess(rejected.slot, { token: tokenOf('b'), offsetMs: 0 });
  failures.refused(rejected, error('queue_timeout'), at(0));
  expect(names(failures)).toEqual([]);
});

it('an owner that fails in the queue again keeps the time of its first failure', () => {
  const failures = new QueueFailures();
  const flight = flightOf('owner_a');
  failures.refused(flight, error('queue_timeout'), at(5));
  failures.refused(flight, error('queue_full'), at(9));
  const { accessKey } = flight;
  expect(failures.of(accessKey)).toMatchObject({ count: 2, sinceMs: 5, error: { code: 'queue_full' } });
  failures.delete(accessKey);
  expect(failures.of(accessKey)).toBeUndefined();
});

it('owners that failed in the queue are forgotten half a minute later, unless it is still long', () => {
  const failures = new QueueFailures();
  failures.refused(flightOf('owner_a'), error('queue_timeout'), at(0));
  failures.refused(flightOf('owner_b'), error('queue_timeout'), at(10_000));
  failures.expire(1_000, at(60_000));
  expect(names(failures)).toEqual(['owner_a', 'owner_b']);
  failures.expire(999, at(30_000));
  expect(names(failures)).toEqual(['owner_b']);
  failures.expire(999, at(40_000));
  expect(names(failures)).toEqual([]);
});

it('at most 10,000 owners are remembered that failed in the queue, those that failed last', () => {
  const failures = new QueueFailures();
  for (let n = 0; n <= 10_000; n++) failures.refused(flightOf(`owner_${n}`), error('queue_full'), at(n));
  expect([names(failures).length, names(failures)[0]]).toEqual([10_000, 'owner_1']);
  failures.clear();
  expect(names(failures)).toEqual([]);
});
