/** What Prometheus scrapes from three replicas during an incident in virtual time. */

import promClient from 'prom-client';
import { OwnerTokenRegistry, TokenEndpoint } from '../../src/index.ts';
import { liveView } from '../../src/live-view/index.ts';
import { registerMetrics } from '../../src/otel/prom-client.ts';
import { SharedTokens } from '../../src/redis/shared-tokens.ts';
import { BASE_URL, Service } from '../world/service.ts';
import { isWithin, MIN } from '../world/setting.ts';
import { scheduleCalls } from '../world/traffic.ts';
import type { Incident } from './alert-incidents.ts';
import { ManualClock } from './manual-clock.ts';
import { SEALING_KEY } from './model-fleet.ts';
import { seeded } from './seeded.mjs';
import { SharedRecordModel } from './shared-record-model.ts';

const REPLICAS = 3;
/** Longer than a replica waits for Redis; in steps, because a limit fires only after some turns of the event loop. */
const LATE_MS = { step: 100, steps: 8 } as const;

/** Where an incident happens. */
interface World {
  readonly incident: Incident;
  readonly time: ManualClock;
  readonly service: Service;
  readonly records: SharedRecordModel;
  /** By owner: how its last call of the first replica ended. */
  readonly last: Map<string, Ending>;
}

type Ending = 'served' | 'no token' | 'rejected by the API' | 'given up';

/** A replica while it runs. */
class Replica {
  readonly instance: string;
  readonly registry: OwnerTokenRegistry;
  readonly ending = new AbortController();
  readonly #register = new promClient.Registry();
  /** What a line of the export begins with, as the series that Prometheus makes of it. */
  readonly #series = new Map<string, string>();

