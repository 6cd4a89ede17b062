/** Incidents in virtual time, and what Prometheus scrapes meanwhile from the replicas that they happen to. */

import promClient from 'prom-client';
import { OwnerTokenRegistry, TokenEndpoint } from '../../src/index.ts';
import { registerMetrics } from '../../src/otel/prom-client.ts';
import { deadKeys, during, oauthError, outage, quota, refusal } from '../arena/rules.ts';
import { HOUR, MIN, type Scene, SEC, type Span, type TenantGroup } from '../arena/scene.ts';
import { Service } from '../arena/service.ts';
import { BASE_URL } from '../arena/subjects.ts';
import { scheduleCalls } from '../arena/traffic.ts';
import { VirtualTime } from '../arena/virtual-time.ts';
import { seeded } from './seeded.mjs';

export interface Incident extends Scene {
  /** When it begins. */
  readonly fromMs: number;
  /** How often metrics are scraped, and the rules evaluated. */
  readonly scrapedEveryMs: number;
  /** Callers give up after this. */
  readonly patienceMs?: number;
  /** Replaces the replicas, one a minute from then on: a shared signal ends the calls of each. */
  readonly deployedAtMs?: number;
  /** When the first replica cannot reach the service. */
  readonly cutOff?: Span;
}

const REPLICAS = 3;
const owners = (changes: Partial<TenantGroup> = {}): TenantGroup => ({
  name: 'owner',
  count: 200,
  everyMs: MIN,
  burstMs: MIN,
  ...changes,
});
const short = { minutes: 45, fromMs: 10 * MIN, scrapedEveryMs: 15 * SEC } as const;
const day = { minutes: 24 * 60, fromMs: 0, scrapedEveryMs: MIN } as const;
const INCIDENT: Span = [10 * MIN, 30 * MIN];
const REVOKED = oauthError(400, 'invalid_grant');

/** Keys of a group that are revoked, with the tokens they brought. */
const revoked = (group: string, atMsOf: (number: number) => number): Pick<Scene, 'rules' | 'accepts'> => {
  const isRevoked = (owner: string, atMs: number) =>
    owner.startsWith(`${group}-`) && atMs >= atMsOf(Number(owner.slice(group.length + 1)));
  return {
    rules: () => [({ owner, atMs }) => (isRevoked(owner, atMs) ? { ...REVOKED, unwanted: 'dead' } : undefined)],
    accepts: ({ owner }, atMs) => !isRevoked(owner, atMs),
  };
};

