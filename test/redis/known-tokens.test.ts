import { expect, it } from 'vitest';
import { KnownTokens } from '../../src/redis/known-tokens.ts';

it('the tokens of 30,000 owners are remembered at most: the oldest is dropped', () => {
  const known = new KnownTokens();
  for (let owner = 0; owner <= 30_000; owner++) known.remember(`name-${owner}`, `key-${owner}`, 'token', 1);
  expect([0, 1, 30_000].map((owner) => known.accessKeyOf(`name-${owner}`))).toEqual([undefined, 'key-1', 'key-30000']);
});
