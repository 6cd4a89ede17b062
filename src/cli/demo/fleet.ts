/**
 * `owner-token-registry demo --fleet`: eight processes and one Redis, with and without sharing, and a process killed
 * while the others wait for it. Judged by what the service counted.
 */

import { type ChildProcess, fork, spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { type Sandbox, startSandbox } from '../../sandbox/index.ts';
import { EXIT, type Terminal } from '../command.ts';
import { newSealingKey, type ReplicaReply, type ReplicaRound, type ReplicaStart } from './fleet-replica.ts';
import { bar, thousands } from './picture.ts';

const PROCESSES = 8;
const OWNERS = 200;
const LATECOMERS = 40;
const ANSWER_MS = 40;
const SLOW_ANSWER_MS = 500;
const LEASE_MS = 3_000;
const OWNERS_A_ROW = 50;

interface FleetResult {
  alone: number;
  shared: number;
  /** For each owner the process that asked for it, from 1. */
  askedBy: number[];
  killed: { underWay: number; requests: number; calls: number; served: number; slowestMs: number };
  seconds: number;
}

export async function runFleetDemo(terminal: Terminal, json: boolean): Promise<number> {
  const redis = await findRedis(terminal.env);
  if (!redis) {
    terminal.err.write(
      'demo --fleet: there is no Redis here. Install one (Debian: apt install redis-server), so that the demo can start\n' +
        'one of its own on a free port, or set REDIS_URL to one that is running.\n',
    );
    return EXIT.failed;
  }
  const tell = (line: string) => json || terminal.out.write(`${line} ...\n`);
  const processes: FleetProcess[] = [];
  try {
    const result = await run(redis.url, processes, tell, terminal.signal);
    const checks = checksOf(result);
    const ok = checks.every(([holds]) => holds);
    terminal.out.write(json ? `${JSON.stringify({ ok, ...result })}\n` : `\n${draw(result, checks)}\n`);
    return ok ? EXIT.ok : EXIT.failed;
  } catch (error) {
    if (!(error instanceof Unstartable)) throw error;
    terminal.err.write(`demo --fleet: ${error.message}\n`);
    return EXIT.failed;
  } finally {
    for (const each of processes) each.kill();
    redis.stop();
  }
}

async function run(
  redisUrl: string,
  processes: FleetProcess[],
  tell: (line: string) => unknown,
  signal: AbortSignal,
): Promise<FleetResult> {
  const startedMs = performance.now();
  await using sandbox = await startSandbox({ owners: OWNERS });
  sandbox.faults.add({ id: 'answer', kind: 'latency', ms: ANSWER_MS });
  const sharing = { redisUrl, sealingKey: newSealingKey(), prefix: `otr-demo-${process.pid}` };
  const keys = [...sandbox.accessKeys];

  tell(`${PROCESSES} processes, ${OWNERS} owners, each process for itself`);
  for (let index = 0; index < PROCESSES; index++) processes.push(new FleetProcess(signal));
  await everyone(processes, (each) => each.start(startOf(sandbox)));
  await everyone(processes, (each) => each.get(keys));
  const alone = asked(sandbox);

  tell('the same with sharing');
  await everyone(processes, (each) => each.start({ ...startOf(sandbox), sharing }));
  // Each begins with other owners, as real replicas do.
  const rounds = await Promise.all(processes.map((each, index) => each.get(turned(keys, index))));
  const shared = asked(sandbox) - alone;
  const askers = rounds.map((round, index) => new Set(round.asked.map((at) => turned(keys, index)[at])));
  const askedBy = keys.map((key) => askers.findIndex((each) => each.has(key)) + 1);

  tell('one process is killed while the others wait for its requests');
  const killed = await killOne(sandbox, processes, signal);
  return { alone, shared, askedBy, killed, seconds: (performance.now() - startedMs) / 1000 };
}

/** The same list, begun at another place by each process. */
function turned(keys: string[], index: number): string[] {
  const from = index * Math.floor(keys.length / PROCESSES);
  return [...keys.slice(from), ...keys.slice(0, from)];
}

/** New owners, a slow service, and a process that dies with its requests on their way. */
async function killOne(
  sandbox: Sandbox,
  processes: FleetProcess[],
  signal: AbortSignal,
): Promise<FleetResult['killed']> {
  const keys = Array.from({ length: LATECOMERS }, () => sandbox.addOwner().accessKey);
  sandbox.faults.add({ kind: 'latency', ms: SLOW_ANSWER_MS });
  const before = asked(sandbox);
  const [victim, ...others] = processes as [FleetProcess, ...FleetProcess[]];
  victim.get(keys).catch(() => {});
  while (asked(sandbox) - before < 10 && !signal.aborted) await new Promise((resolve) => setTimeout(resolve, 5));
  const underWay = asked(sandbox) - before;
  victim.kill();
  const waitsMs = (await everyone(others, (each) => each.get(keys))).flatMap((round) => round.waitsMs);
  return {
    underWay,
    requests: asked(sandbox) - before,
    calls: waitsMs.length,
    served: waitsMs.filter((ms) => ms >= 0).length,
    slowestMs: Math.round(Math.max(...waitsMs)),
  };
}

const asked = (sandbox: Sandbox) => sandbox.ledger.entries({ kind: 'token' }).length;
const everyone = <T>(processes: FleetProcess[], run: (each: FleetProcess) => Promise<T>) =>
  Promise.all(processes.map(run));

function startOf({ url: baseUrl, clientId, clientSecret }: Sandbox): ReplicaStart {
  return { baseUrl, clientId, clientSecret };
}

/** Something is missing that the user can mend. */
class Unstartable extends Error {}

class FleetProcess {
  readonly #process: ChildProcess;
  readonly #pending = new Map<number, { resolve: (reply: ReplicaReply) => void; reject: (error: unknown) => void }>();
  #lastId = 0;

  constructor(signal: AbortSignal) {
    this.#process = fork(process.argv[1] as string, ['demo', '--fleet-replica'], { execArgv: [] });
    this.#process.on('message', (reply: ReplicaReply) => {
      this.#pending.get(reply.id)?.resolve(reply);
      this.#pending.delete(reply.id);
    });
    this.#process.on('exit', () => {
      for (const { reject } of this.#pending.values()) reject(signal.aborted ? signal.reason : new Error('gone'));
    });
    signal.addEventListener('abort', () => this.kill(), { once: true });
  }

  async start(start: ReplicaStart): Promise<void> {
    await this.#tell({ start });
  }

  async get(accessKeys: string[]): Promise<ReplicaRound> {
    return (await this.#tell({ get: accessKeys })).round ?? { waitsMs: [], asked: [] };
  }

  kill(): void {
    this.#process.kill('SIGKILL');
  }

  async #tell(message: { start: ReplicaStart } | { get: string[] }): Promise<ReplicaReply> {
    const id = ++this.#lastId;
    const replied = new Promise<ReplicaReply>((resolve, reject) => this.#pending.set(id, { resolve, reject }));
    this.#process.send({ id, ...message });
    const reply = await replied;
    if (reply.problem) throw new Unstartable(reply.problem);
    return reply;
  }
}

