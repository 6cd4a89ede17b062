/**
 * Takes the rules of `failures/` and `registry/` out, one at a time, halves or doubles their constants, and prints what gets worse
 * in the arena; if nothing does, which guarantee is broken:
 *
 *   npm run ablation -- [part of a name …] [--scenes part,part] [--worlds 10] [--rules | --constants] [--docs]
 *
 * `--docs` stores the tables, and renews docs/internals/ablation.md. Each change is played until one scene is worse; what nothing
 * misses plays them all, so that the whole takes hours.
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
for (const { name, outcome } of await playablesWith([])) {
  const startMs = performance.now();
  const played = await outcome();
  before.set(name, { ...played, losses: 0, tookMs: performance.now() - startMs });
}
const figures = {};
if (!values.constants) {
  const columns = ['without', 'what gets worse'];
  figures.rules = { columns, rows: await rowsOf(RULES.filter(isNamed), ruleRow) };
}
if (!values.rules) {
  const columns = ['constant', 'value', 'is', 'what gets worse'];
  figures.constants = { columns, rows: await rowsOf(constants().filter(isNamed), constantRow) };
}
if (values.docs) storeFigures('test/arena/ablation/results.json', 'npm run ablation -- --docs', figures);

function constants() {
  return ['failures', 'registry'].flatMap((folder) =>
    sourcesIn(folder).flatMap((file) => {
      const path = `src/${folder}/${file}`;
      return constantsOf(path, readFileSync(join(ROOT, path), 'utf8'));
    }),
  );
}

function sourcesIn(folder) {
  return readdirSync(join(ROOT, 'src', folder), { recursive: true }).filter((file) => file.endsWith('.ts'));
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
  return [name, (await firstLoss(patches)) ?? guaranteeOf(patches) ?? 'nothing'];
}

/** Scenes come first because they are played faster. */
async function constantRow({ name, value, halved, doubled }) {
  const ways = { halved: [halved], doubled: [doubled] };
  for (const lossOf of [firstLoss, guaranteeOf]) {
    for (const [way, patches] of Object.entries(ways)) {
      const loss = await lossOf(patches);
      if (loss) return [name, value, way, loss];
    }
  }
  return [name, value, 'either', 'nothing'];
}

/** The scenes in which others have lost most often are played first, then the fast ones. */
async function firstLoss(patches) {
  const playables = await playablesWith(patches);
  const of = ({ name }) => before.get(name);
  for (const playable of playables.toSorted((a, b) => of(b).losses - of(a).losses || of(a).tookMs - of(b).tookMs)) {
    const loss = await lossIn(playable);
    if (loss) {
      of(playable).losses++;
      return loss;
    }
  }
}

/** What is worse than with the registry as it is. */
async function lossIn({ name, outcome }) {
  const { inTime: inTimeBefore, unwanted: unwantedBefore, worse: worseBefore } = before.get(name);
  const { inTime, unwanted, worse } = await outcome();
  if (worse.length > 0 && worseBefore.length === 0) return `${name}: ${worse[0]}`;
  if (inTime < inTimeBefore - WORSE.points) return `${name}: ${inTimeBefore.toFixed(1)} → ${inTime.toFixed(1)} %`;
  if (unwanted - unwantedBefore > Math.max(WORSE.unwanted, WORSE.unwantedShare * unwantedBefore)) {
    return `${name}: ${unwantedBefore} → ${unwanted} unwanted requests`;
  }
}

function guaranteeOf(patches) {
  const [broken] = brokenGuarantees(patches);
  return broken && `a guarantee: ${broken}`;
}
