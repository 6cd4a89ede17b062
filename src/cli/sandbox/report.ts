/** Verdicts as a file for CI: JUnit XML, or one HTML page that needs nothing else. */

import { writeFileSync } from 'node:fs';
import { extname } from 'node:path';
import type { ScenarioView, Verdict } from '../../sandbox/index.ts';
import { UsageError } from '../command.ts';

/** A scenario that was run, and its verdict. */
export interface Judged {
  readonly scenario: ScenarioView;
  readonly verdict: Verdict;
}

const FORMATS: Readonly<Record<string, (judged: readonly Judged[]) => string>> = { '.xml': junitOf, '.html': pageOf };

/** Checks that the reports can be written, before the scenarios take their time. */
export function checkReports(paths: readonly string[]): void {
  for (const path of paths) {
    if (!(extname(path) in FORMATS))
      throw new UsageError('--report: expected a file that ends in .xml (JUnit) or .html');
    write(path, '');
  }
}

export function writeReports(paths: readonly string[], judged: readonly Judged[]): void {
  for (const path of paths) write(path, FORMATS[extname(path)]?.(judged) ?? '');
}

function write(path: string, text: string): void {
  try {
    writeFileSync(path, text);
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

const STYLE = `body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}
section{border-left:.4rem solid #767676;padding-left:1rem;margin:2rem 0}.passed{border-color:#12823b}.failed{border-color:#c62828}
h2{margin:0}ul{padding:0;list-style:none}.observed{opacity:.8}`;

function pageOf(judged: readonly Judged[]): string {
  const sections = judged.map(({ scenario, verdict: { verdict, reason, conditions, findings } }) => {
    const rows = [
      ...conditions.map(({ condition, observed, met }) => row(met ? '•' : '–', condition, observed)),
      ...findings.map(({ expectation, observed, passed }) =>
        row(passed ? '✓ passed:' : '✗ failed:', expectation, observed),
      ),
    ];
    return (
      `<section class="${verdict.replace(' ', '-')}">\n<h2>${escaped(scenario.title)}: ${verdict}</h2>\n` +
      `<p>${escaped(scenario.description)}</p>\n${reason === undefined ? '' : `<p><strong>${escaped(reason)}</strong></p>\n`}` +
      `<ul>\n${rows.join('')}</ul>\n</section>\n`
    );
  });
  const passed = judged.filter(({ verdict }) => verdict.passed).length;
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Scenario verdicts</title>
<style>${STYLE}</style></head>
<body>
<h1>${passed} of ${judged.length} scenarios passed</h1>
${sections.join('')}</body>
</html>
`;
}

const row = (sign: string, text: string, observed: string): string =>
  `<li>${sign} ${escaped(text)}: <span class="observed">${escaped(observed)}</span></li>\n`;

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

const escaped = (text: string): string => text.replace(/[&<>"]/g, (character) => ENTITIES[character] ?? '');
