/** The Redis of the fleet demo: the server, started or given, and connections by whichever client is installed. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { fromIoredis, fromNodeRedis, type RedisPort } from '../../redis/index.ts';
import { CommandFailure, type Terminal } from '../command.ts';
import { TimedOut, withDeadline } from '../deadline.ts';

/** How long Redis may take to start, and to accept the connections. */
const REDIS_TIMEOUT_MS = 5_000;

/** Connections to one Redis. Disposing closes them, and stops the server if this command started it. */
export interface DemoRedis extends Disposable {
  /** One for each replica. */
  readonly ports: readonly RedisPort[];
}

/**
 * Connects to the Redis that `REDIS_URL` names, or to a new `redis-server` on a free port. Throws a `CommandFailure` if there
 * is no client, no server, or no answer. It quotes no URL, which may hold a password.
 */
export async function openRedis({ env, signal }: Terminal, replicas: number): Promise<DemoRedis> {
  const connectionTo = await installedClient();
  const server = env.REDIS_URL ? { url: env.REDIS_URL, stop: () => {} } : await startServer(signal);
  const connections: Connection[] = [];
  const stop = () => {
    for (const { close } of connections) close();
    server.stop();
  };
  try {
    await withDeadline(REDIS_TIMEOUT_MS, signal, () => {
      for (let replica = 0; replica < replicas; replica++) connections.push(connectionTo(server.url));
      return Promise.all(connections.map(({ open }) => open()));
    });
    return { ports: connections.map(({ port }) => port), [Symbol.dispose]: stop };
  } catch (error) {
    stop();
    signal.throwIfAborted();
    throw unavailable(
      `REDIS_URL: no connection to this Redis (${errorReason(error)})`,
      'Is it running, and is the URL right?',
    );
  }
}

const unavailable = (problem: string, advice: string) => new CommandFailure('redis_unavailable', problem, advice);

function errorReason(error: unknown): string {
  if (error instanceof TimedOut) return error.message;
  const { code } = error as NodeJS.ErrnoException;
  return typeof code === 'string' && /^[A-Z_]{3,40}$/.test(code) ? code : 'the Redis client rejects the URL';
}

/** The server ends with its standard input, which the system closes however this process ends. */
const UNTIL_STDIN_ENDS =
  'command -v redis-server > /dev/null || exit 1; redis-server "$@" & cat > /dev/null; kill -9 $!';

async function startServer(signal: AbortSignal): Promise<{ url: string; stop(): void }> {
  const port = await freePort();
  const args = ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
  const server = spawn('sh', ['-c', UNTIL_STDIN_ENDS, 'sh', ...args], { stdio: ['pipe', 'pipe', 'ignore'] });
  const stop = () => void server.stdin.destroy();
  // If there is no shell to spawn, the output ends too, and the server never becomes ready.
  server.once('error', () => {});
  const isReady = () => server.stdout.some((chunk) => `${chunk}`.includes('Ready to accept connections'));
  if (await withDeadline(REDIS_TIMEOUT_MS, signal, isReady).catch(() => false)) {
    return { url: `redis://127.0.0.1:${port}`, stop };
  }
  stop();
  signal.throwIfAborted();
  throw unavailable(
    'no Redis found',
    'Set REDIS_URL to a running one, or install redis-server (Debian: apt install redis-server): the demo then starts one.',
  );
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

/** A client and its subscriber, which do not reconnect: a dead Redis is an error and not a wait. */
interface Connection {
  readonly port: RedisPort;
  open(): Promise<unknown>;
  close(): void;
}

async function installedClient(): Promise<(url: string) => Connection> {
  // The names are variables, so that the bundler leaves these imports alone: this package depends on no Redis client.
  const [nodeRedis, ioredis] = ['redis', 'ioredis'];
  const { createClient } = await import(nodeRedis as string).catch(() => ({}));
  if (createClient) {
    return (url) => {
      const client = createClient({ url, socket: { reconnectStrategy: false } });
      return connectionOf(client, fromNodeRedis, (each) => {
        if (!each.isOpen) return;
        // node-redis does not close a connection that is still being established: close it as soon as it connects.
        each.once('connect', () => each.destroy());
        each.destroy();
      });
    };
  }
  const { Redis } = await import(ioredis as string).catch(() => ({}));
  if (!Redis) throw unavailable('no Redis client is installed', 'npm install redis (or ioredis)');
  return (url) => {
    const client = new Redis(url, { lazyConnect: true, retryStrategy: null });
    return connectionOf(client, fromIoredis, (each) => each.disconnect());
  };
}

interface Client {
  connect(): Promise<unknown>;
  duplicate(): this;
  on(event: 'error', listener: () => void): unknown;
}

function connectionOf<C extends Client>(
  client: C,
  portOf: (client: C, options: { subscriber: C }) => RedisPort,
  close: (client: C) => void,
): Connection {
  const subscriber = client.duplicate();
  const both = [client, subscriber];
  // `connect` rejects with the same error, and the library handles a lost connection.
  for (const each of both) each.on('error', () => {});
  return {
    port: portOf(client, { subscriber }),
    open: () => Promise.all(both.map((each) => each.connect())),
    close: () => both.forEach(close),
  };
}
