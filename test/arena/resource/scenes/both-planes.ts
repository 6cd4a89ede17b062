/** The API and the token service misbehave together. */

import { refuseAll, refuseShare, revokeAll } from '../../../world/api-rules.ts';
import { during, outage, refusal, sometimes } from '../../../world/rules.ts';
import { MIN, SEC } from '../../../world/setting.ts';
import type { ApiScene } from '../scene.ts';

const fromMs = 3 * MIN;

export const bothPlanesScenes: readonly ApiScene[] = [
  {
    name: '401 for all for 1 min, the token service down for 6',
    owners: 50,
    minutes: 14,
    tokenLifeS: 3_600,
    everyMs: 2 * SEC,
    fault: [fromMs, 4 * MIN],
    api: () => [during([fromMs, 4 * MIN], refuseAll)],
    rules: () => [during([fromMs, 9 * MIN], outage(refusal(503)))],
  },
  {
    name: '2 % of calls 401 for no reason, the token service down for 6 min, by hand',
    owners: 50,
    minutes: 14,
    tokenLifeS: 3_600,
    everyMs: SEC,
    style: 'hand',
    api: () => [refuseShare(0.02)],
    rules: () => [during([fromMs, 9 * MIN], outage(refusal(503)))],
  },
  {
    name: '401 for all for 3 min, the token service takes 3 s',
    owners: 50,
    minutes: 12,
    tokenLifeS: 3_600,
    everyMs: 2 * SEC,
    fault: [fromMs, 6 * MIN],
    api: () => [during([fromMs, 6 * MIN], refuseAll)],
    latencyMs: 3 * SEC,
  },
  {
    // No call counts for 30 s after the token service was down: a client that respects it may ask that rarely.
    name: 'all tokens revoked, the token service down for 1 min',
    owners: 50,
    minutes: 12,
    tokenLifeS: 3_600,
    everyMs: 2 * SEC,
    fault: [fromMs, 4 * MIN],
    onlyNewerHelps: true,
    counts: ({ atMs }) => atMs < 4 * MIN || atMs > 4 * MIN + 30 * SEC,
    api: () => [revokeAll(fromMs)],
    rules: () => [during([fromMs, 4 * MIN], outage(refusal(503)))],
  },
  {
    name: 'a fifth of the calls 401 and a fifth of the token requests 503 for 10 min',
    owners: 50,
    minutes: 17,
    tokenLifeS: 600,
    everyMs: 2 * SEC,
    fault: [fromMs, 13 * MIN],
    api: () => [during([fromMs, 13 * MIN], refuseShare(0.2))],
    rules: () => [during([fromMs, 13 * MIN], sometimes(0.2, refusal(503)))],
  },
];
