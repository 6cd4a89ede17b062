import { describe, expect, it, vi } from 'vitest';
import type { Instant } from '../../src/clock.ts';
import { OwnerTokenError } from '../../src/errors.ts';
import type { Circuit } from '../../src/failures/blame.ts';
import type { Pause } from '../../src/failures/pauses.ts';
import {
  accessKeyOf,
  addToDenylist,
  ageMsOf,
  backoffOf,
  clearSlot,
  decide,
  dropEnded,
  dropRejected,
  endPause,
  type HeldToken,
  interned,
  isDenied,
  isUsable,
  laterPause,
  phaseOf,
  reasonOf,
  recordAccepted,
  recordFailure,
  recordSuccess,
  Slot,
} from '../../src/registry/slot.ts';
import { AccessToken } from '../../src/token.ts';
import { at, machine } from '../helpers/instants.ts';
import { createSlot } from '../helpers/slots.ts';

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
  return { token, aheadMs: 0 };
}

const failureUntil = (retryAtMonotonicMs: number): Pause => ({
  error: new OwnerTokenError('endpoint_unavailable', 'down'),
  count: 1,
  retryAtMonotonicMs,
});

function slotWith(facts: { held?: HeldToken; failure?: Pause }): Slot {
  const slot = createSlot('owner_x');
  if (facts.held) recordSuccess(slot, facts.held);
  if (facts.failure) recordFailure(slot, facts.failure);
  return slot;
}

const NOTHING = {
  failure: undefined,
  issuedAtMs: undefined,
  denylist: [],
  lastRejected: undefined,
  freshRejections: 0,
  wasAccepted: false,
};

const ALONE = { requesting: false, circuit: undefined };

describe('the held token', () => {
  const isFresh = (slot: Slot, now: Instant) => phaseOf(slot, now, ALONE) === 'fresh';

  it('the held token is fresh up to its refresh point, usable up to its end', () => {
    const slot = slotWith({ held: heldToken() });
    expect([599, 600].map((ms) => isFresh(slot, at(ms)))).toEqual([true, false]);
    expect([949, 950].map((ms) => isUsable(slot, at(ms)))).toEqual([true, false]);
  });

  it.each<[string, (time: ReturnType<typeof machine>, ms: number) => Instant]>([
    ['both clocks', (time, ms) => time(ms)],
    ['the wall clock alone', (time, ms) => time(0, ms)],
    ['the monotonic clock alone', (time, ms) => time(ms, -ms)],
    ['the monotonic clock, while the wall clock is set back further', (time, ms) => time(ms, -500 - ms)],
  ])('the held token never ends later than its life by %s', (_, pass) => {
    const slot = slotWith({ held: heldToken() });
    expect([599, 600].map((ms) => isFresh(slot, pass(machine(), ms)))).toEqual([true, false]);
    expect([949, 950].map((ms) => isUsable(slot, pass(machine(), ms)))).toEqual([true, false]);
  });

  it('the held token ends earlier by what the wall clock was set forward, even if it was set back at once', () => {
    const time = machine();
    const slot = slotWith({ held: heldToken() });
    time(0, 300);
    expect([649, 650].map((ms) => isUsable(slot, time(ms)))).toEqual([true, false]);
  });

  it('the held token is timed by the wall clock as it was when the token was stored', () => {
    const time = machine();
    const { aheadMs } = time(100, -60);
    const { token } = heldToken();
    const slot = slotWith({ held: { token, aheadMs } });
    expect([659, 660].map((ms) => isFresh(slot, time(ms, -60)))).toEqual([true, false]);
    expect([1009, 1010].map((ms) => isUsable(slot, time(ms, -60)))).toEqual([true, false]);
  });

  it('a new slot holds no token, nor anything else', () => {
    const slot = createSlot('owner_x');
    expect(isUsable(slot, at(0))).toBe(false);
    expect(slot).toMatchObject({ owner: 'owner_x', held: undefined, history: NOTHING });
  });
});

