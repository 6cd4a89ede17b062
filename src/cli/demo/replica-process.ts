/** The parent's side of a replica: a forked process and the requests that it has yet to answer. */

import { type ChildProcess, fork } from 'node:child_process';
import { withDeadline } from '../deadline.ts';
import type { ReplicaReply, ReplicaRound, ReplicaStart } from './fleet-replica.ts';

/** Far longer than a round takes; keeps a replica that hangs from hanging the demo. */
const REPLY_TIMEOUT_MS = 60_000;

interface Pending {
  resolve(reply: ReplicaReply): void;
  reject(error: unknown): void;
}

export class ReplicaProcess {
  readonly #process: ChildProcess;
  readonly #signal: AbortSignal;
  readonly #pending = new Map<number, Pending>();
  #lastId = 0;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
    this.#process = fork(process.argv[1] as string, ['demo', '--fleet-replica'], { execArgv: [] });
    this.#process.on('message', (reply: ReplicaReply) => {
      this.#pending.get(reply.id)?.resolve(reply);
      this.#pending.delete(reply.id);
    });
    this.#process.on('error', () => this.#end());
    this.#process.on('exit', () => this.#end());
    signal.addEventListener('abort', () => this.kill(), { once: true });
  }

  async start(start: ReplicaStart): Promise<void> {
    await this.#send({ start });
  }

  /** Requests a token for each of these owners. */
  async get(accessKeys: string[]): Promise<ReplicaRound> {
    return (await this.#send({ get: accessKeys })).round ?? { waitsMs: [], requested: [] };
  }

  kill(): void {
    this.#process.kill('SIGKILL');
  }

  #end(): void {
    const reason = this.#signal.aborted ? this.#signal.reason : new Error('the replica ended');
    for (const { reject } of this.#pending.values()) reject(reason);
    this.#pending.clear();
  }

  async #send(message: { start: ReplicaStart } | { get: string[] }): Promise<ReplicaReply> {
    const id = ++this.#lastId;
    const replied = new Promise<ReplicaReply>((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      this.#process.send({ id, ...message }, (error) => error && reject(error));
    });
    // An interrupt kills the process, which rejects the reply.
    const reply = await withDeadline(REPLY_TIMEOUT_MS, undefined, () => replied);
    if (reply.failed) throw new Error('a replica failed');
    return reply;
  }
}
