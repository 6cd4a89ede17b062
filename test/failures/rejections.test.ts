import { describe, expect, it } from 'vitest';
import {
  afterAcceptance,
  afterArrival,
  afterRejection,
  afterResume,
  type RejectionState,
} from '../../src/failures/rejections.ts';
import { AccessToken } from '../../src/token.ts';
import { at } from '../helpers/instants.ts';

const CAP_MS = 300_000;
const old = new AccessToken({
  value: 'old',
  tokenType: 'Bearer',
  fingerprint: 'token_old',
  issuedAtMs: 0,
  refreshAtMs: 1,
  expiresAtMs: 2,
});

function reject(
  state: RejectionState | undefined,
  nowMs: number,
  more: { hasAccepts?: boolean; capMs?: number; elsewhere?: boolean } = {},
) {
  const slot = { owner: 'owner_x' };
  return afterRejection(state, { now: at(nowMs), ageMs: 7, hasAccepts: true, capMs: CAP_MS, slot, ...more });
}

/** A token that arrived at 1,000, after this many others in a row that were kept. */
function unproven(rejectedBefore = 0): RejectionState {
  let state = afterArrival(reject(undefined, 900), old, 900, 1_000) as RejectionState;
  for (let left = rejectedBefore; left > 0; left--)
    state = afterArrival(reject(state, 1_000), old, 1_000, 1_000) as RejectionState;
  return state;
}

describe('a rejection', () => {
  it('of a token that nothing is known about has it replaced', () => {
    expect(reject(undefined, 5)).toEqual({ kind: 'replacing', streak: undefined, firstRejectedAtMs: 5, ageMs: 7 });
  });

  it('in another process has a token replaced that is unproven or kept, and the streak goes on', () => {
    const kept = reject(unproven(1), 1_100);
    expect(kept.kind).toBe('kept');
    for (const state of [kept, unproven(1)]) {
      expect(reject(state, 1_200, { elsewhere: true })).toMatchObject({ kind: 'replacing', streak: state.streak });
    }
  });

  it('of a token that is being replaced changes nothing', () => {
    const state = reject(undefined, 5);
    expect(reject(state, 6)).toBe(state);
    expect(reject(state, 6, { elsewhere: true })).toBe(state);
  });

  it.each([
    [0, 11_000],
    [1, 21_000],
    [4, 161_000],
    [5, 301_000],
    [60, 301_000],
  ])('of a replacement after %i in a row has it kept until %i, from its arrival at 1,000', (before, untilMs) => {
    const state = reject(unproven(before), 1_040);
    expect(state).toMatchObject({ kind: 'kept', untilMs, firstRejectedAtMs: 1_040 });
    expect(state.streak).toMatchObject({ count: before + 1, retryAtMonotonicMs: untilMs });
    expect(state.streak?.error).toMatchObject({ code: 'token_rejected', owner: 'owner_x', failureScope: 'owner' });
    expect(state.streak?.error.message).toContain(`${before + 1} in a row`);
  });

  it.each([
    ['ten seconds after its arrival', true, 10_999, 11_000],
    ['a second after it, if nobody reports accepted calls', false, 1_999, 2_000],
  ])('of a replacement has it replaced from %s on', (_, hasAccepts, soonMs, lateMs) => {
    expect(reject(unproven(2), soonMs, { hasAccepts })).toMatchObject({ kind: 'kept' });
    expect(reject(unproven(2), lateMs, { hasAccepts })).toMatchObject({ kind: 'replacing', streak: undefined });
  });

  it('of a replacement that is to be kept for less than has passed already has it replaced', () => {
    expect(reject(unproven(), 1_499, { capMs: 500 })).toMatchObject({ kind: 'kept', untilMs: 1_500 });
    expect(reject(unproven(), 1_500, { capMs: 500 })).toMatchObject({ kind: 'replacing' });
  });

  it('of a token that is kept changes nothing before its time is over, and then has it replaced in the same streak', () => {
    const kept = reject(unproven(), 1_040);
    expect(reject(kept, 10_999)).toBe(kept);
    expect(reject(kept, 11_000)).toMatchObject({ kind: 'replacing', streak: kept.streak, firstRejectedAtMs: 1_040 });
  });
});

describe('an accepted call', () => {
  it('clears a replacement', () => {
    expect(afterAcceptance(unproven(1), 2_000)).toBeUndefined();
  });

  it('restores a rejected token, whose next rejection has it replaced again', () => {
    const restored = afterAcceptance(reject(undefined, 5), 50);
    expect(restored).toMatchObject({ kind: 'kept', streak: undefined, untilMs: 50 });
    expect(reject(restored, 50)).toMatchObject({ kind: 'replacing', firstRejectedAtMs: 5 });
  });

  it('shows that a rejection was no evidence of how long the token lives', () => {
    expect(afterArrival(afterAcceptance(reject(undefined, 5), 50) as RejectionState, old, 60, 70)).toMatchObject({
      replaced: undefined,
    });
  });

  it('ends the streak of a kept token, which stays kept for its time', () => {
    const kept = afterAcceptance(reject(unproven(1), 1_040), 2_000) as RejectionState;
    expect(kept).toMatchObject({ kind: 'kept', streak: undefined, untilMs: 21_000 });
    expect(afterAcceptance(kept, 2_001)).toBe(kept);
    expect(reject(kept, 20_999)).toBe(kept);
  });
});

describe('a newer token', () => {
  it('is unproven if its request was sent at the first rejection or after it', () => {
    const state = reject(undefined, 900);
    const replaced = { token: old, ageMs: 7 };
    expect(afterArrival(state, old, 900, 1_000)).toEqual({
      kind: 'unproven',
      streak: undefined,
      arrivedAtMs: 1_000,
      replaced,
    });
    expect(afterArrival(state, undefined, 900, 1_000)).toMatchObject({ replaced: undefined });
    expect(afterArrival(state, old, 899, 1_000)).toBeUndefined();
  });

  it('is in the streak of a kept token that it replaces, even ahead of its time', () => {
    const kept = reject(unproven(), 1_040);
    expect(afterArrival(kept, old, 1_040, 2_000)).toMatchObject({
      kind: 'unproven',
      streak: kept.streak,
      replaced: undefined,
    });
    const replacing = reject(kept, 11_000);
    expect(afterArrival(replacing, old, 11_000, 12_000)).toMatchObject({ streak: kept.streak, replaced: undefined });
  });

  it('clears what is known if no token before it was rejected', () => {
    expect(afterArrival(unproven(1), old, 1, 2)).toBeUndefined();
  });
});

describe('resuming the owner', () => {
  it('has a kept token replaced, which is no evidence of how long it lived', () => {
    const state = afterResume(reject(unproven(2), 1_040));
    expect(state).toMatchObject({ kind: 'replacing', streak: undefined, firstRejectedAtMs: 1_040 });
    expect(afterArrival(state, old, 2_000, 2_100)).toMatchObject({
      kind: 'unproven',
      streak: undefined,
      replaced: undefined,
    });
  });

  it('ends the streak of any other, and nothing else', () => {
    expect(afterResume(unproven(1))).toEqual({ ...unproven(1), streak: undefined });
    const alone = reject(undefined, 5);
    expect(afterResume(alone)).toBe(alone);
  });
});
