/** `owner-token-registry demo`: runs the library against a sandbox and draws the result. */

import { EXIT, type Output, readFlags, type Terminal, UsageError } from '../command.ts';
import { ProgressLine } from '../progress-line.ts';
import { bar, drawResult, thousands, widthsFor } from './picture.ts';
import { type DemoResult, type Progress, runDemo } from './run.ts';

export const usage = `Usage: owner-token-registry demo [--json | --view]

Starts a sandbox and obtains tokens for 200 owners over real HTTP, while thousands of calls arrive at once, tokens
expire and are revoked, and a customer leaves. Draws the result. Exits with 1 if a check fails.

  --view   run until Ctrl-C, with customers that fail and recover, and show it in the live view: a page in your browser
  --json   print one JSON object instead of the picture
`;

export async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const flags = readFlags(args, {
    json: { type: 'boolean' },
    view: { type: 'boolean' },
  });
  if (flags.view && flags.json) throw new UsageError('--json and --view cannot be combined');
  if (flags.view) return (await import('./view.ts')).runViewDemo(terminal);
  const progress = flags.json ? { report: () => {}, end: () => {} } : showProgress(terminal.out);
  const result = await runDemo(progress.report, terminal.signal).finally(progress.end);
  terminal.out.write(
    flags.json
      ? `${JSON.stringify(summaryOf(result))}\n`
      : `\n${drawResult(result, widthsFor(terminal.out.columns))}\n\n${nextStep(terminal)}\n`,
  );
  return result.checks.every(({ ok }) => ok) ? EXIT.ok : EXIT.failed;
}

/** How to see it live. Fits 60 columns, as the picture does. */
const nextStep = ({ env }: Terminal): string =>
  `See it live: ${env.npm_lifecycle_event === 'demo' ? 'npm run demo -- --view' : 'npx owner-token-registry demo --view'}`;

/** On a terminal, redraws one line; elsewhere, prints a line when a phase starts. */
function showProgress(out: Output): { report: Progress; end: () => void } {
  const line = new ProgressLine(out, Number.POSITIVE_INFINITY);
  let phase = '';
  const report: Progress = (name, done, total) => {
    const isNew = name !== phase;
    phase = name;
    const drawn = `  ${name.padEnd(20)}${bar(done / total, 14)} ${thousands(done)} of ${thousands(total)} calls`;
    line.write(out.isTTY ? drawn : `${name} ...`, isNew);
  };
  return { report, end: () => line.clear() };
}

/** The result as JSON, with the waiting times reduced to percentiles. */
function summaryOf({ waitsMs, ownerStates, ...result }: DemoResult): object {
  const sorted = [...waitsMs].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  const count = (state: string) => ownerStates.filter((each) => each === state).length;
  return {
    ok: result.checks.every(({ ok }) => ok),
    ...result,
    calls: result.phases.reduce((sum, phase) => sum + phase.calls, 0),
    tokenRequests: result.phases.reduce((sum, phase) => sum + phase.tokenRequests, 0),
    waitMs: { p50: at(0.5), p99: at(0.99), max: at(1) },
    ownersServed: count('served'),
    ownersRefused: count('refused'),
  };
}
