/** Draws the result of the demo in plain characters. */

import type { Check, DemoResult, OwnerOutcome, PhaseResult } from './run.ts';

/** The widths of a picture. Every line fits into the whole. */
interface Widths {
  readonly line: number;
  readonly bar: number;
  readonly ownersARow: number;
}

/** As wide as the terminal, 60 columns at least and 100 at most. Without a terminal: 60. */
export function widthsFor(columns = 60): Widths {
  const line = Math.min(100, Math.max(60, columns));
  return { line, bar: line - 40, ownersARow: line - 10 };
}

const MARKS: Readonly<Record<OwnerOutcome, string>> = { served: '●', refused: '○', wrong: '✗' };

/** Upper bounds of the histogram of waiting times, in ms. */
const BOUNDS_MS = [1, 3, 10, 30, 100, 300, Number.POSITIVE_INFINITY];

export function drawResult(result: DemoResult, widths = widthsFor()): string {
  return [
    drawRequests(result.phases, widths),
    drawWaits(result.waitsMs, widths),
    drawOwners(result, widths),
    drawChecks(result.checks, widths),
    drawEnding(result, widths),
  ].join('\n\n');
}

export const thousands = (count: number) => count.toLocaleString('en-US');

/** A bar filled to the given share. A share above zero fills at least one character. */
export function bar(share: number, width: number, [full, rest] = ['█', '░']): string {
  const length = share > 0 ? Math.max(1, Math.round(share * width)) : 0;
  return `${full}`.repeat(Math.min(length, width)) + `${rest}`.repeat(Math.max(0, width - length));
}

function drawRequests(phases: readonly PhaseResult[], { bar: barWidth }: Widths): string {
  const most = Math.max(...phases.map(({ calls }) => calls));
  const rows = phases.map(({ name, calls, tokenRequests }) => {
    const width = Math.max(1, Math.round((calls / most) * barWidth));
    const drawn = bar(tokenRequests / calls, width).padEnd(barWidth);
    return `  ${name.padEnd(20)}${drawn} ${thousands(tokenRequests).padStart(5)} for ${thousands(calls)}`;
  });
  return ['Token requests and calls: █ sent, ░ avoided', ...rows].join('\n');
}

function drawWaits(waitsMs: readonly number[], { bar: barWidth }: Widths): string {
  const counts = BOUNDS_MS.map((bound, index) => {
    const above = BOUNDS_MS[index - 1] ?? Number.NEGATIVE_INFINITY;
    return waitsMs.filter((wait) => wait < bound && wait >= above).length;
  });
  const most = Math.max(1, ...counts);
  const rows = BOUNDS_MS.map((bound, index) => {
    const name = bound === Number.POSITIVE_INFINITY ? '300 ms or more' : `under ${bound} ms`;
    const count = counts[index] ?? 0;
    return `  ${name.padEnd(20)}${bar(count / most, barWidth, ['█', ' '])} ${thousands(count).padStart(6)}`;
  });
  return ['Time that calls waited for their token', ...rows].join('\n');
}

function drawOwners({ ownerStates, wrongOwner }: DemoResult, { line, ownersARow }: Widths): string {
  const rows: string[] = [];
  for (let first = 0; first < ownerStates.length; first += ownersARow) {
    const row = ownerStates.slice(first, first + ownersARow);
    rows.push(`  ${row.map((state) => MARKS[state]).join('')}`);
  }
  const legend = `Owners: ● received its own token, ○ refused (removed), ✗ received another owner's token: ${wrongOwner}`;
  return [wrapped(legend, line), ...rows].join('\n');
}

function drawChecks(checks: readonly Check[], { line }: Widths): string {
  const rows = checks.map(({ name, ok, found }) => wrapped(`  ${ok ? '✓' : '✗'} ${name}: ${found}`, line, '    '));
  return ['Checks, against what the service counted', ...rows].join('\n');
}

/** Breaks a line between words, so that it fits. */
function wrapped(text: string, width: number, indent = '  '): string {
  const lines = [''];
  for (const word of text.split(/(?<=\S) /)) {
    const last = lines.at(-1) ?? '';
    if (last === '') lines[lines.length - 1] = word;
    else if (last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(indent + word);
  }
  return lines.join('\n');
}

function drawEnding({ phases, owners, checks, seconds }: DemoResult, { line }: Widths): string {
  const calls = phases.reduce((sum, phase) => sum + phase.calls, 0);
  const requests = phases.reduce((sum, phase) => sum + phase.tokenRequests, 0);
  const failed = checks.filter(({ ok }) => !ok).length;
  const result = failed === 0 ? 'All checks passed.' : `${failed} of ${checks.length} checks failed.`;
  const totals = `${thousands(calls)} calls for ${owners} owners needed ${thousands(requests)} token requests, in ${seconds.toFixed(1)} s.`;
  return wrapped(`${totals} ${result}`, line, '');
}
