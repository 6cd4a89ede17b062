/** How much memory of Redis the record of an owner takes. */

import { randomBytes } from 'node:crypto';
import { createClient } from 'redis';
import { OwnerTokenRegistry } from '../../../src/index.ts';
import { fromNodeRedis, SharedTokens } from '../../../src/redis/index.ts';
import { startRedis } from '../../helpers/redis-server.ts';
import type { Table } from './faults.ts';

const LENGTHS = [40, 300, 1_500, 4_000];

export async function memory(): Promise<Table> {
  const rows: string[][] = [];
  for (const length of LENGTHS) {
    await using redis = await startRedis();
    const client = await createClient({ url: redis.url }).connect();
    const token = 't'.repeat(length);
    const source = {
      identity: () => 'service',
      requestToken: async () => ({ token, response: { access_token: token, token_type: 'Bearer', expires_in: 3_600 } }),
    };
    const shared = new SharedTokens({ source, redis: fromNodeRedis(client), sealingKeys: [randomBytes(32)] });
    await using registry = new OwnerTokenRegistry({ source: shared });
    await registry.getToken('owner');
    const keys = await client.keys('*');
    const sizes = await Promise.all(keys.map((key) => client.sendCommand(['MEMORY', 'USAGE', key])));
    // The other key is the list of replicas.
    const kilobytes = Math.max(...sizes.map(Number)) / 1_024;
    rows.push([length.toLocaleString('en'), `${kilobytes.toFixed(1)} KB`]);
    console.log(rows.at(-1)?.join(' | '));
    client.destroy();
  }
  return { columns: ['characters of the token', 'record in memory'], rows };
}