describe('the table of phases', () => {
  const held = heldToken();
  const failure = failureUntil(2000);
  const requesting = { requesting: true, circuit: undefined };
  const circuit: Circuit = { scope: 'endpoint', ...failureUntil(1) };
  const paused = { requesting: false, circuit };
  const both = { requesting: true, circuit };
  it.each([
    ['fresh', 'serve', { held }, 0, ALONE],
    ['fresh', 'serve', { held, failure }, 0, both],
    ['refresh-due', 'serve-and-refresh', { held }, 700, ALONE],
    ['refresh-due', 'serve', { held }, 700, requesting],
    ['refresh-due', 'serve', { held }, 700, paused],
    ['refresh-due', 'serve', { held, failure }, 700, ALONE],
    ['refresh-due', 'serve-and-refresh', { held, failure: failureUntil(700) }, 700, ALONE],
    ['requesting', 'wait', {}, 0, requesting],
    ['requesting', 'wait', { held, failure }, 1000, both],
    ['backing-off', 'refuse', { failure }, 1999, ALONE],
    ['backing-off', 'refuse', {}, 0, paused],
    ['backing-off', 'refuse', { held, failure }, 1000, ALONE],
    ['expired', 'request', { held }, 950, ALONE],
    ['expired', 'request', { held, failure }, 2000, ALONE],
    ['empty', 'request', {}, 0, ALONE],
    ['empty', 'request', { failure }, 2000, ALONE],
  ] as const)('a slot in phase %s leads to the decision %s', (phase, decision, facts, ms, conditions) => {
    const slot = slotWith(facts);
    expect(phaseOf(slot, at(ms), conditions)).toBe(phase);
    expect(decide(slot, at(ms), conditions)).toBe(decision);
  });

  it('a backoff is in force until its end, and no longer', () => {
    expect(backoffOf(slotWith({ failure }), at(1999))).toBe(failure);
    expect(backoffOf(slotWith({ failure }), at(2000))).toBeUndefined();
    expect(backoffOf(slotWith({}), at(0))).toBeUndefined();
  });
});

it('a token request says why it is made', () => {
  const slot = slotWith({});
  expect(reasonOf(slot)).toBe('absent');
  recordFailure(slot, failureUntil(1));
  expect(reasonOf(slot)).toBe('absent');
  recordSuccess(slot, heldToken());
  expect(reasonOf(slot)).toBe('refresh');
  expect(dropEnded(slot, at(950))).toBe(true);
  expect(reasonOf(slot)).toBe('expired');
  addToDenylist(slot, 'token_one', heldToken().token);
  expect(reasonOf(slot)).toBe('rejected');
});

it('a request drops a token that has ended, and no other, with the streak of rejections', () => {
  const slot = slotWith({ held: heldToken() });
  expect(dropEnded(slot, at(949))).toBe(false);
  dropRejected(slot, slot.held as AccessToken, at(1));
  recordSuccess(slot, heldToken('two'));
  expect(dropEnded(slot, at(950))).toBe(true);
  expect(slot).toMatchObject({
    held: undefined,
    history: { freshRejections: 0, issuedAtMs: heldToken().token.issuedAtMs },
  });
  expect(dropEnded(slot, at(950))).toBe(false);
});

it('a request that succeeds replaces all that the slot knew with its token', () => {
  const slot = slotWith({ failure: failureUntil(2000) });
  addToDenylist(slot, 'token_old', heldToken('old').token);
  const held = heldToken('new');
  recordSuccess(slot, held);
  expect(slot).toMatchObject({ held: held.token, history: { failure: undefined, lastRejected: undefined } });
  expect(slot.history.denylist).toEqual(['token_old']);
});

it('a request that succeeds clears the stored failures, unless a rejection must be remembered', () => {
  const slot = slotWith({ held: heldToken(), failure: failureUntil(2000) });
  dropEnded(slot, at(950));
  recordSuccess(slot, heldToken('two'));
  expect(slot.history).toEqual(NOTHING);
  dropRejected(slot, slot.held as AccessToken, at(1));
  recordSuccess(slot, heldToken('three'));
  expect(slot.history).toMatchObject({ freshRejections: 1 });
  recordSuccess(slot, heldToken('four'));
  expect(slot.history).toEqual(NOTHING);
});

