/** The board as text for a terminal, and as the parts of the docs that show it. */

import { percent } from '../others.mjs';
import { idOf, players } from './players.mjs';
import { scenes } from './scenes/index.mjs';

/** The columns of the README's table. */
const IN_README = ['owner-token-registry', 'openid-client', 'simple-oauth2', 'cockatiel', 'badgateway', 'msal-node'];
/** Its rows. */
const SCENES_IN_README = [
  ...['single-flight', 'shared-failure', 'revoked-key', 'outage', 'invalid-client', 'limit-rate', 'secrets', 'fleet'],
];

/** † where a part that decides the result is the adapter's own code, and not the library's. */
const isAdapters = ({ concerns }, { own = [] }) => concerns.some((part) => own.includes(part));
const markOf = (scene, player, { good }) => (good ? 'yes' : '–') + (isAdapters(scene, player) ? '†' : '');

export function table(scene, playing, outcomes) {
  const lines = playing.map((player) => {
    const outcome = outcomes[idOf(player)];
    return `  ${markOf(scene, player, outcome).padEnd(5)} ${player.name.padEnd(22)} ${outcome.figure}`;
  });
  return [`\n${scene.id}: ${scene.title}\n  ${scene.good}`, ...lines].join('\n');
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

/** The parts of the pages between `<!-- name -->` and `<!-- end -->` that show one run. */
export function partsOf(run) {
  const shown = (ids) => ids.map((id) => players.find((player) => idOf(player) === id));
  const played = scenes.filter(({ id }) => run.outcomes[id]);
  const inReadme = played.filter(({ id }) => SCENES_IN_README.includes(id));
  return {
    'docs/internals/behaviour-board.md': {
      run: conditionsOf(run),
      matrix: matrix(run, { players, rows: played, page: '' }),
      scenes: played.map((scene) => sectionOf(scene, run.outcomes[scene.id])).join('\n\n'),
    },
    'README.md': {
      'board-run': `${played.length} scenes, ${run.startedAt.slice(0, 10)}; [figures, versions and load](docs/internals/behaviour-board.md):`,
      board: matrix(run, { players: shown(IN_README), rows: inReadme, page: 'docs/internals/behaviour-board.md' }),
    },
  };
}

function matrix({ outcomes }, { players: columns, rows, page }) {
  const row = (cells) => `| ${cells.join(' | ')} |`;
  const won = (player) => Object.values(outcomes).filter((ofScene) => ofScene[idOf(player)].good).length;
  return [
    row(['criterion', ...columns.map(({ name }) => (idOf({ name }) === 'owner-token-registry' ? '**ours**' : name))]),
    row(['---', ...columns.map(() => '---')]),
    ...rows.map((scene) => {
      const marks = columns.map((player) => markOf(scene, player, outcomes[scene.id][idOf(player)]));
      return row([`[${scene.criterion}](${page}#${scene.id})`, ...marks]);
    }),
    row([`**met, of all ${Object.keys(outcomes).length}**`, ...columns.map((player) => `**${won(player)}**`)]),
  ].join('\n');
}

function conditionsOf({ startedAt, endedAt, commit, node, machine, versions, outcomes, others }) {
  const all = Object.values(outcomes).flatMap((ofScene) => Object.values(ofScene));
  const time = (instant) => instant.slice(0, 16).replace('T', ' ');
  const left = scenes.filter(({ id }) => !outcomes[id]).map(({ id }) => `\`${id}\``);
  const named = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  const shared = ` Between the scenes other processes used at most ${percent(Math.max(0.01, ...Object.values(others)))} of the CPU.`;
  return `One run, ${time(startedAt)} to ${time(endedAt).slice(11)} UTC; commit ${commit}; Node ${node}; ${machine}; load average
${rangeOf(all)}. ${named.join(', ')}.${left.length > 0 ? ` Not played in this run: ${left.join(', ')}.` : ''}${shared}`;
}

/** One row for all libraries with the same outcome. */
function sectionOf(scene, outcomes) {
  const rows = new Map();
  for (const player of players) {
    const outcome = outcomes[idOf(player)];
    const row = `${markOf(scene, player, outcome)} | ${cellOf(outcome.figure)}`;
    rows.set(row, [...(rows.get(row) ?? []), player.name]);
  }
  const head = `### ${scene.id}\n\n${capital(scene.title)}. Criterion: ${scene.good}. Load average ${rangeOf(Object.values(outcomes))}.`;
  const lines = [...rows].map(([row, names]) => `| ${names.join(', ')} | ${row} |`);
  const { whyMissed = 'not investigated yet' } = scene;
  const why = outcomes['owner-token-registry'].good ? '' : `\n\nWhy ours misses it: ${whyMissed}.`;
  return `${head}\n\n| library | met | figures |\n|---|---|---|\n${lines.join('\n')}${why}`;
}

function rangeOf(outcomes) {
  const loads = outcomes.map(({ load }) => load);
  return `${Math.min(...loads).toFixed(1)} to ${Math.max(...loads).toFixed(1)}`;
}

const capital = (text) => text.replace(/^[a-z]/, (letter) => letter.toUpperCase());
const cellOf = (text) => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
