/** The API refuses everybody, or a share of the calls, for no fault of the tokens. */

import { periodically, refuseAll, refuseShare } from '../../../world/api-rules.ts';
import { during } from '../../../world/rules.ts';
import type { ApiRule } from '../../../world/setting.ts';
import { MIN, SEC } from '../../../world/setting.ts';
import type { ApiScene } from '../scene.ts';
import { words } from './late-tokens.ts';

const fromMs = 3 * MIN;

/** The API refuses everybody from the third minute on. */
function storm(lasts: string, lastsMs: number, scene: Omit<ApiScene, 'name' | 'minutes'>): ApiScene {
  const untilMs = fromMs + lastsMs;
  return {
    name: `401 for all: ${lasts}, ${words(scene)}`,
    minutes: Math.ceil(untilMs / MIN) + 4,
    fault: [fromMs, untilMs],
    longOutage: lastsMs >= 5 * MIN,
    api: () => [during([fromMs, untilMs], refuseAll)],
    ...scene,
  };
}

/** Some nodes refuse from the third minute on. */
const nodes = (minutes: number, rule: ApiRule): Pick<ApiScene, 'fault' | 'api'> => ({
  fault: [fromMs, fromMs + minutes * MIN],
  api: () => [during([fromMs, fromMs + minutes * MIN], rule)],
});

export const refusingApiScenes: readonly ApiScene[] = [
  storm('20 s', 20 * SEC, { owners: 30, tokenLifeS: 600, everyMs: 500 }),
  storm('1 min', MIN, { owners: 50, tokenLifeS: 3_600, everyMs: SEC }),
  storm('5 min', 5 * MIN, { owners: 100, tokenLifeS: 600, everyMs: 5 * SEC }),
  storm('5 min', 5 * MIN, { owners: 100, tokenLifeS: 3_600, everyMs: 5 * SEC, style: 'hand' }),
  storm('5 min', 5 * MIN, { owners: 100, tokenLifeS: 3_600, everyMs: 5 * SEC, style: 'hand', accepts: true }),
  storm('20 min', 20 * MIN, { owners: 20, tokenLifeS: 3_600, everyMs: SEC }),
  storm('20 min', 20 * MIN, { owners: 200, tokenLifeS: 600, everyMs: MIN }),
  {
    name: 'nine of ten nodes: 401 for 5 min',
    owners: 50,
    minutes: 12,
    tokenLifeS: 3_600,
    everyMs: SEC,
    ...nodes(5, refuseShare(0.9)),
  },
  {
    name: 'one of four nodes: 401 for 10 min',
    owners: 50,
    minutes: 17,
    tokenLifeS: 3_600,
    everyMs: 2 * SEC,
    ...nodes(10, refuseShare(0.25)),
  },
  {
    name: 'one of ten nodes: 401 for 20 min',
    owners: 50,
    minutes: 30,
    tokenLifeS: 3_600,
    everyMs: 5 * SEC,
    ...nodes(20, refuseShare(0.1)),
  },
  {
    name: 'one of ten nodes: 401 for 20 min, by hand',
    owners: 50,
    minutes: 30,
    tokenLifeS: 600,
    everyMs: 5 * SEC,
    style: 'hand',
    ...nodes(20, refuseShare(0.1)),
  },
  // Replacements wait for the quota, and the tokens that they are to replace are good. The cold start does not count.
  {
    name: '401 for all: 4 s, 1,500 owners, requestsPerSecond 20',
    owners: 1_500,
    minutes: 5,
    tokenLifeS: 3_600,
    everyMs: 8 * SEC,
    options: { requestsPerSecond: 20 },
    counts: ({ atMs }) => atMs > 2 * MIN,
    fault: [fromMs, fromMs + 4 * SEC],
    api: () => [during([fromMs, fromMs + 4 * SEC], refuseAll)],
  },
  {
    name: '401 for all: 20 min, the token service takes 12 s',
    owners: 20,
    minutes: 27,
    tokenLifeS: 3_600,
    everyMs: SEC,
    slackPoints: 2,
    longOutage: true,
    fault: [fromMs, 23 * MIN],
    api: () => [during([fromMs, 23 * MIN], refuseAll)],
    latencyMs: 12 * SEC,
  },
  {
    name: '0.5 % of calls: 401 for no reason',
    owners: 100,
    minutes: 30,
    tokenLifeS: 3_600,
    everyMs: 5 * SEC,
    api: () => [refuseShare(0.005)],
  },
  {
    name: '401 for all: 50 ms of each 10 s, shorter than a token request',
    owners: 20,
    minutes: 10,
    tokenLifeS: 3_600,
    everyMs: 500,
    api: () => [periodically(10 * SEC, 50, refuseAll)],
  },
  {
    name: '401 for all: 300 ms of each 20 s, the token service takes 2 s',
    owners: 20,
    minutes: 20,
    tokenLifeS: 3_600,
    everyMs: SEC,
    api: () => [periodically(20 * SEC, 300, refuseAll)],
    latencyMs: 2 * SEC,
  },
  {
    name: '401 for all: 30 s of each 3 min',
    owners: 50,
    minutes: 20,
    tokenLifeS: 3_600,
    everyMs: 2 * SEC,
    api: () => [periodically(3 * MIN, 30 * SEC, refuseAll)],
  },
  {
    // Nothing can be kept, because a rejection arrives more than ten seconds after the token.
    name: '401 for all: 5 min, and each 401 takes 12 s',
    owners: 50,
    minutes: 12,
    tokenLifeS: 3_600,
    everyMs: 5 * SEC,
    refusalMs: 12 * SEC,
    fault: [fromMs, 8 * MIN],
    api: () => [during([fromMs, 8 * MIN], refuseAll)],
  },
];
