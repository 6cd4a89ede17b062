import { describe, expect, it } from 'vitest';
import type { Instant } from '../../src/clock.ts';
import { OwnerTokenError } from '../../src/errors.ts';
import {
  createSlot,
  decide,
  type Failure,
  failed,
  forgotten,
  type HeldToken,
  isFresh,
  isUsable,
  pauseOf,
  phaseOf,
  rejected,
  remembered,
  type Slot,
  started,
  succeeded,
} from '../../src/registry/slot.ts';
import { AccessToken } from '../../src/token.ts';

/** The wall clock is a million ahead of the monotonic one, unless it jumped. */
const at = (monotonicMs: number, jumpedMs = 0): Instant => ({
  wallMs: 1_000_000 + monotonicMs + jumpedMs,
  monotonicMs,
});

/** A token issued at 0, due for a refresh at 600 and past its end at 950. */
function heldToken(value = 'one', life: { lifetimeMs?: number; issuedAtMs?: number } = {}): HeldToken {
  const { lifetimeMs = 1000, issuedAtMs = 0 } = life;
  const [refreshAt, expiresAt] = [issuedAtMs + lifetimeMs * 0.6, issuedAtMs + lifetimeMs * 0.95];
  const token = new AccessToken({
    value,
    tokenType: 'Bearer',
    fingerprint: `token_${value}`,
    issuedAtMs: 1_000_000 + issuedAtMs,
    refreshAtMs: 1_000_000 + refreshAt,
    expiresAtMs: 1_000_000 + expiresAt,
  });
  return {
    token,
    served: Promise.resolve(token),
    issuedAtMonotonicMs: issuedAtMs,
    refreshAtMonotonicMs: refreshAt,
    expiresAtMonotonicMs: expiresAt,
  };
}

const failureUntil = (retryAtMonotonicMs: number): Failure => ({
  error: new OwnerTokenError('endpoint_unavailable', 'down'),
  count: 1,
  retryAtMonotonicMs,
});

function slotWith(facts: { held?: HeldToken; failure?: Failure }): Slot {
  const slot = createSlot('owner_x');
  if (facts.held) succeeded(slot, 0, facts.held);
  if (facts.failure) failed(slot, 0, facts.failure);
  return slot;
}

const ALONE = { underWay: false, paused: false };

describe('the held token', () => {
  it('is fresh up to its refresh point, usable up to its end, by the clock that gets there first', () => {
    const slot = slotWith({ held: heldToken() });
    expect([599, 600].map((ms) => isFresh(slot, at(ms)))).toEqual([true, false]);
    expect([949, 950].map((ms) => isUsable(slot.held, at(ms)))).toEqual([true, false]);
    expect(isFresh(slot, at(0, 599))).toBe(true);
    expect(isFresh(slot, at(0, 600))).toBe(false);
    expect(isFresh(slot, at(600, -500))).toBe(false);
    expect(isUsable(slot.held, at(0, 950))).toBe(false);
    expect(isUsable(slot.held, at(950, -900))).toBe(false);
    expect(isUsable(undefined, at(0))).toBe(false);
  });

  it('is none in a new slot, and nothing else is known there', () => {
    const slot = createSlot('owner_x');
    expect(isFresh(slot, at(-1e12))).toBe(false);
    expect(slot).toMatchObject({ owner: 'owner_x', held: undefined, failure: undefined, rejected: [], generation: 0 });
  });
});

describe('the table of phases', () => {
  const held = heldToken();
  const failure = failureUntil(2000);
  const underWay = { underWay: true, paused: false };
  const paused = { underWay: false, paused: true };
  it.each([
    ['fresh', 'serve', { held }, 0, ALONE],
    ['fresh', 'serve', { held, failure }, 0, { underWay: true, paused: true }],
    ['refresh-due', 'serve-and-refresh', { held }, 700, ALONE],
    ['refresh-due', 'serve', { held }, 700, underWay],
    ['refresh-due', 'serve', { held }, 700, paused],
    ['refresh-due', 'serve', { held, failure }, 700, ALONE],
    ['refresh-due', 'serve-and-refresh', { held, failure: failureUntil(700) }, 700, ALONE],
    ['requesting', 'wait', {}, 0, underWay],
    ['requesting', 'wait', { held, failure }, 1000, { underWay: true, paused: true }],
    ['backing-off', 'refuse', { failure }, 1999, ALONE],
    ['backing-off', 'refuse', {}, 0, paused],
    ['backing-off', 'refuse', { held, failure }, 1000, ALONE],
    ['expired', 'request', { held }, 950, ALONE],
    ['expired', 'request', { held, failure }, 2000, ALONE],
    ['empty', 'request', {}, 0, ALONE],
    ['empty', 'request', { failure }, 2000, ALONE],
  ] as const)('%s: %s', (phase, decision, facts, ms, around) => {
    const slot = slotWith(facts);
    expect(phaseOf(slot, at(ms), around)).toBe(phase);
    expect(decide(slot, at(ms), around)).toBe(decision);
  });

  it('knows the pause that is in force, and no other', () => {
    expect(pauseOf(slotWith({ failure }), at(1999))).toBe(failure);
    expect(pauseOf(slotWith({ failure }), at(2000))).toBeUndefined();
    expect(pauseOf(slotWith({}), at(0))).toBeUndefined();
  });
});

