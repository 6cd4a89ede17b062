/** Nobody knows yet what is right here: the baselines are no measure, because they are banned, too, or happen to fit the limit. */

import { deadKeys, during, nodes, oauthError, parallelLimit, penaltyBox, quota, refusal } from '../../world/rules.ts';
import { type Answer, MIN, SEC } from '../../world/setting.ts';
import type { Scene } from '../scene.ts';
import { dead, newcomers, tenants } from './groups.ts';

const wrongSecret = oauthError(401, 'invalid_client');

/** Nodes of the service that know different secrets for a while. */
const rotation = (what: string, refuses: (node: number, sinceMs: number) => boolean): Scene => ({
  name: `rotation out of step: five nodes ${what}`,
  minutes: 7,
  tokenLifeS: 300,
  informative: true,
  tenants: [tenants(300, { everyMs: 10 * SEC }), newcomers(8)],
  rules: () => {
    const answerOf = (node: number, atMs: number): Answer | undefined =>
      refuses(node, atMs - 2 * MIN) ? wrongSecret : undefined;
    return [during([2 * MIN, 4 * MIN], nodes(5, answerOf))];
  },
});

export const notJudgedScenes: readonly Scene[] = [
  rotation('learn the new secret 20 s after each other', (node, sinceMs) => sinceMs < node * 20 * SEC),
  rotation(
    'forget the old secret 20 s after each other, and the client is 2 min late',
    (node, sinceMs) => sinceMs > (node + 1) * 20 * SEC,
  ),
  {
    name: 'failures count, too: 6 a second given; 40 dead keys polled each 2 s (401), 200 tenants',
    minutes: 8,
    tokenLifeS: 120,
    informative: true,
    tenants: [tenants(200, { everyMs: 10 * SEC }), dead(40, { everyMs: 2 * SEC })],
    rules: () => [quota({ perSecond: 6, burst: 20 }), deadKeys('dead', refusal(401))],
  },
  {
    name: 'an hour idle, then 1,500 in 3 s at a parallel limit of 40 (503)',
    minutes: 66,
    tokenLifeS: 600,
    lateMs: 20 * SEC,
    informative: true,
    tenants: [
      tenants(1_500, { everyMs: MIN, fromMs: 60 * MIN, burstMs: 3 * SEC }),
      tenants(5, { name: 'few', everyMs: 10 * MIN }),
    ],
    rules: () => [parallelLimit(40, 503)],
  },
  {
    name: 'ban of a minute above 40 in a second: 500 at once, then 5 newcomers a second',
    minutes: 8,
    informative: true,
    tenants: [{ name: 'tenants', count: 500, burstMs: 2 * SEC }, newcomers(5)],
    rules: () => [penaltyBox(40, MIN)],
  },
  {
    name: 'ban of a minute above 60 in a second: 20 newcomers a second, 200 more each 2 min',
    minutes: 9,
    informative: true,
    tenants: [
      newcomers(20),
      ...[2, 4, 6].map((minute) => ({ name: `wave${minute}`, count: 200, fromMs: minute * MIN, burstMs: SEC })),
    ],
    rules: () => [penaltyBox(60, MIN)],
  },
  {
    name: 'ban of 10 s above 25 in a second: 400 tenants with tokens of 30 s, all at once at first',
    minutes: 6,
    tokenLifeS: 30,
    informative: true,
    tenants: [tenants(400, { everyMs: 5 * SEC, burstMs: 500 })],
    rules: () => [penaltyBox(25, 10 * SEC)],
  },
];
