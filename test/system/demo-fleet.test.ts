/** The fleet demo as users run it: the built command, its processes and its own Redis. */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { build } from 'tsdown';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { openRedis } from '../../src/cli/demo/redis.ts';
import { noRedis, startRedis } from '../helpers/redis-server.ts';
import { ROOT } from '../helpers/source-files.ts';

const outDir = join(ROOT, `node_modules/.cache/owner-token-registry/demo-${process.pid}`);
/** The same build where no Redis client is installed. */
const bareDir = mkdtempSync(join(tmpdir(), 'demo-without-client-'));

beforeAll(async () => {
  const target = { platform: 'node', target: 'node20.19', format: 'esm' } as const;
  const quiet = { config: false, dts: false, clean: false, logLevel: 'silent' } as const;
  for (const folder of [outDir, bareDir]) {
    await build({ ...quiet, ...target, cwd: ROOT, outDir: folder, entry: { main: 'src/cli/main.ts' } });
  }
  for (const name of ['lru-cache', 'p-limit', 'pino', 'redis', 'ioredis']) {
    const path = join(bareDir, 'node_modules', name);
    mkdirSync(join(bareDir, 'node_modules'), { recursive: true });
    if (!name.includes('redis')) {
      symlinkSync(join(ROOT, 'node_modules', name), path);
      continue;
    }
    // Hides a client that a folder above may have.
    mkdirSync(path);
    writeFileSync(join(path, 'index.js'), "throw new Error('not installed');");
  }
});
afterAll(() => {
  for (const folder of [outDir, bareDir]) rmSync(folder, { recursive: true, force: true });
});

it.skipIf(noRedis)('a client that is still connecting when the demo ends leaves no connection open', async () => {
  const server = await startRedis();
  const admin = new Redis(server.port);
  try {
    const ending = new AbortController();
    const { signal } = ending;
    const listen = signal.addEventListener.bind(signal);
    // Between the start of the attempt and its connection.
    signal.addEventListener = ((...args: Parameters<typeof listen>) => {
      listen(...args);
      queueMicrotask(() => ending.abort());
    }) as typeof listen;
    const terminal = { env: { REDIS_URL: server.url }, signal, out: process.stdout, err: process.stderr };
    await expect(openRedis(terminal, 2)).rejects.toThrow();
    const connections = async () => Number(/connected_clients:(\d+)/.exec(await admin.info('clients'))?.[1]);
    await expect.poll(connections, { timeout: 10_000 }).toBe(1);
  } finally {
    admin.disconnect();
    await server.kill();
  }
});

/** Runs the demo to its end. */
function run(args: string[], env: NodeJS.ProcessEnv, folder = outDir) {
  const command = [join(folder, 'main.mjs'), 'demo', '--fleet', ...args];
  return spawnSync(process.execPath, command, { encoding: 'utf8', env, timeout: 60_000 });
}

describe('demo --fleet', () => {
  it('is explained by --help, with REDIS_URL', () => {
    const { stdout } = run(['--help'], {});
    expect(stdout).toContain('REDIS_URL');
  });

  it('without Redis names the next step', () => {
    const { status, stdout, stderr } = run([], { PATH: '/nowhere' });
    expect(status).toBe(1);
    expect(stdout).toBe('');
    expect(stderr).toMatch(/no Redis found.*REDIS_URL.*apt install redis-server/s);
  });

  it.each([
    ['nothing listens', 'redis://127.0.0.1:1', 'ECONNREFUSED'],
    ['the URL is invalid', 'canary', 'ERR_INVALID_URL'],
  ])('fails at once if %s at REDIS_URL', (_, url, reason) => {
    const { status, stdout, stderr, signal } = run([], { PATH: process.env.PATH, REDIS_URL: url });
    expect({ status, stdout, signal }).toEqual({ status: 1, stdout: '', signal: null });
    expect(stderr).toContain(`REDIS_URL: no connection to this Redis (${reason})`);
    expect(stderr).not.toContain('canary');
  });

  it('gives up on a Redis that accepts and says nothing', async () => {
    const silent = createServer();
    await once(silent.listen(0, '127.0.0.1'), 'listening');
    const { port } = silent.address() as { port: number };
    const child = spawn(process.execPath, [join(outDir, 'main.mjs'), 'demo', '--fleet'], {
      env: { PATH: process.env.PATH, REDIS_URL: `redis://127.0.0.1:${port}` },
    });
    const stderr = (await child.stderr.setEncoding('utf8').toArray()).join('');
    silent.close();
    expect(stderr).toContain('REDIS_URL: no connection to this Redis (no response within 5 s)');
  });

  it.skipIf(noRedis)('reports a missing client before it starts anything', () => {
    const { status, stdout, stderr } = run([], { PATH: process.env.PATH }, bareDir);
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
    expect(stderr).toContain('no Redis client is installed\nnpm install redis (or ioredis)');
  });

  it.skipIf(noRedis)('requests one token per owner', { timeout: 60_000 }, () => {
    const { status, stdout, stderr } = run(['--json'], { PATH: process.env.PATH });
    expect(stderr).toBe('');
    expect(JSON.parse(stdout)).toMatchObject({ ok: true, unshared: 1600 });
    expect(status).toBe(0);
  });

  it.skipIf(noRedis).each<[NodeJS.Signals, number | null]>([
    ['SIGINT', 130],
    ['SIGTERM', 130],
    ['SIGKILL', null],
  ])('leaves no Redis behind when it gets %s', { timeout: 60_000 }, async (signal, code) => {
    const child = spawn(process.execPath, [join(outDir, 'main.mjs'), 'demo', '--fleet'], {
      env: { PATH: process.env.PATH },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await until(child, /without sharing/);
    const [shell] = childrenOf(child.pid);
    const processes = [shell, ...childrenOf(shell)];
    expect(processes).toHaveLength(3); // A shell, Redis, and what waits for the end of the demo.
    child.kill(signal);
    const [exitCode] = await once(child, 'exit');
    expect(exitCode).toBe(code);
    await vi.waitUntil(() => processes.every((pid) => !isAlive(pid)), { timeout: 10_000 });
  });
});

/** Resolves when a process has printed this. */
async function until({ stdout }: ChildProcess, pattern: RegExp): Promise<void> {
  let printed = '';
  for await (const chunk of stdout?.iterator({ destroyOnReturn: false }) ?? []) {
    printed += String(chunk);
    if (pattern.test(printed)) return;
  }
  throw new Error(`it ended with: ${printed}`);
}

function childrenOf(pid: number | undefined): number[] {
  const { stdout } = spawnSync('ps', ['-o', 'pid=', '--ppid', String(pid)], { encoding: 'utf8' });
  return stdout.split('\n').filter(Boolean).map(Number);
}

function isAlive(pid: number | undefined): boolean {
  try {
    process.kill(pid ?? 0, 0);
  } catch {
    return false;
  }
  const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' });
  return !stdout.trim().startsWith('Z') && stdout.trim() !== '';
}