/** By what happens. */
export const INCIDENTS: Readonly<Record<string, Incident>> = {
  'the service answers 503 for 20 minutes; tokens live for 15': {
    ...short,
    name: 'down',
    tokenLifeS: 900,
    tenants: [owners()],
    rules: () => [during(INCIDENT, outage(refusal(503)))],
  },
  'the client secret is wrong for 20 minutes': {
    ...short,
    name: 'secret',
    tokenLifeS: 900,
    tenants: [owners()],
    rules: () => [during(INCIDENT, () => oauthError(401, 'invalid_client'))],
  },
  'a shard with a fifth of the owners answers 503 for 20 minutes; tokens live for 1': {
    ...short,
    name: 'shard',
    tokenLifeS: 60,
    tenants: [owners()],
    rules: () => [during(INCIDENT, ({ number }) => (number % 5 === 0 ? refusal(503) : undefined))],
  },
  'of 100 keys, 20 are revoked, and their tokens too': {
    ...short,
    name: 'revoked',
    tenants: [owners({ count: 80 }), owners({ name: 'revoked', count: 20 })],
    ...revoked('revoked', () => 10 * MIN),
  },
  'tokens take 6 s instead of 0.6 for 20 minutes; callers give up after 5': {
    ...short,
    name: 'slow',
    tokenLifeS: 900,
    tenants: [owners(), { name: 'newcomer', perSecond: 0.5 }],
    latencyMs: ({ atMs }) => (atMs >= INCIDENT[0] && atMs < INCIDENT[1] ? 6_000 : 600),
    patienceMs: 5 * SEC,
  },
  'the API rejects all tokens for 20 minutes': {
    ...short,
    name: 'api',
    tenants: [owners()],
    accepts: (_, atMs) => atMs < INCIDENT[0] || atMs >= INCIDENT[1],
  },
  'the service answers 3 requests a second, and 429 to the others; 600 owners have tokens of 100 s': {
    ...short,
    name: 'quota',
    tokenLifeS: 100,
    tenants: [owners({ count: 600 })],
    rules: () => [during(INCIDENT, quota({ perSecond: 3 }))],
  },
  'one replica of three cannot reach the service for 20 minutes; tokens live for 5': {
    ...short,
    name: 'cut off',
    tokenLifeS: 300,
    tenants: [owners()],
    cutOff: INCIDENT,
  },
  'the keys of 18 customers are replaced; their old ones are called for five more minutes': {
    ...day,
    minutes: 5 * 60,
    fromMs: 2 * HOUR,
    name: 'replaced',
    tenants: [owners({ everyMs: 15 * MIN }), owners({ name: 'old', count: 18, untilMs: 2 * HOUR + 5 * MIN })],
    ...revoked('old', () => 2 * HOUR),
  },
  'a service restarts: 45 s without an answer': {
    ...short,
    name: 'restart',
    tokenLifeS: 900,
    tenants: [owners()],
    rules: () => [during([10 * MIN, 10 * MIN + 45 * SEC], outage(refusal(503)))],
  },
  'a service restarts: 45 s without an answer; tokens live for 1 minute': {
    ...short,
    name: 'restart, short',
    tokenLifeS: 60,
    tenants: [owners()],
    rules: () => [during([10 * MIN, 10 * MIN + 45 * SEC], outage(refusal(503)))],
  },
  'all five customers’ keys are revoked': {
    ...short,
    name: 'few',
    tenants: [owners({ name: 'revoked', count: 5 })],
    ...revoked('revoked', () => 10 * MIN),
  },
  'of five customers, the one whose key is dead calls first after a start, and the others a minute later': {
    ...short,
    name: 'few at start',
    fromMs: 0,
    tenants: [owners({ name: 'dead', count: 1, everyMs: 10 * SEC }), owners({ count: 4, fromMs: MIN })],
    rules: () => [deadKeys('dead', REVOKED)],
  },
  'a deployment replaces three replicas, while calls wait': {
    ...short,
    minutes: 20,
    name: 'deploy',
    tenants: [owners(), { name: 'newcomer', perSecond: 10, untilMs: 14 * MIN }],
    latencyMs: 4_000,
    deployedAtMs: 10 * MIN,
  },
  'a day in which 1 % of the keys are dead, and are called': {
    ...day,
    name: 'dead',
    tenants: [owners({ count: 198, everyMs: 15 * MIN }), owners({ name: 'dead', count: 2, everyMs: 5 * MIN })],
    rules: () => [deadKeys('dead', REVOKED)],
  },
  'a day in which 5 % of the keys are revoked, one after the other': {
    ...day,
    name: 'leaving',
    tenants: [owners({ count: 190, everyMs: 15 * MIN }), owners({ name: 'leaving', count: 10, everyMs: 15 * MIN })],
    ...revoked('leaving', (number) => (number + 0.5) * (day.minutes / 10) * MIN),
  },
  'a night in which a fifth of the owners are called, and a job polls 1 % with dead keys': {
    ...day,
    minutes: 10 * 60,
    fromMs: 2 * HOUR,
    name: 'night',
    tenants: [
      owners({ count: 160, everyMs: 15 * MIN, untilMs: 2 * HOUR }),
      owners({ name: 'awake', count: 38, everyMs: 15 * MIN }),
      owners({ name: 'dead', count: 2, everyMs: 5 * MIN }),
    ],
    rules: () => [deadKeys('dead', REVOKED)],
  },
};

/** A replica while it runs. */
class Replica {
  readonly instance: string;
  readonly registry: OwnerTokenRegistry;
  readonly ending = new AbortController();
  readonly #register = new promClient.Registry();

