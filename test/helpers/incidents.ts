/** Incidents in virtual time, for the live view: what it says beside what each owner's last call got. */

import { OwnerTokenRegistry, TokenEndpoint } from '../../src/index.ts';
import { type LiveView, liveView } from '../../src/live-view/index.ts';
import { during, outage, quota, refusal } from '../world/rules.ts';
import { BASE_URL, Service } from '../world/service.ts';
import { MIN, SEC, type Setting } from '../world/setting.ts';
import { scheduleCalls } from '../world/traffic.ts';
import { ManualClock } from './manual-clock.ts';
import { seeded } from './seeded.mjs';

/** Moments of a scene at which the live view is asked. */
export type Incident = Setting & { readonly askedAtMs: readonly number[]; readonly concurrency?: number };

const OWNERS = 1_200;
const owners = (changes = {}) => [{ name: 'tenants', count: OWNERS, everyMs: 10 * SEC, ...changes }];

/** One owner in ten, on the same shard of the service. */
const onShard = (number: number) => number % 10 === 0;

export const INCIDENTS = {
  'the service is down, and all tokens have ended': {
    minutes: 8,
    tokenLifeS: 120,
    tenants: owners(),
    rules: () => [during([3 * MIN, 60 * MIN], outage(refusal(503)))],
    askedAtMs: [7 * MIN],
  },
  'the service is down, and tokens are left': {
    minutes: 12,
    tokenLifeS: 900,
    tenants: owners({ burstMs: 5 * MIN }),
    rules: () => [during([11 * MIN, 60 * MIN], outage(refusal(503)))],
    askedAtMs: [12 * MIN],
  },
  'the client secret is wrong': {
    minutes: 5,
    tokenLifeS: 240,
    tenants: owners({ burstMs: 2 * MIN }),
    rules: () => [during([3 * MIN, 60 * MIN], () => refusal(401, undefined, '{"error":"invalid_client"}'))],
    askedAtMs: [5 * MIN],
  },
  'a storm of 429s': {
    minutes: 4,
    tokenLifeS: 100,
    tenants: owners(),
    rules: () => [during([MIN, 60 * MIN], quota({ perSecond: 7 }))],
    askedAtMs: [4 * MIN],
  },
  'one owner in ten is on a shard that answers 503': {
    minutes: 6,
    tokenLifeS: 120,
    tenants: owners(),
    rules: () => [during([3 * MIN, 60 * MIN], ({ number }) => (onShard(number) ? refusal(503) : undefined))],
    askedAtMs: [6 * MIN],
  },
  'a few keys are dead': {
    minutes: 4,
    tokenLifeS: 100,
    tenants: owners(),
    rules: () => [
      during([MIN, 60 * MIN], ({ number }) =>
        number < 7 ? refusal(400, undefined, '{"error":"invalid_grant"}') : undefined,
      ),
    ],
    askedAtMs: [4 * MIN],
  },
} as const satisfies Record<string, Incident>;

/** The end of an owner's last call. */
export interface LastCall {
  readonly endedAtMs: number;
  readonly code?: string;
  /** Epoch ms: the end of the token that it got. */
  readonly expiresAtMs: number;
}

export interface Stage {
  readonly time: ManualClock;
  readonly registry: OwnerTokenRegistry;
  readonly view: LiveView;
  /** By label. */
  readonly last: ReadonlyMap<string, LastCall>;
}

/** Plays an incident, and calls `ask` at its moments. Owners are called by their keys in capitals. */
export async function playIncident(incident: Incident, ask: (stage: Stage) => Promise<void>): Promise<void> {
  const time = new ManualClock();
  const service = new Service(incident, time, seeded(1_001));
  const endpoint = { baseUrl: BASE_URL, clientId: 'client', clientSecret: () => service.readSecret(), clock: time };
  const source = new TokenEndpoint({ ...endpoint, fetch: service.fetch as typeof fetch });
  const ownerLabel = (accessKey: string) => accessKey.toUpperCase();
  const { concurrency = 100 } = incident;
  const registry = new OwnerTokenRegistry({ source, clock: time, random: seeded(2_001), ownerLabel, concurrency });
  const last = new Map<string, LastCall>();
  const view = liveView(registry, { public: true, clock: time, accessKeySearch: true });
  for (const group of incident.tenants) {
    const call = (number: number) => {
      const key = `${group.name}-${number}`;
      const ended = (rest: Pick<LastCall, 'expiresAtMs' | 'code'>) =>
        last.set(ownerLabel(key), { endedAtMs: time.now(), ...rest });
      registry.getToken(key).then(
        ({ expiresAtMs }) => ended({ expiresAtMs }),
        ({ code }) => ended({ code, expiresAtMs: 0 }),
      );
    };
    scheduleCalls(group, time, seeded(1), call, incident.minutes * MIN);
  }
  for (const atMs of incident.askedAtMs) {
    await time.passUntil(atMs);
    await ask({ time, registry, view, last });
  }
  await registry.close({ timeoutMs: 0 });
}
