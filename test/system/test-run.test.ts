/** Row K2: what CI relies on to notice an unhandled rejection. */

import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ROOT } from '../helpers/source-files.ts';

/** Runs one test in a vitest of its own, with this project's configuration, from a folder in `reports/`. */
function runTest(body: string): SpawnSyncReturns<string> {
  const home = join(ROOT, 'reports/unhandled');
  rmSync(home, { recursive: true, force: true });
  mkdirSync(join(home, 'test'), { recursive: true });
  // With the root elsewhere, the projects' patterns find this file alone and not the tests of this project.
  writeFileSync(join(home, 'vitest.config.ts'), "export { default } from '../../vitest.config.ts';\n");
  const code = `import { it } from 'vitest';\nit('passes', () => { ${body} });\n`;
  writeFileSync(join(home, 'test/only.test.ts'), code);
  const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs');
  const env = { ...process.env, CI: '', TEST_REPORT: '' };
  const args = [vitest, 'run', '--root', home, '--project', 'unit'];
  return spawnSync(process.execPath, args, { cwd: ROOT, env, encoding: 'utf8', timeout: 60_000 });
}

it('K2 a test run fails for one unhandled rejection, although every test passes', () => {
  expect(runTest('')).toMatchObject({ status: 0 });
  const { status, stdout, stderr } = runTest("void Promise.reject(new Error('nobody heard'));");
  expect(status).toBe(1);
  expect(stdout + stderr).toContain('nobody heard');
  expect(stdout).toContain('1 passed');
});
