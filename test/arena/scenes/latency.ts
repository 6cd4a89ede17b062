/** Latency, volume, and times at which much or little happens. */

import { collapsing, deadKeys, hangs, spread } from '../rules.ts';
import { HOUR, MIN, type Scene, SEC } from '../scene.ts';
import { dead, newcomers, tenants } from './groups.ts';

/** A service that slows down as more is asked of it at once, and requests that come in waves. */
const slowsDown = (what: string, power: number, waves: number): Scene => ({
  name: `latency grows with the ${what} of what is at once beyond 24: cold start of ${(2_000).toLocaleString('en')}${waves > 1 ? ' in waves' : ''}`,
  minutes: 4,
  lateMs: 10 * SEC,
  tenants: Array.from({ length: waves }, (_, wave) => ({
    name: `wave${wave}`,
    count: 2_000 / waves,
    burstMs: (5 * SEC) / waves,
    fromMs: 30 * SEC * wave,
  })),
  latencyMs: collapsing(100, 24, power),
});

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
  slowsDown('power of 1.5', 1.5, 1),
  slowsDown('square', 2, 1),
  slowsDown('cube', 3, 4),
  {
    name: 'latencies spread from 20 to 1,090 ms: cold start of 3,000 in 10 s',
    minutes: 2,
    lateMs: 10 * SEC,
    tenants: [tenants(3_000, { burstMs: 10 * SEC, everyMs: MIN })],
    latencyMs: spread(20, 1_090),
  },
  {
    name: 'two latencies, 5 and 300 ms, half each: cold start of 2,000 in 5 s',
    minutes: 2,
    lateMs: 10 * SEC,
    tenants: ['near', 'far'].map((name) => tenants(1_000, { name, burstMs: 5 * SEC, everyMs: MIN })),
    latencyMs: ({ group }) => (group.name === 'far' ? 300 : 5),
  },
  {
    name: 'the service stands still for a second in ten, 60 newcomers a second',
    minutes: 4,
    tenants: [newcomers(60)],
    latencyMs: ({ atMs }) => 80 + Math.max(0, SEC - (atMs % (10 * SEC))),
  },
];
