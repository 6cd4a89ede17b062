import { describe, expect, it } from 'vitest';
import type { Instant } from '../../src/clock.ts';
import { OwnerTokenError } from '../../src/errors.ts';
import type { Pause } from '../../src/failures/backoff.ts';
import { createSlot, type HeldToken, type Slot, succeeded } from '../../src/registry/slot.ts';
import { countOwners, laterPause, ownerState, pauseStat } from '../../src/registry/stats.ts';
import { AccessToken } from '../../src/token.ts';

/** The wall clock is a million ahead of the monotonic one. */
const at = (monotonicMs: number): Instant => ({ wallMs: 1_000_000 + monotonicMs, monotonicMs });
const ALONE = { underWay: false, paused: false };

/** Due for a refresh at 600, past its end at 950. */
function slotWith(facts: { token?: boolean; failure?: Pause }): Slot {
  const slot = createSlot('owner_x');
  const [issuedAtMs, refreshAtMs, expiresAtMs] = [1_000_000, 1_000_600, 1_000_950];
  const token = new AccessToken({
    ...{ value: 'v', tokenType: 'Bearer', fingerprint: 'token_v', issuedAtMs, refreshAtMs, expiresAtMs },
  });
  const held: HeldToken = {
    ...{ token, served: Promise.resolve(token) },
    ...{ issuedAtMonotonicMs: 0, refreshAtMonotonicMs: 600, expiresAtMonotonicMs: 950 },
  };
  if (facts.token) succeeded(slot, 0, held);
  slot.failure = facts.failure;
  return slot;
}

const pauseUntil = (retryAtMonotonicMs: number, code: 'owner_refused' | 'rate_limited' = 'owner_refused'): Pause => ({
  error: new OwnerTokenError(code, 'no', { failedAtMs: 5 }),
  count: 2,
  retryAtMonotonicMs,
});

describe('an owner’s state', () => {
  it('is its phase alone where nothing is held', () => {
    expect(ownerState(slotWith({}), at(0), ALONE, undefined)).toEqual({ phase: 'empty' });
  });

  it('tells the end of a token that is usable, and of no other', () => {
    const slot = slotWith({ token: true });
    expect(ownerState(slot, at(949), ALONE, undefined)).toEqual({ phase: 'refresh-due', expiresAtMs: 1_000_950 });
    expect(ownerState(slot, at(950), ALONE, undefined)).toEqual({ phase: 'expired' });
    expect(ownerState(slot, at(950), { underWay: true, paused: false }, undefined)).toEqual({ phase: 'requesting' });
  });

  it('tells the pause that ends last, its own or that of all', () => {
    const slot = slotWith({ failure: pauseUntil(700) });
    const paused = { underWay: false, paused: true };
    const own = { phase: 'backing-off', code: 'owner_refused', retryAtMs: 1_000_700 };
    expect(ownerState(slot, at(0), ALONE, undefined)).toEqual(own);
    expect(ownerState(slot, at(0), paused, pauseUntil(699, 'rate_limited'))).toEqual(own);
    expect(ownerState(slot, at(0), paused, pauseUntil(701, 'rate_limited'))).toEqual({
      ...{ phase: 'backing-off', code: 'rate_limited', retryAtMs: 1_000_701 },
    });
  });
});

describe('of two pauses', () => {
  it('the later one counts, the first of two that end together, and either where there is only one', () => {
    const [a, b, c] = [pauseUntil(1), pauseUntil(2), pauseUntil(2)];
    expect(laterPause(a, b)).toBe(b);
    expect(laterPause(b, a)).toBe(b);
    expect(laterPause(b, c)).toBe(b);
    expect(laterPause(a, undefined)).toBe(a);
    expect(laterPause(undefined, a)).toBe(a);
    expect(laterPause(undefined, undefined)).toBeUndefined();
  });
});

describe('a pause of all owners', () => {
  it('is told in plain numbers', () => {
    expect(pauseStat({ pause: pauseUntil(700, 'rate_limited'), probing: true }, at(100))).toEqual({
      ...{ code: 'rate_limited', failedAtMs: 5, retryAtMs: 1_000_700, failures: 2, probing: true },
    });
  });
});

describe('owners', () => {
  it('are counted by what they have now', () => {
    const slots = [
      slotWith({ token: true }),
      slotWith({ token: true, failure: pauseUntil(700) }),
      slotWith({ failure: pauseUntil(701) }),
      slotWith({}),
    ];
    expect(countOwners(slots, at(0))).toEqual({ usable: 2, pausing: 2 });
    expect(countOwners(slots, at(700))).toEqual({ usable: 2, pausing: 1 });
    expect(countOwners(slots, at(950))).toEqual({ usable: 0, pausing: 0 });
  });
});
