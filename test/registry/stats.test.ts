import { describe, expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/errors.ts';
import type { Pause } from '../../src/failures/backoff.ts';
import { FailureScopes } from '../../src/failures/failure-scopes.ts';
import { failed, type Slot, type Surroundings, succeeded } from '../../src/registry/slot.ts';
import { ownerState, pauseInForce, pauseStats } from '../../src/registry/stats.ts';
import { AccessToken } from '../../src/token.ts';
import { at } from '../helpers/instants.ts';
import { createSlot } from '../helpers/slots.ts';

const ALONE: Surroundings = { requesting: false, circuitPause: undefined };

/** Due for a refresh at 600, past its end at 950. */
function slotWith(facts: { token?: boolean; failure?: Pause }): Slot {
  const slot = createSlot('owner_x');
  const [issuedAtMs, refreshAtMs, expiresAtMs] = [1_000_000, 1_000_600, 1_000_950];
  const token = new AccessToken({
    ...{ value: 'v', tokenType: 'Bearer', fingerprint: 'token_v', issuedAtMs, refreshAtMs, expiresAtMs },
  });
  if (facts.token) succeeded(slot, { token, aheadMs: 0 });
  if (facts.failure) failed(slot, facts.failure);
  return slot;
}

const pauseUntil = (retryAtMonotonicMs: number, code: 'owner_refused' | 'rate_limited' = 'owner_refused'): Pause => ({
  error: new OwnerTokenError(code, 'no', { failedAtMs: 5 }),
  count: 2,
  retryAtMonotonicMs,
});

describe('an owner’s state', () => {
  it('is its phase alone where nothing is held', () => {
    expect(ownerState(slotWith({}), at(0), ALONE)).toEqual({ phase: 'empty' });
  });

  it('tells the end of a token that is usable, and of no other', () => {
    const slot = slotWith({ token: true });
    expect(ownerState(slot, at(949), ALONE)).toEqual({ phase: 'refresh-due', expiresAtMs: 1_000_950 });
    expect(ownerState(slot, at(950), ALONE)).toEqual({ phase: 'expired' });
    expect(ownerState(slot, at(950), { ...ALONE, requesting: true })).toEqual({ phase: 'requesting' });
  });

  it('tells the pause that ends last, its own or that of all', () => {
    const slot = slotWith({ failure: pauseUntil(700) });
    const pausedUntil = (ms: number) => ({ ...ALONE, circuitPause: pauseUntil(ms, 'rate_limited') });
    const own = { phase: 'backing-off', code: 'owner_refused', retryAtMs: 1_000_700 };
    expect(ownerState(slot, at(0), ALONE)).toEqual(own);
    expect(ownerState(slot, at(0), pausedUntil(699))).toEqual(own);
    expect(ownerState(slot, at(0), pausedUntil(701))).toEqual({
      ...{ phase: 'backing-off', code: 'rate_limited', retryAtMs: 1_000_701 },
    });
  });
});

describe('the pause in force', () => {
  it('is the one that ends last, the circuit’s of two that end together, and either where there is only one', () => {
    const [early, late, alike] = [pauseUntil(1), pauseUntil(2), pauseUntil(2)];
    const inForce = (own: Pause | undefined, circuitPause: Pause | undefined) =>
      pauseInForce(slotWith({ ...(own && { failure: own }) }), at(0), { ...ALONE, circuitPause });
    expect(inForce(early, late)).toBe(late);
    expect(inForce(late, early)).toBe(late);
    expect(inForce(late, alike)).toBe(alike);
    expect(inForce(early, undefined)).toBe(early);
    expect(inForce(undefined, early)).toBe(early);
    expect(inForce(undefined, undefined)).toBeUndefined();
  });

  it('is no backoff that has ended', () => {
    expect(pauseInForce(slotWith({ failure: pauseUntil(1) }), at(1), ALONE)).toBeUndefined();
  });
});

describe('the circuits', () => {
  const error = new OwnerTokenError('rate_limited', 'no', { failedAtMs: 5, retryAfterMs: 2_000 });
  const ranges = { baseMs: 1_000, capMs: 1_000 };

  it('are told in plain numbers while they are not closed', () => {
    const failures = new FailureScopes({
      requestTimeoutMs: 30_000,
      ...{ ranges: { owner: ranges, client: ranges, endpoint: ranges }, concurrency: { initial: 1, min: 1, max: 1 } },
      ...{ requestsPerSecond: undefined, random: () => 0.5 },
    });
    expect(pauseStats(failures, at(0))).toEqual({});
    const permit = failures.admit(100, 'new', 1);
    const at100 = { nowMs: 100, sentAtMs: 100, resends: 0, isOnlyRequest: true };
    if (permit) failures.failed({ permit, error, owner: 'a', ownerFailures: 0, ...at100 });
    expect(pauseStats(failures, at(100))).toEqual({
      endpoint: { code: 'rate_limited', failedAtMs: 5, retryAtMs: 1_002_100, failures: 1, probing: false },
    });
  });
});
