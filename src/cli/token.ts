/** `owner-token-registry token`: obtains one token and describes it. */

import { expiresIn, firstKnown, type IssuedToken, jwtExp, OwnerTokenError, OwnerTokenRegistry } from '../index.ts';
import { CommandFailure, EXIT, readFlags, type Terminal } from './command.ts';
import { parseAnswer } from './doctor/answer.ts';
import { checksOn } from './doctor/checks.ts';
import { CREDENTIALS_USAGE, readCredentials } from './environment.ts';
import { NETWORK_FLAGS, NETWORK_USAGE, readNetwork } from './network.ts';
import { hasAccessKey, readShape, SHAPE_FLAGS, SHAPE_USAGE } from './request-shape.ts';
import { TokenService } from './token-service.ts';

export const usage = `Usage: owner-token-registry token [options]

Obtains one access token and prints its owner, type and lifetime. Credentials are read from the environment:

${CREDENTIALS_USAGE}

  --json                  print one JSON object instead of text
  --show-token            print the token as well, which is a secret
${SHAPE_USAGE}
${NETWORK_USAGE}
  --allow-insecure-http   allow plain http to another machine, which sends the credentials unencrypted
`;

export async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const flags = readFlags(args, {
    json: { type: 'boolean' },
    'show-token': { type: 'boolean' },
    'allow-insecure-http': { type: 'boolean' },
    ...SHAPE_FLAGS,
    ...NETWORK_FLAGS,
  });
  const allowInsecureHttp = flags['allow-insecure-http'] ?? false;
  const shape = readShape(flags, terminal);
  const credentials = readCredentials(terminal, allowInsecureHttp, shape);
  const network = readNetwork(flags, [credentials.baseUrl], terminal);
  const service = new TokenService(credentials, network, shape, { allowInsecureHttp });
  try {
    const { value, ...found } = await obtain(service, credentials.accessKey, terminal.signal);
    const obtained = { ...found, owner: hasAccessKey(shape) ? found.owner : null };
    const summary = flags['show-token'] ? { ...obtained, token: value } : obtained;
    terminal.out.write(flags.json ? `${JSON.stringify(summary)}\n` : describe(summary));
    if (!flags.json) for (const warning of summary.warnings) terminal.err.write(`warning: ${warning}\n`);
    return EXIT.ok;
  } catch (error) {
    terminal.signal.throwIfAborted();
    throw error instanceof OwnerTokenError ? await commandFailure(error, service, terminal.signal) : error;
  } finally {
    service.close();
  }
}

async function obtain({ endpoint }: TokenService, accessKey: string, signal: AbortSignal) {
  const policy = firstKnown(expiresIn(), jwtExp());
  let issued: IssuedToken | undefined;
  const lifetimeMs = (each: IssuedToken) => {
    issued = each;
    return policy.lifetimeMs(each);
  };
  await using registry = new OwnerTokenRegistry({ source: endpoint, expiry: { lifetimeMs } });
  const token = await registry.getToken(accessKey, { signal });
  // Read again, because the registry replaces an absent or absurd lifetime with its default.
  const stated = issued && policy.lifetimeMs(issued);
  return {
    owner: registry.fingerprint(accessKey),
    fingerprint: token.fingerprint,
    tokenType: token.tokenType,
    issuedAtMs: token.issuedAtMs,
    /** When a registry stops serving the token: a safety margin before its end. */
    expiresAtMs: token.expiresAtMs,
    /** The lifetime that the answer states; null if it states none. */
    lifetimeMs: (typeof stated === 'object' ? stated.lifetimeMs : stated) ?? null,
    warnings: warningsOn(issued),
    value: token.value,
  };
}

/** The doctor's warnings, except that of an absent lifetime, which the summary shows. */
function warningsOn(issued: IssuedToken | undefined): string[] {
  const nowMs = Date.now();
  const answer = parseAnswer(issued?.response, { sent: [], nowMs });
  const checks = answer ? checksOn(answer, nowMs) : [];
  return checks.filter(({ check, status }) => status === 'warning' && check !== 'lifetime').map(({ text }) => text);
}

async function commandFailure(
  error: OwnerTokenError,
  service: TokenService,
  signal: AbortSignal,
): Promise<CommandFailure> {
  const { code, message, failureScope, status, oauthError, retryAfterMs, cause } = error;
  const facts = { failureScope, status, oauthError, retryAfterMs, cause: cause?.code };
  return new CommandFailure(code, message, await service.diagnose(error, signal), facts);
}

type Summary = Omit<Awaited<ReturnType<typeof obtain>>, 'value' | 'owner'> & {
  /** Null without an access key. */
  readonly owner: string | null;
  readonly token?: string;
};

function describe(summary: Summary): string {
  const usableMs = summary.expiresAtMs - summary.issuedAtMs;
  const lifetime =
    summary.lifetimeMs === null
      ? 'not stated by the service; a registry assumes 300 s unless its expiry policy says otherwise'
      : `${seconds(summary.lifetimeMs)}, as stated by the service`;
  const rows = [
    ...(summary.owner === null ? [] : [['owner', `${summary.owner} (fingerprint, new in each run)`]]),
    ['token', summary.token ?? `${summary.fingerprint} (fingerprint; --show-token prints the token)`],
    ['token type', summary.tokenType],
    ['lifetime', lifetime],
    ['served until', `${new Date(summary.expiresAtMs).toISOString()}, ${seconds(usableMs)} after the request`],
  ];
  return rows.map(([name, value]) => `${name?.padEnd(14)}${value}\n`).join('');
}

const seconds = (ms: number): string => `${Math.round(ms) / 1000} s`;
