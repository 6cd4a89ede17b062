/** Tokens die before their time, or their service issues bad ones. */

import { issueElsewhereEvery, periodically, refuseIssued, revokeAll, revokeOneEach } from '../../../world/api-rules.ts';
import { quota, sameUntil } from '../../../world/rules.ts';
import type { ApiRule } from '../../../world/setting.ts';
import { MIN, SEC } from '../../../world/setting.ts';
import type { ApiScene } from '../scene.ts';

/** For a while after a rotation the API knows only the key before. */
const isNewerThanRotation: ApiRule = ({ token, atMs }) =>
  token.issuedMs >= atMs - (atMs % (5 * MIN)) ? 401 : undefined;

export const deadTokenScenes: readonly ApiScene[] = [
  {
    name: 'single tokens revoked, one each 2 s',
    owners: 100,
    minutes: 30,
    tokenLifeS: 3_600,
    everyMs: 5 * SEC,
    script: revokeOneEach(2 * SEC),
  },
  {
    name: 'single tokens revoked, one each 2 s, by hand',
    owners: 100,
    minutes: 30,
    tokenLifeS: 3_600,
    everyMs: 5 * SEC,
    style: 'hand',
    script: revokeOneEach(2 * SEC),
  },
  {
    name: 'all tokens revoked at once, twice',
    owners: 100,
    minutes: 30,
    tokenLifeS: 3_600,
    everyMs: 5 * SEC,
    fault: [0, 20 * MIN],
    api: () => [revokeAll(10 * MIN), revokeAll(20 * MIN)],
  },
  {
    name: 'a new token revokes its predecessor, calls in flight',
    owners: 20,
    minutes: 20,
    tokenLifeS: 60,
    everyMs: 500,
    revokesPrevious: true,
  },
  {
    name: 'another process revokes: a new token each 20 s',
    owners: 20,
    minutes: 20,
    tokenLifeS: 600,
    everyMs: SEC,
    revokesPrevious: true,
    script: issueElsewhereEvery(20 * SEC),
  },
  {
    name: 'another process revokes: a new token each 10 s, by hand',
    owners: 20,
    minutes: 20,
    tokenLifeS: 3_600,
    everyMs: SEC,
    revokesPrevious: true,
    style: 'hand',
    slackPoints: 2,
    script: issueElsewhereEvery(10 * SEC),
  },
  {
    name: 'another process revokes: a new token each 10 s, by hand with accept',
    owners: 20,
    minutes: 20,
    tokenLifeS: 3_600,
    everyMs: SEC,
    revokesPrevious: true,
    style: 'hand',
    accepts: true,
    script: issueElsewhereEvery(10 * SEC),
  },
  {
    // Some are being refreshed, with a token that was issued before all were revoked.
    name: 'all tokens revoked, the token service takes 2 s',
    owners: 200,
    minutes: 20,
    tokenLifeS: 600,
    everyMs: 2 * SEC,
    fault: [0, 7 * MIN],
    api: () => [revokeAll(7 * MIN)],
    latencyMs: 2 * SEC,
  },
  {
    // Until its turn comes, an owner is served with a dead token, as by a client that knows no quota.
    name: 'all tokens of 600 owners revoked, the token service allows 20 requests a second',
    owners: 600,
    minutes: 8,
    tokenLifeS: 3_600,
    everyMs: 10 * SEC,
    options: { requestsPerSecond: 20 },
    counts: ({ atMs }) => atMs > 2 * MIN,
    fault: [0, 5 * MIN],
    onlyNewerHelps: true,
    api: () => [revokeAll(5 * MIN)],
    rules: () => [quota({ perSecond: 20 })],
  },
  {
    name: 'tokens die at half of their stated life of 60 s',
    owners: 50,
    minutes: 20,
    tokenLifeS: 60,
    trueLifeS: 30,
    everyMs: 2 * SEC,
  },
  {
    name: 'tokens die at half of their stated life of an hour',
    owners: 50,
    minutes: 240,
    tokenLifeS: 3_600,
    trueLifeS: 1_800,
    everyMs: 30 * SEC,
  },
  {
    name: 'tokens live twice as long as stated',
    owners: 50,
    minutes: 60,
    tokenLifeS: 600,
    trueLifeS: 1_200,
    everyMs: 5 * SEC,
  },
  {
    name: 'a revoked token is issued again until it is 5 min old',
    // Asked ever less often, such a service costs more than chance.
    owners: 50,
    minutes: 20,
    tokenLifeS: 600,
    everyMs: 4 * SEC,
    slackPoints: 3,
    script: revokeOneEach(5 * SEC),
    rules: () => [sameUntil(5 * MIN)],
  },
  {
    name: 'the token service signs with a wrong key for 1 min',
    owners: 50,
    minutes: 15,
    tokenLifeS: 120,
    everyMs: 2 * SEC,
    onlyNewerHelps: true,
    fault: [3 * MIN, 4 * MIN],
    api: () => [refuseIssued([3 * MIN, 4 * MIN])],
  },
  {
    name: 'signing keys rotate each 5 min: for 30 s the API refuses the newer tokens, life 2 min',
    // Tokens that are refreshed ahead of their end meet such an API more often.
    owners: 50,
    minutes: 30,
    tokenLifeS: 120,
    everyMs: 2 * SEC,
    slackPoints: 2,
    api: () => [periodically(5 * MIN, 30 * SEC, isNewerThanRotation)],
  },
];
