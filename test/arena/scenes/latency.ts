/** Latency, volume, and times at which much or little happens. */

import { collapsing, deadKeys, hangs, logNormal, refusal, sometimes, spread } from '../../world/rules.ts';
import { HOUR, MIN, SEC } from '../../world/setting.ts';
import type { Scene } from '../scene.ts';
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
  {
    name: 'tokens of 10 s that take 1 s, 60 tenants',
    minutes: 5,
    tokenLifeS: 10,
    latencyMs: SEC,
    lateMs: 3 * SEC,
    tenants: [tenants(60, { everyMs: 3 * SEC })],
  },
  {
    name: 'tokens of 30 s that take 3 s, 200 tenants',
    minutes: 5,
    tokenLifeS: 30,
    latencyMs: 3 * SEC,
    lateMs: 6 * SEC,
    tenants: [tenants(200, { everyMs: 3 * SEC })],
  },
  {
    name: 'half an hour idle, then 800 in a second, latency grows with the cube of what is at once beyond 24',
    minutes: 34,
    tokenLifeS: 600,
    lateMs: 12 * SEC,
    tenants: [
      tenants(800, { everyMs: MIN, fromMs: 30 * MIN, burstMs: SEC }),
      tenants(5, { name: 'few', everyMs: 5 * MIN }),
    ],
    latencyMs: collapsing(100, 24, 3),
  },
  {
    name: 'brown-out: 60 ms, but 600 ms for 3 min, 40 newcomers a second',
    minutes: 7,
    tenants: [newcomers(40)],
    latencyMs: ({ atMs }) => (atMs >= 2 * MIN && atMs < 5 * MIN ? 600 : 60),
  },
  {
    name: 'brown-out: 80 ms, but 800 ms for 10 s in each 30 s, 120 newcomers a second',
    minutes: 4,
    lateMs: 4 * SEC,
    tenants: [newcomers(120)],
    latencyMs: ({ atMs }) => (atMs % (30 * SEC) < 10 * SEC ? 800 : 80),
  },
  {
    name: 'slow owners: 5 % always take 5 s, 40 newcomers a second',
    minutes: 4,
    lateMs: 7 * SEC,
    tenants: [newcomers(38), newcomers(2, { name: 'slow' })],
    latencyMs: ({ group }) => (group.name === 'slow' ? 5 * SEC : 80),
  },
  {
    name: '2,000 owners each second, tokens of 25 s that take 250 ms',
    minutes: 2,
    least: 95,
    tokenLifeS: 25,
    latencyMs: 250,
    tenants: [tenants(2_000, { everyMs: SEC })],
  },
  {
    name: '300 newcomers a second, tokens take 20 or 250 ms, half each',
    minutes: 3,
    least: 95,
    lateMs: 3 * SEC,
    tenants: [newcomers(300)],
    latencyMs: ({ number }) => (number % 2 ? 20 : 250),
  },
  {
    name: '300 newcomers a second, 80 ms, from the second minute on 250 ms',
    minutes: 4,
    least: 95,
    tenants: [newcomers(300)],
    latencyMs: ({ atMs }) => (atMs < MIN ? 80 : 250),
  },
  {
    name: '150 newcomers a second for 8 min, log-normal latencies around 250 ms',
    minutes: 8,
    least: 95,
    lateMs: 4 * SEC,
    tenants: [newcomers(150)],
    latencyMs: logNormal(250, 9 * SEC),
  },
  {
    name: 'more owners than the cache holds: 1,000 each 10 s, maxOwners 200',
    minutes: 5,
    maxOwners: 200,
    tenants: [tenants(1_000, { everyMs: 10 * SEC })],
  },
  {
    name: 'one request at once, 60 ms, 10 newcomers a second, 2 % of 503',
    minutes: 4,
    concurrency: 1,
    latencyMs: 60,
    tenants: [newcomers(10)],
    rules: () => [sometimes(0.02, refusal(503))],
  },
];
