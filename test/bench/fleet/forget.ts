/** How long after `forget` in one replica the last of twenty still serves the token: with a subscriber, and without. */

import type { ReplicaPool } from '../../helpers/fleet.ts';
import { startRedis } from '../../helpers/redis-server.ts';
import type { Table } from './faults.ts';
import { startService } from './service.ts';

const LIFE_S = 30;

/** One owner after another with a subscriber; without, all at once, because each takes most of a token's life. */
const OWNERS = { with: 100, without: 20 } as const;

export async function forget(pool: ReplicaPool): Promise<Table> {
  const rows: string[][] = [];
  for (const subscriber of ['with', 'without'] as const) {
    const [redis, service] = [await startRedis(), await startService(50)];
    service.expiresIn = subscriber === 'with' ? 3_600 : LIFE_S;
    const credentials = { baseUrl: service.url, clientId: 'app', clientSecret: 'secret' };
    const options = { ...credentials, redisPort: redis.port, subscribe: subscriber === 'with', redisTimeoutMs: 5_000 };
    const servedMs: number[] = [];
    {
      await using fleet = await pool.start(4, { ...options, copies: 5 });
      const last = async (owner: string) => {
        await fleet.all('watch', owner);
        const forgottenAtMs = Date.now();
        await fleet.at(0).tell('forget', owner);
        const ends = await fleet.all('droppedAt', owner);
        servedMs.push(Math.max(...ends) - forgottenAtMs);
      };
      const owners = Array.from({ length: OWNERS[subscriber] }, (_, index) => `owner-${index}`);
      await fleet.all('get', owners);
      if (subscriber === 'with') for (const owner of owners) await last(owner);
      else await Promise.all(owners.map(last));
    }
    service.close();
    await redis.kill();
    servedMs.sort((a, b) => a - b);
    const at = (share: number) => servedMs.at(Math.ceil(servedMs.length * share) - 1) ?? 0;
    const shown = (ms: number) => (ms < 1_000 ? `${ms.toFixed(0)} ms` : `${(ms / 1_000).toFixed(1)} s`);
    const what = subscriber === 'with' ? 'with a `subscriber`' : `without, tokens of ${LIFE_S} s`;
    rows.push([what, ...[0.5, 0.99, 1].map((share) => shown(at(share)))]);
    console.log(rows.at(-1)?.join(' | '));
  }
  return { columns: ['the last of 20 replicas serves the token for', 'p50', 'p99', 'worst'], rows };
}
