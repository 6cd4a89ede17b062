/** `owner-token-registry token`: one request to any token service, and what came of it in plain words. */

import { type ExpiryPolicy, expiresIn, firstKnown, jwtExp, OwnerTokenRegistry, TokenEndpoint } from '../index.ts';
import { EXIT, readFlags, type Terminal, UsageError } from './command.ts';

export const usage = `Usage: owner-token-registry token [--json] [--show-token] [--allow-insecure-http]

Obtains one access token and says whose it is, of what type, and how long it lives. All that is secret is read from
the environment:

  OTR_BASE_URL        where the service is; the token is asked for at <base URL>/auth/v1/token
  OTR_CLIENT_ID       the integration's client id
  OTR_CLIENT_SECRET   its client secret
  OTR_ACCESS_KEY      the access key of one appliance owner

  --json                  one JSON object instead of text
  --show-token            print the token too, which is a secret
  --allow-insecure-http   plain http to another machine, which sends all of the above in clear
`;

const VARIABLES = ['OTR_BASE_URL', 'OTR_CLIENT_ID', 'OTR_CLIENT_SECRET', 'OTR_ACCESS_KEY'] as const;

export async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const flags = readFlags(args, {
    json: { type: 'boolean' },
    'show-token': { type: 'boolean' },
    'allow-insecure-http': { type: 'boolean' },
  });
  const [baseUrl, clientId, clientSecret, accessKey] = readVariables(terminal);
  const stated = rememberLifetime(firstKnown(expiresIn(), jwtExp()));
  await using registry = new OwnerTokenRegistry({
    source: new TokenEndpoint({
      ...{ baseUrl, clientId, clientSecret },
      allowInsecureHttp: flags['allow-insecure-http'] ?? false,
    }),
    expiry: stated.policy,
  });
  const token = await registry.getToken(accessKey, { signal: terminal.signal });
  const found = {
    owner: registry.fingerprint(accessKey),
    fingerprint: token.fingerprint,
    tokenType: token.tokenType,
    issuedAtMs: token.issuedAtMs,
    expiresAtMs: token.expiresAtMs,
    lifetimeMs: stated.lifetimeMs() ?? null,
    ...(flags['show-token'] && { token: token.value }),
  };
  terminal.out.write(flags.json ? `${JSON.stringify(found)}\n` : describe(found));
  return EXIT.ok;
}

type Found = {
  owner: string;
  fingerprint: string;
  tokenType: string;
  issuedAtMs: number;
  /** Until when a registry would serve it: a margin before its end. */
  expiresAtMs: number;
  /** As the answer states it; null when it states none. */
  lifetimeMs: number | null;
  token?: string;
};

function describe(found: Found): string {
  const usableMs = found.expiresAtMs - found.issuedAtMs;
  const lifetime =
    found.lifetimeMs === null
      ? 'not stated by the service; a registry assumes 300 s, or what its expiry policy says'
      : `${seconds(found.lifetimeMs)}, stated by the service`;
  const rows = [
    ['owner', `${found.owner} (a fingerprint of this run)`],
    ['token', found.token ?? `${found.fingerprint} (a fingerprint; --show-token prints the token itself)`],
    ['token type', found.tokenType],
    ['lifetime', lifetime],
    ['served until', `${new Date(found.expiresAtMs).toISOString()}, ${seconds(usableMs)} after it was asked for`],
  ];
  return rows.map(([name, value]) => `${name?.padEnd(14)}${value}\n`).join('');
}

const seconds = (ms: number): string => `${Math.round(ms) / 1000} s`;

/** The policy, and what it last said: a registry replaces a lifetime that is absent or absurd, and does not tell. */
function rememberLifetime(policy: ExpiryPolicy): { policy: ExpiryPolicy; lifetimeMs(): number | undefined } {
  let last: number | undefined;
  return {
    policy: {
      lifetimeMs(grant) {
        last = policy.lifetimeMs(grant);
        return last;
      },
    },
    lifetimeMs: () => last,
  };
}

/** All four, or an error that names every one that is missing. */
export function readVariables({ env, err }: Terminal): [string, string, string, string] {
  const missing = VARIABLES.filter((name) => !env[name]);
  if (missing.length > 0) throw new UsageError(`not set in the environment: ${missing.join(', ')}`);
  const values = VARIABLES.map((name) => env[name] ?? '');
  for (const [index, value] of values.entries()) {
    if (value !== value.trim()) err.write(`warning: ${VARIABLES[index]} begins or ends with white space\n`);
  }
  return values as [string, string, string, string];
}
