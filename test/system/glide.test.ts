/** The fleet page's port for `@valkey/valkey-glide`, on a real server. Skipped where GLIDE has no binary for the platform. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type RedisPort, SharedTokens } from '../../src/redis/index.ts';
import { EXAMPLES_FOLDER, examplesOf } from '../helpers/examples.ts';
import { shortNames } from '../helpers/log-lines.ts';
import { FleetSource, requestOf, SEALING_KEY } from '../helpers/model-fleet.ts';
import { noRedis, startRedis } from '../helpers/redis-server.ts';

const glide = await import('@valkey/valkey-glide').catch(() => undefined);
const reason = noRedis ? 'redis-server is not installed' : glide ? '' : 'GLIDE has no binary for this platform';

/** `fromGlide` as the page has it. */
async function fromGlide(): Promise<(client: object) => RedisPort> {
  const example = examplesOf('docs/recipes/glide.md').find(({ code }) => code.includes('fromGlide'));
  mkdirSync(EXAMPLES_FOLDER, { recursive: true });
  const file = join(EXAMPLES_FOLDER, 'glide-port.ts');
  writeFileSync(file, example?.code ?? '');
  return ((await import(file)) as { fromGlide: (client: object) => RedisPort }).fromGlide;
}

describe.skipIf(reason !== '')(`L2: valkey-glide${reason && ` (skipped: ${reason})`}`, () => {
  it('shares and follows, reports an outage, and shares again', { timeout: 60_000 }, async () => {
    const { GlideClient } = glide as NonNullable<typeof glide>;
    await using server = await startRedis();
    const addresses = [{ host: '127.0.0.1', port: server.port }];
    const clients = await Promise.all([0, 1].map(() => GlideClient.createClient({ addresses })));
    const toPort = await fromGlide();
    const source = new FleetSource();
    const [first, second] = clients.map(
      (client) => new SharedTokens({ source, redis: toPort(client), sealingKeys: [SEALING_KEY] }),
    ) as [SharedTokens, SharedTokens];
    try {
      const leading = first.requestToken('owner', requestOf());
      await expect.poll(() => source.calls.length, { timeout: 10_000 }).toBe(1);
      const following = second.requestToken('owner', requestOf());
      // The server knows the script no more when the leader publishes.
      await clients[0]?.customCommand(['SCRIPT', 'FLUSH']);
      source.call(0).succeed({ response: { expires_in: 3600 } });
      expect((await leading).token).toBe((await following).token);
      source.script((call) => call.succeed());
      await clients[0]?.customCommand(['CONFIG', 'SET', 'maxmemory', '1']);
      const events: unknown[] = [];
      const note = (fields: object) => void events.push(shortNames(fields));
      const logger = { debug: () => {}, info: () => {}, warn: note, error: note };
      const full = new SharedTokens({
        source,
        redis: toPort(clients[0] as object),
        sealingKeys: [SEALING_KEY],
        logger,
      });
      for (let owner = 0; owner < 6; owner++) await full.requestToken(`full-${owner}`, requestOf());
      expect(events).toMatchObject([{ event: 'sharing.suspended', trouble: 'full' }]);
      await clients[0]?.customCommand(['CONFIG', 'SET', 'maxmemory', '0']);
      await second.requestToken('again', requestOf());
      await first.requestToken('again', requestOf());
      expect(source.countFor('again')).toBe(1);
    } finally {
      for (const client of clients) client.close();
    }
  });
});
