/** Many new owners that nobody waits for, beside calls that somebody waits for. */

import { parallelLimit, quota } from '../../world/rules.ts';
import { MIN, SEC, type TenantGroup } from '../../world/setting.ts';
import type { Scene } from '../scene.ts';
import { tenants } from './groups.ts';

const batch = (count: number, burstMs: number, fromMs: number): TenantGroup => ({
  name: `batch${fromMs / MIN}`,
  count,
  burstMs,
  fromMs,
  ill: true,
});

export const batchScenes: readonly Scene[] = [
  {
    name: 'batch: 5,000 new owners within 20 s, twice, at a parallel limit of 16 (429)',
    minutes: 6,
    tokenLifeS: 60,
    batchMayWait: true,
    tenants: [
      tenants(300, { everyMs: 4 * SEC }),
      ...[2 * MIN, 4 * MIN].map((fromMs) => batch(5_000, 20 * SEC, fromMs)),
    ],
    rules: () => [parallelLimit(16, 429)],
  },
  {
    name: 'batch: 4,000 new owners within 20 s, 100 a second given',
    minutes: 5,
    tokenLifeS: 60,
    batchMayWait: true,
    tenants: [tenants(400, { everyMs: 4 * SEC }), batch(4_000, 20 * SEC, 2 * MIN)],
    rules: () => [quota({ perSecond: 100 })],
  },
  {
    name: 'batch: 9,000 new owners within 2 min, 60 a second given',
    minutes: 6,
    tokenLifeS: 60,
    batchMayWait: true,
    tenants: [tenants(200, { everyMs: 4 * SEC }), batch(9_000, 2 * MIN, 2 * MIN)],
    rules: () => [quota({ perSecond: 60 })],
  },
  {
    name: 'a warm-up of 3,000 keys beside 300 tenants, at a parallel limit of 16 (429)',
    minutes: 5,
    tokenLifeS: 60,
    warmUp: { atMs: 2 * MIN, group: 'warm' },
    tenants: [tenants(300, { everyMs: 4 * SEC }), { name: 'warm', count: 3_000 }],
    rules: () => [parallelLimit(16, 429)],
  },
];
