/** One process of a fleet: asks for the owners that it is sent, with or without the shared Redis. */

import { playerOf } from './players.mjs';
import { SECRET } from './scene.mjs';

const [playerId, tokenUrl, redisPort] = process.argv.slice(2);
const player = playerOf(playerId);
const redis = player.shares ? await connect() : undefined;
const service = { tokenUrl, clientId: 'board-client', clientSecret: SECRET };
const { getToken } = await player.open(service, redis);
process.on('message', async (keys) => {
  const outcomes = await Promise.allSettled(keys.map((key) => getToken(key)));
  process.send(outcomes.map(({ value }) => value ?? null));
});
process.send('ready');

async function connect() {
  const { Redis } = await import('ioredis');
  return new Redis({ port: Number(redisPort), host: '127.0.0.1' });
}
