/** `owner-token-registry doctor`: examines a token service step by step and recommends options of the library. */

import { writeFileSync } from 'node:fs';
import { EXIT, readFlags, type Terminal, UsageError } from '../command.ts';
import { CREDENTIALS_USAGE, readCredentials } from '../environment.ts';
import { NETWORK_FLAGS, NETWORK_USAGE, readNetwork } from '../network.ts';
import { readShape, SHAPE_FLAGS, SHAPE_USAGE } from '../request-shape.ts';
import { Examination } from './examination.ts';
import { PROBE_FLAGS, PROBE_USAGE, readProbe } from './probe-plan.ts';
import { describeReport, type Report } from './report.ts';

export const usage = `Usage: owner-token-registry doctor [options]

Examines a token service: its DNS name, certificate, clock and one token. Recommends options of the library. Prints no
secret. Credentials are read from the environment:

${CREDENTIALS_USAGE}

${SHAPE_USAGE}
                          Without --form, --basic or OTR_TOKEN_ENCODING, all three are tried
${PROBE_USAGE}
  --allow-revocation      with --probe-url: obtain a second token and see whether it revokes the first. This may revoke
                          a token of this owner that is in use elsewhere
  --json                  print one JSON object instead of text
  --write-profile F       write a file for owner-token-registry sandbox --config F, which then answers like this service
  --timeout S             seconds for each step; default 10
${NETWORK_USAGE}
  --allow-insecure-http   allow plain http to another machine, which sends the credentials unencrypted

Exits with 0 if no check failed, warnings or not; with 1 otherwise.
`;

export async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const flags = readFlags(args, {
    'allow-revocation': { type: 'boolean' },
    json: { type: 'boolean' },
    'write-profile': { type: 'string' },
    timeout: { type: 'string' },
    'allow-insecure-http': { type: 'boolean' },
    ...SHAPE_FLAGS,
    ...PROBE_FLAGS,
    ...NETWORK_FLAGS,
  });
  const revocation = flags['allow-revocation'] ?? false;
  if (revocation && flags['probe-url'] === undefined) {
    throw new UsageError('--allow-revocation: requires --probe-url');
  }
  const allowInsecureHttp = flags['allow-insecure-http'] ?? false;
  const timeoutMs = timeoutOf(flags.timeout);
  const shape = readShape(flags, terminal);
  const credentials = readCredentials(terminal, allowInsecureHttp, shape);
  const plan = readProbe(flags, credentials, allowInsecureHttp);
  const network = readNetwork(flags, [credentials.baseUrl, ...(plan ? [plan.url] : [])], terminal);
  const examination = new Examination(credentials, network, terminal.signal, { timeoutMs, allowInsecureHttp, shape });
  let report: Report;
  try {
    report = await examination.run(plan, revocation);
  } finally {
    examination.close();
  }
  const profile = flags['write-profile'];
  // The differences concern only those who run a sandbox with the profile.
  const shown = profile === undefined ? { ...report, differences: [] } : report;
  terminal.out.write(flags.json ? `${JSON.stringify(report)}\n` : describeReport(shown));
  if (profile !== undefined) writeProfile(profile, report, terminal);
  return report.ok ? EXIT.ok : EXIT.failed;
}

function timeoutOf(given: string | undefined): number {
  if (given === undefined) return 10_000;
  const ms = /^\d+(\.\d+)?$/.test(given) ? Math.round(Number(given) * 1000) : 0;
  if (ms < 1 || ms > 600_000) throw new UsageError('--timeout: expected seconds, at most 600');
  return ms;
}

function writeProfile(path: string, { sandbox }: Report, terminal: Terminal): void {
  if (!sandbox) {
    terminal.err.write('warning: no profile was written, because no token was obtained\n');
    return;
  }
  try {
    writeFileSync(path, `${JSON.stringify(sandbox, null, 2)}\n`);
  } catch (error) {
    throw new UsageError(`--write-profile: cannot write the file (${(error as NodeJS.ErrnoException).code})`);
  }
}
