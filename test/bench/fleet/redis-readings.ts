/** What the figures read from Redis itself. */

import { createClient } from 'redis';
import type { RedisServer } from '../../helpers/redis-server.ts';

/** What Redis was asked since the last call: scripts, bytes in and out, and its CPU time. */
export async function meter(redis: RedisServer) {
  const client = await createClient({ url: redis.url }).connect();
  const read = async () => {
    const info = String(await client.sendCommand(['INFO', 'everything']));
    const number = (pattern: RegExp) => Number(pattern.exec(info)?.[1] ?? 0);
    return {
      scripts: number(/cmdstat_evalsha:calls=(\d+)/) + number(/cmdstat_eval:calls=(\d+)/),
      bytes: number(/total_net_input_bytes:(\d+)/) + number(/total_net_output_bytes:(\d+)/),
      cpuUs: (number(/used_cpu_user:([\d.]+)/) + number(/used_cpu_sys:([\d.]+)/)) * 1e6,
    };
  };
  let last = await read();
  return {
    async since(per: number): Promise<string> {
      const now = await read();
      const [scripts, bytes, cpuUs] = (['scripts', 'bytes', 'cpuUs'] as const).map(
        (key) => (now[key] - last[key]) / per,
      );
      last = await read();
      return `${scripts?.toFixed(2)} scripts, ${((bytes ?? 0) / 1024).toFixed(2)} KB, ${cpuUs?.toFixed(0)} us`;
    },
    [Symbol.asyncDispose]: async () => client.destroy(),
  };
}
