/**
 * Row L2: everything that happens to a Redis, done to a real one, under two replicas with a client of each family. Calls
 * go on, no more than a second later, with at most one request for each owner and replica; each change is told once; it
 * converges after.
 */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { afterEach, describe, expect, it } from 'vitest';
import type { SharingMessage } from '../../src/redis/diagnostics.ts';
import { fromIoredis, fromNodeRedis, SharedTokens } from '../../src/redis/index.ts';
import { OwnerTokenRegistry } from '../../src/registry/registry.ts';
import { FleetSource, SEALING_KEY } from '../helpers/model-fleet.ts';
import { noRedis, type RedisServer, startRedis } from '../helpers/redis-server.ts';
import { TcpProxy } from '../helpers/tcp-proxy.ts';

const DEADLINE_MS = 250;

/** A call waits for Redis for a second at most; and three more, for machines that are busy. */
const BUDGET_MS = 4_000;

/** The user that the replicas are. */
const APP = ['app', 'on', '>pw', '~otr:*', 'resetchannels', '&otr:*', '+@all'] as const;

/** Owners in each phase. */
const OWNERS = 8;

interface Scene extends AsyncDisposable {
  server: RedisServer;
  proxy: TcpProxy;
  admin: Redis;
  source: FleetSource;
  shared: SharedTokens[];
  registries: OwnerTokenRegistry[];
}

async function scene(): Promise<Scene> {
  const server = await startRedis();
  const proxy = await TcpProxy.start(server.port);
  const admin = new Redis(server.port, { maxRetriesPerRequest: null });
  admin.on('error', () => {});
  await admin.call('ACL', 'SETUSER', ...APP);
  const clients = [
    createClient({ url: `redis://app:pw@127.0.0.1:${proxy.port}`, socket: { reconnectStrategy: 50 } }),
    new Redis({ port: proxy.port, username: 'app', password: 'pw', retryStrategy: () => 50 }),
  ] as const;
  for (const client of clients) (client as Redis).on('error', () => {});
  await clients[0].connect();
  const source = FleetSource.answering();
  const shared = [fromNodeRedis(clients[0]), fromIoredis(clients[1])].map(
    (redis) => new SharedTokens({ source, redis, sealingKeys: [SEALING_KEY], redisTimeoutMs: DEADLINE_MS }),
  );
  const at: Scene = {
    server,
    proxy,
    admin,
    source,
    shared,
    registries: shared.map((one) => new OwnerTokenRegistry({ source: one })),
    [Symbol.asyncDispose]: async () => {
      // Or they go on to announce themselves, and to tell what becomes of that.
      for (const registry of at.registries) await registry.close({ timeoutMs: 0 });
      admin.disconnect();
      clients[0].destroy();
      clients[1].disconnect();
      await proxy[Symbol.asyncDispose]();
      // The one that runs now: a trouble may have replaced the first.
      at.server.process.kill('SIGCONT');
      await at.server.kill();
    },
  };
  return at;
}

/** Both replicas get these owners' tokens, one owner after another; gives the slowest call. */
async function serve({ registries }: Scene, prefix: string): Promise<number> {
  let slowestMs = 0;
  for (let index = 0; index < OWNERS; index++) {
    const startedMs = performance.now();
    await Promise.all(registries.map((registry) => registry.getToken(`${prefix}-${index}`)));
    slowestMs = Math.max(slowestMs, performance.now() - startedMs);
  }
  return slowestMs;
}

/** Whether both replicas share again: one request for a new owner. */
async function sharesAgain({ registries, source }: Scene): Promise<boolean> {
  const owner = `again-${source.calls.length}`;
  for (const registry of registries) await registry.getToken(owner);
  return source.countFor(owner) === 1;
}

interface Trouble {
  what: string;
  begin(scene: Scene): unknown;
  end(scene: Scene): unknown;
  /** What is told; undefined: nothing has to be. */
  told?: string | undefined;
  /** It is told after a second without a reply. */
  isSilent?: boolean;
  /** A call in between may find a connection that is just being replaced. */
  mayBeTold?: boolean;
}

