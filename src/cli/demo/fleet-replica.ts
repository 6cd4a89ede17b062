/** One process of the fleet demo: a registry of its own, told over IPC what to get. Started by `demo-fleet.ts` alone. */

import { randomBytes } from 'node:crypto';
import { OwnerTokenRegistry, TokenEndpoint, type TokenSource } from '../../index.ts';
import { fromIoredis, fromNodeRedis, type RedisPort, SharedTokens } from '../../redis/index.ts';

export interface ReplicaStart {
  baseUrl: string;
  clientId: string;
  clientSecret: string;
  /** Absent: every process for itself. */
  sharing?: { redisUrl: string; sealingKey: string; prefix: string };
}

/** What came of one round of calls: by owner, in the order asked. */
export interface ReplicaRound {
  /** Milliseconds that each call waited; negative for one that failed. */
  readonly waitsMs: number[];
  /** Which of the owners this process asked the service for. */
  readonly asked: number[];
}

export type ReplicaMessage = { id: number } & ({ start: ReplicaStart } | { get: string[] });
export type ReplicaReply = { id: number; round?: ReplicaRound; problem?: string };

/** Obeys until the parent is gone. */
export function runReplica(): Promise<number> {
  const replica = new Replica();
  const answer = async (message: ReplicaMessage): Promise<Omit<ReplicaReply, 'id'>> => {
    if (!('start' in message)) return { round: await replica.get(message.get) };
    await replica.start(message.start);
    return {};
  };
  process.on('message', (message: ReplicaMessage) => {
    void answer(message)
      .catch((error: unknown) => ({ problem: error instanceof ClientMissing ? error.message : 'a replica failed' }))
      .then((reply) => process.send?.({ id: message.id, ...reply }));
  });
  return new Promise((resolve) => process.once('disconnect', () => resolve(0)));
}

class Replica {
  readonly #asked = new Set<string>();
  #registry: OwnerTokenRegistry | undefined;

  async start({ sharing, ...service }: ReplicaStart): Promise<void> {
    const endpoint = new TokenEndpoint(service);
    const noting: TokenSource = {
      origin: endpoint.origin,
      identity: () => endpoint.identity(),
      requestToken: (accessKey, request) => {
        this.#asked.add(accessKey);
        return endpoint.requestToken(accessKey, request);
      },
    };
    const source = sharing
      ? new SharedTokens({
          source: noting,
          redis: await connect(sharing.redisUrl),
          sealingKeys: [Buffer.from(sharing.sealingKey, 'base64')],
          prefix: sharing.prefix,
          // More processes than cores start here at once: what is slow then is not Redis.
          redisTimeoutMs: 2_000,
        })
      : noting;
    this.#asked.clear();
    this.#registry = new OwnerTokenRegistry({ source });
  }

  async get(accessKeys: string[]): Promise<ReplicaRound> {
    const waitsMs = await Promise.all(
      accessKeys.map(async (accessKey) => {
        const startedMs = performance.now();
        const served = await this.#registry?.getToken(accessKey).catch(() => undefined);
        return served ? performance.now() - startedMs : -1;
      }),
    );
    return { waitsMs, asked: accessKeys.flatMap((accessKey, index) => (this.#asked.has(accessKey) ? [index] : [])) };
  }
}

/** None of the clients is installed beside this package. */
export class ClientMissing extends Error {}

/** With the client that is installed; this package brings none. */
async function connect(url: string): Promise<RedisPort> {
  // Names in variables: what is not a dependency must not be bundled.
  const [nodeRedis, ioredis] = ['redis', 'ioredis'];
  const found = await import(nodeRedis as string).catch(() => undefined);
  if (found) {
    const client = found.createClient({ url });
    const subscriber = client.duplicate();
    for (const each of [client, subscriber]) await each.on('error', () => {}).connect();
    return fromNodeRedis(client, { subscriber });
  }
  const { Redis } = await import(ioredis as string).catch(() => ({ Redis: undefined }));
  if (!Redis) throw new ClientMissing('no Redis client is installed here: npm install redis (or ioredis)');
  const client = new Redis(url).on('error', () => {});
  return fromIoredis(client, { subscriber: client.duplicate().on('error', () => {}) });
}

/** A key for this run alone, as text for IPC. */
export const newSealingKey = () => randomBytes(32).toString('base64');
