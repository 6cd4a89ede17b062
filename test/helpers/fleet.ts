import { type ChildProcess, fork } from 'node:child_process';
import { rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { build } from 'tsdown';
import type { ReplicaCommands, ReplicaOptions } from './fleet-worker.ts';

const ROOT = join(import.meta.dirname, '../..');

/** Bundles the worker into a file below `node_modules`, where it can resolve the Redis clients. */
export async function buildReplica(): Promise<string> {
  const outDir = `node_modules/.cache/owner-token-registry/fleet-${process.pid}`;
  await build({
    config: false,
    cwd: ROOT,
    entry: { replica: 'test/helpers/fleet-worker.ts' },
    outDir,
    dts: false,
    clean: false,
    logLevel: 'silent',
    platform: 'node',
    target: 'node20.19',
  });
  return join(ROOT, outDir, 'replica.mjs');
}

/** One forked replica. `tell` sends it a command and resolves with its reply. */
export class Replica {
  readonly process: ChildProcess;
  readonly ready: Promise<void>;
  readonly ended: Promise<void>;
  readonly #pending = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
  #lastId = 0;

  constructor(file: string) {
    this.process = fork(file, { stdio: 'inherit', execArgv: [] });
    this.ended = new Promise((resolve) => this.process.once('exit', () => resolve()));
    this.ready = new Promise((resolve) => {
      this.process.on('message', (message: { id?: number; ready?: true; value?: never; error?: string }) => {
        if (message.ready) return resolve();
        const waiting = this.#pending.get(message.id ?? 0);
        this.#pending.delete(message.id ?? 0);
        if (message.error === undefined) waiting?.resolve(message.value as never);
        else waiting?.reject(new Error(message.error));
      });
    });
    this.process.once('exit', () => {
      for (const { reject } of this.#pending.values()) reject(new Error('the replica exited'));
    });
  }

  tell<C extends keyof ReplicaCommands>(
    command: C,
    ...args: Parameters<ReplicaCommands[C]>
  ): ReturnType<ReplicaCommands[C]> {
    const id = ++this.#lastId;
    this.process.send({ id, command, args });
    return new Promise((resolve, reject) => this.#pending.set(id, { resolve, reject })) as ReturnType<
      ReplicaCommands[C]
    >;
  }

  async kill(): Promise<void> {
    this.process.kill('SIGKILL');
    await this.ended;
  }
}

/** Forked replicas that tests reuse, because starting a process takes longer than most tests. */
export class ReplicaPool implements AsyncDisposable {
  readonly #file: string;
  readonly #idle: Replica[] = [];

  constructor(file: string) {
    this.#file = file;
  }

  /** Starts `count` replicas with these options. Disposing of the fleet returns the living ones to the pool. */
  async start(
    count: number,
    options: ReplicaOptions,
    each: (index: number) => Partial<ReplicaOptions> = () => ({}),
  ): Promise<Fleet> {
    const replicas = Array.from({ length: count }, () => this.#idle.pop() ?? new Replica(this.#file));
    await Promise.all(
      replicas.map(async (replica, index) => {
        await replica.ready;
        await replica.tell('start', { ...options, ...each(index) });
      }),
    );
    return new Fleet(replicas, async () => {
      const living = replicas.filter(({ process }) => process.exitCode === null && process.signalCode === null);
      await Promise.all(living.map((replica) => replica.tell('stop')));
      this.#idle.push(...living);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#idle.splice(0).map((replica) => replica.kill()));
    rmSync(dirname(this.#file), { recursive: true, force: true });
  }
}

/** Replicas that were started together. */
export class Fleet implements AsyncDisposable {
  readonly replicas: readonly Replica[];
  readonly #giveBack: () => Promise<void>;

  constructor(replicas: readonly Replica[], giveBack: () => Promise<void>) {
    this.replicas = replicas;
    this.#giveBack = giveBack;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#giveBack();
  }

  at(index: number): Replica {
    return this.replicas.at(index) as Replica;
  }

  all<C extends keyof ReplicaCommands>(
    command: C,
    ...args: Parameters<ReplicaCommands[C]>
  ): Promise<Awaited<ReturnType<ReplicaCommands[C]>>[]> {
    return Promise.all(this.replicas.map((replica) => replica.tell(command, ...args))) as Promise<
      Awaited<ReturnType<ReplicaCommands[C]>>[]
    >;
  }
}
