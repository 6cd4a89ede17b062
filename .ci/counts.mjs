/**
 * Prints the tests that failed, passed on retry or were skipped, and as last line
 * `N passed, N failed, N skipped, N passed on retry`, from the reports of the test runner. What is 0 after
 * the failures is left out.
 *
 *   node counts.mjs <report>[,<report>…] [<report on another line of Node>…]
 *
 * The first argument names the reports of one whole run. The others are of the same tests on other lines of Node: their
 * passed tests are not counted again, their failures are. More than two tests that passed on retry fail the run.
 */

import { readFileSync } from 'node:fs';

/** One busy moment of a shared machine explains two such tests; more are a defect of the tests or of the code. */
const MAX_RETRIED = 2;
const ON_RETRY = 'passed on retry';

const [first = '', ...rest] = process.argv.slice(2);
const whole = first.split(',').map(countsOf);
const others = rest.map((path) => ({ path, ...countsOf(path) }));
for (const { path, passed, failed, skipped } of others) {
  console.log(`${path}: ${passed} passed, ${failed} failed, ${skipped} skipped`);
}
const sum = (counts, name) => counts.reduce((total, count) => total + count[name], 0);
const [passed, skipped] = [sum(whole, 'passed'), sum(whole, 'skipped')];
const [failed, retried] = [sum([...whole, ...others], 'failed'), sum([...whole, ...others], 'retried')];
if (retried > MAX_RETRIED) console.log(`FAILED: more than ${MAX_RETRIED} tests ${ON_RETRY}`);
const more = Object.entries({ skipped, [ON_RETRY]: retried }).filter(([, count]) => count > 0);
console.log([`${passed} passed, ${failed} failed`, ...more.map(([name, count]) => `${count} ${name}`)].join(', '));
process.exitCode = failed > 0 || passed === 0 || retried > MAX_RETRIED ? 1 : 0;

/** A run without a report counts as one failure, and so does a test file that could not be loaded. */
function countsOf(path) {
  const report = read(path);
  if (!report) return { passed: 0, failed: 1, skipped: 0, retried: 0 };
  const tests = report.testResults.flatMap(({ assertionResults }) => assertionResults);
  listUnusual(path, report);
  const unloaded = report.testResults.filter(
    ({ status, assertionResults }) => status === 'failed' && !assertionResults.some((test) => test.status === 'failed'),
  );
  return {
    passed: report.numPassedTests,
    failed: report.numFailedTests + unloaded.length,
    skipped: report.numPendingTests + report.numTodoTests,
    retried: tests.filter((test) => outcomeOf(test) === ON_RETRY).length,
  };
}

/** What is worth a line of its own; undefined for a test that passed at once. */
function outcomeOf({ status, failureMessages }) {
  if (status !== 'passed') return status === 'failed' ? 'FAILED' : 'skipped';
  return failureMessages?.length > 0 ? ON_RETRY : undefined;
}

/** Names each test that did not simply pass once more at the end, where it is found in a long log. */
function listUnusual(path, { testResults }) {
  for (const { name, message, status, assertionResults } of testResults) {
    if (status === 'failed' && message) console.log(`${path}: ${name}: ${message}`);
    for (const test of assertionResults) {
      const outcome = outcomeOf(test);
      if (outcome === undefined) continue;
      const why = test.failureMessages?.[0]?.split('\n').slice(0, 6).join('\n    ');
      console.log(`${path}: ${outcome}: ${test.fullName}${why === undefined ? '' : `\n    ${why}`}`);
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
