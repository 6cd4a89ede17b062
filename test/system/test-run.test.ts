/** What CI relies on: an unhandled rejection is noticed (row K2), and its last line says what was retried or skipped. */

import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
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

describe('a CI run', () => {
  const folder = mkdtempSync(join(tmpdir(), 'otr-counts-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  interface TestResult {
    status: string;
    fullName: string;
    failureMessages?: string[];
  }

  const passed = (fullName: string): TestResult => ({ status: 'passed', fullName, failureMessages: [] });
  const retried = (fullName: string): TestResult => ({ ...passed(fullName), failureMessages: ['Error: at first'] });
  const skipped = (fullName: string): TestResult => ({ ...passed(fullName), status: 'skipped' });
  const failed = (fullName: string): TestResult => ({ ...retried(fullName), status: 'failed' });

  /** The path of a report in the format of vitest. */
  function report(name: string, tests: TestResult[]): string {
    const count = (status: string) => tests.filter((test) => test.status === status).length;
    const counts = { numPassedTests: count('passed'), numFailedTests: count('failed') };
    const more = { numPendingTests: count('skipped'), numTodoTests: 0 };
    const status = count('failed') > 0 ? 'failed' : 'passed';
    const testResults = [{ name: 'a.test.ts', message: '', status, assertionResults: tests }];
    const path = join(folder, name);
    writeFileSync(path, JSON.stringify({ ...counts, ...more, testResults }));
    return path;
  }

  function countsOf(...reports: string[]): { status: number | null; lines: string[] } {
    const args = [join(ROOT, '.ci/counts.mjs'), ...reports];
    const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    return { status, lines: stdout.trim().split('\n') };
  }

  it('ends with one plain line of counts where everything passed, with the other lines of Node counted once', () => {
    const one = [report('unit', [passed('a')]), report('system', [passed('b')])].join(',');
    const { status, lines } = countsOf(one, report('node-22', [passed('a'), passed('b')]));
    expect([status, lines.at(-1)]).toEqual([0, '2 passed, 0 failed']);
  });

  it('names every test that was skipped or passed on retry', () => {
    const path = report('odd', [passed('a'), skipped('needs Redis'), retried('flaky')]);
    const { status, lines } = countsOf(path, report('other', [skipped('needs GLIDE')]));
    expect([status, lines.at(-1)]).toEqual([0, '2 passed, 0 failed, 1 skipped, 1 passed on retry']);
    expect(lines.join('\n')).toMatch(/odd: skipped: needs Redis\n.*odd: passed on retry: flaky\n +Error: at first/s);
    expect(lines.join('\n')).toContain('other: skipped: needs GLIDE');
  });

  it('fails for more than two tests that passed on retry, counted over all lines of Node', () => {
    const two = report('two', [retried('a'), retried('b')]);
    expect(countsOf(two).status).toBe(0);
    const { status, lines } = countsOf(two, report('third', [retried('a')]));
    expect([status, lines.slice(-2)]).toEqual([
      1,
      ['FAILED: more than 2 tests passed on retry', '2 passed, 0 failed, 3 passed on retry'],
    ]);
  });

  it('fails for a failure on any line of Node, a missing report or a run without tests', () => {
    const good = report('good', [passed('a')]);
    expect(countsOf(good, report('bad', [failed('a')]))).toMatchObject({ status: 1 });
    expect(countsOf(good, join(folder, 'none')).lines.at(-1)).toBe('1 passed, 1 failed');
    expect(countsOf(report('empty', []))).toMatchObject({ status: 1, lines: ['0 passed, 0 failed'] });
  });
});
