/** Plays one scene with one library, in a process of its own, and sends what came of it to the parent. */

import { install } from './clock.mjs';
import { playerOf } from './players.mjs';
import { Scene } from './scene.mjs';
import { scenes } from './scenes/index.mjs';

// Before the library is loaded, which happens when it is opened.
install();
const [sceneId, playerId, tokenUrl, controlUrl] = process.argv.slice(2);
const { timeoutMs = 60_000, run } = scenes.find(({ id }) => id === sceneId);
process.on('unhandledRejection', () => {});
try {
  const scene = new Scene({ player: playerOf(playerId), tokenUrl, controlUrl });
  const timer = new Promise((_, reject) => {
    scene.realTimeout(() => reject(new Error(`not over within ${timeoutMs / 1000} s`)), timeoutMs);
  });
  const result = await Promise.race([run(scene), timer]);
  const wrong = scene.wrongTokens > 0 ? `, ${scene.wrongTokens} WRONG TOKENS` : '';
  process.send({ ...result, good: result.good && !wrong, figure: result.figure + wrong });
} catch (error) {
  process.send({ good: false, figure: error.message.slice(0, 80), failed: true });
}
process.disconnect();
process.exit();
