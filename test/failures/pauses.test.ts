import { describe, expect, it } from 'vitest';
import { OwnerTokenError, type OwnerTokenErrorOptions, type WiderScope } from '../../src/errors/owner-token-error.ts';
import { circuitPause, jitteredLength, ownerPause } from '../../src/failures/pauses.ts';

const RANGES = {
  owner: { baseMs: 1_000, capMs: 300_000 },
  client: { baseMs: 1_000, capMs: 60_000 },
  endpoint: { baseMs: 500, capMs: 30_000 },
};
const NOW_MS = 7_000;

const failure = (code: 'owner_refused' | 'client_refused' | 'endpoint_unavailable', facts?: OwnerTokenErrorOptions) =>
  new OwnerTokenError(code, 'no', facts);
const REFUSED = failure('owner_refused');
const CLIENT = failure('client_refused');
const DOWN = failure('endpoint_unavailable');

describe('the pause of an owner', () => {
  const lengthMs = (error: OwnerTokenError, count: number, ranges = RANGES, leftMs = 0, isAlone = false) =>
    ownerPause({ error, count, leftMs, isAlone }, ranges, NOW_MS, 1).retryAtMonotonicMs - NOW_MS;

  it.each([
    ['a refusal', REFUSED, [1_000, 2_000, 4_000], 300_000],
    ['a failure put at its owner', failure('endpoint_unavailable', { failureScope: 'owner' }), [1_000], 300_000],
    ['a failure of the endpoint', DOWN, [100, 200, 400], 30_000],
  ] as const)('after %s doubles from its base up to its cap', (_, error, first, capMs) => {
    expect(first.map((_length, n) => lengthMs(error, n + 1))).toEqual(first);
    expect(lengthMs(error, 41)).toBe(capMs);
  });

  it.each([
    ['the base of owners is shorter than that of other failures', { baseMs: 10, capMs: 80 }, 1, 10],
    ['the cap of owners is shorter than that of endpoints', { baseMs: 10, capMs: 80 }, 9, 80],
    ['the base of owners is longer than the cap of endpoints', { baseMs: 50_000, capMs: 90_000 }, 41, 50_000],
  ])('after a failure of the endpoint stays within its range where %s', (_, owner, count, expectedMs) => {
    expect(lengthMs(DOWN, count, { ...RANGES, owner })).toBe(expectedMs);
  });

  it('after a refused client is one of an owner once another owner has got a token since', () => {
    const lengthsMs = (isAlone: boolean) => [1, 2, 41].map((count) => lengthMs(CLIENT, count, RANGES, 0, isAlone));
    expect(lengthsMs(false)).toEqual([100, 200, 60_000]);
    expect(lengthsMs(true)).toEqual([1_000, 2_000, 300_000]);
    expect(lengthMs(DOWN, 41, RANGES, 0, true)).toBe(30_000);
  });

  it.each([
    [1, 0, 1_000],
    [9, 0, 256_000],
    [9, 1_000, 256_000],
    [1, 45_000, 45_000],
    [1, 3_600_000, 60_000],
    [2, 3_600_000, 3_600_000],
  ])('after failure %d with a Retry-After of %d ms is %d ms', (count, retryAfterMs, expectedMs) => {
    expect(lengthMs(failure('owner_refused', { retryAfterMs }), count)).toBe(expectedMs);
  });

  it.each([
    [600_000, 1, 10_000],
    [12_000, 1, 4_000],
    [200, 1, 100],
    [600_000, 9, 25_600],
  ])('with %d ms left of the token after failure %d is %d ms', (leftMs, count, expectedMs) => {
    expect(lengthMs(DOWN, count, RANGES, leftMs)).toBe(expectedMs);
  });
});

describe('the pause of a circuit', () => {
  const pause = (scope: WiderScope, error: OwnerTokenError, count = 1, jitter = 1) =>
    circuitPause(scope, error, count, RANGES[scope], NOW_MS, jitter);

  it.each([
    ['client', REFUSED, 'client_refused'],
    ['endpoint', DOWN, 'endpoint_unavailable'],
  ] as const)('of the %s has the code of its scope', (failureScope, error, code) => {
    expect(pause(failureScope, error, 3)).toMatchObject({ count: 3, error: { code, failureScope, message: 'no' } });
  });

  it.each([
    [1_000, 0.5, 1_000],
    [60_000, 0, 60_000],
    [60_001, 0, 60_000],
    [3_600_000, 0, 60_000],
  ])('lasts as long as a Retry-After of %d ms, up to a minute', (retryAfterMs, jitter, expectedMs) => {
    const { retryAtMonotonicMs } = pause('endpoint', failure('endpoint_unavailable', { retryAfterMs }), 1, jitter);
    expect(retryAtMonotonicMs - NOW_MS).toBe(expectedMs);
  });

  it('doubles with every second failed trial, because canaries and callers alternate', () => {
    const lengthsMs = [1, 2, 3, 4, 5, 40].map((count) => pause('endpoint', DOWN, count).retryAtMonotonicMs - NOW_MS);
    expect(lengthsMs).toEqual([500, 500, 1_000, 1_000, 2_000, 30_000]);
  });

  it('is not shortened by Retry-After', () => {
    const { retryAtMonotonicMs } = pause('client', failure('owner_refused', { retryAfterMs: 1_000 }), 7);
    expect(retryAtMonotonicMs - NOW_MS).toBe(8_000);
  });
});

describe('the jitter', () => {
  it.each([
    [0, 500],
    [0.5, 750],
    [1, 1_000],
  ])('of %d leaves %d ms of a second', (jitter, expectedMs) => {
    expect(jitteredLength(1, RANGES.client, jitter)).toBe(expectedMs);
  });

  it('takes half of the cap at most, after any number of failures', () => {
    expect(jitteredLength(100_000, RANGES.client, 0)).toBe(30_000);
  });
});
