/** Several processes, one Redis. */

import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { keysOf, number } from '../scene.mjs';

const PROCESSES = 4;
const OWNERS = 200;

async function fourProcesses(scene) {
  const { Redis } = await import('ioredis');
  await scene.script({ latencyMs: 50, lifetime: 3600 });
  const port = await freePort();
  const server = spawn('redis-server', ['--port', port, '--bind', '127.0.0.1', '--save', '']);
  const started = await Promise.race([once(server, 'spawn'), once(server, 'error').catch(() => undefined)]);
  if (!started) return { good: false, figure: 'redis-server is not installed' };
  const redis = new Redis({ port, host: '127.0.0.1', maxRetriesPerRequest: null });
  const replicas = [];
  try {
    await redis.ping();
    const file = new URL('../replica.mjs', import.meta.url);
    for (let n = 0; n < PROCESSES; n++) replicas.push(fork(file, scene.replicaOf(port), { execArgv: [] }));
    const ended = Promise.race(replicas.map((replica) => once(replica, 'exit'))).then(() => {
      throw new Error('a replica ended');
    });
    ended.catch(() => {});
    await Promise.race([Promise.all(replicas.map((replica) => once(replica, 'message'))), ended]);
    const keys = keysOf(OWNERS);
    const answers = await Promise.all(
      replicas.map(async (replica) => {
        replica.send(keys);
        const [tokens] = await once(replica, 'message');
        return tokens.filter((token, n) => scene.isTokenOf(keys[n], token)).length;
      }),
    );
    const failed = PROCESSES * OWNERS - answers.reduce((sum, served) => sum + served, 0);
    const requests = (await scene.ledger()).arrivals.length;
    const inClear = await holdsTokens(redis);
    const figure = `${number(requests)} requests${failed ? `; ${failed} calls failed` : ''}`;
    return {
      good: failed === 0 && requests <= OWNERS * 1.01 && !inClear,
      figure: `${figure}${inClear ? '; tokens in the clear in Redis' : ''}`,
    };
  } finally {
    for (const replica of replicas) replica.kill();
    redis.disconnect();
    server.kill();
  }
}

async function holdsTokens(redis) {
  for (const key of await redis.keys('*')) {
    const type = await redis.type(key);
    const value = type === 'hash' ? await redis.hgetall(key) : type === 'string' ? await redis.get(key) : '';
    if (JSON.stringify(value).includes('tk.')) return true;
  }
  return false;
}

const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

export const fleet = [
  {
    id: 'fleet',
    criterion: 'four processes, one Redis, 200 owners: ≤ 202 requests, no plaintext token in Redis',
    concerns: ['cache'],
    title: 'four processes and one Redis, 200 cold owners, each called by all four at once',
    good: 'one request per owner, give or take 1 %; no plaintext token in Redis',
    run: fourProcesses,
  },
];
