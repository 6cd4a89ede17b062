/**
 * Prints the tests that failed, and `N passed, N failed, N skipped`, from the reports of the test runner.
 *
 *   node counts.mjs <report>[,<report>…] [<repeated report>…]
 *
 * The first argument names the reports of one whole run. The others repeat the same tests on other lines of Node: their
 * passed tests are not counted again, their failures are.
 */

import { readFileSync } from 'node:fs';

const [first = '', ...repeated] = process.argv.slice(2);
const whole = first.split(',').map(countsOf);
const others = repeated.map((path) => ({ path, ...countsOf(path) }));
for (const { path, passed, failed, skipped } of others) {
  console.log(`${path}: ${passed} passed, ${failed} failed, ${skipped} skipped`);
}
const sum = (counts, name) => counts.reduce((total, count) => total + count[name], 0);
const [passed, skipped] = [sum(whole, 'passed'), sum(whole, 'skipped')];
const failed = sum([...whole, ...others], 'failed');
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;

/** A run without a report counts as one failure, and so does a test file that could not be loaded. */
function countsOf(path) {
  const report = read(path);
  if (!report) return { passed: 0, failed: 1, skipped: 0 };
  listFailures(path, report);
  const unloaded = report.testResults.filter(
    ({ status, assertionResults }) => status === 'failed' && !assertionResults.some((test) => test.status === 'failed'),
  );
  return {
    passed: report.numPassedTests,
    failed: report.numFailedTests + unloaded.length,
    skipped: report.numPendingTests + report.numTodoTests,
  };
}

/** Names each failure once more at the end, where it is found in a long log. A test that passed when repeated is listed too. */
function listFailures(path, { testResults }) {
  for (const { name, message, status, assertionResults } of testResults) {
    if (status === 'failed' && message) console.log(`${path}: ${name}: ${message}`);
    for (const test of assertionResults) {
      const [first] = test.failureMessages ?? [];
      if (first === undefined) continue;
      const outcome = test.status === 'passed' ? 'passed when repeated' : 'FAILED';
      console.log(`${path}: ${outcome}: ${test.fullName}\n    ${first.split('\n').slice(0, 6).join('\n    ')}`);
    }
  }
}

function read(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    console.log(`${path}: no report, so the run did not end`);
    return undefined;
  }
}
