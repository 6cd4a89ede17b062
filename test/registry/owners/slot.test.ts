import { describe, expect, it, vi } from 'vitest';
import type { Instant } from '../../../src/clock.ts';
import type { Circuit } from '../../../src/failures/blame.ts';
import type { OwnerPause } from '../../../src/failures/pauses.ts';
import type { RejectionState } from '../../../src/failures/rejections.ts';
import {
  ageMsOf,
  backoffOf,
  checkedAccessKey,
  clearSlot,
  decide,
  dropEnded,
  endBackoff,
  endPause,
  type HeldToken,
  interned,
  isInStreak,
  isLive,
  isReplacing,
  isRequestedSince,
  isUsable,
  laterPause,
  leftMsOf,
  phaseOf,
  reasonOf,
  recordFailure,
  recordRejection,
  recordSuccess,
  Slot,
  troubleOf,
} from '../../../src/registry/owners/slot.ts';
import { AccessToken } from '../../../src/token.ts';
import { at, machine } from '../../helpers/instants.ts';
import { createSlot, pauseUntil as failureUntil, heldOf } from '../../helpers/slots.ts';

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
  return heldOf(token);
}

function slotWith(facts: { held?: HeldToken; failure?: OwnerPause; rejection?: RejectionState }): Slot {
  const slot = createSlot('owner_x');
  if (facts.held) recordSuccess(slot, facts.held, facts.rejection);
  if (facts.failure) recordFailure(slot, facts.failure);
  return slot;
}

const NOTHING = { failure: undefined, issuedAtMs: undefined, rejection: undefined, isStated: false };
/** After a token that stated how long it lives. */
const HEALTHY = { ...NOTHING, isStated: true };

const replacing: RejectionState = { kind: 'replacing', streak: undefined, firstRejectedAtMs: 0, ageMs: 0 };
const inStreak = { streak: failureUntil(2000), firstRejectedAtMs: 0 };
const kept: RejectionState = { kind: 'kept', untilMs: 2000, ...inStreak };

const ALONE = { requesting: false, circuit: undefined, minValidityMs: 0 };
const LATE = { ...ALONE, requesting: 'late' } as const;

describe('the held token', () => {
  const isFresh = (slot: Slot, now: Instant) => phaseOf(slot, now, ALONE) === 'fresh';

  it('is fresh up to its refresh point, usable up to its end', () => {
    const slot = slotWith({ held: heldToken() });
    expect([599, 600].map((ms) => isFresh(slot, at(ms)))).toEqual([true, false]);
    expect([949, 950].map((ms) => isUsable(slot, at(ms)))).toEqual([true, false]);
  });

  it.each<[string, (time: ReturnType<typeof machine>, ms: number) => Instant]>([
    ['both clocks', (time, ms) => time(ms)],
    ['the wall clock alone', (time, ms) => time(0, ms)],
    ['the monotonic clock alone', (time, ms) => time(ms, -ms)],
    ['the monotonic clock, while the wall clock is set back further', (time, ms) => time(ms, -500 - ms)],
  ])('never ends later than its life by %s', (_, pass) => {
    const slot = slotWith({ held: heldToken() });
    expect([599, 600].map((ms) => isFresh(slot, pass(machine(), ms)))).toEqual([true, false]);
    expect([949, 950].map((ms) => isUsable(slot, pass(machine(), ms)))).toEqual([true, false]);
  });

  it('ends earlier by what the wall clock was set forward, even if it was set back at once', () => {
    const time = machine();
    const slot = slotWith({ held: heldToken() });
    time(0, 300);
    expect([649, 650].map((ms) => isUsable(slot, time(ms)))).toEqual([true, false]);
  });

  it('is timed by the wall clock as it was when the token was stored', () => {
    const time = machine();
    const { offsetMs } = time(100, -60);
    const { token } = heldToken();
    const slot = slotWith({ held: heldOf(token, offsetMs) });
    expect([659, 660].map((ms) => isFresh(slot, time(ms, -60)))).toEqual([true, false]);
    expect([1009, 1010].map((ms) => isUsable(slot, time(ms, -60)))).toEqual([true, false]);
  });

  it('is absent from a new slot, as is all else', () => {
    const slot = createSlot('owner_x');
    expect(isUsable(slot, at(0))).toBe(false);
    expect(slot).toMatchObject({ owner: 'owner_x', held: undefined, history: NOTHING });
  });
});

