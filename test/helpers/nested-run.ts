import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './source-files.ts';

/** Runs one test file in a vitest of its own, with this project's configuration, from a folder in `reports/`. */
export function runTestFile(folder: string, code: string): SpawnSyncReturns<string> {
  const home = join(ROOT, 'reports', folder);
  rmSync(home, { recursive: true, force: true });
  mkdirSync(join(home, 'test'), { recursive: true });
  // With the root elsewhere, the projects' patterns find this file alone and not the tests of this project.
  writeFileSync(join(home, 'vitest.config.ts'), "export { default } from '../../vitest.config.ts';\n");
  writeFileSync(join(home, 'test/only.test.ts'), code);
  const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs');
  const env = { ...process.env, CI: '', TEST_REPORT: '' };
  const args = [vitest, 'run', '--root', home, '--project', 'unit'];
  return spawnSync(process.execPath, args, { cwd: ROOT, env, encoding: 'utf8', timeout: 60_000 });
}
