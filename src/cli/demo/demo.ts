/** `owner-token-registry demo`: runs the library against a sandbox and draws the result. */

import { EXIT, type Output, readFlags, type Terminal } from '../command.ts';
import { ProgressLine } from '../progress-line.ts';
import { bar, drawResult, thousands, widthsFor } from './picture.ts';
import { type Progress, runDemo } from './run.ts';

export const usage = `Usage: owner-token-registry demo [--view]

Starts a sandbox and obtains tokens for 200 owners over real HTTP, while thousands of calls arrive at once, tokens
expire and are revoked, and an owner leaves. Draws the result. Exits with 1 if a check fails.

  --view   run until Ctrl-C, with owners that fail and recover, and show it in the live view: a page in your browser
`;

export async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const { view } = readFlags(args, { view: { type: 'boolean' } });
  if (view) return (await import('./view.ts')).runViewDemo(terminal);
  const progress = showProgress(terminal.out);
  const result = await runDemo(progress.report, terminal.signal).finally(progress.end);
  terminal.out.write(`\n${drawResult(result, widthsFor(terminal.out.columns))}\n\n${nextStep(terminal)}\n`);
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
