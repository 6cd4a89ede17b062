import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { noRedis, serverVersion, startRedis } from '../../helpers/redis-server.ts';
import { startService } from '../fleet/service.ts';
import type { Command, Report, World } from './replica.ts';

const REPLICAS = 20;
const WORLDS = 5;
/** Registries that do not share, for each fleet: their recoveries vary by seconds, and they are the yardstick. */
const SINGLES_PER_WORLD = 4;
const ROUNDS = 4;
const OUTAGE_MS = 10_000;
/** The worst replica compared with a single process, over all outages. */
const LIMIT = 1.1;

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function ask(child: ChildProcess, command: Command): Promise<Report> {
  child.send(command);
  const [report] = await once(child, 'message');
  return report as Report;
}

/** One outage in each world. Returns the recoveries of the single registries and of each world's fleet, in milliseconds. */
async function outages(alone: ChildProcess, replicas: readonly ChildProcess[], round: number) {
  const services = await Promise.all(Array.from({ length: (SINGLES_PER_WORLD + 1) * WORLDS }, () => startService(20)));
  const [ofFleet, ofAlone] = [services.slice(0, WORLDS), services.slice(WORLDS)];
  for (const service of services) service.failing = true;
  const worlds = (list: typeof services): World[] =>
    list.map(({ url }, world) => ({ url, prefix: `recovery-${round}-${world}` }));
  await ask(alone, { do: 'start', worlds: worlds(ofAlone) });
  await Promise.all(replicas.map((replica) => ask(replica, { do: 'start', worlds: worlds(ofFleet) })));
  await sleep(OUTAGE_MS);
  const during = ofFleet.reduce((sum, { requests }) => sum + requests, 0) / WORLDS;
  const endedAtMs = Date.now();
  for (const service of services) service.failing = false;
  const read = () => Promise.all([alone, ...replicas].map((child) => ask(child, { do: 'report' })));
  let reports = await read();
  while (reports.some((report) => report.servedAtMs.includes(null)) && Date.now() < endedAtMs + 60_000) {
    await sleep(200);
    reports = await read();
  }
  for (const service of services) service.close();
  const [single, ...shared] = reports.map(({ servedAtMs }) => servedAtMs.map((atMs) => (atMs ?? Infinity) - endedAtMs));
  const fleets = ofFleet.map((_, world) => {
    const each = shared.map((replica) => replica[world] ?? Infinity);
    return { first: Math.min(...each), worst: Math.max(...each) };
  });
  return { singles: single ?? [], fleets, during, blockedMs: Math.max(...reports.map(({ blockedMs }) => blockedMs)) };
}

export async function main(file: string): Promise<number> {
  if (noRedis) {
    console.log('there is no redis-server here (Debian: apt install redis-server): nothing was measured');
    return 1;
  }
  await using redis = await startRedis();
  const start = async (env: object) => {
    const child = fork(file, { stdio: 'inherit', execArgv: [], env: { ...process.env, REDIS_URL: '', ...env } });
    await once(child, 'message');
    return child;
  };
  const [alone, ...replicas] = await Promise.all(
    Array.from({ length: REPLICAS + 1 }, (_, index) => start(index === 0 ? {} : { REDIS_URL: redis.url })),
  );
  try {
    const singles: number[] = [];
    const fleets: { first: number; worst: number }[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const outage = await outages(alone as ChildProcess, replicas, round);
      singles.push(...outage.singles);
      fleets.push(...outage.fleets);
      console.log(
        `first to worst of ${REPLICAS} (ms): ${outage.fleets.map(({ first, worst }) => `${first} to ${worst}`).join(', ')}; ` +
          `requests of a fleet during an outage: ${outage.during.toFixed(0)}; ` +
          `event loops blocked for at most ${outage.blockedMs.toFixed(0)} ms`,
      );
    }
    const mean = (of: number[]) => of.reduce((sum, each) => sum + each, 0) / of.length;
    const worst = fleets.map((fleet) => fleet.worst);
    const ratio = mean(worst) / mean(singles);
    console.log(
      `${fleets.length} outages, ${REPLICAS} processes, ${serverVersion}: the worst replica recovers after ` +
        `${mean(worst).toFixed(0)} ms in the mean (at most ${Math.max(...worst)}), the first after ` +
        `${mean(fleets.map(({ first }) => first)).toFixed(0)}, a single process after ${mean(singles).toFixed(0)}: ` +
        `${ratio.toFixed(2)} x, ${ratio > LIMIT ? 'MISSED: ' : ''}at most ${LIMIT}`,
    );
    return ratio > LIMIT ? 1 : 0;
  } finally {
    for (const child of [alone, ...replicas]) child?.kill();
  }
}
