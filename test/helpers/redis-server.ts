import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from 'redis';

const version = spawnSync('redis-server', ['--version'], { encoding: 'utf8' });
const missing = version.error !== undefined;
if (missing && process.env.REQUIRE_REDIS === '1') throw new Error('REQUIRE_REDIS=1, but redis-server is not installed');

/** For `describe.skipIf`: `redis-server` is not installed. With `REQUIRE_REDIS=1` importing this file throws instead. */
export const noRedis = missing;

/** `Redis 6.2.14` or `Valkey 8.1.1`: the one found first on the `PATH`. Empty if there is none. */
export const serverVersion = (version.stdout ?? '').replace(/^(\w+) server v=([\d.]+).*$/s, '$1 $2');

/** Before Redis 7, tests must do without some commands and settings. */
export const isBefore7 = Number(/\d+/.exec(serverVersion)?.[0]) < 7;

/** A real `redis-server` for one test. */
export interface RedisServer {
  readonly port: number;
  readonly url: string;
  readonly process: ChildProcess;
  /** Kills the server and waits for its exit. Another one can be started on the same port. */
  kill(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Starts a server on a free port, or on the given one, without persistence. */
export async function startRedis(options: { port?: number; args?: string[] } = {}): Promise<RedisServer> {
  const folder = mkdtempSync(join(tmpdir(), 'otr-redis-'));
  for (let attempt = 1; ; attempt++) {
    const port = options.port ?? (await freePort());
    const args = ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--dir', folder, ...(options.args ?? [])];
    const child = spawn('redis-server', args, { stdio: ['ignore', 'pipe', 'ignore'] });
    const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
    const ready = await isReady(child, ended);
    if (!ready && attempt < 5) continue;
    if (!ready) throw new Error('redis-server did not start');
    const kill = async () => {
      child.kill('SIGKILL');
      await ended;
      rmSync(folder, { recursive: true, force: true });
    };
    return { port, url: `redis://127.0.0.1:${port}`, process: child, kill, [Symbol.asyncDispose]: kill };
  }
}

/** Three masters that share the slots. */
export async function startRedisCluster(): Promise<{ ports: number[]; [Symbol.asyncDispose](): Promise<void> }> {
  const nodes = await Promise.all(
    [0, 1, 2].map(async (index) => {
      const args = ['--cluster-enabled', 'yes', '--cluster-config-file', `nodes-${index}.conf`];
      if (isBefore7) {
        const server = await startRedis({ port: await portWithBus(), args });
        return { bus: server.port + BUS_OFFSET, server };
      }
      const bus = await freePort();
      return { bus, server: await startRedis({ args: [...args, '--cluster-port', `${bus}`] }) };
    }),
  );
  const clients = await Promise.all(nodes.map(({ server }) => createClient({ url: server.url }).connect()));
  const slots = [0, 5461, 10_923, 16_384];
  for (const [index, client] of clients.entries()) {
    const first = slots[index] as number;
    const own = Array.from({ length: (slots[index + 1] as number) - first }, (_, slot) => `${first + slot}`);
    await client.sendCommand(['CLUSTER', 'ADDSLOTS', ...own]);
    const { bus, server } = nodes[0] as (typeof nodes)[0];
    if (index > 0) await client.sendCommand(['CLUSTER', 'MEET', '127.0.0.1', `${server.port}`, `${bus}`]);
  }
  const agreed = async () => {
    const infos = await Promise.all(clients.map((client) => client.sendCommand(['CLUSTER', 'INFO'])));
    return infos.every((info) => /cluster_state:ok/.test(`${info}`) && /cluster_known_nodes:3/.test(`${info}`));
  };
  while (!(await agreed())) await new Promise((resolve) => setTimeout(resolve, 20));
  for (const client of clients) client.destroy();
  return {
    ports: nodes.map(({ server }) => server.port),
    [Symbol.asyncDispose]: async () => void (await Promise.all(nodes.map(({ server }) => server.kill()))),
  };
}

/** Before Redis 7, a cluster node listens on a second port, at this distance. */
const BUS_OFFSET = 10_000;

async function portWithBus(): Promise<number> {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 20_000);
    if ((await isFree(port)) && (await isFree(port + BUS_OFFSET))) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

/** A free port. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function isReady(child: ChildProcess, ended: Promise<void>): Promise<boolean> {
  const listening = new Promise<boolean>((resolve) => {
    let printed = '';
    child.stdout?.on('data', (chunk) => {
      printed += chunk;
      if (printed.includes('Ready to accept connections')) resolve(true);
    });
  });
  return Promise.race([listening, ended.then(() => false)]);
}
