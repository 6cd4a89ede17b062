/**
 * Checks the model of the fleet's protocol with Spin (Debian: `apt install spin gcc`), and that it notices each rule that is
 * taken out.
 *
 *   npm run model
 */

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const MODEL = join(import.meta.dirname, 'fleet.pml');

const NOTHING = { CRASHES: 0, SLOW: 0, LOST: 0, FLUSHES: 0, REJECTIONS: 0, RESTORES: 0 };
const RUNS = [
  ['two deaths', { ...NOTHING, CRASHES: 2 }, true],
  ['two leases that run out, and a death', { ...NOTHING, SLOW: 2, CRASHES: 1 }, true],
  ['two lost replies and two losses of data', { ...NOTHING, LOST: 2, FLUSHES: 2 }, true],
  ['three rejections', { ...NOTHING, REJECTIONS: 3 }, true],
  ['a death, a lost reply and a rejection', { ...NOTHING, CRASHES: 1, LOST: 1, REJECTIONS: 1 }, true],
  ['two rejections, and a backup that is put back', { ...NOTHING, REJECTIONS: 2, RESTORES: 1 }, true],
  ['without fencing', { ...NOTHING, SLOW: 1, NO_FENCE: 1 }, false],
  ['without leases', { ...NOTHING, NO_LEASE: 1 }, false],
  ['without avoiding rejected tokens', { ...NOTHING, REJECTIONS: 2, RESTORES: 1, NO_AVOID: 1 }, false],
  ['leases that do not end', { ...NOTHING, CRASHES: 1, NO_EXPIRY: 1 }, false],
  ['patience for one lease in all', { ...NOTHING, CRASHES: 1, ONE_PATIENCE: 1 }, false],
];

function run(folder, command, ...args) {
  const { status, stdout, error } = spawnSync(command, args, { cwd: folder, encoding: 'utf8' });
  if (error) throw new Error(`cannot run ${command} (Debian: apt install spin gcc)`);
  if (status !== 0) throw new Error(`${command} failed:\n${stdout}`);
  return stdout;
}

function check(folder, settings) {
  const defines = Object.entries(settings).map(([name, value]) => `-D${name}=${value}`);
  run(folder, 'spin', '-a', ...defines, MODEL);
  run(folder, 'gcc', '-O2', '-DSAFETY', '-DCOLLAPSE', '-o', 'pan', 'pan.c');
  const output = run(folder, './pan', '-m1000000');
  const number = (pattern) => Number(pattern.exec(output)?.[1]);
  const isWhole = !/search depth too small|out of memory/.test(output);
  return { states: number(/([\d.e+]+) states, stored/), errors: number(/errors: (\d+)/), isWhole };
}

const folder = mkdtempSync(join(tmpdir(), 'otr-model-'));
try {
  for (const [what, settings, isSound] of RUNS) {
    const { states, errors, isWhole } = check(folder, settings);
    const isRight = isSound ? errors === 0 && isWhole : errors > 0;
    const verdict = isSound ? 'holds' : 'is noticed';
    console.log(`| ${what} | ${states.toLocaleString('en')} states | ${isRight ? verdict : `NOT: ${errors} errors`} |`);
    if (!isRight) process.exitCode = 1;
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
