/**
 * How libraries that you might choose instead behave beside ours: each scene over real HTTP, against a scripted service in a
 * process of its own, with every token verified. All play with their defaults, one after another in each scene, and begin
 * with another one each time. A whole run takes about 30 minutes on two cores.
 *
 *   npm run bench -- board                                   everything
 *   npm run bench -- board --peers owner-token-registry      ours alone, from the sources as they are
 *   npm run bench -- board --scenes cold-300,hang-first      these scenes
 *   npm run bench -- board --json                            prints the results as JSON instead
 *   npm run bench -- board --docs                            also stores the run in place of the last one, and renews
 *                                                            docs/internals/behaviour-board.md and the README's table from it;
 *                                                            refuses to if other processes used the CPU
 */

import { execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { cpus, loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { bundle } from '../../helpers/bundle.mjs';
import { checkUndisturbed, shareOfOthers } from '../others.mjs';
import { peers, versionOf } from '../peers/index.mjs';
import { orRefuse, refuse } from '../refuse.mjs';
import { renewDocs } from './docs.mjs';
import { idOf, players } from './players.mjs';
import { judgeFastest, table } from './report.mjs';
import { scenes } from './scenes/index.mjs';

/** Scenes that mostly wait are played this many at once. */
const SIDE_BY_SIDE = 4;

const { values } = parseArgs({
  options: {
    scenes: { type: 'string' },
    peers: { type: 'string' },
    json: { type: 'boolean' },
    docs: { type: 'boolean' },
  },
});
if (values.docs && (values.peers || values.scenes)) {
  refuse('--docs shows only whole runs: leave out --peers and --scenes');
}
const chosen = (all, names, of) => (names ? names.split(',').map((name) => find(all, name, of)) : all);
const playing = chosen(players, values.peers, idOf);
const played = chosen(scenes, values.scenes, ({ id }) => id);

const library = await bundle({ index: 'src/index.ts', redis: 'src/redis/index.ts' });
process.env.BOARD_LIBRARY = library.index;
process.env.BOARD_REDIS = library.redis;

const conditions = conditionsNow();
const outcomes = {};
const others = {};
let before = await shareOfOthers();
for (const [at, scene] of played.entries()) {
  outcomes[scene.id] = await playWithAll(scene, at);
  if (!values.json) console.log(table(scene, playing, outcomes[scene.id]));
  const after = await shareOfOthers();
  others[scene.id] = Math.max(before, after);
  before = after;
  // Fails now, instead of after the remaining scenes.
  if (values.docs) orRefuse(() => checkUndisturbed(others, 'run npm run bench -- board --docs'));
}
if (values.docs) orRefuse(() => renewDocs({ ...conditions, endedAt: new Date().toISOString(), others, outcomes }));
if (values.json) console.log(JSON.stringify(outcomes, null, 2));
const lost = played.filter(({ id }) => outcomes[id]['owner-token-registry']?.good === false);
if (lost.length > 0) console.error(`\nours misses: ${lost.map(({ id }) => id).join(', ')}`);
process.exitCode = lost.length > 0 ? 1 : 0;

function conditionsNow() {
  return {
    startedAt: new Date().toISOString(),
    commit: execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim(),
    node: process.version,
    machine: `${cpus().length} cores (${cpus()[0].model.trim()})`,
    versions: Object.fromEntries(peers.map((peer) => [peer.packages[0], versionOf(peer)])),
  };
}

/** @param at the scene's number: another library begins each time, so that none always plays first. */
async function playWithAll(scene, at) {
  const first = at % playing.length;
  const left = [...playing.slice(first), ...playing.slice(0, first)];
  const ofScene = {};
  const lane = async () => {
    for (let player = left.shift(); player; player = left.shift()) {
      const [load] = loadavg();
      ofScene[idOf(player)] = { ...(await play(scene, player)), load };
    }
  };
  await Promise.all(Array.from({ length: scene.idle ? SIDE_BY_SIDE : 1 }, lane));
  judgeFastest(scene, ofScene);
  return ofScene;
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
  return refuse(`no such scene or peer: ${name}. There are: ${all.map(of).join(', ')}`);
}
