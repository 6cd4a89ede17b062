/** All of the service fails. */

import {
  deadKeys,
  during,
  failed,
  hangs,
  htmlPage,
  loginPage,
  noSuchHost,
  oauthError,
  outage,
  refusal,
  refusedConnection,
  relapses,
  rolling,
} from '../../world/rules.ts';
import { type Answer, MIN, SEC, type Span } from '../../world/setting.ts';
import type { Scene } from '../scene.ts';
import { dead, newcomers, recovery, START, tenants } from './groups.ts';

/** Tokens of five minutes, so that many end while the service is down. */
const shortOutage = (what: string, answer: Answer, [fromMs, toMs]: Span): Scene => ({
  name: `outage: ${what}`,
  minutes: 12,
  tokenLifeS: 300,
  uncounted: [recovery(toMs)],
  tenants: [tenants(300), newcomers(3)],
  rules: () => [during([fromMs, toMs], outage(answer))],
});

const longOutages: readonly Scene[] = [
  {
    name: 'full outage of 10 min, 503, tokens of an hour, newcomers',
    minutes: 15,
    longOutage: true,
    uncounted: [recovery(12 * MIN)],
    tenants: [tenants(300), newcomers(5)],
    rules: () => [during([2 * MIN, 12 * MIN], outage(refusal(503)))],
  },
  {
    name: 'full outage of 10 min, then 2 s latency for 5 min',
    minutes: 30,
    tokenLifeS: 600,
    longOutage: true,
    lateMs: 8 * SEC,
    uncounted: [START, recovery(20 * MIN)],
    latencyMs: ({ atMs }) => (atMs > 20 * MIN && atMs < 25 * MIN ? 2_000 : 80),
    tenants: [tenants(500)],
    rules: () => [during([10 * MIN, 20 * MIN], outage(refusal(503)))],
  },
  {
    name: 'full outage of 10 min beside 200 dead keys',
    minutes: 25,
    tokenLifeS: 600,
    longOutage: true,
    uncounted: [START, recovery(20 * MIN)],
    tenants: [tenants(300), dead(200)],
    rules: () => [during([10 * MIN, 20 * MIN], outage(refusal(503))), deadKeys('dead', failed)],
  },
  {
    name: 'full outage of 8 min: no answer at all',
    minutes: 20,
    tokenLifeS: 600,
    longOutage: true,
    uncounted: [START, recovery(14 * MIN)],
    tenants: [tenants(300, { everyMs: 10 * SEC }), newcomers(2)],
    rules: () => [during([6 * MIN, 14 * MIN], outage(hangs))],
  },
];

/** The service is back only for so many answers, five times. That costs hardly more requests than an outage. */
const relapse = (answers: number): Scene => ({
  name: `relapse: 2 min of 503, then five times 20 s more after every ${answers === 1 ? 'answer' : `${answers} answers`}`,
  minutes: 12,
  tokenLifeS: 120,
  endsMs: 6.5 * MIN,
  mostInOutage: 0.1,
  uncounted: [[3 * MIN, 7 * MIN]],
  tenants: [tenants(300, { everyMs: 6 * SEC }), newcomers(5)],
  rules: () => [
    relapses([3 * MIN, 6.5 * MIN], { downMs: 2 * MIN, answers, againMs: 20 * SEC, times: 5 }, refusal(503)),
  ],
});

