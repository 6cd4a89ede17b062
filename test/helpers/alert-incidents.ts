/** Incidents of three replicas in virtual time, for the alerts. */

import type { OwnerTokenRegistryOptions } from '../../src/registry/options.ts';
import { refuseAll } from '../world/api-rules.ts';
import { deadKeys, during, oauthError, outage, quota, refusal } from '../world/rules.ts';
import { HOUR, MIN, SEC, type Setting, type Span, type TenantGroup } from '../world/setting.ts';

export interface Incident extends Setting {
  /** When it begins. */
  readonly fromMs: number;
  /** How often metrics are scraped. */
  readonly scrapedEveryMs: number;
  /** How often the rules are evaluated. */
  readonly evaluatedEveryMs: number;
  /** Callers give up after this. */
  readonly patienceMs?: number;
  /** Replaces the replicas, one a minute from then on: a shared signal ends the calls of each. */
  readonly deployedAtMs?: number;
  /** When the first replica cannot reach the service. */
  readonly cutOff?: Span;
  /** The live view of the first replica is asked what it says. */
  readonly isAsked?: true;
  /** When all replicas end. */
  readonly endedAtMs?: number;
  readonly options?: Partial<OwnerTokenRegistryOptions>;
  /** The replicas share tokens. */
  readonly fleet?: {
    /** What Redis does with an operation at this time. Default: answers it. */
    readonly redis?: (atMs: number, random: () => number) => 'down' | 'late' | undefined;
    /** The third replica has another key than the others. */
    readonly otherKey?: 'sealing' | 'naming';
  };
}

const owners = (changes: Partial<TenantGroup> = {}): TenantGroup => ({
  name: 'owner',
  count: 200,
  everyMs: MIN,
  burstMs: MIN,
  ...changes,
});
const short = { minutes: 35, fromMs: 5 * MIN, scrapedEveryMs: 15 * SEC, evaluatedEveryMs: 30 * SEC } as const;
const day = { minutes: 24 * 60, fromMs: 0, scrapedEveryMs: MIN, evaluatedEveryMs: 2 * MIN } as const;
const few = owners({ count: 5 });
const fleet = { ...short, tokenLifeS: 120, tenants: [owners({ count: 30 })] } as const;
/** When it begins. */
const NIGHT_MS = 14 * HOUR;
const INCIDENT: Span = [5 * MIN, 25 * MIN];
const REVOKED = oauthError(400, 'invalid_grant');

/** Keys of a group that are revoked, with the tokens they brought. */
const revoked = (group: string, atMsOf: (number: number) => number): Pick<Setting, 'rules' | 'api'> => {
  const isRevoked = (owner: string, atMs: number) =>
    owner.startsWith(`${group}-`) && atMs >= atMsOf(Number(owner.slice(group.length + 1)));
  return {
    rules: () => [({ owner, atMs }) => (isRevoked(owner, atMs) ? { ...REVOKED, unwanted: 'dead' } : undefined)],
    api: () => [({ owner, atMs }) => (isRevoked(owner, atMs) ? 401 : undefined)],
  };
};

