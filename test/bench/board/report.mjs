/** The board as text for a terminal, and as the page of the docs. */

import { cpus } from 'node:os';
import { versionOf } from '../peers/index.mjs';
import { idOf, players } from './players.mjs';
import { scenes } from './scenes/index.mjs';

/** Whether the result may be due to the adapter, which wrote this part itself. */
const isAdapters = ({ concerns }, { own = [] }) => concerns !== undefined && own.includes(concerns);
const markOf = (scene, player, { good }) => (good ? 'good' : isAdapters(scene, player) ? '–†' : '–');

export function table(scene, playing, outcomes) {
  const lines = playing.map((player) => {
    const outcome = outcomes[idOf(player)];
    return `  ${markOf(scene, player, outcome).padEnd(4)}  ${player.name.padEnd(22)} ${outcome.figure}`;
  });
  return [`\n${scene.id}: ${scene.title}\n  good: ${scene.good}`, ...lines].join('\n');
}

/** In scenes that compare times, an outcome is good only if it is near the best of all. */
export function judgeFastest({ fastest }, outcomes) {
  if (!fastest) return;
  const best = Math.min(...Object.values(outcomes).map(({ seconds = Infinity }) => seconds));
  for (const outcome of Object.values(outcomes)) {
    outcome.goodAlone ??= outcome.good;
    outcome.good = outcome.goodAlone && outcome.seconds <= best * fastest;
  }
}

/** @param recorded by scene and player: the outcome, and `date`, `node` and `load` of its measurement. */
export function markdown(recorded) {
  const [ours, ...peers] = players;
  const won = (player) => scenes.filter(({ id }) => recorded[id][idOf(player)].good).length;
  const row = (cells) => `| ${cells.join(' | ')} |`;
  const matrix = scenes.map((scene) => {
    const marks = players.map((player) => markOf(scene, player, recorded[scene.id][idOf(player)]));
    return row([`[${scene.id}](#${scene.id})`, ...marks]);
  });
  const versions = peers.map((peer) => `${peer.packages[0]} ${versionOf(peer)}`).join(', ');
  return `${[
    '# Behaviour board',
    INTRODUCTION,
    `${measured(Object.values(recorded).flatMap(Object.values))}; ${cpus().length} cores (${cpus()[0].model.trim()}); ${versions}.
\`npm run bench -- board --docs\` repeats it and writes this page. Times depend on what else the machine does: compare within a
scene.`,
    [
      row(['scene', ...players.map(({ name }) => (name === ours.name ? '**ours**' : name))]),
      row(['---', ...players.map(() => '---')]),
      ...matrix,
      row([`**of ${scenes.length}**`, ...players.map((player) => `**${won(player)}**`)]),
    ].join('\n'),
    NOTES,
    '## The scenes',
    ...scenes.map((scene) => section(scene, recorded[scene.id])),
  ].join('\n\n')}\n`;
}

function measured(runs) {
  const dates = [...new Set(runs.map(({ date }) => date))].sort();
  const nodes = [...new Set(runs.map(({ node }) => node))];
  const most = Math.max(...runs.map(({ load }) => load));
  return `Measured ${dates.join(' and ')} with Node ${nodes.join(', ')} at a load average of up to ${most.toFixed(1)}`;
}

const INTRODUCTION = `What happens when things go wrong, with this library and with what one would pick instead. Every library plays every scene
with its defaults, behind a small adapter written as its docs suggest (\`test/bench/peers\`), over real HTTP on loopback
against a scripted token service in another process. Every token served is checked to be its owner's. Where time matters,
the process's clocks are steered, so that no library can tell.`;

const NOTES = `"good" is what the scene states below. † marks a result that may be the adapter's: it concerns the token request, the
cache or the keys, which the library leaves to its user. The general caches (async-cache-dedupe, bentocache, lru-cache,
p-memoize) send the request with \`fetch\` and ten seconds; openid-client and simple-oauth2 have no cache and get a Map of
promises. octokit is made for GitHub, whose tokens live an hour.`;

function section(scene, outcomes) {
  const rows = players.map((player) => {
    const outcome = outcomes[idOf(player)];
    return `| ${player.name} | ${markOf(scene, player, outcome)} | ${cellOf(outcome.figure)} |`;
  });
  const head = `### ${scene.id}\n\n${capital(scene.title)}. Good: ${scene.good}.`;
  return `${head}\n\n| library | | figures |\n|---|---|---|\n${rows.join('\n')}`;
}

const capital = (text) => text.replace(/^[a-z]/, (letter) => letter.toUpperCase());
const cellOf = (text) => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
