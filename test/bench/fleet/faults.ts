/**
 * What a Redis in trouble costs callers: 20 replicas, half with each family of clients, and every half second a new owner
 * that all of them ask for, while the token service is healthy. Prints what the callers waited beside what they wait without
 * any Redis, how often the service was asked, and how long after the fault the replicas share again.
 */

import type { Fleet, ReplicaPool } from '../../helpers/fleet.ts';
import type { Outcome, ReplicaOptions } from '../../helpers/fleet-worker.ts';
import { startRedis } from '../../helpers/redis-server.ts';
import { type Service, startService } from './service.ts';
import { APP, type At, EXPIRED, startTopology, type Topology, VALID, withCertificate } from './topologies.ts';

/** In a few processes, because a process that gets no CPU time looks like a slow Redis. */
const [PROCESSES, COPIES] = [4, 5];
const OWNER_EVERY_MS = 500;
const FAULT_MS = 20_000;
/** The limits of the project: the share of calls over a second, and how much longer than without Redis the worst may be. */
const LIMIT = { overShare: 0.08, worstMs: 1_500, backMs: 5_000 } as const;

interface Fault {
  readonly name: string;
  readonly what: string;
  readonly topology?: Topology;
  begin(at: At): unknown;
  end?(at: At): unknown;
}

/** Existing connections stay as they were, so the fault cuts them. */
const cut = ({ proxy, subscribers }: At) => [proxy.cutAll(), subscribers.cutAll()];

const FAULTS: readonly Fault[] = [
  { name: 'healthy', what: 'healthy', begin: () => {} },
  { name: 'plus50', what: 'replies 50 ms late', begin: late(50), end: late(0) },
  { name: 'plus500', what: 'replies 500 ms late', begin: late(500), end: late(0) },
  {
    name: 'killed',
    what: 'killed',
    begin: ({ server }) => server.kill(),
    end: async (at) => {
      at.server = await startRedis({ port: at.server.port, args: ['--user', ...APP] });
    },
  },
  {
    name: 'hung',
    what: 'hung',
    begin: ({ server }) => server.process.kill('SIGSTOP'),
    end: ({ server }) => server.process.kill('SIGCONT'),
  },
  {
    name: 'read-only',
    what: 'a read-only replica',
    begin: ({ admin }) => admin.replicaof('127.0.0.1', 1),
    end: ({ admin }) => admin.replicaof('NO', 'ONE'),
  },
  {
    name: 'full',
    what: 'out of memory',
    begin: ({ admin }) => admin.config('SET', 'maxmemory', '1'),
    end: ({ admin }) => admin.config('SET', 'maxmemory', '0'),
  },
  {
    name: 'password',
    what: 'password rotated',
    begin: async (at) => {
      await at.admin.call('ACL', 'SETUSER', 'app', 'resetpass', '>other');
      cut(at);
    },
    end: ({ admin }) => admin.call('ACL', 'SETUSER', 'app', '>pw'),
  },
  {
    name: 'maxclients',
    what: '`maxclients` reached',
    begin: async (at) => {
      await at.admin.config('SET', 'maxclients', '1');
      cut(at);
    },
    end: ({ admin }) => admin.config('SET', 'maxclients', '1000'),
  },
  { name: 'sentinel', what: 'Sentinel failover of 3 s', topology: 'sentinel', begin: ({ server }) => server.kill() },
  { name: 'plus2500', what: 'replies 2.5 s late', begin: late(2_500), end: late(0) },
  {
    name: 'lost',
    what: 'packets dropped',
    begin: ({ proxy }) => proxy.become('hold'),
    end: (at) => [late(0)(at), cut(at)],
  },
  { name: 'dead', what: 'connections dead, server well', begin: ({ proxy }) => proxy.silenceAll() },
  {
    name: 'subscribers',
    what: 'only the subscribers’ packets dropped',
    begin: ({ subscribers }) => subscribers.become('hold'),
    end: ({ subscribers }) => [subscribers.become('pass'), subscribers.cutAll()],
  },
  {
    name: 'stalls',
    what: 'stalls of 1.5 s every 5 s (AOF)',
    begin: (at) => {
      const stall = () => {
        at.server.process.kill('SIGSTOP');
        setTimeout(() => at.server.process.kill('SIGCONT'), 1_500);
      };
      stall();
      at.timer = setInterval(stall, 5_000);
    },
    end: ({ timer, server }) => [clearInterval(timer), server.process.kill('SIGCONT')],
  },
  {
    name: 'certificate',
    what: 'TLS certificate expired',
    topology: 'tls',
    begin: (at) => [withCertificate(at, EXPIRED), cut(at)],
    end: (at) => withCertificate(at, VALID),
  },
  {
    name: 'failover',
    what: '`FAILOVER`, the name moves 3 s later',
    topology: 'replica',
    begin: async (at) => {
      await at.admin.call('FAILOVER');
      setTimeout(() => moveTo(at.heirPort)(at), 3_000);
    },
  },
  {
    name: 'sentinel-failover',
    what: '`SENTINEL FAILOVER`',
    topology: 'sentinel',
    begin: ({ sentinel }) => sentinel?.call('SENTINEL', 'FAILOVER', 'main'),
  },
  {
    name: 'lagging',
    what: 'a replica 5 s behind takes over',
    topology: 'replica',
    begin: (at) => {
      at.replication?.become('hold');
      setTimeout(async () => {
        await at.server.kill();
        await at.heirAdmin?.replicaof('NO', 'ONE');
        moveTo(at.heirPort)(at);
      }, 5_000);
    },
  },
  {
    name: 'slots',
    what: 'slots of a cluster move',
    topology: 'cluster',
    begin: (at) => {
      at.timer = setInterval(() => at.moveSlots?.(), 200);
    },
    end: ({ timer }) => clearInterval(timer),
  },
];

