import { expect, it } from 'vitest';
import { ratesOf } from '../../src/live-view/rates.ts';
import type { RegistryStats } from '../../src/registry/stats.ts';

it('rates are taken from the counters of the first and the last sample', () => {
  const none = { hits: 0, joined: 0, requests: 0, refreshes: 0, late: 0, abandonedCalls: 0 };
  const failedCalls = { request: 0, refused: 0, queue: 0 };
  const sample = (nowMs: number, stats: object) => {
    return {
      nowMs,
      stats: new Map([
        ['crm', { ...none, failedCalls, refused: { owner: 0, client: 0, endpoint: 0 }, ...stats } as RegistryStats],
      ]),
    };
  };
  const refused = { owner: 2, client: 2, endpoint: 2 };
  const stats = { hits: 84, joined: 5, requests: 10, refreshes: 5, refused, abandonedCalls: 2, late: 8 };
  const failing = { request: 2, refused: 6, queue: 4 };
  expect(ratesOf([sample(0, {})], 'crm')).toBeUndefined();
  const rates = { calls: 50, requests: 5, abandoned: 1, late: 4, fromCache: 0.84 };
  const failed = { request: 1, refused: 3, queue: 2 };
  expect(ratesOf([sample(0, {}), sample(2_000, { ...stats, failedCalls: failing })], 'crm')).toEqual({
    ...rates,
    failed,
  });
});
