/** The API and the token service misbehave together. */

import { MIN, SEC } from '../../scene.ts';
import { down, during, refuseAll, refuseShare, revokeAll, slow } from '../rules.ts';
import type { ApiScene } from '../scene.ts';

const fromMs = 3 * MIN;

export const bothPlanesScenes: readonly ApiScene[] = [
  {
    name: '401 for all for 1 min, the token service down for 6',
    owners: 50,
    minutes: 14,
    lifeS: 3_600,
    everyMs: 2 * SEC,
    fault: [fromMs, 4 * MIN],
    api: () => [during([fromMs, 4 * MIN], refuseAll)],
    tokens: () => [during([fromMs, 9 * MIN], down)],
  },
  {
    name: '2 % of calls 401 for no reason, the token service down for 6 min, by hand',
    owners: 50,
    minutes: 14,
    lifeS: 3_600,
    everyMs: SEC,
    style: 'hand',
    api: () => [refuseShare(0.02)],
    tokens: () => [during([fromMs, 9 * MIN], down)],
  },
  {
    name: '401 for all for 3 min, the token service takes 3 s',
    owners: 50,
    minutes: 12,
    lifeS: 3_600,
    everyMs: 2 * SEC,
    fault: [fromMs, 6 * MIN],
    api: () => [during([fromMs, 6 * MIN], refuseAll)],
    tokens: () => [slow(3 * SEC)],
  },
  {
    // No call counts for 30 s after the token service was down: a client that respects it may ask that rarely.
    name: 'all tokens revoked, the token service down for 1 min',
    owners: 50,
    minutes: 12,
    lifeS: 3_600,
    everyMs: 2 * SEC,
    fault: [fromMs, 4 * MIN],
    onlyNewerHelps: true,
    counts: ({ atMs }) => atMs < 4 * MIN || atMs > 4 * MIN + 30 * SEC,
    api: () => [revokeAll(fromMs)],
    tokens: () => [during([fromMs, 4 * MIN], down)],
  },
  {
    name: 'a fifth of the calls 401 and a fifth of the token requests 503 for 10 min',
    owners: 50,
    minutes: 17,
    lifeS: 600,
    everyMs: 2 * SEC,
    fault: [fromMs, 13 * MIN],
    api: () => [during([fromMs, 13 * MIN], refuseShare(0.2))],
    tokens: () => [
      during([fromMs, 13 * MIN], (_request, { random }) => (random() < 0.2 ? { status: 503, ms: 20 } : undefined)),
    ],
  },
];
