/** The service has limits. */

import {
  blockedWhileAsking,
  during,
  parallelLimit,
  perSecond,
  quota,
  shedding,
  spread,
  windowQuota,
} from '../../world/rules.ts';
import { MIN, SEC } from '../../world/setting.ts';
import type { Scene } from '../scene.ts';
import { newcomers, tenants } from './groups.ts';

export const limitScenes: readonly Scene[] = [
  {
    name: 'demand above a quota: 30 a second wanted, 20 given',
    minutes: 3,
    ideal: 66.7,
    tenants: [newcomers(30)],
    rules: () => [quota({ perSecond: 20 })],
  },
  {
    name: 'demand above a window: 8 a second wanted, 300 a minute given, Retry-After to its end',
    minutes: 5,
    ideal: 62.5,
    tenants: [newcomers(8)],
    rules: () => [windowQuota({ count: 300 })],
  },
  {
    name: 'demand above a quota: 30 a second wanted, 20 given, Retry-After 1',
    minutes: 3,
    ideal: 66.7,
    tenants: [newcomers(30)],
    rules: () => [quota({ perSecond: 20, retryAfterS: 1 })],
  },
  {
    name: 'a quota that others use, too: 20 a second wanted, 30 given, then 10, then 30',
    minutes: 6,
    // Four minutes in full, two by half.
    ideal: 83.3,
    tenants: [newcomers(20)],
    rules: () => [quota({ perSecond: (ms) => (ms >= 2 * MIN && ms < 4 * MIN ? 10 : 30) })],
  },
  {
    name: 'burst of 1,000 on a quota of 20 a second',
    minutes: 3,
    lateMs: MIN,
    tenants: [{ name: 'tenants', count: 1_000, burstMs: 5 * SEC }],
    rules: () => [quota({ perSecond: 20 })],
  },
  {
    name: '1,500 tokens of 10 min end within 10 s, on a quota of 50 a second',
    minutes: 25,
    tokenLifeS: 600,
    lateMs: 30 * SEC,
    tenants: [tenants(1_500, { burstMs: 10 * SEC, everyMs: MIN })],
    rules: () => [quota({ perSecond: 50 })],
  },
  {
    name: 'a quota of 5 a second for two minutes, 10 wanted; 500 at once eight minutes later',
    minutes: 11,
    uncounted: [[0, 10 * MIN]],
    tenants: [newcomers(10, { untilMs: 2 * MIN }), { name: 'tenants', count: 500, burstMs: SEC, fromMs: 10 * MIN }],
    rules: () => [during([0, 2 * MIN], quota({ perSecond: 5 }))],
  },
  {
    name: 'parallel limit of 8, 429 beyond, 60 calls a second',
    minutes: 2,
    tenants: [newcomers(60)],
    rules: () => [parallelLimit(8, 429)],
  },
  {
    name: 'parallel limit of 4, 503 beyond, 30 calls a second',
    minutes: 3,
    tenants: [newcomers(30)],
    rules: () => [parallelLimit(4, 503)],
  },
  {
    name: 'parallel limit of 8, 429 beyond, known to the client: tokens take 0.3 to 6 s',
    minutes: 3,
    concurrency: 8,
    lateMs: 20 * SEC,
    // A known loss: requests that count as slow exceed the limit by a few, whose owners then wait for a second attempt.
    informative: true,
    latencyMs: spread(300, 6_000),
    tenants: [newcomers(3)],
    rules: () => [parallelLimit(8, 429)],
  },
  {
    name: '1,000 at once, 100 in any second given, 429 beyond',
    minutes: 2,
    lateMs: 30 * SEC,
    mostOverLimit: 0.15,
    latencyMs: 50,
    tenants: [{ name: 'tenants', count: 1_000, burstMs: 100 }],
    rules: () => [perSecond(100)],
  },
  {
    name: 'cold start of 1,000 at a parallel limit of 16, 503 beyond',
    minutes: 3,
    lateMs: 30 * SEC,
    mostOverLimit: 0.25,
    latencyMs: 100,
    tenants: [tenants(1_000, { burstMs: 2 * SEC, everyMs: 30 * SEC })],
    rules: () => [parallelLimit(16, 503)],
  },
  {
    name: 'a quota that scales: 40 a second wanted, 20 given, then 60, then 20',
    minutes: 6,
    // A third of the time in full.
    ideal: 66.7,
    tenants: [newcomers(40)],
    rules: () => [quota({ perSecond: (ms) => (ms < 2 * MIN || ms > 4 * MIN ? 20 : 60) })],
  },
  {
    name: 'a quota that scales: 40 a second wanted, 10 given, then 20, 40 and 80, 503 beyond',
    minutes: 4,
    ideal: 68.75,
    tenants: [newcomers(40)],
    rules: () => [quota({ perSecond: (ms) => 10 * 2 ** Math.min(3, Math.floor(ms / MIN)), status: 503 })],
  },
  {
    name: 'two replicas on one quota: 30 a second wanted, 20 given',
    minutes: 4,
    replicas: 2,
    ideal: 66.7,
    tenants: [newcomers(30)],
    rules: () => [quota({ perSecond: 20 })],
  },
  {
    name: 'two replicas, 1,000 at once, 100 in any second given, 429 beyond',
    minutes: 2,
    replicas: 2,
    lateMs: 30 * SEC,
    mostOverLimit: 0.25,
    latencyMs: 50,
    tenants: [{ name: 'tenants', count: 1_000, burstMs: 200 }],
    rules: () => [perSecond(100)],
  },
  {
    name: 'the service sheds load: 60 a second wanted, 40 done, the rest gets 503',
    minutes: 4,
    ideal: 66.7,
    tenants: [newcomers(60)],
    rules: () => [shedding(40, 503)],
  },
  {
    name: 'the service sheds load: 48 a second wanted, 40 done, the rest gets 429',
    minutes: 4,
    ideal: 83.3,
    tenants: [newcomers(48)],
    rules: () => [shedding(40, 429)],
  },
  {
    name: 'refusals count, too: blocked above 600 in the last minute; 900 at once, then 6 newcomers a second',
    minutes: 7,
    ideal: 60,
    tenants: [{ name: 'tenants', count: 900, burstMs: 5 * SEC }, newcomers(6)],
    rules: () => [blockedWhileAsking(600, MIN)],
  },
];
