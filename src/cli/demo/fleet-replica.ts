/** One process of the fleet demo: a registry that its parent controls over IPC. Only `replica-process.ts` starts it. */

import { OwnerTokenRegistry, TokenEndpoint, type TokenSource } from '../../index.ts';
import { SharedTokens } from '../../redis/index.ts';
import { connect } from './redis.ts';

export interface ReplicaStart {
  readonly baseUrl: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Absent: this process shares with no other. */
  readonly sharing?: { redisUrl: string; sealingKey: string; prefix: string; leaseMs: number };
  /** Process id of a Redis that ends with the demo. */
  readonly redisPid?: number;
}

/** The result of one round of calls. */
export interface ReplicaRound {
  /** Milliseconds that each call waited, in the order requested; -1 for a call that failed. */
  readonly waitsMs: number[];
  /** Indexes of the owners whose token this process requested from the service. */
  readonly requested: number[];
}

export type ReplicaMessage = { id: number } & ({ start: ReplicaStart } | { get: string[] });
export type ReplicaReply = { id: number; round?: ReplicaRound; failed?: true };

/**
 * Answers messages until the IPC channel closes, which it does however the parent ends, SIGKILL included. Then exits at
 * once, because open sockets would keep the process alive, and stops the Redis that the parent started.
 */
export function runReplica(): Promise<never> {
  const replica = new Replica();
  let redisPid: number | undefined;
  const answer = async (message: ReplicaMessage): Promise<Omit<ReplicaReply, 'id'>> => {
    if (!('start' in message)) return { round: await replica.get(message.get) };
    redisPid = message.start.redisPid;
    await replica.start(message.start);
    return {};
  };
  process.on('message', (message: ReplicaMessage) => {
    void answer(message)
      .catch(() => ({ failed: true }) as const)
      .then((reply) => process.send?.({ id: message.id, ...reply }, () => {}));
  });
  return new Promise<never>(() => {
    process.once('disconnect', () => {
      stop(redisPid);
      process.exit(0);
    });
  });
}

/** Another replica may have stopped it already. */
function stop(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(pid, 'SIGKILL');
  } catch {}
}

class Replica {
  readonly #requested = new Set<string>();
  #registry: OwnerTokenRegistry | undefined;

  async start({ sharing, baseUrl, clientId, clientSecret }: ReplicaStart): Promise<void> {
    const endpoint = new TokenEndpoint({ baseUrl, clientId, clientSecret });
    const recorder: TokenSource = {
      origin: endpoint.origin,
      identity: () => endpoint.identity(),
      requestToken: (accessKey, request) => {
        this.#requested.add(accessKey);
        return endpoint.requestToken(accessKey, request);
      },
    };
    this.#requested.clear();
    this.#registry = new OwnerTokenRegistry({ source: sharing ? await shared(recorder, sharing) : recorder });
  }

  async get(accessKeys: string[]): Promise<ReplicaRound> {
    const waitsMs = await Promise.all(
      accessKeys.map(async (accessKey) => {
        const startedMs = performance.now();
        const token = await this.#registry?.getToken(accessKey).catch(() => undefined);
        return token ? performance.now() - startedMs : -1;
      }),
    );
    const requested = accessKeys.flatMap((accessKey, index) => (this.#requested.has(accessKey) ? [index] : []));
    return { waitsMs, requested };
  }
}

async function shared(
  source: TokenSource,
  { redisUrl, sealingKey, prefix, leaseMs }: NonNullable<ReplicaStart['sharing']>,
): Promise<SharedTokens> {
  const { port } = await connect(redisUrl);
  return new SharedTokens({
    ...{ source, prefix, leaseMs, redis: port },
    sealingKeys: [Buffer.from(sealingKey, 'base64')],
    // Generous: all processes start at once on few cores, so a slow reply does not mean that Redis is slow.
    redisTimeoutMs: 2_000,
  });
}
