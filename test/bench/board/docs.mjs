/** Stores the outcomes of this run beside those of earlier ones, and renews the page and the README's table from all. */

import { readFileSync, writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { judgeFastest, markdown } from './report.mjs';
import { scenes } from './scenes/index.mjs';

const STORE = new URL('results.json', import.meta.url);
const PAGE = new URL('../../../docs/behaviour-board.md', import.meta.url);
const README = new URL('../../../README.md', import.meta.url);
/** The columns of the README's table. */
const IN_README = ['owner-token-registry', 'openid-client', 'lru-cache', 'badgateway', 'octokit', 'msal-node'];

/** @param played the outcomes of one scene, by player. */
export function renewDocs(scene, played) {
  const all = JSON.parse(readFileSync(STORE, 'utf8'));
  const conditions = { date: new Date().toISOString().slice(0, 10), node: process.version, load: loadavg()[0] };
  const now = Object.entries(played).map(([player, outcome]) => [player, { ...outcome, ...conditions }]);
  all[scene.id] = { ...all[scene.id], ...Object.fromEntries(now) };
  judgeFastest(scene, all[scene.id]);
  writeFileSync(STORE, `${JSON.stringify(all, null, 2)}\n`);
  writeFileSync(PAGE, markdown(all));
  writeFileSync(README, withAnswers(readFileSync(README, 'utf8'), all));
}

function withAnswers(readme, all) {
  const row = (values) => ` | ${values.join(' | ')} |`;
  const won = (player) => scenes.filter(({ id }) => all[id][player].good).length;
  return readme
    .replace(/(\(docs\/behaviour-board\.md#([\w-]+)\)) \|.*$/gm, (_row, link, id) => {
      return link + row(IN_README.map((player) => (all[id][player].good ? 'yes' : '–')));
    })
    .replace(/(\| \*\*of all \d+ scenes\*\*) \|.*$/m, (_row, head) => head + row(IN_README.map(won)))
    .replace(/\(measured [\d-]+;/, `(measured ${datesOf(all).at(-1)};`);
}

const datesOf = (all) =>
  [...new Set(Object.values(all).flatMap((scene) => Object.values(scene).map(({ date }) => date)))].sort();
