/**
 * Takes the rules of `failures/` and `registry/` out, one at a time, halves or doubles their constants, and prints what gets worse
 * in the arena; if nothing does, which guarantee is broken:
 *
 *   npm run ablation -- [part of a name …] [--scenes part,part] [--worlds 10] [--rules | --constants] [--docs]
 *
 * `--docs` stores the tables, and renews docs/internals/ablation.md. All of it takes hours: a rule plays every scene, a constant only
 * until one is worse.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { storeFigures } from '../../bench/stored.mjs';
import { bundled } from '../../helpers/bundle.mjs';
import { brokenGuarantees } from './guarantees.mjs';
import { constantsOf, RULES } from './rules.mjs';

const ROOT = join(import.meta.dirname, '../../..');
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

const before = new Map();
for (const { name, outcome } of await playablesWith([])) before.set(name, await outcome());
const figures = {};
if (!values.constants) {
  const columns = ['without', 'scenes that fail', 'scenes with less', 'for example'];
  figures.rules = { columns, rows: await rowsOf(RULES.filter(isNamed), ruleRow) };
}
if (!values.rules) {
  const columns = ['constant', 'value', 'is', 'what gets worse'];
  figures.constants = { columns, rows: await rowsOf(constants().filter(isNamed), constantRow) };
}
if (values.docs) storeFigures('test/arena/ablation/results.json', 'npm run ablation -- --docs', figures);

function constants() {
  return ['failures', 'registry'].flatMap((folder) =>
    readdirSync(join(ROOT, 'src', folder)).flatMap((file) => {
      const path = `src/${folder}/${file}`;
      return constantsOf(path, readFileSync(join(ROOT, path), 'utf8'));
    }),
  );
}

async function rowsOf(changes, rowOf) {
  const rows = [];
  for (const change of changes) {
    const row = await rowOf(change);
    rows.push(row);
    console.log(`| ${row.join(' | ')} |`);
  }
  return rows;
}

async function ruleRow({ name, patches }) {
  const losses = [];
  for (const playable of await playablesWith(patches)) losses.push(await lossIn(playable));
  const failed = losses.filter((loss) => loss?.fails);
  const poorer = losses.filter((loss) => loss && !loss.fails);
  const example = failed[0] ?? poorer[0];
  return [name, `${failed.length}`, `${poorer.length}`, example?.text ?? guaranteeOf(patches) ?? 'nothing'];
}

/** A constant is justified by the first thing that gets worse. Scenes come first because they are played faster. */
async function constantRow({ name, value, halved, doubled }) {
  const ways = { halved: [halved], doubled: [doubled] };
  for (const [way, patches] of Object.entries(ways)) {
    const loss = await firstLoss(patches);
    if (loss) return [name, value, way, loss.text];
  }
  for (const [way, patches] of Object.entries(ways)) {
    const broken = guaranteeOf(patches);
    if (broken) return [name, value, way, broken];
  }
  return [name, value, 'either', 'nothing'];
}

/** The scenes in which others have lost most often are played first. */
async function firstLoss(patches) {
  const playables = await playablesWith(patches);
  const lossesOf = ({ name }) => before.get(name).losses ?? 0;
  for (const playable of playables.toSorted((a, b) => lossesOf(b) - lossesOf(a))) {
    const loss = await lossIn(playable);
    if (loss) {
      before.get(playable.name).losses = lossesOf(playable) + 1;
      return loss;
    }
  }
}

/** What is worse than with the registry as it is. */
async function lossIn({ name, outcome }) {
  const { inTime: inTimeBefore, unwanted: unwantedBefore, worse: worseBefore } = before.get(name);
  const { inTime, unwanted, worse } = await outcome();
  if (worse.length > 0 && worseBefore.length === 0) return { fails: true, text: `${name}: ${worse[0]}` };
  if (inTime < inTimeBefore - WORSE.points) {
    return { fails: false, text: `${name}: ${inTimeBefore.toFixed(1)} → ${inTime.toFixed(1)} %` };
  }
  if (unwanted - unwantedBefore > Math.max(WORSE.unwanted, WORSE.unwantedShare * unwantedBefore)) {
    return { fails: false, text: `${name}: ${unwantedBefore} → ${unwanted} unwanted requests` };
  }
}

function guaranteeOf(patches) {
  const [broken] = brokenGuarantees(patches);
  return broken && `a guarantee: ${broken}`;
}
