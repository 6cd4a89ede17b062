/** Latency, volume, and times at which much or little happens. */

import { deadKeys, hangs } from '../rules.ts';
import { HOUR, MIN, type Scene, SEC } from '../scene.ts';
import { dead, newcomers, tenants } from './groups.ts';

export const latencyScenes: readonly Scene[] = [
  {
    name: 'two latency classes: a tenth takes 3 s, cold start',
    minutes: 2,
    lateMs: 4 * SEC,
    tenants: [
      tenants(1_800, { burstMs: 8 * SEC, everyMs: 30 * SEC }),
      tenants(200, { name: 'slow', burstMs: 8 * SEC, everyMs: 30 * SEC }),
    ],
    latencyMs: ({ group }) => (group.name === 'slow' ? 3_000 : 80),
  },
  {
    name: 'latency rises from 80 to 800 ms within 10 min',
    minutes: 12,
    tenants: [newcomers(20)],
    latencyMs: ({ atMs }) => 80 * (1 + 9 * Math.min(1, atMs / (10 * MIN))),
  },
  {
    name: 'latency leaps from 80 ms to 6 s for 20 s, every 2 min',
    minutes: 10,
    tokenLifeS: 300,
    lateMs: 8 * SEC,
    tenants: [tenants(300), newcomers(2)],
    latencyMs: ({ atMs }) => (atMs % (2 * MIN) < 20 * SEC ? 6_000 : 80),
  },
  {
    name: 'cold start of 3,000 tenants in 10 s',
    minutes: 2,
    lateMs: 10 * SEC,
    tenants: [tenants(3_000, { burstMs: 10 * SEC, everyMs: MIN })],
  },
  {
    name: 'cold start, 60 hanging keys first',
    minutes: 2,
    lateMs: 5 * SEC,
    tenants: [dead(60, { burstMs: 100 }), tenants(1_000, { burstMs: 10 * SEC })],
    rules: () => [deadKeys('dead', hangs)],
  },
  {
    name: 'cold start of 400 tenants in 10 s with four requests at once',
    minutes: 3,
    concurrency: 4,
    lateMs: 10 * SEC,
    tenants: [tenants(400, { burstMs: 10 * SEC })],
  },
  {
    name: 'three days, nights idle',
    minutes: 72 * 60,
    tenants: [tenants(50, { everyMs: 200 * SEC, pattern: (ms) => ms % (24 * HOUR) < 14 * HOUR })],
  },
];
