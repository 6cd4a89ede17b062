/** Calls use their token: an API that does not accept it answers 401, and the caller rejects it and asks for another. */

import { revokeAll } from '../../world/api-rules.ts';
import { collapsing, deadKeys, failed, quota, reset, sometimes } from '../../world/rules.ts';
import { MIN, SEC } from '../../world/setting.ts';
import type { Scene } from '../scene.ts';
import { dead, newcomers, START, tenants } from './groups.ts';

export const tokenUseScenes: readonly Scene[] = [
  {
    name: 'each new token revokes the one before, beside 100 dead keys (500)',
    minutes: 20,
    tokenLifeS: 300,
    tenants: [tenants(200, { everyMs: 15 * SEC }), dead(100), newcomers(0.5)],
    rules: () => [deadKeys('dead', failed)],
    revokesPrevious: true,
    api: () => [],
  },
  {
    name: 'each new token revokes the one before, and one answer in fifty is lost',
    minutes: 15,
    tokenLifeS: 120,
    tenants: [tenants(200, { everyMs: 15 * SEC })],
    rules: () => [sometimes(0.02, { ...reset, issues: true })],
    revokesPrevious: true,
    api: () => [],
  },
  {
    name: 'the service forgets all its tokens at once',
    minutes: 12,
    tenants: [tenants(500, { everyMs: 10 * SEC }), newcomers(1)],
    api: () => [revokeAll(6 * MIN)],
  },
  {
    name: 'tokens of 10 s, beside 10 dead keys',
    minutes: 5,
    tokenLifeS: 10,
    tenants: [tenants(100, { everyMs: 2 * SEC }), dead(10, { everyMs: SEC })],
    rules: () => [deadKeys('dead', failed)],
    api: () => [],
  },
  {
    name: 'all tokens of 1,000 owners are revoked, on a quota of 50 a second',
    minutes: 6,
    lateMs: 5 * SEC,
    uncounted: [START, [3 * MIN, 3 * MIN + 20 * SEC]],
    tenants: [tenants(1_000, { everyMs: 8 * SEC })],
    rules: () => [quota({ perSecond: 50 })],
    api: () => [revokeAll(3 * MIN)],
  },
  {
    name: 'all tokens of 2,000 owners are revoked, latency grows with the square of what is at once beyond 24',
    minutes: 5,
    lateMs: 5 * SEC,
    uncounted: [START, [3 * MIN, 3 * MIN + 15 * SEC]],
    tenants: [tenants(2_000, { everyMs: 8 * SEC })],
    latencyMs: collapsing(100, 24, 2),
    api: () => [revokeAll(3 * MIN)],
  },
];
