/**
 * Checks the models of the fleet's protocol with Spin (Debian: `apt install spin gcc`), and that they notice each rule that is
 * taken out.
 *
 *   npm run model
 */

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const NOTHING = { CRASHES: 0, SLOW: 0, LOST: 0, FLUSHES: 0, REJECTIONS: 0, RESTORES: 0, FORGETS: 0 };
/** Half units of the first lease that the service takes, and the requests that it gets. */
const [SHORT, LONG, LONGER] = [
  { SERVICE: 1, REQUESTS: 1, DEATHS: 0 },
  { SERVICE: 5, REQUESTS: 2, DEATHS: 0 },
  { SERVICE: 13, REQUESTS: 3, DEATHS: 0 },
];
const RUNS = [
  ['two deaths', { ...NOTHING, CRASHES: 2 }, true],
  ['two leases that run out, and a death', { ...NOTHING, SLOW: 2, CRASHES: 1 }, true],
  ['two lost replies and two losses of data', { ...NOTHING, LOST: 2, FLUSHES: 2 }, true],
  ['three rejections', { ...NOTHING, REJECTIONS: 3 }, true],
  ['a death, a lost reply and a rejection', { ...NOTHING, CRASHES: 1, LOST: 1, REJECTIONS: 1 }, true],
  ['two rejections, and a backup that is put back', { ...NOTHING, REJECTIONS: 2, RESTORES: 1 }, true],
  ['a forgetting, a lease that runs out, and a lost reply', { ...NOTHING, FORGETS: 1, SLOW: 1, LOST: 1 }, true],
  ['two forgettings and a rejection', { ...NOTHING, FORGETS: 2, REJECTIONS: 1 }, true],
  ['without fencing', { ...NOTHING, SLOW: 1, NO_FENCE: 1 }, false],
  ['without leases', { ...NOTHING, NO_LEASE: 1 }, false],
  ['without avoiding rejected tokens', { ...NOTHING, REJECTIONS: 2, RESTORES: 1, NO_AVOID: 1 }, false],
  ['leases that do not end', { ...NOTHING, CRASHES: 1, NO_EXPIRY: 1 }, false],
  ['patience for one lease in all', { ...NOTHING, CRASHES: 1, ONE_PATIENCE: 1 }, false],
  ['a forgetting that deletes the record', { ...NOTHING, FORGETS: 1, NO_MEMORY: 1 }, false],
  ['a service that answers within a lease', SHORT, true, 'leases.pml'],
  ['one that takes up to three leases', LONG, true, 'leases.pml'],
  ['one that takes up to seven', LONGER, true, 'leases.pml'],
  ['one that takes up to three, and a death', { ...LONG, DEATHS: 1 }, true, 'leases.pml'],
  ['leases that are all of one length', { ...LONG, NO_DOUBLING: 1 }, false, 'leases.pml'],
  ['lengths that are never set back', { ...LONG, DEATHS: 1, NEVER_BACK: 1 }, false, 'leases.pml'],
  ['leaders that do not watch the record', { ...LONG, NO_WATCH: 1 }, false, 'leases.pml'],
];

function run(folder, command, ...args) {
  const { status, stdout, error } = spawnSync(command, args, { cwd: folder, encoding: 'utf8' });
  if (error) throw new Error(`cannot run ${command} (Debian: apt install spin gcc)`);
  if (status !== 0) throw new Error(`${command} failed:\n${stdout}`);
  return stdout;
}

function check(folder, settings, model) {
  const defines = Object.entries(settings).map(([name, value]) => `-D${name}=${value}`);
  run(folder, 'spin', '-a', ...defines, join(import.meta.dirname, model));
  run(folder, 'gcc', '-O2', '-DSAFETY', '-DCOLLAPSE', '-o', 'pan', 'pan.c');
  const output = run(folder, './pan', '-m1000000');
  const number = (pattern) => Number(pattern.exec(output)?.[1]);
  const isWhole = !/search depth too small|out of memory/.test(output);
  return { states: number(/([\d.e+]+) states, stored/), errors: number(/errors: (\d+)/), isWhole };
}

const folder = mkdtempSync(join(tmpdir(), 'otr-model-'));
try {
  for (const [what, settings, isSound, model = 'fleet.pml'] of RUNS) {
    const { states, errors, isWhole } = check(folder, settings, model);
    const isRight = isSound ? errors === 0 && isWhole : errors > 0;
    const verdict = isSound ? 'passes' : 'fails, as it must';
    console.log(`| ${what} | ${states.toLocaleString('en')} states | ${isRight ? verdict : `NOT: ${errors} errors`} |`);
    if (!isRight) process.exitCode = 1;
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