describe('the table of phases', () => {
  const held = heldToken();
  const failure = failureUntil(2000);
  const requesting = { ...ALONE, requesting: true };
  const circuit: Circuit = { scope: 'endpoint', sinceMs: 0, ...failureUntil(1) };
  const paused = { ...ALONE, circuit };
  const both = { ...requesting, circuit };
  const lasting = { ...ALONE, minValidityMs: 250 };
  it.each([
    ['fresh', 'serve', { held }, 0, ALONE],
    ['fresh', 'serve', { held, failure }, 0, both],
    ['refresh-due', 'serve-and-refresh', { held }, 700, ALONE],
    ['refresh-due', 'serve', { held }, 700, requesting],
    ['refresh-due', 'serve', { held }, 700, paused],
    ['refresh-due', 'serve', { held, failure }, 700, ALONE],
    ['refresh-due', 'serve-and-refresh', { held, failure: failureUntil(700) }, 700, ALONE],
    ['fresh', 'serve', { held, rejection: kept }, 0, ALONE],
    ['rejected', 'request', { held, rejection: replacing }, 0, ALONE],
    ['rejected', 'request', { held, rejection: replacing }, 949, ALONE],
    ['rejected', 'serve', { held, rejection: replacing }, 0, paused],
    ['rejected', 'serve', { held, rejection: replacing, failure }, 0, ALONE],
    ['rejected', 'serve', { held, rejection: replacing }, 0, LATE],
    ['requesting', 'wait', { held, rejection: replacing, failure }, 0, both],
    ['requesting', 'wait', { held, rejection: replacing }, 950, LATE],
    ['expired', 'request', { held, rejection: replacing }, 950, ALONE],
    ['requesting', 'wait', {}, 0, requesting],
    ['requesting', 'wait', { held, failure }, 1000, both],
    ['backing-off', 'refuse', { failure }, 1999, ALONE],
    ['backing-off', 'refuse', {}, 0, paused],
    ['backing-off', 'refuse', { held, failure }, 1000, ALONE],
    ['expired', 'request', { held }, 950, ALONE],
    ['expired', 'request', { held, failure }, 2000, ALONE],
    ['refresh-due', 'serve-and-refresh', { held }, 700, lasting],
    ['expired', 'request', { held }, 701, lasting],
    ['expired', 'request', { held, rejection: replacing }, 701, lasting],
    ['requesting', 'wait', { held }, 701, { ...both, minValidityMs: 250 }],
    ['backing-off', 'refuse', { held, failure }, 701, lasting],
    ['empty', 'request', {}, 0, ALONE],
    ['empty', 'request', { failure }, 2000, ALONE],
  ] as const)('leads from phase %s to the decision %s', (phase, decision, facts, ms, conditions) => {
    const slot = slotWith(facts);
    expect(phaseOf(slot, at(ms), conditions)).toBe(phase);
    expect(decide(slot, at(ms), conditions)).toBe(decision);
  });

  it('has a backoff in force until its end, and no longer', () => {
    expect(backoffOf(slotWith({ failure }), at(1999))).toBe(failure);
    expect(backoffOf(slotWith({ failure }), at(2000))).toBeUndefined();
    expect(backoffOf(slotWith({}), at(0))).toBeUndefined();
  });
});

it('a token that is to be replaced is live, but not usable; one that is kept is both', () => {
  const states = [undefined, kept, replacing].map((rejection) =>
    slotWith({ held: heldToken(), ...(rejection && { rejection }) }),
  );
  expect(states.map((slot) => [isLive(slot, at(949)), isUsable(slot, at(949))])).toEqual([
    ...[
      [true, true],
      [true, true],
      [true, false],
    ],
  ]);
  expect(states.map((slot) => isLive(slot, at(950)))).toEqual([false, false, false]);
});

