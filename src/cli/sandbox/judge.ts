/** Judges an integration by one scenario or several, for the command's exit code. */

import { type Sandbox, SCENARIOS, type ScenarioName, type ScenarioView, type Verdict } from '../../sandbox/index.ts';
import { EXIT, type Terminal } from '../command.ts';
import { ProgressLine } from '../progress-line.ts';
import { clientCommandOf } from './output.ts';
import type { Judged } from './report.ts';

/** How long an integration may take to send its first token request. */
const FIRST_REQUEST_MS = 60_000;

/** How long it may take to recover between two scenarios. */
const RECOVERY_MS = 60_000;

/** How long no further owner is served before a scenario starts. */
const SETTLED_MS = 2_000;

/** How often the ledger is looked at, and how often progress is printed where it cannot be rewritten. */
const POLL_MS = 20;
const PLAIN_PROGRESS_MS = 10_000;

/** Waits for the integration, then runs the scenarios in turn. `report` gets each verdict as it falls. */
export async function judge(
  sandbox: Sandbox,
  names: readonly ScenarioName[],
  { err, signal }: Terminal,
  report: (judged: Judged) => void,
): Promise<Judged[]> {
  const scenarios = SCENARIOS.filter(({ name }) => names.includes(name));
  const progress = new ProgressLine(err, PLAIN_PROGRESS_MS);
  const requests = () => sandbox.ledger.count({ kind: 'token' });
  err.write(`Waiting up to a minute for the first token request at ${sandbox.url}\n`);
  const judged: Judged[] = [];
  const add = (scenario: ScenarioView, verdict: Verdict) => {
    judged.push({ scenario, verdict });
    report({ scenario, verdict });
  };
  if (!(await until(() => requests() > 0, sandbox, FIRST_REQUEST_MS, signal))) {
    const reason = 'No token request arrived within a minute: no integration uses this sandbox.';
    for (const scenario of scenarios) add(scenario, untested(reason));
    err.write(`${reason}\nStart one with the settings of this sandbox, for example:\n  ${clientCommandOf(sandbox)}\n`);
    return judged;
  }
  for (const [index, scenario] of scenarios.entries()) {
    if (index > 0) await recovered(sandbox, signal);
    await settled(sandbox, signal);
    const before = requests();
    const startedMs = sandbox.clock.now();
    err.write(`${scenario.title} (${scenario.name})\n`);
    const show = () => {
      const leftMs = Math.max(0, startedMs + scenario.durationMs - sandbox.clock.now());
      const count = requests() - before;
      progress.write(`  ${Math.ceil(leftMs / 1000)} s left, ${count} token request${count === 1 ? '' : 's'}`);
    };
    show();
    const timer = setInterval(show, 200);
    try {
      const verdict = await sandbox.scenarios.run(scenario.name, { signal });
      progress.clear();
      add(scenario, verdict);
    } finally {
      clearInterval(timer);
    }
  }
  return judged;
}

/** 0 if all passed, 1 if one failed, 3 if none failed but one was not tested. */
export function exitCodeOf(judged: readonly Judged[]): number {
  if (judged.some(({ verdict }) => verdict.verdict === 'failed')) return EXIT.failed;
  return judged.every(({ verdict }) => verdict.passed) ? EXIT.ok : EXIT.notTested;
}

/** Lets the integration recover from the last scenario: until it gets a token again. */
async function recovered(sandbox: Sandbox, signal: AbortSignal): Promise<void> {
  const issued = () => sandbox.ledger.count({ kind: 'token', outcome: 'issued' });
  const before = issued();
  await until(() => issued() > before, sandbox, RECOVERY_MS, signal);
}

/** Lets the integration get its tokens, until no further owner is served. */
async function settled(sandbox: Sandbox, signal: AbortSignal): Promise<void> {
  const { ledger, clock } = sandbox;
  let [served, sinceMs] = [-1, 0];
  const isSettled = () => {
    const { ownersServed } = ledger.summary({ kind: 'token' });
    if (ownersServed !== served) [served, sinceMs] = [ownersServed, clock.now()];
    return clock.now() - sinceMs >= SETTLED_MS;
  };
  await until(isSettled, sandbox, RECOVERY_MS, signal);
}

/** Resolves to whether the condition came true in time, by the sandbox's clock. */
async function until(isTrue: () => boolean, { clock }: Sandbox, ms: number, signal: AbortSignal): Promise<boolean> {
  const deadlineMs = clock.now() + ms;
  while (!isTrue()) {
    if (clock.now() >= deadlineMs) return false;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    signal.throwIfAborted();
  }
  return true;
}

const untested = (reason: string): Verdict => ({
  verdict: 'not tested',
  passed: false,
  reason,
  conditions: [],
  findings: [],
});
