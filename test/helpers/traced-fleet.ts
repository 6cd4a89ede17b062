import { createClient } from 'redis';
import { OwnerTokenRegistry, TokenEndpoint } from '../../src/index.ts';
import { fromNodeRedis, type RedisPort, SharedTokens } from '../../src/redis/index.ts';
import { ManualClock, settle } from './manual-clock.ts';
import { SEALING_KEY } from './model-fleet.ts';
import { startRedis } from './redis-server.ts';
import { until } from './registries.ts';
import { ResourceService } from './resource-service.ts';

/** `A>R: acquire`: from a replica (`A`, `B`, `C`), Redis (`R`) or the token service (`S`) to another, what. */
export type Message = string;

/** Three replicas on one manual clock, each with its own clients of a real Redis. */
export class TracedFleet implements AsyncDisposable {
  readonly #clock = new ManualClock(Date.now());
  readonly #replicas: OwnerTokenRegistry[] = [];
  readonly #closing: (() => unknown)[] = [];
  #messages: Message[] = [];
  /** Operations of Redis without a reply. */
  #pending = 0;
  /** The service answers after this. */
  #mayAnswer: Promise<void> = Promise.resolve();

  static async start(): Promise<TracedFleet> {
    const fleet = new TracedFleet();
    const redis = await startRedis();
    let issued = 0;
    const service = await ResourceService.start(async (_, response) => {
      await fleet.#mayAnswer;
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ access_token: `token-${++issued}`, token_type: 'Bearer', expires_in: 3600 }));
    });
    fleet.#closing.push(redis.kill, () => service[Symbol.asyncDispose]());
    for (const name of ['A', 'B', 'C']) await fleet.#startReplica(name, redis.url, service.origin);
    return fleet;
  }

  /** The messages when A needs an owner's token, and then B and C, before the service has answered A. */
  async messagesFor(accessKey: string): Promise<Message[]> {
    const [leader, ...followers] = this.#replicas as [OwnerTokenRegistry, ...OwnerTokenRegistry[]];
    this.#messages = [];
    let answer = () => {};
    this.#mayAnswer = new Promise((resolve) => {
      answer = resolve;
    });
    const calls = [leader.getToken(accessKey)];
    await until(() => this.#messages.some((message) => message.startsWith('A>S')));
    calls.push(...followers.map((follower) => follower.getToken(accessKey)));
    await this.#replies();
    answer();
    await Promise.all(calls);
    return this.#messages;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const replica of this.#replicas) await replica.close();
    for (const close of this.#closing.reverse()) await close();
  }

  async #startReplica(name: string, redisUrl: string, baseUrl: string): Promise<void> {
    const client = await createClient({ url: redisUrl }).connect();
    const subscriber = await client.duplicate().connect();
    this.#closing.push(
      () => client.destroy(),
      () => subscriber.destroy(),
    );
    const endpoint = new TokenEndpoint({
      baseUrl,
      clientId: 'client',
      clientSecret: 'secret',
      fetch: async (url, init) => {
        this.#record(name, 'S', `${init?.method} ${new URL(`${url}`).pathname}`);
        const response = await fetch(url, init);
        this.#record('S', name, 'token');
        return response;
      },
    });
    const redis = this.#recording(fromNodeRedis(client, { subscriber }) as Required<RedisPort>, name);
    const source = new SharedTokens({ source: endpoint, redis, sealingKeys: [SEALING_KEY], clock: this.#clock });
    this.#replicas.push(new OwnerTokenRegistry({ source, clock: this.#clock }));
  }

  /**
   * The replies to `announce` and `subscribe` are not recorded, nor the second `announce`, which follows the first one's reply:
   * which of them comes first changes nothing.
   */
  #recording(port: Required<RedisPort>, name: string): RedisPort {
    let hasAnnounced = false;
    return {
      run: async (script, key, args) => {
        if (script.name !== 'announce' || !hasAnnounced) this.#record(name, 'R', script.name);
        hasAnnounced ||= script.name === 'announce';
        const reply = await this.#counted(port.run(script, key, args));
        if (script.name !== 'announce') this.#record('R', name, (reply as string[])[0] ?? '');
        return reply;
      },
      subscribe: async (channel, onMessage) => {
        this.#record(name, 'R', 'subscribe');
        const heard = (message: string) => {
          // The leader hears its own message, and has nothing to read.
          if (name !== 'A') this.#record('R', name, 'wake-up');
          onMessage(message);
        };
        const stop = await this.#counted(port.subscribe(channel, heard));
        return stop;
      },
    };
  }

  #record(from: string, to: string, text: string): void {
    this.#messages.push(`${from}>${to}: ${text}`);
  }

  async #counted<T>(operation: Promise<T>): Promise<T> {
    this.#pending++;
    return operation.finally(() => this.#pending--);
  }

  /** Settles once Redis has replied to everything, and the replicas have acted on it. */
  async #replies(): Promise<void> {
    do {
      await settle();
      await until(() => this.#pending === 0);
      await settle();
    } while (this.#pending > 0);
  }
}