it('a token request says why it is made', () => {
  const slot = slotWith({});
  expect(reasonOf(slot)).toBe('absent');
  recordFailure(slot, failureUntil(1));
  expect(reasonOf(slot)).toBe('absent');
  recordSuccess(slot, heldToken());
  expect(reasonOf(slot)).toBe('refresh');
  recordRejection(slot, kept);
  expect(reasonOf(slot)).toBe('refresh');
  recordRejection(slot, replacing);
  expect(reasonOf(slot)).toBe('rejected');
  expect(dropEnded(slot, at(950))).toBe(true);
  expect(reasonOf(slot)).toBe('expired');
});

it('a request drops a token that has ended, and no other, but not what rejections say', () => {
  const slot = slotWith({ held: heldToken(), rejection: kept });
  expect(dropEnded(slot, at(949))).toBe(false);
  expect(dropEnded(slot, at(950))).toBe(true);
  const { issuedAtMs } = heldToken().token;
  expect(slot).toMatchObject({ held: undefined, history: { issuedAtMs, rejection: kept } });
  expect(dropEnded(slot, at(950))).toBe(false);
});

it('a request that succeeds replaces all that the slot knew', () => {
  const slot = slotWith({ held: heldToken(), rejection: replacing, failure: failureUntil(2000) });
  dropEnded(slot, at(950));
  const held = heldToken('new');
  recordSuccess(slot, held, kept);
  expect(slot).toMatchObject({ held: held.token, history: { ...HEALTHY, rejection: kept } });
  recordSuccess(slot, heldToken('newer'));
  expect(slot.history).toEqual(HEALTHY);
});

it.each([true, false])(
  'healthy owners share one history, also once their pauses end early (stated: %s)',
  (isStated) => {
    const [one, two] = ['one', 'two'].map((value) => slotWith({ held: { ...heldToken(value), isStated } })) as [
      Slot,
      Slot,
    ];
    expect(one.history).toEqual({ ...NOTHING, isStated });
    expect(endPause(one)).toBe(false);
    expect(one.history).toBe(two.history);
  },
);

it('a request that fails leaves a usable token alone', () => {
  const held = heldToken();
  const failure = failureUntil(2000);
  const slot = slotWith({ held });
  recordFailure(slot, failure);
  expect(slot).toMatchObject({ held: held.token, history: { failure } });
});

it('an owner is in trouble after a failed request, and while its tokens are rejected in a row', () => {
  const failure = failureUntil(1000);
  expect(troubleOf(slotWith({ held: heldToken() }))).toBeUndefined();
  expect(troubleOf(slotWith({ held: heldToken(), rejection: replacing }))).toBeUndefined();
  expect(troubleOf(slotWith({ held: heldToken(), rejection: kept }))).toBe(kept.streak);
  expect(troubleOf(slotWith({ held: heldToken(), rejection: kept, failure }))).toBe(failure);
});

it.each([
  ['none', undefined, false],
  ['one', replacing, false],
  ['several', kept, true],
])('knows whether tokens in a row were rejected: %s', (_, rejection, expected) => {
  expect(isInStreak(slotWith({ held: heldToken(), ...(rejection && { rejection }) }))).toBe(expected);
});

it('a backoff can be ended before its time, and nothing else with it', () => {
  const slot = slotWith({ held: heldToken(), rejection: kept });
  expect(endBackoff(slot)).toBe(false);
  recordFailure(slot, failureUntil(2000));
  expect(endBackoff(slot)).toBe(true);
  expect(slot.history).toMatchObject({ failure: undefined, rejection: kept });
});

it('a pause can be ended before its time, and the keeping of a token with it', () => {
  const slot = slotWith({ held: heldToken(), rejection: kept });
  recordFailure(slot, failureUntil(2000));
  expect(endPause(slot)).toBe(true);
  expect(slot.history).toMatchObject({ failure: undefined, rejection: { kind: 'replacing', streak: undefined } });
  expect(isReplacing(slot)).toBe(true);
  expect(endPause(slot)).toBe(false);
  const failing = slotWith({ failure: failureUntil(2000) });
  expect(endPause(failing)).toBe(true);
  expect(failing.history).toEqual(NOTHING);
});

