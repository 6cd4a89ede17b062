/** `owner-token-registry token`: obtains one token and describes it. */

import {
  type ExpiryPolicy,
  expiresIn,
  firstKnown,
  type IssuedToken,
  jwtExp,
  OwnerTokenRegistry,
  TokenEndpoint,
} from '../index.ts';
import { EXIT, readFlags, type Terminal } from './command.ts';
import { CREDENTIALS_USAGE, readCredentials } from './environment.ts';

export const usage = `Usage: owner-token-registry token [options]

Obtains one access token and prints its owner, type and lifetime. Credentials are read from the environment:

${CREDENTIALS_USAGE}

  --json                  print one JSON object instead of text
  --show-token            print the token as well, which is a secret
  --allow-insecure-http   allow plain http to another machine, which sends the credentials unencrypted
`;

export async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const flags = readFlags(args, {
    json: { type: 'boolean' },
    'show-token': { type: 'boolean' },
    'allow-insecure-http': { type: 'boolean' },
  });
  const { accessKey, ...client } = readCredentials(terminal);
  const expiry = new RecordingPolicy(firstKnown(expiresIn(), jwtExp()));
  await using registry = new OwnerTokenRegistry({
    source: new TokenEndpoint({ ...client, allowInsecureHttp: flags['allow-insecure-http'] ?? false }),
    expiry,
  });
  const token = await registry.getToken(accessKey, { signal: terminal.signal });
  const summary = {
    owner: registry.fingerprint(accessKey),
    fingerprint: token.fingerprint,
    tokenType: token.tokenType,
    issuedAtMs: token.issuedAtMs,
    expiresAtMs: token.expiresAtMs,
    lifetimeMs: expiry.statedMs ?? null,
    ...(flags['show-token'] && { token: token.value }),
  };
  terminal.out.write(flags.json ? `${JSON.stringify(summary)}\n` : describe(summary));
  return EXIT.ok;
}

interface Summary {
  owner: string;
  fingerprint: string;
  tokenType: string;
  issuedAtMs: number;
  /** When a registry stops serving the token: a safety margin before its end. */
  expiresAtMs: number;
  /** The lifetime that the answer states; null if it states none. */
  lifetimeMs: number | null;
  token?: string;
}

function describe(summary: Summary): string {
  const usableMs = summary.expiresAtMs - summary.issuedAtMs;
  const lifetime =
    summary.lifetimeMs === null
      ? 'not stated by the service; a registry assumes 300 s unless its expiry policy says otherwise'
      : `${seconds(summary.lifetimeMs)}, as stated by the service`;
  const rows = [
    ['owner', `${summary.owner} (fingerprint, new in each run)`],
    ['token', summary.token ?? `${summary.fingerprint} (fingerprint; --show-token prints the token)`],
    ['token type', summary.tokenType],
    ['lifetime', lifetime],
    ['served until', `${new Date(summary.expiresAtMs).toISOString()}, ${seconds(usableMs)} after the request`],
  ];
  return rows.map(([name, value]) => `${name?.padEnd(14)}${value}\n`).join('');
}

const seconds = (ms: number): string => `${Math.round(ms) / 1000} s`;

/** Records what a policy returns: the registry replaces an absent or absurd lifetime by its own default. */
class RecordingPolicy implements ExpiryPolicy {
  statedMs: number | undefined;
  readonly #policy: ExpiryPolicy;

  constructor(policy: ExpiryPolicy) {
    this.#policy = policy;
  }

  lifetimeMs(issued: IssuedToken): number | undefined {
    this.statedMs = this.#policy.lifetimeMs(issued);
    return this.statedMs;
  }
}