export const outageScenes: readonly Scene[] = [
  ...longOutages,
  // Tokens that were refreshed early, in the outage, must not hide a slow recovery: the time after it counts alone, too.
  ...longOutages.map((scene) => {
    const [, afterMs] = scene.uncounted?.at(-1) ?? START;
    return { ...scene, name: `${scene.name}: afterwards`, uncounted: [[0, afterMs]] satisfies Span[] };
  }),
  {
    name: 'maintenance: 503 for all, Retry-After 3600, back after 2 min',
    minutes: 75,
    tokenLifeS: 600,
    // Who obeys serves nobody new for an hour; who asks once a minute serves all.
    uncounted: [[12 * MIN, 72 * MIN]],
    tenants: [tenants(200)],
    rules: () => [during([10 * MIN, 12 * MIN], outage(refusal(503, 3_600)))],
  },
  {
    name: 'maintenance: 503 for all, Retry-After 3600, back after 2 min: nobody waits for the hour',
    minutes: 20,
    tokenLifeS: 120,
    endsMs: 7 * MIN,
    uncounted: [[5 * MIN, 8 * MIN + 30 * SEC]],
    tenants: [tenants(300, { everyMs: 10 * SEC })],
    rules: () => [during([5 * MIN, 7 * MIN], outage(refusal(503, 3_600)))],
  },
  shortOutage('names do not resolve for 30 s', noSuchHost, [5 * MIN, 5 * MIN + 30 * SEC]),
  shortOutage('401 for everybody for 2 min after a secret rotation', oauthError(401, 'invalid_client'), [
    5 * MIN,
    7 * MIN,
  ]),
  shortOutage('a firewall bans us for a minute (403, HTML)', htmlPage(403), [5 * MIN, 6 * MIN]),
  shortOutage('everybody is sent to a login page for 90 s', loginPage, [5 * MIN, 6.5 * MIN]),
  shortOutage('no answer at all for 40 s', hangs, [5 * MIN, 5 * MIN + 40 * SEC]),
  {
    name: 'cold start into an outage of 3 min',
    minutes: 8,
    uncounted: [recovery(3 * MIN)],
    tenants: [tenants(300, { burstMs: 5 * SEC }), newcomers(2)],
    rules: () => [during([0, 3 * MIN], outage(refusal(503)))],
  },
  {
    name: 'cold start into an outage of 3 min: refused connections, beside 50 dead keys',
    minutes: 8,
    uncounted: [recovery(3 * MIN)],
    tenants: [tenants(200), dead(50, { everyMs: 5 * SEC })],
    rules: () => [during([0, 3 * MIN], outage(refusedConnection)), deadKeys('dead', refusal(404))],
  },
  {
    name: 'outage of 4 min beside ten times as many dead keys: afterwards',
    minutes: 30,
    tokenLifeS: 600,
    uncounted: [[0, 19.5 * MIN]],
    tenants: [tenants(30, { everyMs: MIN }), dead(300)],
    rules: () => [during([15 * MIN, 19 * MIN], outage(refusal(503))), deadKeys('dead', failed)],
  },
  {
    name: 'slower and slower, then refused connections for 3 min',
    minutes: 15,
    tokenLifeS: 300,
    lateMs: 5 * SEC,
    uncounted: [recovery(8 * MIN)],
    tenants: [tenants(300), newcomers(2)],
    latencyMs: ({ atMs }) => (atMs > 4 * MIN && atMs < 5 * MIN ? 80 + (atMs - 4 * MIN) / 12 : 80),
    rules: () => [during([5 * MIN, 8 * MIN], outage(refusedConnection))],
  },
  {
    name: 'two outages of 90 s, with 2 min between them',
    minutes: 14,
    tokenLifeS: 300,
    uncounted: [recovery(5.5 * MIN), recovery(9 * MIN)],
    tenants: [tenants(300), newcomers(3)],
    rules: () => [
      during([4 * MIN, 5.5 * MIN], outage(refusal(503))),
      during([7.5 * MIN, 9 * MIN], outage(refusedConnection)),
    ],
  },
  {
    name: 'the service restarts every 30 s for 5 min, and is down for 10 s each time',
    minutes: 14,
    tokenLifeS: 300,
    uncounted: [[4 * MIN, 9.5 * MIN]],
    tenants: [tenants(300), newcomers(3)],
    rules: () => [
      during([4 * MIN, 9 * MIN], (request, service) =>
        request.atMs % (30 * SEC) < 10 * SEC ? outage(refusal(502))(request, service) : undefined,
      ),
    ],
  },
  relapse(1),
  relapse(50),
  {
    // Before any success an open circuit is tried once a second: more than in another outage.
    name: 'relapse from the start: 1 min of refused connections, then five times 10 s more after every 10 answers',
    minutes: 8,
    tokenLifeS: 600,
    endsMs: 3.5 * MIN,
    mostInOutage: 0.25,
    uncounted: [[0, 4 * MIN]],
    tenants: [tenants(300, { everyMs: 10 * SEC }), newcomers(3)],
    rules: () => [
      relapses([0, 3.5 * MIN], { downMs: MIN, answers: 10, againMs: 10 * SEC, times: 5 }, refusedConnection),
    ],
  },
  {
    name: 'rolling restart: each of six nodes refuses connections for 20 s, 30 s apart',
    minutes: 6,
    tokenLifeS: 300,
    tenants: [tenants(400, { everyMs: 10 * SEC }), newcomers(10)],
    rules: () => [rolling(6, { fromMs: MIN, downMs: 20 * SEC, apartMs: 30 * SEC }, refusedConnection)],
  },
  {
    name: 'rolling restart: each of four nodes answers 503 for 15 s, 25 s apart',
    minutes: 5,
    tokenLifeS: 120,
    tenants: [tenants(500, { everyMs: 6 * SEC }), newcomers(20)],
    rules: () => [rolling(4, { fromMs: MIN, downMs: 15 * SEC, apartMs: 25 * SEC }, refusal(503))],
  },
];
