/** Some of the owners get no token, beside others that do. */

import { deadKeys, during, failed, hangs, noToken, oauthError, refusal } from '../../world/rules.ts';
import { type Answer, HOUR, MIN, SEC, type Span, type TenantGroup } from '../../world/setting.ts';
import type { Scene } from '../scene.ts';
import { dead, newcomers, START, tenants } from './groups.ts';

/** Dead keys that never had a token, beside tenants that have theirs and a new customer every two seconds. */
const besideNewcomers = (what: string, answer: Answer): Scene => ({
  name: `300 dead keys: ${what}, beside newcomers`,
  minutes: 15,
  uncounted: [START],
  tenants: [tenants(300, { everyMs: 30 * SEC }), dead(300), newcomers(0.5)],
  rules: () => [deadKeys('dead', answer)],
});

/** A shard of the service fails for ten minutes: a tenth of the tenants. They are well five minutes after. */
const shard = (what: string, answer: Answer): Scene => ({
  name: `shard: 10 % get ${what}`,
  minutes: 25,
  tokenLifeS: 600,
  uncounted: [START],
  tenants: [
    tenants(450, { everyMs: 30 * SEC }),
    tenants(50, { name: 'shard', illFromMs: 10 * MIN, illUntilMs: 25 * MIN }),
  ],
  rules: () => [during([10 * MIN, 20 * MIN], deadKeys('shard', answer))],
});

/**
 * A part of the service fails while the tokens of a cold start, of two minutes, are refreshed, or just after. Its owners are
 * ill until a minute after its end.
 */
const shardAfterColdStart = (share: number, answer: Answer, fromS: number, often = 1): Scene => {
  const span: Span = [fromS * SEC, (fromS + 150) * SEC];
  const [fromMs, toMs] = span;
  const group = (part: number, more: Partial<TenantGroup> = {}) =>
    tenants(1_000 * part, { everyMs: 6 * SEC, burstMs: 5 * SEC, ...more });
  const fails = deadKeys('shard', answer);
  return {
    name: `shard: ${100 * share} % get ${answer.status}${often < 1 ? ` at ${100 * often} % of their requests` : ''} from second ${fromS} after a cold start`,
    minutes: 6,
    tokenLifeS: 120,
    endsMs: toMs,
    tenants: [group(1 - share), group(share, { name: 'shard', illFromMs: fromMs, illUntilMs: toMs + MIN })],
    rules: () => [during(span, (request, service) => (service.random() < often ? fails(request, service) : undefined))],
  };
};

/** Nodes with tenants of their own are down one after the other. A tenant may pause as long as its node was down. */
function downInTurn(
  count: number,
  downMs: number,
  answer: Answer,
  each: TenantGroup,
): Pick<Scene, 'tenants' | 'rules'> {
  const nodes = Array.from({ length: count }, (_, node) => {
    const fromMs = 2 * MIN + node * downMs;
    const group = { ...each, name: `node${node}`, illFromMs: fromMs, illUntilMs: fromMs + 2 * downMs };
    return { group, rule: during([fromMs, fromMs + downMs], deadKeys(group.name, answer)) };
  });
  return { tenants: nodes.map(({ group }) => group), rules: () => nodes.map(({ rule }) => rule) };
}

