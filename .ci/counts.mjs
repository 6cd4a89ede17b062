/**
 * Prints `N passed, N failed, N skipped` from the reports of the test runner. Passed and skipped are those of the first
 * report, the README's own run; the others repeat the same tests on other lines of Node, so only their failures add.
 */

import { readFileSync } from 'node:fs';

const [first, ...others] = process.argv.slice(2).map((path) => ({ path, report: read(path) }));
for (const { path, report } of others) {
  const count = countsOf(report);
  console.log(`${path}: ${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`);
}
const { passed, skipped } = countsOf(first.report);
const failed = [first, ...others].reduce((sum, { report }) => sum + countsOf(report).failed, 0);
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;

function read(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    console.log(`${path}: no report, so the run did not end`);
    return undefined;
  }
}

/** A run without a report counts as one failure, and so does a test file that could not even be loaded. */
function countsOf(report) {
  if (!report) return { passed: 0, failed: 1, skipped: 0 };
  const unloaded = report.testResults.filter(
    ({ status, assertionResults }) => status === 'failed' && !assertionResults.some((test) => test.status === 'failed'),
  );
  return {
    passed: report.numPassedTests,
    failed: report.numFailedTests + unloaded.length,
    skipped: report.numPendingTests + report.numTodoTests,
  };
}
