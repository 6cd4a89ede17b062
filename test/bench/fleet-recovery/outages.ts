import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { noRedis, serverVersion, startRedis } from '../../helpers/redis-server.ts';
import { startService } from '../fleet/service.ts';
import type { Command, Report, World } from './replica.ts';

const REPLICAS = 20;
const WORLDS = 5;
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

/** One outage in each world. Returns, for each, the recovery of the single process and of each replica, in milliseconds. */
async function outages(alone: ChildProcess, replicas: readonly ChildProcess[], round: number) {
  const services = await Promise.all(Array.from({ length: 2 * WORLDS }, () => startService(20)));
  const [ofAlone, ofFleet] = [services.slice(0, WORLDS), services.slice(WORLDS)];
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
  const recoveries = ofAlone.map((_, world) => {
    const [single = Infinity, ...others] = reports.map((report) => (report.servedAtMs[world] ?? Infinity) - endedAtMs);
    return { single, worst: Math.max(...others) };
  });
  return { recoveries, during, blockedMs: Math.max(...reports.map((report) => report.blockedMs)) };
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
    const all: { single: number; worst: number }[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const { recoveries, during, blockedMs } = await outages(alone as ChildProcess, replicas, round);
      all.push(...recoveries);
      const list = recoveries.map(({ single, worst }) => `${single} / ${worst}`).join(', ');
      console.log(
        `single / worst of ${REPLICAS} (ms): ${list}; requests of a fleet during an outage: ${during.toFixed(0)}; event loops blocked for at most ${blockedMs.toFixed(0)} ms`,
      );
    }
    const sum = (of: (each: { single: number; worst: number }) => number) =>
      all.reduce((total, each) => total + of(each), 0);
    const [single, worst] = [sum((each) => each.single), sum((each) => each.worst)];
    const ratio = worst / single;
    const most = Math.max(...all.map((each) => each.worst));
    console.log(
      `${all.length} outages, ${REPLICAS} processes, ${serverVersion}: the worst replica recovers after ` +
        `${(worst / all.length).toFixed(0)} ms in the mean (at most ${most}), a single process after ` +
        `${(single / all.length).toFixed(0)}: ${ratio.toFixed(2)} x, ${ratio > LIMIT ? 'MISSED: ' : ''}at most ${LIMIT}`,
    );
    return ratio > LIMIT ? 1 : 0;
  } finally {
    for (const child of [alone, ...replicas]) child?.kill();
  }
}
