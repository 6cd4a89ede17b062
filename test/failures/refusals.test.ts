import { describe, expect, it } from 'vitest';
import type { Instant } from '../../src/clock.ts';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import { refusal, toOwnerTokenError, withOutcome } from '../../src/failures/refusals.ts';

/** The wall clock is a million ahead of the monotonic one. */
const now: Instant = { wallMs: 1_005_000, monotonicMs: 5_000, timelineMs: 1_005_000, offsetMs: 0 };
const down = new OwnerTokenError('endpoint_unavailable', 'it is down', {
  failedAtMs: 1_002_000,
  retryAtMs: 9,
  status: 503,
});

it('an OwnerTokenError that a source threw keeps its code, and gets the owner and the registry’s time', () => {
  const error = toOwnerTokenError(down, 'owner_x', 'key-123', now);
  expect(error).not.toBe(down);
  expect(error).toMatchObject({
    code: 'endpoint_unavailable',
    message: 'it is down',
    status: 503,
    owner: 'owner_x',
    failedAtMs: now.wallMs,
    retryAtMs: undefined,
  });
  expect(OwnerTokenError.escalationOf(error)).toEqual({ scope: 'endpoint', isGiven: false });
});

it.each(['tenant_suspended', 'invalid_client', undefined])(
  'what a source threw keeps its OAuth code %s',
  (oauthError) => {
    const thrown = new OwnerTokenError('owner_refused', 'no', { oauthError });
    expect(toOwnerTokenError(thrown, 'owner_a', 'the key', now).oauthError).toBe(oauthError);
  },
);

it('what a source threw loses an OAuth code that repeats part of the access key', () => {
  const thrown = new OwnerTokenError('owner_refused', 'no', { oauthError: 'no_fridge_door_here' });
  expect(toOwnerTokenError(thrown, 'owner_a', 'FRIDGE-door-7', now).oauthError).toBeUndefined();
});

it('what a source threw has every occurrence of the access key redacted in its message', () => {
  const says = (accessKey: string) =>
    toOwnerTokenError(new OwnerTokenError('source_failed', `no ${accessKey}, no ${accessKey}`), 'o', accessKey, now)
      .message;
  expect(says('key-12')).toBe('no [access key], no [access key]');
  expect(says('$&.*[a]')).toBe('no [access key], no [access key]');
  // So short a key is in too many words.
  expect(says('key-1')).toBe('no key-1, no key-1');
});

it('anything else that a source threw is the owner’s source_failed, without its message', () => {
  const error = toOwnerTokenError(new RangeError('canary-7c1d'), 'owner_x', 'key-123', now);
  expect(error).toMatchObject({
    code: 'source_failed',
    failureScope: 'owner',
    owner: 'owner_x',
    failedAtMs: now.wallMs,
    message: 'the token source, or a function given to it, threw',
    cause: { name: 'RangeError' },
  });
  expect(JSON.stringify(error)).not.toContain('canary');
});

it.each([
  ['the time of the next attempt', { retryAtMonotonicMs: 6_000 }, 1_006_000],
  ['no earlier one than in 100 ms', { retryAtMonotonicMs: 5_001 }, 1_005_100],
  ['none without a pause', undefined, undefined],
])('the failure that callers get has its scope, the code of that, and %s', (_, pause, retryAtMs) => {
  const outcome = withOutcome(down, 'client', pause, now);
  expect(outcome).toMatchObject({ code: 'client_refused', message: 'it is down', failureScope: 'client' });
  expect(outcome.retryAtMs).toBe(retryAtMs);
});

describe('a refusal', () => {
  const refused = (retryAtMonotonicMs: number, error = down) =>
    refusal({ error, count: 1, retryAtMonotonicMs }, 'owner_y', now);

  it('is the cached failure with its age, this owner and the time of the next attempt', () => {
    const error = refused(6_250);
    expect(error).not.toBe(down);
    expect(error).toMatchObject({
      code: 'endpoint_unavailable',
      status: 503,
      owner: 'owner_y',
      failedAtMs: 1_002_000,
      retryAtMs: 1_006_250,
      message: 'token requests are paused; next attempt in 1.3 s (last failure 3.0 s ago): it is down',
    });
  });

  it.each([5_000, 4_000, 5_099])('sets retryAtMs at least 100 ms ahead, though its pause ends at %d', (retryAtMs) => {
    expect(refused(retryAtMs)).toMatchObject({
      retryAtMs: now.wallMs + 100,
      message: 'token requests are paused; next attempt in 0.1 s (last failure 3.0 s ago): it is down',
    });
  });

  it.each([
    [1_000, '1.0 s ago'],
    [999, 'just now'],
    [-60_000, 'just now'], // the wall clock was set back
  ])('after a failure %d ms ago says "%s"', (ageMs, age) => {
    const error = new OwnerTokenError('rate_limited', 'wait', { failedAtMs: now.wallMs - ageMs });
    expect(refused(6_000, error).message).toContain(`(last failure ${age}): wait`);
  });
});
