/** The board as text for a terminal. */

import { idOf } from './players.mjs';

export function table(scene, playing, outcomes) {
  const lines = playing.map((player) => {
    const { good, figure } = outcomes[idOf(player)];
    return `  ${good ? 'good' : '-   '}  ${player.name.padEnd(22)} ${figure}`;
  });
  return [`\n${scene.id}: ${scene.title}\n  good: ${scene.good}`, ...lines].join('\n');
}