/** The one that is named, or one of our own from the `redis-server` that is installed. */
async function findRedis(env: Terminal['env']): Promise<{ url: string; stop: () => void } | undefined> {
  if (env.REDIS_URL) return { url: env.REDIS_URL, stop: () => {} };
  const port = await freePort();
  const args = ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
  const server = spawn('redis-server', args, { stdio: ['ignore', 'pipe', 'ignore'] });
  const ready = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false));
    server.once('exit', () => resolve(false));
    server.stdout.on('data', (chunk) => String(chunk).includes('Ready to accept connections') && resolve(true));
  });
  return ready ? { url: `redis://127.0.0.1:${port}`, stop: () => server.kill('SIGKILL') } : undefined;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

type NamedCheck = readonly [holds: boolean, name: string, found: string];

function checksOf({ alone, shared, killed }: FleetResult): NamedCheck[] {
  const extra = killed.requests - LATECOMERS;
  return [
    [alone === PROCESSES * OWNERS, 'alone, each process asks for each owner', `${thousands(alone)} requests`],
    [shared <= OWNERS * 1.01, 'shared, the fleet asks once an owner', `${thousands(shared)} requests`],
    [killed.served === killed.calls, 'a killed process costs no call', `${killed.served} of ${killed.calls} served`],
    [
      extra <= killed.underWay,
      'and at most one request more for each it had under way',
      `${extra} for ${killed.underWay}`,
    ],
    [
      killed.slowestMs < LEASE_MS * 2,
      'and about one lease (3 s) at most',
      `slowest call ${(killed.slowestMs / 1000).toFixed(1)} s`,
    ],
  ];
}

function draw(result: FleetResult, checks: readonly NamedCheck[]): string {
  const row = (name: string, count: number, note: string) =>
    `  ${name.padEnd(14)}${bar(count / result.alone, 44, ['█', ' '])} ${thousands(count).padStart(6)}  ${note}`;
  const asking = Array.from({ length: OWNERS / OWNERS_A_ROW }, (_, line) => {
    return `  ${result.askedBy.slice(line * OWNERS_A_ROW, (line + 1) * OWNERS_A_ROW).join('')}`;
  });
  const { underWay, requests, calls, slowestMs } = result.killed;
  return [
    `Requests asked of the service: ${PROCESSES} processes, each in need of a token for each of ${OWNERS} owners`,
    row('each alone', result.alone, `${result.alone / OWNERS} an owner`),
    row('shared', result.shared, `${result.shared / OWNERS} an owner`),
    '',
    'Who asked, one digit an owner: the number of the process that asked for all',
    ...asking,
    '',
    `Process 1 is killed with ${underWay} requests on their way; the other ${PROCESSES - 1} want ${LATECOMERS} new owners' tokens`,
    `  ${requests} requests: one an owner, and ${requests - LATECOMERS} again; ${calls} calls, the slowest after ${(slowestMs / 1000).toFixed(1)} s`,
    '',
    'Checks, by what the service counted',
    ...checks.map(([holds, name, found]) => `  ${holds ? '✓' : '✗'} ${name}: ${found}`),
    '',
    `In ${result.seconds.toFixed(1)} s.`,
  ].join('\n');
}