describe('a request', () => {
  it('says why it is made, and lets an expired token go', () => {
    const slot = slotWith({});
    expect(started(slot, at(0))).toBe('absent');
    succeeded(slot, 0, heldToken());
    expect(started(slot, at(700))).toBe('refresh');
    expect(slot.held).toBeDefined();
    slot.quickRejections = 2;
    expect(started(slot, at(950))).toBe('expired');
    expect(slot.held).toBeUndefined();
    expect(slot.quickRejections).toBe(0);
    slot.lastRejected = heldToken().token;
    expect(started(slot, at(950))).toBe('rejected');
  });

  it('that succeeds puts its token in the place of all that was known', () => {
    const slot = slotWith({ failure: failureUntil(2000) });
    slot.lastRejected = heldToken('old').token;
    const held = heldToken('new');
    expect(succeeded(slot, 0, held)).toBe(true);
    expect(slot).toMatchObject({ held, failure: undefined, lastRejected: undefined, served: held.served });
    expect(slot).toMatchObject({ freshUntilMs: 1_000_600, freshUntilMonotonicMs: 600 });
  });

  it('of an earlier generation is neither kept nor remembered', () => {
    const slot = slotWith({ held: heldToken() });
    rejected(slot, slot.held as HeldToken, at(10));
    expect(succeeded(slot, 0, heldToken('late'))).toBe(false);
    expect(failed(slot, 0, failureUntil(50))).toBe(false);
    expect(slot).toMatchObject({ held: undefined, failure: undefined });
    expect(isFresh(slot, at(10))).toBe(false);
  });

  it('that fails leaves a usable token alone', () => {
    const held = heldToken();
    const failure = failureUntil(2000);
    const slot = slotWith({ held });
    expect(failed(slot, 0, failure)).toBe(true);
    expect(slot).toMatchObject({ held, failure });
  });
});

describe('a rejection', () => {
  it('drops the token, remembers it as the last, and begins a new generation', () => {
    const held = heldToken();
    const slot = slotWith({ held });
    rejected(slot, held, at(500));
    expect(slot).toMatchObject({ held: undefined, lastRejected: held.token, generation: 1, served: undefined });
    expect(isFresh(slot, at(0))).toBe(false);
  });

  it('is quick within a tenth of the life and ten seconds; in a row they are counted', () => {
    const quick = (lifetimeMs: number, atMs: number, issuedAtMs = 0) => {
      const slot = slotWith({});
      slot.quickRejections = 1;
      const held = heldToken('t', { lifetimeMs, issuedAtMs });
      rejected(slot, held, at(atMs));
      return slot.quickRejections;
    };
    // Counted over the life that is served: 950 of 1000.
    expect([95, 96].map((ms) => quick(1000, ms))).toEqual([2, 0]);
    expect([10_000, 10_001].map((ms) => quick(3_600_000, ms))).toEqual([2, 0]);
    // Counted from when it was issued.
    expect([5_095, 5_096].map((ms) => quick(1000, ms, 5_000))).toEqual([2, 0]);
    expect([10_000, 10_001].map((ms) => quick(Number.POSITIVE_INFINITY, ms))).toEqual([2, 0]);
  });

  it('is no longer in a row once a token was replaced without one', () => {
    const slot = slotWith({});
    slot.quickRejections = 2;
    succeeded(slot, 0, heldToken('a'));
    expect(slot.quickRejections).toBe(2);
    succeeded(slot, 0, heldToken('b'));
    expect(slot.quickRejections).toBe(0);
  });

  it('is remembered once, for the last four tokens', () => {
    const slot = slotWith({});
    expect(['a', 'b', 'c', 'b', 'd', 'e'].map((each) => remembered(slot, each))).toEqual([
      ...[true, true, true, false, true, true],
    ]);
    expect(slot.rejected).toEqual(['e', 'd', 'c', 'b']);
  });
});

describe('forgetting', () => {
  it('drops token and pause, begins a new generation, and tells whether there was anything', () => {
    const slot = slotWith({ held: heldToken() });
    expect(forgotten(slot)).toBe(true);
    expect(slot).toMatchObject({ held: undefined, generation: 1 });
    expect(forgotten(slot)).toBe(false);
    expect(forgotten(slotWith({ failure: failureUntil(1) }))).toBe(true);
    const pausing = slotWith({ failure: failureUntil(1) });
    forgotten(pausing);
    expect(pausing.failure).toBeUndefined();
  });
});
