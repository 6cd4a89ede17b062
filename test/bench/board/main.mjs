/**
 * How libraries that one would pick instead behave beside ours where it matters: each scene over real HTTP, against a
 * scripted service in a process of its own, with every token verified. All play with their defaults.
 *
 *   npm run bench -- board                                   everything
 *   npm run bench -- board --peers owner-token-registry      ours alone, from the sources as they are
 *   npm run bench -- board --scenes cold-300,hang-first      these scenes
 *   npm run bench -- board --json                            prints the results as JSON instead
 *   npm run bench -- board --docs                            also stores what was played, beside earlier results, and
 *                                                            renews docs/behaviour-board.md and the README's table
 */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import { bundle } from '../../helpers/bundle.mjs';
import { renewDocs } from './docs.mjs';
import { idOf, players } from './players.mjs';
import { judgeFastest, table } from './report.mjs';
import { scenes } from './scenes/index.mjs';

/** Scenes that mostly wait are played this many at once. */
const SIDE_BY_SIDE = 4;

const { values } = parseArgs({
  options: {
    ...{ scenes: { type: 'string' }, peers: { type: 'string' } },
    ...{ json: { type: 'boolean' }, docs: { type: 'boolean' } },
  },
});
const chosen = (all, names, of) => (names ? names.split(',').map((name) => find(all, name, of)) : all);
const playing = chosen(players, values.peers, idOf);
const played = chosen(scenes, values.scenes, ({ id }) => id);

const library = await bundle({ index: 'src/index.ts', redis: 'src/redis/index.ts' });
process.env.BOARD_LIBRARY = library.index;
process.env.BOARD_REDIS = library.redis;

const results = {};
for (const scene of played) {
  results[scene.id] = await playWithAll(scene);
  if (!values.json) console.log(table(scene, playing, results[scene.id]));
  if (values.docs) renewDocs(scene, results[scene.id]);
}
if (values.json) console.log(JSON.stringify(results, null, 2));
const lost = played.filter(({ id }) => results[id]['owner-token-registry']?.good === false);
if (lost.length > 0) console.error(`\nours is not good in: ${lost.map(({ id }) => id).join(', ')}`);
process.exitCode = lost.length > 0 ? 1 : 0;

async function playWithAll(scene) {
  const left = [...playing];
  const outcomes = {};
  const lane = async () => {
    for (let player = left.shift(); player; player = left.shift()) outcomes[idOf(player)] = await play(scene, player);
  };
  await Promise.all(Array.from({ length: scene.idle ? SIDE_BY_SIDE : 1 }, lane));
  judgeFastest(scene, outcomes);
  return outcomes;
}

async function play(scene, player) {
  const service = fork(new URL('service.mjs', import.meta.url), { execArgv: [] });
  const [{ tokenUrl, controlUrl }] = await once(service, 'message');
  const args = [scene.id, idOf(player), tokenUrl, controlUrl];
  const options = { execArgv: ['--expose-gc'], stdio: ['ignore', 'pipe', 'pipe', 'ipc'] };
  const child = fork(new URL('play.mjs', import.meta.url), args, options);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk));
  let result;
  child.once('message', (message) => (result = message));
  await once(child, 'close');
  service.disconnect();
  const finished = result ?? { good: false, figure: `ended without a result: ${output.slice(-200)}`, failed: true };
  return scene.judgeOutput ? scene.judgeOutput(finished, output) : finished;
}

function find(all, name, of) {
  const found = all.find((each) => of(each) === name);
  if (found) return found;
  console.error(`no such scene or peer: ${name}. There are: ${all.map(of).join(', ')}`);
  process.exit(2);
}