it('healthy owners share one history, and those with an accepted token another', () => {
  const historyOf = (value: string, isAccepted: boolean) => {
    const slot = slotWith({ held: heldToken(value) });
    for (let calls = 0; isAccepted && calls < 2; calls++) recordAccepted(slot, slot.held as AccessToken);
    return slot.history;
  };
  expect(historyOf('one', false)).toBe(historyOf('two', false));
  expect(historyOf('one', true)).toBe(historyOf('two', true));
  expect(historyOf('one', true)).not.toBe(historyOf('one', false));
});

it('a request that fails leaves a usable token alone', () => {
  const held = heldToken();
  const failure = failureUntil(2000);
  const slot = slotWith({ held });
  recordFailure(slot, failure);
  expect(slot).toMatchObject({ held: held.token, history: { failure } });
});

it('a rejection drops the token and keeps it as the last rejected', () => {
  const held = heldToken();
  const slot = slotWith({ held });
  recordAccepted(slot, held.token);
  dropRejected(slot, held.token, at(500));
  expect(slot).toMatchObject({ held: undefined, history: { lastRejected: held.token, wasAccepted: false } });
});

it('a rejection within a tenth of the life and ten seconds is quick, and quick ones in a row are counted', () => {
  const quick = (lifetimeMs: number, atMs: number, issuedAtMs = 0) => {
    const slot = slotWith({ held: heldToken() });
    dropRejected(slot, slot.held as AccessToken, at(1));
    recordSuccess(slot, heldToken('t', { lifetimeMs, issuedAtMs }));
    return dropRejected(slot, slot.held as AccessToken, at(atMs));
  };
  // Counted over the life that is served: 950 of 1000.
  expect([95, 96].map((ms) => quick(1000, ms))).toEqual([2, 0]);
  expect([10_000, 10_001].map((ms) => quick(3_600_000, ms))).toEqual([2, 0]);
  // Counted from when it was issued.
  expect([5_095, 5_096].map((ms) => quick(1000, ms, 5_000))).toEqual([2, 0]);
  expect([10_000, 10_001].map((ms) => quick(Number.POSITIVE_INFINITY, ms))).toEqual([2, 0]);
});

it('a rejection is quick by the age on the timeline, however far that is ahead of the wall clock', () => {
  const quick = (atMs: number) => {
    const slot = slotWith({ held: { ...heldToken(), aheadMs: 60 } });
    return dropRejected(slot, slot.held as AccessToken, at(atMs));
  };
  expect([155, 156].map(quick)).toEqual([1, 0]);
});

it('a streak of rejections ends once a token is replaced without one', () => {
  const slot = slotWith({ held: heldToken('a') });
  expect(dropRejected(slot, slot.held as AccessToken, at(1))).toBe(1);
  recordSuccess(slot, heldToken('b'));
  recordSuccess(slot, heldToken('c'));
  expect(dropRejected(slot, slot.held as AccessToken, at(1))).toBe(1);
});

it('a rejected token is put on the denylist once, which has the last four', () => {
  const slot = slotWith({});
  expect(['a', 'b', 'c', 'b', 'd', 'e'].map((each) => addToDenylist(slot, each))).toEqual([
    ...[true, true, true, false, true, true],
  ]);
  expect(slot.history.denylist).toEqual(['e', 'd', 'c', 'b']);
  expect(['a', 'b'].map((each) => isDenied(slot, each))).toEqual([false, true]);
});

it('a rejection of an earlier token keeps that token for the next request, unless one is held or the token is not known', () => {
  const { token } = heldToken('old');
  const holding = slotWith({ held: heldToken() });
  addToDenylist(holding, token.fingerprint, token);
  expect(holding.history.lastRejected).toBeUndefined();
  const empty = slotWith({});
  addToDenylist(empty, token.fingerprint, token);
  addToDenylist(empty, 'token_unknown');
  expect(empty.history.lastRejected).toBe(token);
});

it('an owner without rejections has no token denied', () => {
  expect(isDenied(slotWith({}), 'a')).toBe(false);
});