/** The name leads to another server. */
function moveTo(port: number) {
  return (at: At) => [at.proxy.leadTo(port), at.subscribers.leadTo(port), cut(at)];
}

function late(ms: number) {
  return ({ proxy }: At) => proxy.become('pass', ms);
}

interface Row {
  readonly what: string;
  readonly outcomes: readonly Outcome[];
  readonly perOwner: number;
  /** Until the first owner with one request, after the fault. */
  readonly backMs?: number;
  /** The longest that a replica's event loop was blocked: it got no CPU time, or its client was busy. */
  readonly blockedMs: number;
}

/** As a page shows it. */
export interface Table {
  readonly columns: readonly string[];
  readonly rows: string[][];
}

const COLUMNS = ['calls over 1 s', 'p99', 'worst', 'failed calls', 'requests per owner', 'shares again after'];

/** @param only the names of the faults; all if empty. @returns the table, and what missed its limit. */
export async function faults(pool: ReplicaPool, only: readonly string[]): Promise<{ missed: string[]; table: Table }> {
  print(['', ...COLUMNS, 'event loop blocked']);
  const alone = await withoutRedis(pool);
  const rows = [show(alone)];
  const missed: string[] = [];
  for (const fault of FAULTS.filter(({ name }) => only.length === 0 || only.includes(name))) {
    const row = await measured(pool, fault);
    rows.push(show(row));
    const { over, worstMs, failed } = summary(row.outcomes);
    const isLate = over > LIMIT.overShare || worstMs > summary(alone.outcomes).worstMs + LIMIT.worstMs;
    // A fault that ends by itself ends at an unknown time.
    const isBack = !fault.end || (row.backMs ?? 0) <= LIMIT.backMs;
    if (failed > 0 || !isBack || (isLate && !fault.name.startsWith('plus5'))) missed.push(fault.what);
  }
  return { missed, table: { columns: ['what happens to Redis', ...COLUMNS], rows } };
}

function optionsFor(service: Service): ReplicaOptions {
  return { baseUrl: service.url, clientId: 'app', clientSecret: 'secret', username: 'app', password: 'pw' };
}

