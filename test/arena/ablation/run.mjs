/**
 * Takes the rules of `failures/` and `registry/` out, one at a time, halves and doubles their constants, and prints what gets worse
 * in the arena; if nothing does, which guarantee is broken:
 *
 *   npm run ablation -- [part of a rule's name …] [--scenes part,part] [--worlds 10] [--rules | --constants] [--docs]
 *
 * `--docs` stores the table, and renews docs/internals/ablation.md. All of it takes hours.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { storeFigures } from '../../bench/stored.mjs';
import { bundled } from '../../helpers/bundle.mjs';
import { brokenGuarantees } from './guarantees.mjs';
import { constantsOf, RULES } from './rules.mjs';

const ROOT = join(import.meta.dirname, '../../..');
const COLUMNS = ['without', 'scenes that fail', 'scenes with less', 'for example'];
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
const playWith = async (patches) =>
  (await bundled('test/arena/ablation/play.ts', patches)).playAll(baselines, parts, Number(values.worlds));

const isNamed = ({ name }) => positionals.length === 0 || positionals.some((part) => name.includes(part));
const chosen = [...(values.constants ? [] : RULES), ...(values.rules ? [] : constants())].filter(isNamed);
const before = new Map((await playWith([])).map((outcome) => [outcome.scene, outcome]));
const rows = [];
for (const { name, patches } of chosen) {
  const [failed, poorer, example] = lossOf(await playWith(patches));
  const [broken] = failed + poorer === 0 ? brokenGuarantees(patches) : [];
  const row = [name, `${failed}`, `${poorer}`, example ?? (broken ? `a guarantee: ${broken}` : 'nothing')];
  rows.push(row);
  console.log(`| ${row.join(' | ')} |`);
}
if (values.docs) {
  storeFigures('test/arena/ablation/results.json', 'npm run ablation -- --docs', { rules: { columns: COLUMNS, rows } });
}

function constants() {
  return ['failures', 'registry'].flatMap((folder) =>
    readdirSync(join(ROOT, 'src', folder)).flatMap((file) => {
      const path = `src/${folder}/${file}`;
      return constantsOf(path, readFileSync(join(ROOT, path), 'utf8'));
    }),
  );
}

/** What is worse than with the registry as it is. */
function lossOf(outcomes) {
  const failed = [];
  const poorer = [];
  for (const { scene, inTime, unwanted, worse } of outcomes) {
    const { inTime: inTimeBefore, unwanted: unwantedBefore, worse: worseBefore } = before.get(scene);
    const more = unwanted - unwantedBefore;
    if (worse.length > 0 && worseBefore.length === 0) failed.push(`${scene}: ${worse[0]}`);
    else if (inTime < inTimeBefore - WORSE.points)
      poorer.push(`${scene}: ${inTimeBefore.toFixed(1)} → ${inTime.toFixed(1)} %`);
    else if (more > Math.max(WORSE.unwanted, WORSE.unwantedShare * unwantedBefore)) {
      poorer.push(`${scene}: ${unwantedBefore} → ${unwanted} unwanted requests`);
    }
  }
  return [failed.length, poorer.length, failed[0] ?? poorer[0]];
}