  constructor(number: number, { cutOff }: Incident, service: Service, time: VirtualTime) {
    this.instance = `replica-${number}`;
    const isCutOff = () => number === 1 && cutOff && time.nowMs >= cutOff[0] && time.nowMs < cutOff[1];
    const refused = () =>
      new TypeError('fetch failed', { cause: Object.assign(new Error(), { code: 'ECONNREFUSED' }) });
    const fetch = (url: unknown, init?: RequestInit) =>
      isCutOff() ? Promise.reject(refused()) : service.fetch(url, init);
    const credentials = { baseUrl: BASE_URL, clientId: 'client', clientSecret: 'secret' };
    const source = new TokenEndpoint({ ...credentials, clock: time, fetch: fetch as typeof globalThis.fetch });
    this.registry = new OwnerTokenRegistry({ source, clock: time, random: seeded(number), name: this.instance });
    registerMetrics(promClient, this.registry, { register: this.#register });
  }

  /** Its samples, by series. */
  async scrape(): Promise<[series: string, value: string][]> {
    const lines = (await this.#register.metrics()).split('\n').filter((line) => line.startsWith('owner_token_'));
    return lines.map((line) => {
      const [, name, labels, value = ''] = /^(\w+)\{(.*)\} (\S+)$/.exec(line) ?? [];
      const known = labels?.replace(/owner_token_registry="[^"]*"/, 'owner_token_registry="crm"');
      return [`${name}{${known},instance="${this.instance}"}`, value];
    });
  }
}

/** The samples of each series that all replicas exported; undefined where it did not exist. */
export type Scraped = ReadonlyMap<string, readonly (string | undefined)[]>;

/** Plays an incident, and scrapes it. */
export async function scrapedIncident(incident: Incident): Promise<Scraped> {
  const time = new VirtualTime();
  const service = new Service(incident, time, seeded(1_001));
  const newReplica = (number: number) => new Replica(number, incident, service, time);
  const replicas = Array.from({ length: REPLICAS }, (_, index) => newReplica(index + 1));
  const { minutes, scrapedEveryMs, deployedAtMs, tenants } = incident;
  let calls = 0;
  for (const group of tenants) {
    const call = (number: number) => {
      callOnce(replicas[calls++ % REPLICAS] as Replica, `${group.name}-${number}`, incident, service, time).catch(
        () => {},
      );
    };
    scheduleCalls(group, time, seeded(1), call, minutes * MIN);
  }
  const leaving: Replica[] = [];
  for (let index = 0; deployedAtMs !== undefined && index < REPLICAS; index++) {
    time.at(deployedAtMs + index * MIN, () => {
      const [old] = replicas.splice(index, 1, newReplica(REPLICAS + index + 1));
      old?.ending.abort();
      if (old) leaving.push(old);
    });
  }
  const scraped = new Map<string, (string | undefined)[]>();
  for (let at = 0; at * scrapedEveryMs <= minutes * MIN; at++) {
    await time.passUntil(at * scrapedEveryMs, 20);
    // One that leaves is scraped once more.
    const ended = leaving.splice(0);
    for (const replica of [...replicas, ...ended]) {
      for (const [series, value] of await replica.scrape()) {
        const samples = scraped.get(series) ?? [];
        scraped.set(series, samples);
        samples[at] = value;
      }
    }
    for (const { registry } of ended) await registry.close({ timeoutMs: 0 });
  }
  for (const { registry } of replicas) await registry.close({ timeoutMs: 0 });
  return scraped;
}

/** A call of an owner; if the API rejects its token, it asks for another one, once. */
async function callOnce(
  { registry, ending }: Replica,
  key: string,
  { patienceMs, deployedAtMs }: Incident,
  service: Service,
  time: VirtualTime,
): Promise<void> {
  const leaving = patienceMs === undefined ? undefined : new AbortController();
  const stop = leaving && time.setTimeout(() => leaving.abort(), patienceMs as number);
  const signal = leaving?.signal ?? (deployedAtMs === undefined ? undefined : ending.signal);
  try {
    for (let tries = 1; tries <= 2; tries++) {
      const token = await registry.getToken(key, { signal });
      if (!service.hasApi) return;
      if (await service.callApi(token.value)) return registry.accept(key, token);
      registry.reject(key, token);
    }
  } finally {
    stop?.();
  }
}
