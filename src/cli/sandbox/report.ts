/** Verdicts as a file for CI: JUnit XML. */

import { writeFileSync } from 'node:fs';
import type { ScenarioView, Verdict } from '../../sandbox/index.ts';
import { UsageError } from '../command.ts';

/** A scenario that was run, and its verdict. */
export interface Judged {
  readonly scenario: ScenarioView;
  readonly verdict: Verdict;
}

export function writeReport(path: string, judged: readonly Judged[]): void {
  try {
    writeFileSync(path, junitOf(judged));
  } catch (error) {
    throw new UsageError(`--report: the file cannot be written (${(error as NodeJS.ErrnoException).code})`);
  }
}

/** A suite for each scenario, a case for each condition and finding. A condition that was not met is an error, not a skip. */
function junitOf(judged: readonly Judged[]): string {
  const suites = judged.map(({ scenario, verdict }) => {
    const { reason, conditions, findings } = verdict;
    const caseOf = (name: string, problem: string) =>
      `    <testcase classname="${escaped(`sandbox.${scenario.name}`)}" name="${escaped(name)}">${problem}</testcase>\n`;
    const tested = caseOf('is tested', reason === undefined ? '' : `<error message="${escaped(reason)}"/>`);
    const cases = findings.map(({ expectation, observed, passed }) =>
      caseOf(expectation, passed ? '' : `<failure message="${escaped(observed)}"/>`),
    );
    const failures = findings.filter(({ passed }) => !passed).length;
    const counts = `tests="${cases.length + 1}" failures="${failures}" errors="${reason === undefined ? 0 : 1}"`;
    const shown = conditions.map(({ condition, observed }) => `${condition}: ${observed}\n`).join('');
    return (
      `  <testsuite name="${escaped(scenario.title)}" ${counts} time="${scenario.durationMs / 1000}">\n` +
      `${tested}${cases.join('')}    <system-out>${escaped(shown)}</system-out>\n  </testsuite>\n`
    );
  });
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="sandbox scenarios">\n${suites.join('')}</testsuites>\n`;
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

const escaped = (text: string): string => text.replace(/[&<>"]/g, (character) => ENTITIES[character] ?? '');
