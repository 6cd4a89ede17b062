/** The API accepts a token only some time after its issue: a replica behind, a cache of the gateway, `nbf`; or its clock is off. */

import { replicaAhead, replicaBehind } from '../../../world/api-rules.ts';
import { MIN, SEC } from '../../../world/setting.ts';
import type { ApiScene } from '../scene.ts';

const late = (validAfterMs: number, scene: Omit<ApiScene, 'name'>): ApiScene => ({
  name: `accepted ${validAfterMs / SEC} s after issue, ${words(scene)}`,
  validAfterMs,
  ...scene,
});

/** What the names of similar scenes tell apart. */
export const words = ({
  tokenLifeS,
  everyMs,
  style,
  accepts,
}: Pick<ApiScene, 'tokenLifeS' | 'everyMs' | 'style' | 'accepts'>): string =>
  `life ${tokenLifeS} s, a call each ${everyMs / SEC} s${style ? ', by hand' : ''}${accepts ? ' with accept' : ''}`;

export const lateTokenScenes: readonly ApiScene[] = [
  { name: 'nothing happens, life 10 min', owners: 50, minutes: 40, tokenLifeS: 600, everyMs: 5 * SEC },
  {
    name: 'nothing happens, life 60 s, by hand',
    owners: 50,
    minutes: 20,
    tokenLifeS: 60,
    everyMs: 2 * SEC,
    style: 'hand',
  },
  late(200, { owners: 20, minutes: 15, tokenLifeS: 600, everyMs: 500 }),
  late(SEC, { owners: 50, minutes: 75, tokenLifeS: 3_600, everyMs: 5 * SEC }),
  late(3 * SEC, { owners: 100, minutes: 180, tokenLifeS: 3_600, everyMs: MIN }),
  late(3 * SEC, { owners: 50, minutes: 60, tokenLifeS: 600, everyMs: 5 * SEC, style: 'hand' }),
  late(3 * SEC, { owners: 50, minutes: 60, tokenLifeS: 600, everyMs: 5 * SEC, style: 'hand', accepts: true }),
  late(8 * SEC, { owners: 50, minutes: 75, tokenLifeS: 3_600, everyMs: 5 * SEC }),
  late(SEC, { owners: 20, minutes: 15, tokenLifeS: 60, everyMs: 500 }),
  // Tokens are refreshed at 36 to 48 s of 57, so a third more of them arrive, each of them too early.
  late(3 * SEC, { owners: 20, minutes: 15, tokenLifeS: 60, everyMs: SEC, slackPoints: 3 }),
  {
    name: 'API clock behind by 5 s, life 10 min',
    owners: 50,
    minutes: 60,
    tokenLifeS: 600,
    everyMs: 5 * SEC,
    apiClockAheadMs: -5 * SEC,
  },
  {
    name: 'API clock ahead by 60 s, life 10 min',
    owners: 50,
    minutes: 60,
    tokenLifeS: 600,
    everyMs: 5 * SEC,
    apiClockAheadMs: MIN,
  },
  {
    name: 'one of three API replicas: clock ahead by 90 s, life 10 min',
    owners: 50,
    minutes: 60,
    tokenLifeS: 600,
    everyMs: 5 * SEC,
    api: () => [replicaAhead(1 / 3, 90 * SEC)],
  },
  {
    name: 'one of two API replicas: 2 s behind, life 10 min',
    owners: 40,
    minutes: 60,
    tokenLifeS: 600,
    everyMs: 5 * SEC,
    api: () => [replicaBehind(1 / 2, 2 * SEC)],
  },
];
