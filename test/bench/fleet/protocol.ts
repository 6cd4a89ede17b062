/**
 * What the fleet's protocol costs the service when something breaks: 20 replicas in this process, each with clients of its
 * own, and a source that answers after a set time and counts.
 */

import { spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from 'redis';
import { OwnerTokenRegistry, type TokenSource } from '../../../src/index.ts';
import { fromNodeRedis, type RedisPort, SharedTokens, type SharedTokensOptions } from '../../../src/redis/index.ts';
import { startRedis } from '../../helpers/redis-server.ts';

const REPLICAS = 20;
const SEALING_KEY = Uint8Array.from({ length: 32 }, (_, index) => index);

interface ProtocolReplica {
  readonly registry: OwnerTokenRegistry;
  /** From now on nothing that it sends reaches Redis, and no request of its ends. */
  die(): void;
  close(): Promise<void>;
}

/** Counts requests, and answers each after `delayMs`. */
export class CountingService {
  requests = 0;
  delayMs = 50;

  source(isDead: () => boolean): TokenSource {
    return {
      identity: () => 'bench',
      requestToken: async () => {
        const token = `token-${++this.requests}`;
        await sleep(this.delayMs);
        if (isDead()) await new Promise(() => {});
        return { token, response: { access_token: token, expires_in: 3_600 } };
      },
    };
  }
}

export async function startReplica(
  url: string,
  service: CountingService,
  options: Partial<SharedTokensOptions> = {},
): Promise<ProtocolReplica> {
  const client = await createClient({ url })
    .on('error', () => {})
    .connect();
  const subscriber = await client
    .duplicate()
    .on('error', () => {})
    .connect();
  let isDead = false;
  const port = fromNodeRedis(client, { subscriber });
  const redis: RedisPort = { ...port, run: (...script) => (isDead ? new Promise(() => {}) : port.run(...script)) };
  const source = service.source(() => isDead);
  const shared = new SharedTokens({ source, redis, sealingKeys: [SEALING_KEY], ...options });
  const registry = new OwnerTokenRegistry({ source: shared });
  return {
    registry,
    die: () => {
      isDead = true;
    },
    close: async () => {
      await registry.close({ timeoutMs: 100 });
      client.destroy();
      subscriber.destroy();
    },
  };
}

/** Requests for one cold owner whose leader dies, and the longest wait of the others. Three times. */
export async function deadLeaders(): Promise<void> {
  console.log('| lease | service answers after | requests per owner | longest wait |\n|---|---|---|---|');
  for (const leaseMs of [3_000, 10_000]) {
    for (const delayMs of [50, 600, 1_000, 2_500]) {
      await using redis = await startRedis();
      const service = new CountingService();
      service.delayMs = delayMs;
      const all = await each(() => startReplica(redis.url, service, { leaseMs }));
      await Promise.all(all.map(({ registry }) => registry.getToken('warm')));
      const rounds = leaseMs > 5_000 ? 1 : 3;
      const [requests, waits]: [number[], number[]] = [[], []];
      for (let round = 0; round < rounds; round++) {
        const before = service.requests;
        const [leader, ...others] = [...all.slice(round), ...all.slice(0, round)] as [
          ProtocolReplica,
          ...ProtocolReplica[],
        ];
        leader.registry.getToken(`owner-${round}`).catch(() => {});
        while (service.requests === before) await sleep(1);
        leader.die();
        const startedMs = performance.now();
        const outcomes = await Promise.allSettled(
          others.slice(0, REPLICAS - 1 - round).map(({ registry }) => registry.getToken(`owner-${round}`)),
        );
        waits.push(performance.now() - startedMs);
        requests.push(service.requests - before);
        if (outcomes.some(({ status }) => status === 'rejected')) console.log('a call failed');
      }
      const wait = `${(Math.max(...waits) / 1_000).toFixed(2)} s`;
      console.log(`| ${leaseMs / 1_000} s | ${delayMs / 1_000} s | ${requests.join(', ')} | ${wait} |`);
      await Promise.all(all.map(({ close }) => close()));
    }
  }
}

/** Lets the clock of a server be set, in seconds from the right time. Needs a C compiler. */
export function skewable() {
  const folder = mkdtempSync(join(tmpdir(), 'otr-skew-'));
  const [source, library, file] = ['skew.c', 'skew.so', 'seconds'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(
    source,
    `#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
int gettimeofday(struct timeval *tv, void *tz) {
  static int (*real)(struct timeval *, void *);
  if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
  int result = real(tv, tz);
  long seconds = 0;
  FILE *file = fopen(getenv("SKEW_FILE"), "r");
  if (file) { if (fscanf(file, "%ld", &seconds) == 1) tv->tv_sec += seconds; fclose(file); }
  return result;
}`,
  );
  const { status } = spawnSync('cc', ['-shared', '-fPIC', '-o', library, source, '-ldl'], { stdio: 'inherit' });
  if (status !== 0) throw new Error('needs a C compiler');
  Object.assign(process.env, { LD_PRELOAD: library, SKEW_FILE: file });
  writeFileSync(file, '0');
  return { set: (seconds: number) => writeFileSync(file, `${seconds}`), done: () => delete process.env.LD_PRELOAD };
}

/** The server's clock steps back by an hour: what new owners cost, before, at once and later; and a replica that starts then. */
export async function clockStep(): Promise<void> {
  console.log('| | requests per owner | calls over 1 s | p99 | tokens of before kept |\n|---|---|---|---|---|');
  for (const seconds of [-60, -3_600, -86_400]) {
    const skew = skewable();
    await using redis = await startRedis();
    skew.done();
    const service = new CountingService();
    service.delayMs = 100;
    const all = await each(() => startReplica(redis.url, service));
    const phase = async (what: string, replicas = all) => {
      const [before, times]: [number, number[]] = [service.requests, []];
      for (let owner = 0; owner < 5; owner++) {
        const calls = replicas.map(async ({ registry }) => {
          const startedMs = performance.now();
          await registry.getToken(`${seconds} ${what} ${owner}`);
          times.push(performance.now() - startedMs);
        });
        await Promise.all(calls);
      }
      times.sort((a, b) => a - b);
      const over = times.filter((ms) => ms > 1_000).length;
      const p99 = ((times.at(Math.floor(times.length * 0.99)) ?? 0) / 1_000).toFixed(2);
      const perOwner = ((service.requests - before) / 5).toFixed(1);
      console.log(`| ${what} | ${perOwner} | ${over} of ${times.length} | ${p99} s | |`);
    };
    await phase('before');
    skew.set(seconds);
    await phase(`at once after a step of ${seconds} s`);
    await sleep(2_000);
    await phase('later');
    const late = await each(() => startReplica(redis.url, service));
    await phase('with as many replicas that start then', [...all, ...late]);
    await sleep(5_000);
    await phase('5 s later', [...all, ...late]);
    // Replicas that start then and need owners whose tokens were stored before and after the step.
    const before = service.requests;
    const fresh = await startReplica(redis.url, service);
    await fresh.registry.getToken('warm');
    await sleep(300);
    for (const what of ['before', 'later', '5 s later']) {
      for (let owner = 0; owner < 5; owner++) await fresh.registry.getToken(`${seconds} ${what} ${owner}`);
    }
    console.log(`| a new replica reads 15 stored tokens | ${service.requests - before - 1} requests | | | |`);
    await Promise.all([...all, ...late, fresh].map(({ close }) => close()));
  }
}

async function each<T>(start: () => Promise<T>): Promise<T[]> {
  const all: T[] = [];
  for (let replica = 0; replica < REPLICAS; replica++) all.push(await start());
  return all;
}

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
