import { describe, expect, it } from 'vitest';
import { Ledger } from '../../../../src/sandbox/state/ledger/ledger.ts';
import { ManualClock } from '../../../helpers/manual-clock.ts';

const REQUEST = { kind: 'token', method: 'POST', owner: 'owner-001' } as const;

describe('the ledger', () => {
  it('counts requests in flight, and then their outcomes, once', () => {
    const clock = new ManualClock();
    const ledger = new Ledger(clock, 10);
    const entry = ledger.open(REQUEST);
    expect(ledger.summary()).toMatchObject({ total: 1, byOutcome: { pending: 1 } });
    entry.note({ outcome: 'socket_fault', fault: 'fault-1' });
    clock.advance(30);
    entry.close('socket_fault');
    entry.close('issued');
    expect(ledger.summary().byOutcome).toEqual({ socket_fault: 1 });
    expect(ledger.entries()).toEqual([expect.objectContaining({ outcome: 'socket_fault', durationMs: 30 })]);
  });

  it('does not count what ends after it was cleared', () => {
    const ledger = new Ledger(new ManualClock(), 10);
    const entry = ledger.open(REQUEST);
    ledger.clear();
    entry.close('issued');
    expect([ledger.count(), ledger.entries(), ledger.summary().byOutcome]).toEqual([0, [], {}]);
    ledger.open(REQUEST).close('issued');
    expect([ledger.count(), ledger.entries().map(({ id }) => id)]).toEqual([1, [2]]);
  });

  it.each([
    [
      'count',
      { knd: 'token' },
      'knd: unknown option; expected one of kind, owner, outcome, wasted; did you mean kind?',
    ],
    ['entries', { owners: 'owner-001' }, 'owners: unknown option; expected one of kind, owner, outcome, wasted'],
    ['summary', { outcome: 'isued' }, 'did you mean issued?'],
  ] as const)(
    'refuses a filter with a mistyped name or value, and says which there are: %s()',
    (method, filter, problem) => {
      const ledger = new Ledger(new ManualClock(), 10);
      ledger.open(REQUEST).close('issued');
      expect(() => ledger[method](filter as object)).toThrow('ledger filter: invalid options:');
      expect(() => ledger[method](filter as object)).toThrow(problem);
      expect(ledger.count({ kind: undefined, owner: 'owner-001' } as object)).toBe(1);
    },
  );

  it('returns copies', () => {
    const ledger = new Ledger(new ManualClock(), 10);
    ledger.open(REQUEST).close('issued');
    for (const entry of [ledger.entries()[0], ledger.find(1)]) if (entry) entry.outcome = 'aborted';
    expect(ledger.count({ outcome: 'issued' })).toBe(1);
    expect(ledger.find(1)?.outcome).toBe('issued');
    expect(ledger.find(2)).toBeUndefined();
    expect(ledger.find(0)).toBeUndefined();
  });
});
