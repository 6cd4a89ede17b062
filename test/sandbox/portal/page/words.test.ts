import { describe, expect, it } from 'vitest';
import { isActive, leftWord, targetWord, whyWord } from '../../../../src/sandbox/portal/page/words.ts';
import { type LedgerEntry, OUTCOMES } from '../../../../src/sandbox/state/ledger/ledger-entry.ts';
import { markOf } from '../../../../src/sandbox/state/ledger/marks.ts';
import type { ActiveFault } from '../../../../src/sandbox/state/world/fault-rules.ts';

describe('the page', () => {
  it('marks a request as wasted only if it was given a token', () => {
    expect(markOf({ outcome: 'issued', wasted: true })).toBe('wasted');
    expect(markOf({ outcome: 'server_error', wasted: true })).toBe('error');
  });
});

describe('why a request failed', () => {
  const entry = (changes: Partial<LedgerEntry>): LedgerEntry => {
    return { id: 1, kind: 'token', atMs: 0, method: 'POST', outcome: 'issued', wasted: false, ...changes };
  };

  it('is explained for every outcome that is a failure, and for no other', () => {
    const fine = ['issued', 'accepted', 'pending'];
    const said = OUTCOMES.filter((outcome) => whyWord(entry({ outcome })) !== undefined);
    expect(said).toEqual(OUTCOMES.filter((outcome) => !fine.includes(outcome)));
  });

  it.each<[Partial<LedgerEntry>, string]>([
    [
      { outcome: 'refused', description: 'client_secret is not the secret of this client' },
      'Client_secret is not the secret of this client.',
    ],
    [{ kind: 'echo', outcome: 'rejected', error: 'token_expired' }, 'The token had expired.'],
    [
      { outcome: 'rate_limited', retryAfterSeconds: 7, faultKind: 'status' },
      'The client sent more requests than allowed. It was told to wait 7 s. Cause: the fault “Error status”.',
    ],
    [
      { outcome: 'aborted', durationMs: 1500, faultKind: 'silence' },
      'The client closed the connection after 1.5 s. Cause: the fault “Black hole”.',
    ],
  ])('is explained in sentences, with its cause (%#)', (changes, why) => expect(whyWord(entry(changes))).toBe(why));
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

  it('says which requests it meets', () => {
    expect(targetWord({ share: 0.2 }, 'status')).toBe('token requests of 20 % of the owners');
    expect(targetWord({ path: 'all', owner: 'owner-001' }, 'status')).toBe('everything of owner-001');
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
