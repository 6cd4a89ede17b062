/**
 * Takes the rules of `failures/` and `registry/` out, one at a time, halves or doubles their constants, and prints what gets worse
 * in the arena; if nothing does, which guarantee is broken:
 *
 *   npm run ablation -- [part of a name …] [--scenes part,part] [--worlds 10] [--rules | --constants] [--docs]
 *
 * `--docs` stores each row as soon as it is known, and renews docs/internals/ablation.md. Each change is played until one scene is
 * worse, the one of its last row first; what nothing misses plays them all, so that the whole takes hours: these come last.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { commitNow, storeFigures } from '../../bench/stored.mjs';
import { bundled } from '../../helpers/bundle.mjs';
import { brokenGuarantees } from './guarantees.mjs';
import { constantsOf, RULES } from './rules.mjs';

const ROOT = join(import.meta.dirname, '../../..');
const STORE = 'test/arena/ablation/results.json';
const GUARANTEE = 'a guarantee: ';
/** These bound inputs and tables, or only say what is reported: no request depends on them. */
const NOT_PLAYED = new RegExp(
  `^\`(${[
    'MAX_\\w+|MIN_REDACTED_LENGTH|DIGEST_BYTES|KEYS_PER_TURN|CLOSE_OPTIONS|REFUSED_LANES|HOUR_MS',
    'RECENT_MS|ENOUGH_TOKENS|TOO_LONG|LASTS_MS|LAPSES_AFTER_MS|CONTENDED_AFTER|MIN_CLOCK_DIFFERENCE_MS',
  ].join('|')})\\b`,
);
/** What counts as worse where the judge has nothing to say. */
const WORSE = { points: 0.5, unwantedShare: 0.2, unwanted: 20 };

const flag = { type: 'boolean', default: false };
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    scenes: { type: 'string', default: '' },
    worlds: { type: 'string', default: '10' },
    rules: flag,
    constants: flag,
    docs: flag,
  },
});
const parts = values.scenes.split(',').filter(Boolean);
const baselines = new Map();
const playablesWith = async (patches) =>
  (await bundled('test/arena/ablation/play.ts', patches)).playables(baselines, parts, Number(values.worlds));
const isNamed = ({ name }) => positionals.length === 0 || positionals.some((part) => name.includes(part));

/** The registry as it is, and how it fared in the scenes that were needed so far. */
const unchanged = new Map((await playablesWith([])).map((playable) => [playable.name, playable]));
const before = new Map();

const RULE_COLUMNS = ['without', 'what gets worse', 'at commit'];
const CONSTANT_COLUMNS = ['constant', 'value', 'is', 'what gets worse', 'at commit'];
if (!values.constants) await playAll('rules', RULE_COLUMNS, RULES, ruleRow);
if (!values.rules) await playAll('constants', CONSTANT_COLUMNS, constants(), constantRow);

function constants() {
  return ['failures', 'registry'].flatMap((folder) =>
    sourcesIn(folder).flatMap((file) => {
      const path = `src/${folder}/${file}`;
      return constantsOf(path, readFileSync(join(ROOT, path), 'utf8')).filter(({ name }) => !NOT_PLAYED.test(name));
    }),
  );
}

function sourcesIn(folder) {
  return readdirSync(join(ROOT, 'src', folder), { recursive: true }).filter((file) => file.endsWith('.ts'));
}

async function playAll(table, columns, changes, rowOf) {
  const commit = commitNow();
  const lastRow = (change) => rowsNow(table).find((row) => isRowOf(change, row)) ?? [];
  const lastLoss = (change) => lastRow(change)[columns.length - 2] ?? '';
  const hadLoss = (change) => Number(!['', 'nothing'].includes(lastLoss(change)));
  for (const change of changes.filter(isNamed).toSorted((a, b) => hadLoss(b) - hadLoss(a))) {
    const row = [...(await rowOf(change, lastLoss(change), lastRow(change)[2])), commit];
    console.log(`| ${row.join(' | ')} |`);
    if (!values.docs) continue;
    const rows = changes.map((each) => (each === change ? row : lastRow(each))).filter(({ length }) => length > 0);
    storeFigures(STORE, 'npm run ablation -- --docs', { [table]: { columns, rows } });
  }
}

function rowsNow(table) {
  return JSON.parse(readFileSync(join(ROOT, STORE), 'utf8')).figures[table].rows;
}

/** Constants of two files may have the same name. */
function isRowOf({ name, value }, row) {
  return row[0] === name && (value === undefined || row[1] === value);
}

/** @param lastLoss what was worse last time, which is likely to be worse again. */
async function ruleRow({ name, patches }, lastLoss) {
  for (const lossOf of inOrder(lastLoss)) {
    const loss = await lossOf(patches, lastLoss);
    if (loss) return [name, loss];
  }
  return [name, 'nothing'];
}

async function constantRow({ name, value, halved, doubled }, lastLoss, lastWay) {
  const ways = { halved: [halved], doubled: [doubled] };
  const inTurn = Object.entries(ways).toSorted(([a], [b]) => Number(b === lastWay) - Number(a === lastWay));
  for (const lossOf of inOrder(lastLoss)) {
    for (const [way, patches] of inTurn) {
      const loss = await lossOf(patches, lastLoss);
      if (loss) return [name, value, way, loss];
    }
  }
  return [name, value, 'either', 'nothing'];
}

/** Scenes come first because they are played faster. */
function inOrder(lastLoss) {
  return lastLoss.startsWith(GUARANTEE) ? [guaranteeOf, sceneOf] : [sceneOf, guaranteeOf];
}

/** The scenes in which others have lost most often are played first, then those that are known to be fast. */
async function sceneOf(patches, lastLoss) {
  const wasWorse = ({ name }) => Number(lastLoss.startsWith(`${name}: `));
  const of = ({ name }) => before.get(name) ?? { losses: 0, tookMs: Number.MAX_VALUE };
  const playables = (await playablesWith(patches)).toSorted(
    (a, b) => wasWorse(b) - wasWorse(a) || of(b).losses - of(a).losses || of(a).tookMs - of(b).tookMs,
  );
  for (const playable of playables) {
    const loss = await lossIn(playable);
    if (loss) {
      of(playable).losses++;
      return loss;
    }
  }
}

/** What is worse than with the registry as it is. */
async function lossIn({ name, outcome }) {
  const { inTime: inTimeBefore, unwanted: unwantedBefore, worse: worseBefore } = await unchangedIn(name);
  const { inTime, unwanted, worse } = await outcome();
  if (worse.length > 0 && worseBefore.length === 0) return `${name}: ${worse[0]}`;
  if (inTime < inTimeBefore - WORSE.points) return `${name}: ${inTimeBefore.toFixed(1)} → ${inTime.toFixed(1)} %`;
  if (unwanted - unwantedBefore > Math.max(WORSE.unwanted, WORSE.unwantedShare * unwantedBefore)) {
    return `${name}: ${unwantedBefore} → ${unwanted} unwanted requests`;
  }
}

async function unchangedIn(name) {
  if (!before.has(name)) {
    const startMs = performance.now();
    const played = await unchanged.get(name).outcome();
    before.set(name, { ...played, losses: 0, tookMs: performance.now() - startMs });
  }
  return before.get(name);
}

function guaranteeOf(patches) {
  const [broken] = brokenGuarantees(patches);
  return broken && `${GUARANTEE}${broken}`;
}
