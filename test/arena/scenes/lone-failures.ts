/** A share of the requests fails, whichever owner they are for. */

import {
  cutShort,
  during,
  failed,
  hangs,
  htmlPage,
  oauthError,
  refusal,
  refusedConnection,
  reset,
  sometimes,
} from '../../world/rules.ts';
import { type Answer, MIN, SEC } from '../../world/setting.ts';
import type { Scene } from '../scene.ts';
import { newcomers, tenants } from './groups.ts';

const trickle = (what: string, answer: Answer, perSecond: number, minutes: number, share = 0.01): Scene => ({
  name: `trickle: ${100 * share} % of requests ${what}`,
  minutes,
  tenants: [newcomers(perSecond)],
  rules: () => [sometimes(share, answer)],
});

/** Of three nodes behind a load balancer, two fail in the same way. */
const twoOfThree = (what: string, answer: Answer): Scene => ({
  name: `two nodes of three ${what} for two minutes`,
  minutes: 6,
  tokenLifeS: 600,
  tenants: [tenants(200), newcomers(5)],
  rules: () => [during([MIN, 3 * MIN], sometimes(2 / 3, answer))],
});

export const loneFailureScenes: readonly Scene[] = [
  trickle('get 429', refusal(429), 50, 3),
  // A known loss: the limiter takes a fifth of 429s for overload, however few requests are sent.
  { ...trickle('get 429', refusal(429), 150, 2, 0.2), informative: true },
  trickle('get 429, Retry-After 1', refusal(429, 1), 50, 3),
  trickle('get ECONNREFUSED', refusedConnection, 20, 5),
  { name: 'trickle: 1 % of secret reads throw', minutes: 5, tenants: [newcomers(20)], secretFails: 0.01 },
  trickle('hang', hangs, 20, 5, 0.02),
  trickle('get half an answer', cutShort, 20, 5, 0.05),
  {
    name: 'one bad node of five: 20 % of requests get 503 for 5 min',
    minutes: 8,
    tokenLifeS: 120,
    tenants: [tenants(1_000, { everyMs: 6 * SEC, burstMs: 5 * SEC })],
    rules: () => [during([MIN, 6 * MIN], sometimes(0.2, refusal(503)))],
  },
  {
    name: 'one node of ten says invalid_client',
    minutes: 5,
    tenants: [newcomers(20)],
    rules: () => [sometimes(0.1, oauthError(401, 'invalid_client'))],
  },
  {
    name: 'key rotation: every second node is a minute late',
    minutes: 5,
    tokenLifeS: 600,
    tenants: [tenants(200), newcomers(5)],
    rules: () => [during([MIN, 2 * MIN], sometimes(0.5, oauthError(401, 'invalid_client')))],
  },
  {
    name: 'three nodes of four refuse the client for 5 min: half a minute after its end',
    minutes: 14,
    tokenLifeS: 300,
    uncounted: [[0, 12.5 * MIN]],
    tenants: [tenants(30, { everyMs: SEC })],
    rules: () => [during([7 * MIN, 12 * MIN], sometimes(0.75, oauthError(400, 'unauthorized_client')))],
  },
  twoOfThree('answer 500', refusal(500)),
  twoOfThree('answer 403 with a page of HTML', htmlPage(403)),
  twoOfThree('refuse connections', refusedConnection),
  {
    name: 'rolling deploy: one node of ten after another refuses for 20 s',
    minutes: 8,
    tokenLifeS: 300,
    tenants: [tenants(200), newcomers(10)],
    rules: () => [during([MIN, MIN + 200 * SEC], sometimes(0.1, refusedConnection))],
  },
  {
    name: 'a firewall answers 403 with a page of HTML to a tenth, for a minute',
    minutes: 6,
    tokenLifeS: 300,
    tenants: [tenants(200), newcomers(10)],
    rules: () => [during([2 * MIN, 3 * MIN], sometimes(0.1, htmlPage(403)))],
  },
  {
    name: 'half of all requests get 500, for five minutes',
    minutes: 12,
    tokenLifeS: 600,
    tenants: [tenants(300), newcomers(5)],
    rules: () => [during([4 * MIN, 9 * MIN], sometimes(0.5, refusal(500)))],
  },
  {
    name: 'the service sheds a quarter of its load: 503, Retry-After 2, for five minutes',
    minutes: 10,
    tokenLifeS: 300,
    tenants: [tenants(300), newcomers(5)],
    rules: () => [during([3 * MIN, 8 * MIN], sometimes(1 / 4, refusal(503, 2)))],
  },
  {
    name: 'a load balancer resets a fifth of all connections, for three minutes',
    minutes: 8,
    tokenLifeS: 300,
    tenants: [tenants(300), newcomers(5)],
    rules: () => [during([3 * MIN, 6 * MIN], sometimes(0.2, reset))],
  },
  {
    name: 'half of the connections are reset for 2 min, 10 newcomers a second',
    minutes: 5,
    tenants: [newcomers(10)],
    rules: () => [during([MIN, 3 * MIN], sometimes(0.5, reset))],
  },
  {
    name: 'half of the connections are reset for 5 min, tokens of 2 min',
    minutes: 9,
    tokenLifeS: 120,
    tenants: [tenants(500, { everyMs: 8 * SEC })],
    rules: () => [during([2 * MIN, 7 * MIN], sometimes(0.5, reset))],
  },
  {
    name: 'a tenth of the requests fail late, with a 500 after 9 s; 15 newcomers a second',
    minutes: 5,
    tenants: [newcomers(15)],
    rules: () => [sometimes(0.1, { ...failed, ms: 9 * SEC })],
  },
  {
    name: '5 % get 429, with a Retry-After of 0 to 120 s or none; tokens of 2 min',
    minutes: 8,
    tokenLifeS: 120,
    slackPoints: 4,
    tenants: [tenants(400, { everyMs: 8 * SEC }), newcomers(8)],
    rules: () => [
      (_request, service) => {
        const waits = [undefined, 0, 1, 5, 30, 120];
        if (service.random() >= 0.05) return undefined;
        return refusal(429, waits[Math.floor(service.random() * waits.length)]);
      },
    ],
  },
];
