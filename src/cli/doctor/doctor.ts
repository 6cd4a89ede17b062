/** `owner-token-registry doctor`: examines a token service step by step and recommends options of the library. */

import { writeFileSync } from 'node:fs';
import { EXIT, readFlags, type Terminal, UsageError } from '../command.ts';
import { CREDENTIALS_USAGE, readCredentials } from '../environment.ts';
import { NETWORK_FLAGS, NETWORK_USAGE, readNetwork } from '../network.ts';
import { Examination } from './examination.ts';
import { describeReport, type Report } from './report.ts';

export const usage = `Usage: owner-token-registry doctor [options]

Examines a token service: its DNS name, certificate, clock and one token. Recommends options of the library. Prints no
secret. Credentials are read from the environment:

${CREDENTIALS_USAGE}

  --probe-url U           resource to try the token on, with a GET; must be on the origin of OTR_BASE_URL
  --allow-origin O        another origin that --probe-url may be on; repeatable
  --allow-revocation      with --probe-url: obtain a second token and see whether it revokes the first. This may revoke
                          a token of this owner that is in use elsewhere
  --expect-owner ID       with --probe-url: the owner that the token must belong to, as the service names it. Sent in the
                          header x-expected-owner, and compared with "owner" in the answer
  --json                  print one JSON object instead of text
  --write-profile F       write a file for owner-token-registry sandbox --config F, which then answers like this service
  --timeout S             seconds for each step; default 10
${NETWORK_USAGE}
  --allow-insecure-http   allow plain http to another machine, which sends the credentials unencrypted

Exits with 0 if no check failed, warnings or not; with 1 otherwise.
`;

export async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const flags = readFlags(args, {
    'probe-url': { type: 'string' },
    'allow-origin': { type: 'string', multiple: true },
    'allow-revocation': { type: 'boolean' },
    'expect-owner': { type: 'string' },
    json: { type: 'boolean' },
    'write-profile': { type: 'string' },
    timeout: { type: 'string' },
    'allow-insecure-http': { type: 'boolean' },
    ...NETWORK_FLAGS,
  });
  for (const flag of ['allow-revocation', 'expect-owner'] as const) {
    if (flags[flag] !== undefined && flags['probe-url'] === undefined) {
      throw new UsageError(`--${flag}: requires --probe-url`);
    }
  }
  const allowInsecureHttp = flags['allow-insecure-http'] ?? false;
  const timeoutMs = timeoutOf(flags.timeout);
  const credentials = readCredentials(terminal, allowInsecureHttp);
  const network = readNetwork(flags, credentials.baseUrl, terminal);
  const examination = new Examination(credentials, network, terminal.signal, { timeoutMs, allowInsecureHttp });
  let report: Report;
  try {
    const origins = (flags['allow-origin'] ?? []).map(originOf);
    const plan = flags['probe-url'] !== undefined && {
      url: examination.probeUrlOf(flags['probe-url'], origins),
      expectedOwner: flags['expect-owner'],
      revocation: flags['allow-revocation'] ?? false,
    };
    report = await examination.run(plan || undefined);
  } finally {
    examination.close();
  }
  terminal.out.write(flags.json ? `${JSON.stringify(report)}\n` : describeReport(report));
  if (flags['write-profile'] !== undefined) writeProfile(flags['write-profile'], report, terminal);
  return report.ok ? EXIT.ok : EXIT.failed;
}

function timeoutOf(given: string | undefined): number {
  if (given === undefined) return 10_000;
  const ms = /^\d+(\.\d+)?$/.test(given) ? Math.round(Number(given) * 1000) : 0;
  if (ms < 1 || ms > 600_000) throw new UsageError('--timeout: expected seconds, at most 600');
  return ms;
}

function originOf(given: string): string {
  const url = URL.canParse(given) ? new URL(given) : undefined;
  if (url && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/`) return url.origin;
  throw new UsageError('--allow-origin: expected an origin such as https://api.example.com');
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