  constructor(number: number, world: World) {
    const { incident, time, service } = world;
    this.instance = `replica-${number}`;
    const { cutOff } = incident;
    const isCutOff = () => number === 1 && cutOff && isWithin(cutOff, time.monotonicMs);
    const refused = () =>
      new TypeError('fetch failed', { cause: Object.assign(new Error(), { code: 'ECONNREFUSED' }) });
    const fetch = (url: unknown, init?: RequestInit) =>
      isCutOff() ? Promise.reject(refused()) : service.fetch(url, init);
    const credentials = { baseUrl: BASE_URL, clientId: 'client', clientSecret: 'secret' };
    const endpoint = new TokenEndpoint({ ...credentials, clock: time, fetch: fetch as typeof globalThis.fetch });
    const shared = incident.fleet && sharedBy(number, endpoint, world);
    const options = { clock: time, random: seeded(number), name: this.instance, ...incident.options };
    this.registry = new OwnerTokenRegistry({ source: shared ?? endpoint, ...options });
    const fleets = shared ? { [this.instance]: shared } : {};
    registerMetrics(promClient, this.registry, { register: this.#register, fleets });
  }

  /** The samples of these metrics, by series. */
  async scrape(metrics: readonly string[]): Promise<[series: string, value: string][]> {
    const exported = await Promise.all(metrics.map((name) => this.#register.getSingleMetricAsString(name)));
    const lines = exported.flatMap((text) => text.split('\n')).filter((line) => line.startsWith('owner_token_'));
    return lines.map((line) => {
      const end = line.lastIndexOf(' ');
      const begins = line.slice(0, end);
      const series = this.#series.get(begins) ?? this.#seriesOf(begins);
      this.#series.set(begins, series);
      return [series, line.slice(end + 1)];
    });
  }

  /** The replicas report one registry; Prometheus adds the instance. */
  #seriesOf(begins: string): string {
    const known = begins.replace(/owner_token_registry="[^"]*"/, 'owner_token_registry="crm"');
    return known.replace(/\}$/, `,instance="${this.instance}"}`);
  }
}

function sharedBy(number: number, source: TokenEndpoint, { incident, time, records }: World): SharedTokens {
  const { redis, otherKey } = incident.fleet ?? {};
  const random = seeded(number);
  const port = records.port(async (answer) => {
    const does = redis?.(time.monotonicMs, random);
    if (does === 'down') throw new Error('connect ECONNREFUSED');
    for (let step = 0; does === 'late' && step < LATE_MS.steps; step++) {
      await new Promise<void>((resolve) => time.setTimeout(resolve, LATE_MS.step));
    }
    return answer();
  });
  const keyOf = (kind: 'sealing' | 'naming') =>
    otherKey === kind && number === REPLICAS ? SEALING_KEY.toReversed() : SEALING_KEY;
  const keys = { sealingKeys: [keyOf('sealing')], namingKey: keyOf('naming') };
  return new SharedTokens({ source, redis: port, clock: time, random, ...keys });
}

/** The samples of each series that all replicas exported; undefined where it did not exist. */
export type Scraped = ReadonlyMap<string, readonly (string | undefined)[]>;

export interface Played {
  readonly scraped: Scraped;
  /** What the live view of the first replica said, nine minutes after the incident began. */
  readonly said: string;
  /** How the last calls of that replica had ended then. */
  readonly ended: string;
}

/** When the live view is asked. */
const ASKED_MS = 9 * MIN;

/** Plays an incident, and scrapes these metrics. */
export async function playedIncident(incident: Incident, metrics: readonly string[]): Promise<Played> {
  const { minutes, scrapedEveryMs, tenants } = incident;
  const time = new ManualClock();
  const service = new Service(incident, time, seeded(1_001));
  const records = new SharedRecordModel(() => Math.floor(time.now() * 1_000));
  const world: World = { incident, time, service, records, last: new Map() };
  const replicas = Array.from({ length: REPLICAS }, (_, index) => new Replica(index + 1, world));
  const { registry: first } = replicas[0] as Replica;
  const view = incident.isAsked && liveView(first, { public: true, clock: time });
  let [said, ended] = ['', ''];
  let calls = 0;
  for (const group of tenants) {
    const call = (number: number) => {
      const replica = replicas[calls++ % REPLICAS];
      if (replica) void callOnce(replica, `${group.name}-${number}`, world);
    };
    scheduleCalls(group, time, seeded(1), call, minutes * MIN);
  }
  const leaving = scheduleEnds(replicas, world);
  const scraped = new Map<string, (string | undefined)[]>();
  for (let at = 0; at * scrapedEveryMs <= minutes * MIN; at++) {
    await time.passUntil(at * scrapedEveryMs, incident.fleet ? 1 : 20);
    if (view && time.monotonicMs === incident.fromMs + ASKED_MS) {
      said = (await view.status())[0]?.sentence ?? '';
      ended = endedWord(world.last);
    }
    // One that leaves is scraped once more.
    const left = leaving.splice(0);
    for (const replica of [...replicas, ...left]) {
      for (const [series, value] of await replica.scrape(metrics)) {
        const samples = scraped.get(series) ?? [];
        scraped.set(series, samples);
        samples[at] = value;
      }
    }
    for (const { registry } of left) await registry.close({ timeoutMs: 0 });
  }
  for (const { registry } of replicas) await registry.close({ timeoutMs: 0 });
  return { scraped, said, ended };
}

function endedWord(last: ReadonlyMap<string, Ending>): string {
  const counts = new Map<Ending, number>();
  for (const ending of last.values()) counts.set(ending, (counts.get(ending) ?? 0) + 1);
  const sorted = [...counts].sort(([, a], [, b]) => b - a);
  return sorted.map(([ending, count]) => `${count} ${ending}`).join(', ');
}

/** Replicas that are replaced, or end, as the incident says. Returns the list to which each goes then. */
function scheduleEnds(replicas: Replica[], world: World): Replica[] {
  const { time, incident } = world;
  const { deployedAtMs, endedAtMs } = incident;
  const leaving: Replica[] = [];
  for (let index = 0; deployedAtMs !== undefined && index < REPLICAS; index++) {
    time.at(deployedAtMs + index * MIN, () => {
      const [old] = replicas.splice(index, 1, new Replica(REPLICAS + index + 1, world));
      old?.ending.abort();
      if (old) leaving.push(old);
    });
  }
  if (endedAtMs !== undefined) time.at(endedAtMs, () => leaving.push(...replicas.splice(0)));
  return leaving;
}

/** A call of an owner; if the API rejects its token, it asks for another one, once. */
async function callOnce({ registry, ending, instance }: Replica, key: string, world: World): Promise<void> {
  const { service, time } = world;
  const ended = (how: Ending) => instance === 'replica-1' && world.last.set(key, how);
  const { patienceMs, deployedAtMs } = world.incident;
  const leaving = patienceMs === undefined ? undefined : new AbortController();
  const stop = leaving && time.setTimeout(() => leaving.abort(), patienceMs as number);
  const signal = leaving?.signal ?? (deployedAtMs === undefined ? undefined : ending.signal);
  try {
    for (let tries = 1; tries <= 2; tries++) {
      const token = await registry.getToken(key, { signal });
      if (!service.hasApi || (await service.callApi(key, token.value)) === 200) {
        ended('served');
        return registry.accept(key, token);
      }
      ended('rejected by the API');
      registry.reject(key, token);
    }
  } catch {
    ended(signal?.aborted ? 'given up' : 'no token');
  } finally {
    stop?.();
  }
}
