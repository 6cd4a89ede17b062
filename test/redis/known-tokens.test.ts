import { expect, it } from 'vitest';
import { KnownTokens } from '../../src/redis/known-tokens.ts';
import type { AccessToken } from '../../src/token.ts';
import type { TokenRequest } from '../../src/token-source.ts';
import { requestOf } from '../helpers/model-fleet.ts';

const KEPT = 32_000;

it('an owner is known until the registry drops it, whichever owners come and go meanwhile', () => {
  const known = new KnownTokens();
  known.isKept = (accessKey) => accessKey.startsWith('kept');
  for (let owner = 0; owner < KEPT; owner++) known.remember(`kept-${owner}`, `kept-${owner}`, 'token', 1);
  for (let owner = 0; owner < 3 * KEPT; owner++) known.remember(`passing-${owner}`, `passing-${owner}`, 'token', 1);
  for (const owner of [0, 1, 29_999, 30_000, KEPT - 1]) {
    expect(known.generationOf(`kept-${owner}`, 'token')).toBe(1);
  }
  const passing = Array.from({ length: 3 * KEPT }, (_, owner) => known.get(`passing-${owner}`));
  expect(passing.filter(Boolean).length).toBeLessThanOrEqual(KEPT);
});

it('ten thousand owners are remembered in any case', () => {
  const known = new KnownTokens();
  for (let owner = 0; owner < 20_000; owner++) known.remember(`${owner}`, `${owner}`, 'token', 1);
  expect(known.get('19999')?.accessKey).toBe('19999');
  expect(known.get('0')).toBeUndefined();
  const left = Array.from({ length: 20_000 }, (_, owner) => known.get(`${owner}`)).filter(Boolean);
  expect(left.length).toBeGreaterThanOrEqual(10_000 - 2);
  expect(left.length).toBeLessThanOrEqual(10_000);
});

it('a report counts once, and only for an owner that is known', () => {
  const known = new KnownTokens();
  expect(known.hear('rejected', 'owner', 5)).toBe(false);
  // Met after an earlier report, which it has missed: the same one still counts.
  known.meet('owner', 'owner');
  expect([5, 5, 4, 6].map((generation) => known.hear('rejected', 'owner', generation))).toEqual([
    true,
    false,
    false,
    true,
  ]);
  expect([5, 5, 6].map((generation) => known.hear('recovered', 'owner', generation))).toEqual([true, false, true]);
});

it('only the remembered token has a generation, which is avoided only when that token is to be replaced', () => {
  const known = new KnownTokens();
  const avoided = (request: Partial<TokenRequest> = {}) => known.avoid('owner', requestOf(request));
  expect([avoided(), known.generationOf('owner', 'token')]).toEqual([0, 0]);
  known.remember('owner', 'owner', 'token', 12);
  expect(['token', 'another', undefined].map((token) => known.generationOf('owner', token))).toEqual([12, 0, 0]);
  const held = { value: 'token' } as AccessToken;
  expect([avoided({ reason: 'absent', held }), avoided({ reason: 'rejected', rejected: held })]).toEqual([11, 12]);
});

it('what was requested before a forgetting is not wanted, nor is the token that is to be replaced', () => {
  const known = new KnownTokens();
  const avoided = (request: Partial<TokenRequest> = {}) => known.avoid('owner', requestOf(request));
  known.meet('owner', 'owner', 10);
  // From before this replica met the owner.
  expect(known.hear('forgotten', 'owner', 10)).toBe(false);
  expect(known.remember('owner', 'owner', 'token', 12)).toBe(false);
  expect([avoided(), avoided({ reason: 'refresh', held: { value: 'token' } as AccessToken })]).toEqual([11, 12]);
  expect(known.hear('forgotten', 'owner', 13)).toBe(true);
  expect([avoided(), known.remember('owner', 'owner', 'late', 13)]).toEqual([13, true]);
});