/** By what happens. */
export const INCIDENTS: Readonly<Record<string, Incident>> = {
  'the service answers 503 for 20 minutes; tokens live for 15': {
    ...short,
    isAsked: true,
    tokenLifeS: 900,
    tenants: [owners()],
    rules: () => [during(INCIDENT, outage(refusal(503)))],
  },
  'the client secret is wrong for 20 minutes': {
    ...short,
    isAsked: true,
    tokenLifeS: 900,
    tenants: [owners()],
    rules: () => [during(INCIDENT, () => oauthError(401, 'invalid_client'))],
  },
  'a shard with a fifth of the owners answers 503 for 20 minutes; tokens live for 1': {
    ...short,
    // By then, every replica knows nearly all owners.
    fromMs: 10 * MIN,
    isAsked: true,
    tokenLifeS: 60,
    tenants: [owners()],
    rules: () => [during([10 * MIN, 30 * MIN], ({ number }) => (number % 5 === 0 ? refusal(503) : undefined))],
  },
  'of 100 keys, 20 are revoked, and their tokens too': {
    ...short,
    isAsked: true,
    tenants: [owners({ count: 80 }), owners({ name: 'revoked', count: 20 })],
    ...revoked('revoked', () => 5 * MIN),
  },
  'tokens take 6 s instead of 0.6 for 20 minutes; callers give up after 5': {
    ...short,
    isAsked: true,
    tokenLifeS: 900,
    tenants: [owners(), { name: 'newcomer', perSecond: 0.5 }],
    latencyMs: ({ atMs }) => (atMs >= INCIDENT[0] && atMs < INCIDENT[1] ? 6_000 : 600),
    patienceMs: 5 * SEC,
  },
  'the API rejects all tokens for 20 minutes': {
    ...short,
    isAsked: true,
    tenants: [owners()],
    api: () => [during(INCIDENT, refuseAll)],
  },
  'for ten minutes, the service answers one request a second, and 429 to the others; tokens live for 100 s': {
    ...short,
    isAsked: true,
    tokenLifeS: 100,
    tenants: [owners()],
    rules: () => [during([5 * MIN, 15 * MIN], quota({ perSecond: 1 }))],
    minutes: 25,
  },
  'one replica of three cannot reach the service for 20 minutes; tokens live for 5': {
    ...short,
    isAsked: true,
    tokenLifeS: 300,
    tenants: [owners()],
    cutOff: INCIDENT,
  },
  'the keys of 18 owners are replaced; their old ones are called for five more minutes': {
    ...day,
    minutes: 5 * 60,
    fromMs: 2 * HOUR,
    tenants: [owners({ everyMs: 15 * MIN }), owners({ name: 'old', count: 18, untilMs: 2 * HOUR + 5 * MIN })],
    ...revoked('old', () => 2 * HOUR),
  },
  'a service restarts: 45 s without an answer; tokens live for 1 minute': {
    ...short,
    tokenLifeS: 60,
    tenants: [owners()],
    rules: () => [during([5 * MIN, 5 * MIN + 45 * SEC], outage(refusal(503)))],
  },
  'all five owners’ keys are revoked; each is called three times a minute': {
    ...short,
    tenants: [owners({ name: 'revoked', count: 5, everyMs: 20 * SEC })],
    ...revoked('revoked', () => 5 * MIN),
  },
  'of five owners, the one whose key is dead calls first after a start, and the others a minute later': {
    ...short,
    fromMs: 0,
    tenants: [owners({ name: 'dead', count: 1, everyMs: 10 * SEC }), owners({ count: 4, fromMs: MIN })],
    rules: () => [deadKeys('dead', REVOKED)],
  },
  'a deployment replaces three replicas, while calls wait': {
    ...short,
    minutes: 15,
    tenants: [owners(), { name: 'newcomer', perSecond: 4, untilMs: 9 * MIN }],
    latencyMs: 4_000,
    deployedAtMs: 5 * MIN,
  },
  'a day in which 5 % of the keys are revoked one after the other, and a night in which a fifth of the owners are called; a job polls 1 % with dead keys':
    {
      ...day,
      tenants: [
        owners({ count: 150, everyMs: 30 * MIN, pattern: (ms) => ms < NIGHT_MS }),
        owners({ name: 'awake', count: 38, everyMs: 30 * MIN }),
        owners({ name: 'revoked', count: 12, everyMs: 5 * MIN }),
      ],
      ...revoked('revoked', (number) => (number < 2 ? 0 : (number - 1.5) * (NIGHT_MS / 10))),
    },
  'all replicas stop exporting, or end': { ...short, tenants: [few], endedAtMs: 5 * MIN },
  'tokens take 2 s, and replicas have three requests at once for batches of 15 calls, one every three minutes': {
    ...short,
    tokenLifeS: 150,
    tenants: [0, 1, 2, 3, 4, 5, 6, 7].map((at) => ({
      name: `batch${at}`,
      count: 45,
      burstMs: SEC,
      fromMs: (5 + 3 * at) * MIN,
    })),
    latencyMs: 2_000,
    options: { concurrency: 3 },
  },
  'caches have room for 40 owners each, of 60 that are called': {
    ...short,
    minutes: 50,
    tenants: [owners({ count: 30 }), owners({ name: 'more', count: 30, fromMs: 5 * MIN })],
    options: { maxOwners: 40 },
  },
  'Redis is down for 20 minutes': {
    ...fleet,
    fleet: { redis: (atMs) => (atMs >= INCIDENT[0] && atMs < INCIDENT[1] ? 'down' : undefined) },
  },
  'Redis is down for 3 minutes': {
    ...fleet,
    fleet: { redis: (atMs) => (atMs >= INCIDENT[0] && atMs < 8 * MIN ? 'down' : undefined) },
  },
  'Redis answers one operation in ten late for 20 minutes': {
    ...fleet,
    fleet: {
      redis: (atMs, random) => (atMs >= INCIDENT[0] && atMs < INCIDENT[1] && random() < 0.1 ? 'late' : undefined),
    },
  },
  'one replica of three has another naming key': { ...fleet, fromMs: 0, fleet: { otherKey: 'naming' } },
  'one replica of three has another sealing key': {
    ...fleet,
    fromMs: 0,
    fleet: { otherKey: 'sealing' },
  },
};
