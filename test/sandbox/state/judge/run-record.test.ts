import { describe, expect, it } from 'vitest';
import { RunRecord } from '../../../../src/sandbox/state/judge/run-record.ts';
import type { LedgerEntry } from '../../../../src/sandbox/state/ledger/ledger-entry.ts';
import { ManualClock } from '../../../helpers/manual-clock.ts';

const START = { recoveryAtMs: 0, endsAtMs: 0, owner: undefined, faultId: 'scenario', ownersCovered: 0, inFlight: 0 };

describe('a wait that a 429 demands', () => {
  /** Which requests were early: `[at, retryAfterSeconds]` is one at this time after the first, with this answer. */
  function earlyOf(...requests: [atMs: number, retryAfterSeconds?: number][]): boolean[] {
    const clock = new ManualClock();
    const startedAtMs = clock.now();
    const record = new RunRecord(clock, { ...START, startedAtMs });
    for (const [id, [atMs, retryAfterSeconds]] of requests.entries()) {
      clock.advance(startedAtMs + atMs - clock.now());
      const entry: LedgerEntry = {
        id,
        kind: 'token',
        method: 'POST',
        atMs: clock.now(),
        outcome: 'pending',
        wasted: false,
        owner: 'owner-1',
      };
      record.begun(entry);
      const answer = retryAfterSeconds === undefined ? 'issued' : 'rate_limited';
      record.ended({ ...entry, outcome: answer, ...(retryAfterSeconds !== undefined && { retryAfterSeconds }) });
    }
    return record.requests.map(({ isEarly }) => isEarly);
  }

  it('includes its last millisecond, and ends with it', () => {
    expect(earlyOf([0, 10], [9_999])).toEqual([false, true]);
    expect(earlyOf([0, 10], [10_000])).toEqual([false, false]);
  });

  it('excuses the requests of its first second, whose client may not have read the answer', () => {
    expect(earlyOf([0, 10], [1_000, 10], [1_001, 10])).toEqual([false, false, true]);
  });

  it('begins with the first 429 and ends with the latest end that any of them named', () => {
    expect(earlyOf([0, 10], [500, 2], [5_000])).toEqual([false, false, true]);
    expect(earlyOf([0, 2], [500, 10], [5_000])).toEqual([false, false, true]);
    expect(earlyOf([0, 2], [500, 3], [3_500])).toEqual([false, false, false]);
  });

  it('says nothing about the next one once it has ended', () => {
    expect(earlyOf([0, 2], [4_000, 10], [4_500], [6_000])).toEqual([false, false, false, true]);
  });
});
