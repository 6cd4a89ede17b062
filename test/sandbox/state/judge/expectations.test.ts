import { describe, expect, it } from 'vitest';
import * as expectations from '../../../../src/sandbox/state/judge/expectations.ts';
import { RunRecord, type RunStart } from '../../../../src/sandbox/state/judge/run-record.ts';
import type { LedgerEntry, Outcome } from '../../../../src/sandbox/state/ledger/ledger-entry.ts';
import { ManualClock } from '../../../helpers/manual-clock.ts';

type Request = Partial<LedgerEntry> & { readonly atMs: number };

/** A run of 60 s in which these token requests began; those that are pending have not ended. */
function recordOf(requests: readonly Request[], start: Partial<RunStart> = {}): RunRecord {
  const clock = new ManualClock(0);
  const defaults = { startedAtMs: 0, recoveryAtMs: 30_000, endsAtMs: 60_000, owner: 'owner-1', faultId: 'scenario' };
  const record = new RunRecord(clock, { ...defaults, ownersCovered: 0, inFlight: 0, ...start });
  for (const [id, { atMs, ...request }] of requests.entries()) {
    clock.advance(atMs - clock.now());
    const outcome: Outcome = 'server_error';
    const entry = {
      id,
      kind: 'token',
      method: 'POST',
      atMs,
      wasted: false,
      owner: 'owner-1',
      outcome,
      ...request,
    } as const;
    record.begun(entry);
    if (entry.outcome !== 'pending') record.ended(entry);
  }
  clock.advance(60_000 - clock.now());
  return record;
}

const met = (atMs: number, owner = 'owner-1'): Request => ({ atMs, owner, fault: 'scenario' });
const issued = (atMs: number, owner = 'owner-1'): Request => ({ atMs, owner, outcome: 'issued' });

describe('attempts within a second', () => {
  const passes = (...atMs: number[]) => expectations.spacesAttempts(recordOf(atMs.map((ms) => met(ms)))).passed;

  it('are counted up to but not including its end', () => {
    expect(passes(0, 100, 200, 300, 400, 999)).toBe(false);
    expect(passes(0, 100, 200, 300, 400, 1_000)).toBe(true);
  });
});

describe('the recovery', () => {
  const passes = (...requests: Request[]) => expectations.recovers(recordOf(requests)).passed;
  const hit = [met(0, 'a'), met(1, 'b'), met(2, 'c'), met(3, 'd')];

  it('needs tokens for half of the owners that the fault met, after its end', () => {
    expect(passes(...hit, issued(30_000, 'a'), issued(30_001, 'b'))).toBe(true);
    expect(passes(...hit, issued(30_000, 'a'), issued(30_001, 'e'))).toBe(false);
    expect(passes(...hit, issued(29_999, 'a'), issued(30_001, 'b'))).toBe(false);
  });
});

it('the owners that the fault did not meet need tokens that last until its end, half of them', () => {
  const passes = (...requests: Request[]) => expectations.servesOthers(recordOf([met(0, 'a'), ...requests])).passed;
  const held = (atMs: number, owner: string, tokenExpiresAtMs = 30_000): Request => ({
    ...issued(atMs, owner),
    tokenExpiresAtMs,
  });
  expect(passes(held(0, 'b'), issued(1, 'c'))).toBe(true);
  expect(passes(held(0, 'a'), issued(1, 'c'))).toBe(false);
  expect(passes(held(0, 'b', 29_999), issued(1, 'c'))).toBe(false);
  expect(passes(held(30_000, 'b'), issued(30_001, 'c'))).toBe(false);
  expect(passes(held(0, 'b'), issued(1, 'c'), issued(2, 'd'))).toBe(false);
});

it('others are active only by requests and tokens of their own', () => {
  const isMet = (...requests: Request[]) => expectations.othersActive(recordOf(requests)).met;
  expect(isMet(met(0), issued(59_000))).toBe(false);
  expect(isMet(met(0), issued(59_000, 'owner-2'))).toBe(true);
});

it('a request that is in flight at the end has taken as long as it has waited', () => {
  const passes = (atMs: number) => expectations.givesUpWithin(30_000)(recordOf([{ atMs, outcome: 'pending' }])).passed;
  expect([passes(29_999), passes(30_000)]).toEqual([false, true]);
});

it('requests that were in flight at the start count towards those at once', () => {
  const passes = (inFlight: number) =>
    expectations.fewAtOnce(32)(recordOf([{ atMs: 0, outcome: 'pending' }], { inFlight })).passed;
  expect([passes(31), passes(32)]).toEqual([true, false]);
});

it('the old secret may be used until 30 s before the end', () => {
  const passes = (atMs: number) => {
    const refused = { atMs, outcome: 'refused', error: 'invalid_client' } as const;
    return expectations.usesNewSecret(recordOf([issued(0), refused])).passed;
  };
  expect([passes(29_999), passes(30_000)]).toEqual([true, false]);
});