describe('an accepted token', () => {
  const tokenRejected = (): Pause => ({ ...failureUntil(2000), error: new OwnerTokenError('token_rejected', 'no') });
  /** An owner whose last two tokens were rejected while fresh. */
  const distrusted = (failure?: Pause) => {
    const slot = slotWith({ held: heldToken() });
    dropRejected(slot, slot.held as AccessToken, at(1));
    recordSuccess(slot, heldToken('two'));
    dropRejected(slot, slot.held as AccessToken, at(1));
    if (failure) recordFailure(slot, failure);
    return slot;
  };

  it('an accepted token that is held keeps a later rejection of it from counting as fresh', () => {
    const held = heldToken();
    const slot = slotWith({ held });
    expect(recordAccepted(slot, held.token)).toBe(false);
    expect(dropRejected(slot, held.token, at(1))).toBe(0);
  });

  it('an accepted token that is held keeps a later rejection of it from counting as fresh, whatever came before', () => {
    const slot = distrusted();
    recordSuccess(slot, heldToken('three'));
    recordAccepted(slot, slot.held as AccessToken);
    expect(dropRejected(slot, slot.held as AccessToken, at(1))).toBe(0);
  });

  it('an accepted token says nothing of the next token', () => {
    const slot = slotWith({ held: heldToken() });
    recordAccepted(slot, slot.held as AccessToken);
    recordSuccess(slot, heldToken('two'));
    expect(dropRejected(slot, slot.held as AccessToken, at(1))).toBe(1);
  });

  it('an accepted token ends the streak of rejections and the backoff that it led to, though it is on the denylist', () => {
    const slot = distrusted(tokenRejected());
    const { token } = heldToken();
    addToDenylist(slot, token.fingerprint);
    expect(recordAccepted(slot, token)).toBe(true);
    expect(slot.history).toMatchObject({ freshRejections: 0, failure: undefined });
  });

  it('an accepted token ends the streak of rejections where it has led to no backoff yet', () => {
    const slot = distrusted();
    const { token } = heldToken();
    addToDenylist(slot, token.fingerprint);
    expect(recordAccepted(slot, token)).toBe(false);
    expect(slot.history).toMatchObject({ freshRejections: 0, failure: undefined });
  });

  it('an accepted token leaves a backoff for another reason in force', () => {
    const failure = failureUntil(2000);
    const slot = distrusted();
    recordSuccess(slot, heldToken());
    recordFailure(slot, failure);
    expect(recordAccepted(slot, slot.held as AccessToken)).toBe(false);
    expect(slot.history).toMatchObject({ freshRejections: 0, failure });
  });

  it('an accepted token that the owner neither holds nor denies changes nothing', () => {
    const slot = distrusted(tokenRejected());
    addToDenylist(slot, 'token_other');
    const before = { ...slot.history };
    expect(recordAccepted(slot, heldToken('stranger').token)).toBe(false);
    expect(slot.history).toEqual(before);
    expect(recordAccepted(createSlot('owner_new'), heldToken('stranger').token)).toBe(false);
  });
});

it('a pause can be ended before its time, and the streak of rejections with it', () => {
  const slot = slotWith({ held: heldToken() });
  dropRejected(slot, slot.held as AccessToken, at(1));
  expect(endPause(slot)).toBe(false);
  expect(slot.history).toMatchObject({ freshRejections: 1 });
  recordFailure(slot, failureUntil(2000));
  expect(endPause(slot)).toBe(true);
  expect(slot.history).toMatchObject({ freshRejections: 0, failure: undefined });
  expect(endPause(slotWith({}))).toBe(false);
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

it('of two pauses the one that ends later counts', () => {
  const [early, late] = [failureUntil(1), failureUntil(2)];
  expect([laterPause(early, late), laterPause(late, early)]).toEqual([late, late]);
  expect([laterPause(undefined, early), laterPause(early, undefined)]).toEqual([early, early]);
  expect(laterPause(early, failureUntil(1))).toBe(early);
  expect(laterPause(undefined, undefined)).toBeUndefined();
});

it('an access key is kept as it was given, up to 16,384 characters', () => {
  for (const accessKey of ['k', 'k'.repeat(16_384)]) expect(accessKeyOf(accessKey)).toBe(accessKey);
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
  expect(() => accessKeyOf(given)).toThrow(expect.objectContaining({ code: 'invalid_access_key', message }));
});

it.each([
  '__proto__',
  'constructor',
  '0',
  '12345',
  '4294967294',
  '0123',
  '-1',
  ' ',
  'ключ-\u{1F511}',
  'k'.repeat(16_384),
])('an interned access key is the same text: %.20s', (accessKey) => {
  expect(interned(accessKey)).toBe(accessKey);
});
