/** The API refuses one route, or one owner, whatever the token. */

import { refuseOwners, refuseRoute } from '../../../world/api-rules.ts';
import { during } from '../../../world/rules.ts';
import { HOUR, MIN, SEC } from '../../../world/setting.ts';
import type { ApiScene } from '../scene.ts';

/** A share of the calls goes to a route that answers 401 to every token; only the others count. */
const refusedRoute = (share: number): Pick<ApiScene, 'route' | 'counts' | 'api'> => ({
  route: (random) => (random() < share ? '/refused' : '/'),
  counts: ({ route }) => route === '/',
  api: () => [refuseRoute('/refused')],
});

const isFirst = (number: number) => number === 0;

export const routeAndOwnerScenes: readonly ApiScene[] = [
  {
    name: 'one route always 401, a third of the calls',
    owners: 25,
    minutes: 20,
    tokenLifeS: 600,
    everyMs: 2 * SEC,
    ...refusedRoute(1 / 3),
  },
  {
    name: 'one route always 401, a third of the calls, by hand with accept',
    owners: 25,
    minutes: 20,
    tokenLifeS: 600,
    everyMs: 2 * SEC,
    style: 'hand',
    accepts: true,
    ...refusedRoute(1 / 3),
  },
  {
    name: 'one route always 401, a third of the calls, a call a minute',
    owners: 200,
    minutes: 60,
    tokenLifeS: 600,
    everyMs: MIN,
    ...refusedRoute(1 / 3),
  },
  {
    name: 'one route always 401, nine of ten calls, by hand',
    owners: 25,
    minutes: 20,
    tokenLifeS: 3_600,
    everyMs: 2 * SEC,
    style: 'hand',
    ...refusedRoute(0.9),
  },
  {
    name: 'one route always 401, a new token revokes its predecessor',
    owners: 20,
    minutes: 5,
    tokenLifeS: 3_600,
    everyMs: 200,
    revokesPrevious: true,
    ...refusedRoute(1 / 3),
  },
  {
    name: 'one owner of 50 revoked at the API',
    owners: 50,
    minutes: 20,
    tokenLifeS: 600,
    everyMs: 2 * SEC,
    counts: ({ number }) => !isFirst(number),
    api: () => [during([5 * MIN, HOUR], refuseOwners(isFirst))],
  },
  {
    name: 'one owner revoked at the API for 10 min, then back',
    owners: 20,
    minutes: 25,
    tokenLifeS: 3_600,
    everyMs: 2 * SEC,
    fault: [5 * MIN, 15 * MIN],
    api: () => [during([5 * MIN, 15 * MIN], refuseOwners(isFirst))],
  },
];