it('forgetting an owner drops token and failure, and tells whether there was either', () => {
  const slot = slotWith({ held: heldToken() });
  expect(clearSlot(slot)).toBe(true);
  expect(slot).toMatchObject({ held: undefined });
  expect(clearSlot(slot)).toBe(false);
  const pausing = slotWith({ failure: failureUntil(1) });
  expect(clearSlot(pausing)).toBe(true);
  expect(pausing.history).toEqual(NOTHING);
});

it('the name of an owner is computed when first asked for, at most once', () => {
  const nameOf = vi.fn((accessKey: string) => `label of ${accessKey}`);
  const slot = new Slot('a', { nameOf });
  recordSuccess(slot, heldToken());
  expect(nameOf).not.toHaveBeenCalled();
  expect([slot.owner, slot.owner]).toEqual(['label of a', 'label of a']);
  expect(nameOf).toHaveBeenCalledTimes(1);
});

it('the age of a token is by the timeline while it is held, by the wall clock after, and never below zero', () => {
  const slot = createSlot('owner_x');
  const held = heldToken();
  const setBack = machine()(200, -100);
  expect(ageMsOf(slot, held.token, setBack)).toBe(100);
  recordSuccess(slot, held);
  expect(ageMsOf(slot, held.token, setBack)).toBe(200);
  slot.held = undefined;
  expect(ageMsOf(slot, held.token, machine()(50, -100))).toBe(0);
});

it('the age of a held token, and what is left of it, count from the wall clock as it was when the token was stored', () => {
  const time = machine();
  const { offsetMs } = time(100, -60);
  const { token } = heldToken();
  const slot = slotWith({ held: heldOf(token, offsetMs) });
  expect(ageMsOf(slot, token, time(700, -60))).toBe(640);
  expect(leftMsOf(slot, token, time(700, -60))).toBe(310);
});

it.each([
  ['at the time of the call', 0, 100, true],
  ['as long before it as clocks are misread by', 0, 80, true],
  ['longer before it', 0, 79, false],
  ['at the time of the call, before the wall clock was set back', -500, -400, true],
  ['before the call, before the wall clock was set back', -500, -421, false],
  ['at the time of the call, before the wall clock was set forward', 500, 100, true],
])('whether a token was requested since the call: %s', (_, jumpedMs, issuedAtMs, isSince) => {
  const time = machine();
  const sent = time(100);
  const { token } = heldToken('one', { issuedAtMs });
  expect(isRequestedSince(sent, token, time(200, jumpedMs))).toBe(isSince);
});

it('of two pauses the one that ends later counts', () => {
  const [early, late] = [failureUntil(1), failureUntil(2)];
  expect([laterPause(early, late), laterPause(late, early)]).toEqual([late, late]);
  expect([laterPause(undefined, early), laterPause(early, undefined)]).toEqual([early, early]);
  expect(laterPause(early, failureUntil(1))).toBe(early);
  expect(laterPause(undefined, undefined)).toBeUndefined();
});

it('an access key is kept as it was given, up to 16,384 characters', () => {
  for (const accessKey of ['k', 'k'.repeat(16_384)]) expect(checkedAccessKey(accessKey)).toBe(accessKey);
});

it.each([
  ['a longer one', 'k'.repeat(16_385), ''],
  ['a lone surrogate', 'key-\ud800', ''],
  ['an empty string', '', '; it is empty (is its environment variable set?)'],
  ['a String object', new String('key'), ''],
  ['what has no length', undefined, ''],
])('%s is refused as an access key', (_, given, hint) => {
  const expected = `expected a non-empty string of well-formed Unicode, at most 16384 characters${hint}`;
  const message = `the access key cannot be used: ${expected}`;
  expect(() => checkedAccessKey(given)).toThrow(expect.objectContaining({ code: 'invalid_access_key', message }));
});

it.each(['__proto__', '4294967294', 'ключ-\u{1F511}', 'k'.repeat(16_384)])(
  'an interned access key is the same text: %.20s',
  (accessKey) => {
    expect(interned(accessKey)).toBe(accessKey);
  },
);
