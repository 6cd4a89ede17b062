/** The Redis of the fleet demo: the server, started or given, and a client from whichever package is installed. */

import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { fromIoredis, fromNodeRedis, type RedisPort } from '../../redis/index.ts';
import type { Terminal } from '../command.ts';
import { TimedOut, withDeadline } from '../deadline.ts';

/** The fleet demo cannot run. The message gives the next step and quotes no URL, which may hold a password. */
export class Unavailable extends Error {}

export interface DemoRedis {
  readonly url: string;
  stop(): void;
}

/** How long Redis may take to start, and to accept a connection. */
const REDIS_TIMEOUT_MS = 5_000;

/**
 * Finds a Redis that answers: the one that `REDIS_URL` names, or a new `redis-server` on a free port. Throws
 * {@link Unavailable} if there is no server, no client, or no answer.
 */
export async function findRedis({ env, signal }: Terminal): Promise<DemoRedis> {
  const redis = env.REDIS_URL ? { url: env.REDIS_URL, stop: () => {} } : await startServer(signal);
  try {
    const { close } = await withDeadline(REDIS_TIMEOUT_MS, signal, (ended) => connect(redis.url, ended));
    close();
    return redis;
  } catch (error) {
    redis.stop();
    signal.throwIfAborted();
    if (error instanceof Unavailable) throw error;
    throw new Unavailable(
      `REDIS_URL: no connection to this Redis (${reasonOf(error)}). Is it running, and is the URL right?`,
    );
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof TimedOut) return error.message;
  const { code } = error as NodeJS.ErrnoException;
  return typeof code === 'string' && /^[A-Z_]{3,40}$/.test(code) ? code : 'the Redis client rejects the URL';
}

/** The server ends with its standard input, which the system closes however this process ends. */
const UNTIL_STDIN_ENDS =
  'command -v redis-server > /dev/null || exit 1; redis-server "$@" & cat > /dev/null; kill -9 $!';

async function startServer(signal: AbortSignal): Promise<DemoRedis> {
  const port = await freePort();
  const args = ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
  const server = spawn('sh', ['-c', UNTIL_STDIN_ENDS, 'sh', ...args], { stdio: ['pipe', 'pipe', 'ignore'] });
  const stop = () => void server.stdin.destroy();
  const started = new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.once('exit', reject);
    server.stdout.on('data', (chunk) => String(chunk).includes('Ready to accept connections') && resolve());
  });
  try {
    await withDeadline(REDIS_TIMEOUT_MS, signal, () => started);
  } catch {
    stop();
    signal.throwIfAborted();
    throw new Unavailable(
      'no Redis found. Set REDIS_URL to a running one, or install redis-server (Debian: apt install redis-server):\n' +
        'the demo then starts one of its own on a free port.',
    );
  }
  return { url: `redis://127.0.0.1:${port}`, stop };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Connects once, without reconnecting, so that a dead Redis is an error and not a wait. `signal` ends the attempt. */
export async function connect(url: string, signal?: AbortSignal): Promise<{ port: RedisPort; close(): void }> {
  // The names are variables, so that the bundler leaves these imports alone: this package depends on no Redis client.
  const [nodeRedis, ioredis] = ['redis', 'ioredis'];
  const { createClient } = await import(nodeRedis as string).catch(() => ({}));
  // On a busy machine, loading a client may take all the time there is: nobody would close it any more.
  signal?.throwIfAborted();
  if (createClient) {
    const client = createClient({ url, socket: { reconnectStrategy: false } }).on('error', () => {});
    const subscriber = client.duplicate().on('error', () => {});
    const close = () => {
      for (const each of [client, subscriber]) {
        if (!each.isOpen) continue;
        // node-redis does not close a connection that is still being established: close it as soon as it connects.
        each.once('connect', () => each.destroy());
        each.destroy();
      }
    };
    return connected(fromNodeRedis(client, { subscriber }), [client, subscriber], close, signal);
  }
  const { Redis } = await import(ioredis as string).catch(() => ({}));
  if (!Redis) throw new Unavailable('no Redis client is installed: npm install redis (or ioredis)');
  signal?.throwIfAborted();
  const client = new Redis(url, { lazyConnect: true, retryStrategy: null }).on('error', () => {});
  const subscriber = client.duplicate().on('error', () => {});
  const close = () => {
    for (const each of [client, subscriber]) each.disconnect();
  };
  return connected(fromIoredis(client, { subscriber }), [client, subscriber], close, signal);
}

async function connected(
  port: RedisPort,
  clients: readonly { connect(): Promise<unknown> }[],
  close: () => void,
  signal: AbortSignal | undefined,
): Promise<{ port: RedisPort; close(): void }> {
  signal?.addEventListener('abort', close);
  try {
    await Promise.all(clients.map((client) => client.connect()));
    return { port, close };
  } catch (error) {
    close();
    throw error;
  } finally {
    signal?.removeEventListener('abort', close);
  }
}
