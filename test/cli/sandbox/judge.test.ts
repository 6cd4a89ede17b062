import { expect, it } from 'vitest';
import { exitCodeOf } from '../../../src/cli/sandbox/judge.ts';
import type { Judged } from '../../../src/cli/sandbox/report.ts';
import { SCENARIOS, type Verdict } from '../../../src/sandbox/index.ts';

const judged = (...verdicts: Verdict['verdict'][]): Judged[] =>
  verdicts.map((verdict) => {
    const [scenario] = SCENARIOS as [Judged['scenario']];
    return { scenario, verdict: { verdict, passed: verdict === 'passed', conditions: [], findings: [] } };
  });

it.each<[Verdict['verdict'][], number]>([
  [['passed', 'passed'], 0],
  [['passed', 'failed', 'not tested'], 1],
  [['not tested', 'failed'], 1],
  [['passed', 'not tested'], 3],
  [['not tested'], 3],
])('runs that %j exit with %i', (verdicts, code) => {
  expect(exitCodeOf(judged(...verdicts))).toBe(code);
});
