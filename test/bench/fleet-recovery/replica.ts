/** One process of the bench: a registry in each world, and callers for three owners of each. */

import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createClient } from 'redis';
import { OwnerTokenRegistry, TokenEndpoint } from '../../../src/index.ts';
import { fromNodeRedis, SharedTokens } from '../../../src/redis/index.ts';

export interface World {
  readonly url: string;
  readonly prefix: string;
}

/** What the process is told. */
export type Command = { readonly do: 'start'; readonly worlds: readonly World[] } | { readonly do: 'report' };

export interface Report {
  /** Epoch milliseconds of the first token of each world since the start; null until then. */
  readonly servedAtMs: readonly (number | null)[];
  /** The longest that the event loop was blocked since the start: a process without CPU time recovers late. */
  readonly blockedMs: number;
}

const OWNERS = ['one', 'two', 'three'];
const CALL_EVERY_MS = 100;
const SEALING_KEY = Uint8Array.from({ length: 32 }, (_, index) => index);

const redisUrl = process.env.REDIS_URL;
const client = redisUrl ? createClient({ url: redisUrl }) : undefined;
const subscriber = client?.duplicate();
for (const each of [client, subscriber]) {
  each?.on('error', () => {});
  await each?.connect();
}

const delay = monitorEventLoopDelay();
delay.enable();

let stop = () => {};
let servedAtMs: (number | null)[] = [];

function start(worlds: readonly World[]): void {
  stop();
  servedAtMs = worlds.map(() => null);
  delay.reset();
  const registries = worlds.map(({ url, prefix }) => {
    const endpoint = new TokenEndpoint({ baseUrl: url, clientId: 'app', clientSecret: 'secret' });
    const source =
      client && subscriber
        ? new SharedTokens({
            source: endpoint,
            redis: fromNodeRedis(client, { subscriber }),
            prefix,
            sealingKeys: [SEALING_KEY],
            // More processes than cores: what is slow then is not Redis.
            redisTimeoutMs: 2_000,
          })
        : endpoint;
    return new OwnerTokenRegistry({ source });
  });
  const call = () => {
    registries.forEach((registry, world) => {
      for (const owner of OWNERS) {
        const served = () => {
          servedAtMs[world] ??= Date.now();
        };
        registry.getToken(owner).then(served, () => {});
      }
    });
  };
  const timer = setInterval(call, CALL_EVERY_MS);
  stop = () => {
    clearInterval(timer);
    for (const registry of registries) void registry.close({ timeoutMs: 100 });
  };
}

process.on('message', (command: Command) => {
  if (command.do === 'start') start(command.worlds);
  process.send?.({ servedAtMs, blockedMs: delay.max / 1e6 } satisfies Report);
});
// Otherwise its Redis clients would keep a process alive whose parent was killed.
process.on('disconnect', () => process.exit());
process.send?.({ servedAtMs: [], blockedMs: 0 } satisfies Report);