const TROUBLES: Trouble[] = [
  {
    what: 'killed, and started again',
    begin: ({ server }) => server.kill(),
    end: async (at) => {
      at.server = await startRedis({ port: at.server.port, args: ['--user', ...APP] });
    },
    told: 'connection|timeout',
  },
  {
    what: 'hung',
    begin: ({ server }) => server.process.kill('SIGSTOP'),
    end: ({ server }) => server.process.kill('SIGCONT'),
    told: 'timeout',
    isSilent: true,
  },
  {
    what: 'slower than the deadline',
    begin: ({ proxy }) => proxy.become('pass', 600),
    end: ({ proxy }) => proxy.become('pass'),
  },
  {
    what: 'slow, but in time',
    begin: ({ proxy }) => proxy.become('pass', 60),
    end: ({ proxy }) => proxy.become('pass'),
  },
  {
    what: 'full',
    begin: ({ admin }) => admin.config('SET', 'maxmemory', '1'),
    end: ({ admin }) => admin.config('SET', 'maxmemory', '0'),
    told: 'full',
  },
  {
    what: 'read-only',
    begin: ({ admin }) => admin.replicaof('127.0.0.1', 1),
    end: ({ admin }) => admin.replicaof('NO', 'ONE'),
    told: 'read_only',
  },
  {
    what: 'without rights',
    begin: ({ admin }) => admin.call('ACL', 'SETUSER', 'app', '-hset'),
    end: ({ admin }) => admin.call('ACL', 'SETUSER', 'app', '+hset'),
    told: 'denied',
  },
  {
    what: 'losing its replies',
    begin: ({ proxy }) => proxy.become('cut-replies'),
    end: ({ proxy }) => proxy.become('pass'),
    told: 'connection|timeout',
  },
  {
    what: 'unreachable, packets dropped',
    begin: ({ proxy }) => proxy.become('hold'),
    end: ({ proxy }) => {
      proxy.become('pass');
      proxy.cutAll();
    },
    told: 'timeout',
    isSilent: true,
  },
  { what: 'flushed', begin: ({ admin }) => admin.flushall(), end: () => {} },
  { what: 'losing its scripts', begin: ({ admin }) => admin.script('FLUSH'), end: () => {} },
  {
    what: 'killing its connections',
    begin: ({ admin }) => admin.call('CLIENT', 'KILL', 'SKIPME', 'yes'),
    end: () => {},
    mayBeTold: true,
  },
];

describe.skipIf(noRedis)('L2: sharing', () => {
  const unsubscribes: (() => void)[] = [];
  afterEach(() => {
    for (const undo of unsubscribes.splice(0)) undo();
  });

  it.each(TROUBLES.map((trouble) => [trouble.what, trouble] as const))(
    'survives a Redis that is %s, and resumes after it',
    async (_, { begin, end, told, isSilent, mayBeTold }) => {
      await using at = await scene();
      const events: SharingMessage[] = [];
      const record = (message: unknown) => void events.push(message as SharingMessage);
      subscribe('owner-token-registry:sharing', record);
      unsubscribes.push(() => unsubscribe('owner-token-registry:sharing', record));

      // Its clients may still be connecting.
      await expect.poll(() => sharesAgain(at), { timeout: 15_000, interval: 100 }).toBe(true);
      await serve(at, 'before');
      const before = at.source.calls.length;
      await begin(at);
      const slowestMs = await serve(at, 'during');
      expect(slowestMs).toBeLessThan(BUDGET_MS);
      expect(at.source.calls.length - before).toBeLessThanOrEqual(2 * OWNERS);
      const isTold = async () => {
        await Promise.all(at.registries.map((registry) => registry.getToken(`silent-${at.source.calls.length}`)));
        return events.filter(({ event }) => event === 'suspended').length === at.registries.length;
      };
      if (isSilent) await expect.poll(isTold, { timeout: 30_000, interval: 250 }).toBe(true);
      // What is held is served at once, whatever Redis does.
      for (const registry of at.registries) expect(registry.peek('before-0')).toBeDefined();

      await end(at);
      await expect.poll(() => sharesAgain(at), { timeout: 15_000, interval: 100 }).toBe(true);
      await serve(at, 'after');
      // Replicas that get no CPU time take Redis for silent, which is not what this is about.
      const isMeant = ({ trouble }: SharingMessage) => told?.includes('timeout') || trouble !== 'timeout';
      const suspended = events.filter((message) => message.event === 'suspended' && isMeant(message));
      if (told) {
        expect(suspended.length).toBeGreaterThanOrEqual(1);
        for (const event of suspended) expect('trouble' in event && event.trouble).toMatch(new RegExp(`^(${told})$`));
      }
      // Once for each change: never twice the same in a row for one replica.
      const changes = (kind: string) => events.filter(({ event }) => event === kind).length;
      expect(changes('suspended')).toBe(changes('resumed'));
      // A recovering server may still answer the first calls with an error.
      if (!mayBeTold) expect(suspended.length).toBeLessThanOrEqual(told ? 6 : 0);
    },
  );
});