async function withoutRedis(pool: ReplicaPool): Promise<Row> {
  const service = await startService(100);
  await using fleet = await pool.start(PROCESSES, { ...optionsFor(service), copies: COPIES });
  await fleet.all('get', ['warm']);
  const before = service.requests;
  const outcomes = await load(fleet, 'alone', FAULT_MS);
  service.close();
  const perOwner = (service.requests - before) / (FAULT_MS / OWNER_EVERY_MS);
  return { what: 'no Redis at all', outcomes, perOwner, blockedMs: await blockedMs(fleet) };
}

async function measured(pool: ReplicaPool, fault: Fault): Promise<Row> {
  const service = await startService(100);
  const at = await startTopology(fault.topology);
  try {
    await using fleet = await pool.start(
      PROCESSES,
      { ...optionsFor(service), ...at.options, subscribe: true, copies: COPIES },
      (index) => ({ client: index % 2 ? 'ioredis' : 'node-redis' }),
    );
    await load(fleet, 'before', 3_000);
    await blockedMs(fleet);
    const before = service.requests;
    await fault.begin(at);
    const outcomes = await load(fleet, 'during', FAULT_MS);
    const perOwner = (service.requests - before) / (FAULT_MS / OWNER_EVERY_MS);
    const row = { what: fault.what, outcomes, perOwner, blockedMs: await blockedMs(fleet) };
    await fault.end?.(at);
    return { ...row, backMs: await untilShared(fleet, service) };
  } finally {
    await at.stop();
    service.close();
  }
}

/** Since it was last asked. */
async function blockedMs(fleet: Fleet): Promise<number> {
  return Math.max(...(await fleet.all('report')).map((report) => report.blockedMs));
}

/** All replicas ask for a new owner every half second. */
async function load(fleet: Fleet, prefix: string, ms: number): Promise<Outcome[]> {
  const rounds: Promise<Outcome[][]>[] = [];
  for (let round = 0; round < ms / OWNER_EVERY_MS; round++) {
    rounds.push(fleet.all('get', [`${prefix}-${round}`]));
    await sleep(OWNER_EVERY_MS);
  }
  const outcomes = (await Promise.all(rounds)).map((round) => round.flat());
  const owners = outcomes.map((round) => new Set(round.flatMap(({ token }) => token ?? [])));
  const tokens = owners.flatMap((each) => [...each]);
  if (new Set(tokens).size < tokens.length) throw new Error('two owners were given the same token');
  return outcomes.flat();
}

async function untilShared(fleet: Fleet, service: Service): Promise<number> {
  const startedMs = performance.now();
  for (let round = 0; performance.now() - startedMs < 60_000; round++) {
    const [before, askedMs] = [service.requests, performance.now()];
    await fleet.all('get', [`after-${round}`]);
    if (service.requests - before === 1) return askedMs - startedMs;
    await sleep(OWNER_EVERY_MS - 200);
  }
  return Infinity;
}

function summary(outcomes: readonly Outcome[]) {
  const times = outcomes.map(({ ms }) => ms).sort((a, b) => a - b);
  const at = (share: number) => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? Number.NaN;
  const over = times.filter((ms) => ms > 1_000).length / times.length;
  return { over, p99Ms: at(0.99), worstMs: at(1), failed: outcomes.filter(({ token }) => !token).length };
}

/** Prints a row. @returns its cells for the page. */
function show(row: Row): string[] {
  const { over, p99Ms, worstMs, failed } = summary(row.outcomes);
  const back = row.backMs !== undefined && row.backMs < 50 ? 'at once' : seconds(row.backMs, 1);
  const perOwner = row.perOwner.toFixed(row.perOwner < 10 ? 1 : 0);
  const cells = [
    ...[row.what, `${(over * 100).toFixed(1)} %`.replace('0.0 %', '0 %'), seconds(p99Ms), seconds(worstMs)],
    ...[`${failed}`, perOwner, back],
  ];
  print([...cells, seconds(row.blockedMs)]);
  return cells;
}

function print([what = '', ...columns]: readonly string[]): void {
  console.log(what.padEnd(32) + columns.map((column) => column.padStart(20)).join(''));
}

const seconds = (ms: number | undefined, digits = 2) => (ms === undefined ? '' : `${(ms / 1_000).toFixed(digits)} s`);
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