export const deadKeyScenes: readonly Scene[] = [
  besideNewcomers('500', failed),
  besideNewcomers('200 without a token', noToken),
  besideNewcomers('hang', hangs),
  {
    name: 'newcomers, a tenth with wrong keys (500)',
    minutes: 4,
    tenants: [newcomers(27), newcomers(3, { name: 'dead', ill: true })],
    rules: () => [deadKeys('dead', failed)],
  },
  {
    name: 'deploy: 500 tenants called each 10 min, 300 dead keys polled each 30 s',
    minutes: 20,
    tenants: [tenants(500, { everyMs: 10 * MIN }), dead(300)],
    rules: () => [deadKeys('dead', failed)],
  },
  {
    name: 'a reseller is revoked: 50 of 200 get 404 at once',
    minutes: 25,
    tokenLifeS: 600,
    uncounted: [START],
    tenants: [tenants(150, { everyMs: 10 * SEC }), dead(50, { everyMs: 10 * SEC }), newcomers(0.2)],
    rules: () => [during([10 * MIN, HOUR], deadKeys('dead', refusal(404)))],
  },
  shard('503', refusal(503)),
  shard('503, Retry-After 120', refusal(503, 120)),
  {
    name: 'shard: half get 503 for 20 min: a minute after its end',
    minutes: 35,
    tokenLifeS: 600,
    uncounted: [[0, 31 * MIN]],
    tenants: [
      tenants(250, { everyMs: 30 * SEC }),
      tenants(250, { name: 'shard', everyMs: 30 * SEC, illUntilMs: 31 * MIN }),
    ],
    rules: () => [during([10 * MIN, 30 * MIN], deadKeys('shard', refusal(503)))],
  },
  ...[75, 105].flatMap((fromS) => [
    shardAfterColdStart(0.2, refusal(503), fromS),
    shardAfterColdStart(0.4, refusal(503), fromS),
    shardAfterColdStart(0.3, failed, fromS),
  ]),
  shardAfterColdStart(0.2, refusal(503), 75, 0.3),
  {
    ...downInTurn(10, 20 * SEC, refusal(502), tenants(40)),
    name: 'rolling deploy: each of ten nodes has its own tenants and answers 502 for 20 s',
    minutes: 8,
    tokenLifeS: 120,
  },
  {
    ...downInTurn(4, 5 * SEC, refusal(503), tenants(300, { everyMs: 3 * SEC })),
    name: 'rolling deploy: each of four nodes has its own tenants and answers 503 for 5 s',
    minutes: 4,
    tokenLifeS: 20,
  },
  {
    name: '20 dead keys polled five times a second each (404)',
    minutes: 4,
    tenants: [tenants(200), dead(20, { everyMs: 200 }), newcomers(3)],
    rules: () => [deadKeys('dead', refusal(404))],
  },
  {
    name: '100 dead keys fail late, with a 504 after 8 s, beside newcomers',
    minutes: 8,
    uncounted: [START],
    tenants: [tenants(300), dead(100, { everyMs: 15 * SEC }), newcomers(2)],
    rules: () => [deadKeys('dead', { ...refusal(504), ms: 8 * SEC })],
  },
  {
    name: '95 % of the keys are dead (503), 50 tenants each 20 s, newcomers',
    minutes: 8,
    tenants: [tenants(50), dead(950, { everyMs: 20 * SEC }), newcomers(0.5)],
    rules: () => [deadKeys('dead', refusal(503))],
  },
  {
    name: 'cold start of 2,000, 80 % of the keys are dead (500)',
    minutes: 4,
    lateMs: 4 * SEC,
    tenants: [dead(1_600, { burstMs: 10 * SEC }), tenants(400, { everyMs: 30 * SEC, burstMs: 10 * SEC })],
    rules: () => [deadKeys('dead', failed)],
  },
  // Before any success a caller a second is tried, most of which are dead: minutes pass until a living one is tried.
  {
    name: 'deploy: 20 tenants called each 2 min, 400 dead keys polled each 10 s (500)',
    minutes: 12,
    uncounted: [[0, 5 * MIN]],
    tenants: [tenants(20, { everyMs: 2 * MIN }), dead(400, { everyMs: 10 * SEC })],
    rules: () => [deadKeys('dead', failed)],
  },
  {
    name: 'deploy: 30 tenants called each 3 min, 200 dead keys polled each 5 s (invalid_client)',
    minutes: 12,
    uncounted: [[0, 4 * MIN]],
    tenants: [tenants(30, { everyMs: 3 * MIN }), dead(200, { everyMs: 5 * SEC })],
    rules: () => [deadKeys('dead', oauthError(401, 'invalid_client'))],
  },
  // The circuit that all known owners opened is tried each half minute by then, every second time by a newcomer.
  {
    name: 'onboarding in a shard outage: all 300 owners get 503 for 5 min, 8 newcomers a second do not',
    minutes: 9,
    tokenLifeS: 120,
    uncounted: [[0, 5 * MIN]],
    tenants: [tenants(300, { name: 'shard', everyMs: 8 * SEC, ill: true }), newcomers(8, { fromMs: 4 * MIN })],
    rules: () => [during([3 * MIN, 8 * MIN], deadKeys('shard', refusal(503)))],
  },
  {
    name: 'onboarding in a shard outage: 90 % of 500 owners get 500 for 4 min, 8 newcomers a second do not',
    minutes: 9,
    tokenLifeS: 120,
    tenants: [
      tenants(50, { everyMs: 8 * SEC }),
      tenants(450, { name: 'shard', everyMs: 8 * SEC, illFromMs: 3 * MIN, illUntilMs: 8 * MIN }),
      newcomers(8, { fromMs: 3 * MIN, untilMs: 7 * MIN }),
    ],
    rules: () => [during([3 * MIN, 7 * MIN], deadKeys('shard', failed))],
  },
  {
    name: 'a Monday morning: tokens of an hour, two days of silence, 40 of 400 keys dead',
    minutes: 50 * 60,
    tenants: [
      tenants(360, { everyMs: 10 * MIN, pattern: isWorkingTime }),
      dead(40, { everyMs: MIN, pattern: isWorkingTime }),
    ],
    rules: () => [deadKeys('dead', failed)],
  },
];

/** An hour of work before two days of silence, and an hour after. */
function isWorkingTime(ms: number): boolean {
  return ms < HOUR || ms >= 49 * HOUR;
}
