/** `owner-token-registry demo`: the library at work on the sandbox, with a picture at the end. */

import { EXIT, type Output, readFlags, type Terminal } from '../command.ts';
import { bar, drawResult, thousands } from './picture.ts';
import { type DemoResult, type Progress, runDemo } from './run.ts';

export const usage = `Usage: owner-token-registry demo [--fleet] [--json]

Starts a sandbox of the token service on this machine and obtains tokens for 200 owners over real HTTP, while thousands
of calls arrive at once, tokens expire and are revoked, and a customer leaves. Ends with a picture, and with exit code 1
if any of its checks fails.

  --fleet  eight processes that share through Redis instead, one of them killed on the way; needs a Redis
  --json   one JSON object instead of the picture
`;

/** A terminal's line is redrawn no more often than a reader can follow. */
const REDRAW_MS = 50;

export async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const flags = readFlags(args, {
    json: { type: 'boolean' },
    fleet: { type: 'boolean' },
    'fleet-replica': { type: 'boolean' },
  });
  if (flags['fleet-replica']) return (await import('./fleet-replica.ts')).runReplica();
  if (flags.fleet) return (await import('./fleet.ts')).runFleetDemo(terminal, flags.json ?? false);
  const progress = flags.json ? () => {} : showProgress(terminal.out);
  const result = await runDemo(progress, terminal.signal);
  terminal.out.write(flags.json ? `${JSON.stringify(summaryOf(result))}\n` : `\n${drawResult(result)}\n`);
  return result.checks.every(({ ok }) => ok) ? EXIT.ok : EXIT.failed;
}

/** A moving line on a terminal; elsewhere a plain line as each phase begins. */
function showProgress(out: Output): Progress {
  let phase = '';
  let drawnMs = 0;
  return (name, done, of) => {
    const isNew = name !== phase;
    if (!out.isTTY) {
      if (isNew) out.write(`${name} ...\n`);
      phase = name;
      return;
    }
    const nowMs = performance.now();
    if (!isNew && done < of && nowMs - drawnMs < REDRAW_MS) return;
    if (isNew && phase !== '') out.write('\n');
    phase = name;
    drawnMs = nowMs;
    out.write(`\r  ${name.padEnd(20)}${bar(done / of, 30)} ${thousands(done)} of ${thousands(of)} calls\u001b[K`);
  };
}

/** For machines: the same facts, with the waiting times summed up. */
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
