import { describe, expect, it } from 'vitest';
import {
  faultKindWord,
  faultWord,
  isActive,
  leftWord,
  outcomeWord,
  plural,
  spanWord,
  targetWord,
  whenWord,
} from '../../../../src/sandbox/portal/page/words.ts';
import { FAULT_KIND_NAMES } from '../../../../src/sandbox/state/fault-kinds.ts';
import type { ActiveFault } from '../../../../src/sandbox/state/fault-rules.ts';
import { OUTCOMES } from '../../../../src/sandbox/state/ledger-entry.ts';
import { MARK_KINDS, markOf } from '../../../../src/sandbox/state/marks.ts';

describe('words', () => {
  it('has a mark and a word for every outcome, and a word for every kind of fault', () => {
    for (const outcome of OUTCOMES) {
      expect(MARK_KINDS).toContain(markOf({ outcome, wasted: false }));
      expect(outcomeWord({ outcome, wasted: false })).toMatch(/\w/);
    }
    for (const kind of FAULT_KIND_NAMES) expect(faultKindWord(kind)).toMatch(/^[A-Z]/);
  });

  it('marks a request as wasted only where it was given a token', () => {
    expect(markOf({ outcome: 'issued', wasted: true })).toBe('wasted');
    expect(markOf({ outcome: 'server_error', wasted: true })).toBe('error');
  });

  it.each([
    [0, '0 ms'],
    [0.42, '0.4 ms'],
    [850, '850 ms'],
    [1500, '1.5 s'],
    [12_400, '12 s'],
    [59_999, '60 s'],
    [180_000, '3 min'],
    [4_800_000, '1 h 20 min'],
    [7_200_000, '2 h'],
    [86_400_000 * 3, '3 days'],
  ])('says %d ms as %s', (ms, word) => expect(spanWord(ms)).toBe(word));

  it('counts with the right word', () => {
    expect([plural(1, 'owner'), plural(0, 'owner'), plural(1200, 'owner')]).toEqual([
      '1 owner',
      '0 owners',
      '1,200 owners',
    ]);
  });
});

describe('a fault in words', () => {
  const rule = (changes: Partial<ActiveFault>): ActiveFault =>
    ({
      id: 'f',
      kind: 'silence',
      target: {},
      when: { always: true },
      addedAtMs: 1000,
      hits: 0,
      ...changes,
    }) as ActiveFault;

  it('shows the member that matters most, in its unit', () => {
    expect(faultWord(rule({ kind: 'status', status: 503 }))).toBe('Error status 503');
    expect(faultWord(rule({ kind: 'latency', ms: 1500 }))).toBe('Latency 1.5 s');
    expect(faultWord(rule({ kind: 'stall', at: 'after_headers' }))).toBe('Stall after headers');
    expect(faultWord(rule({ kind: 'garbage' }))).toBe('Garbage');
  });

  it('says when it applies', () => {
    expect(whenWord({ next: 5 })).toBe('next 5');
    expect(whenWord({ over: 10, perMs: 10_000 })).toBe('over 10 in 10 s');
    expect(whenWord({ schedule: [[0, 30_000]], everyMs: 60_000 })).toBe('first 30 s, every 1 min');
    expect(whenWord({ probability: 0.125 })).toBe('12.5 % of the time');
    expect(whenWord({ always: true })).toBe('always');
  });

  it('says whom it is aimed at, by the defaults of its kind', () => {
    expect(targetWord({}, 'silence')).toBe('token requests');
    expect(targetWord({}, 'refuse')).toBe('everything');
    expect(targetWord({ path: 'echo', owner: 'owner-001' }, 'silence')).toBe('calls to /echo of owner-001');
  });

  it('says what is left of it: requests, time, or nothing', () => {
    expect(leftWord(rule({ when: { next: 5 }, left: { requests: 2 } }), 0)).toBe('2 left');
    const outage = rule({ when: { schedule: [[0, 30_000]] } });
    expect(leftWord(outage, 11_500)).toBe('20 s left');
    expect(leftWord(rule({}), 0)).toBe('until removed');
    expect(isActive(outage, 30_999)).toBe(true);
    expect(isActive(outage, 31_000)).toBe(false);
    expect(isActive(rule({ when: { next: 5 }, left: { requests: 0 } }), 0)).toBe(false);
  });
});
