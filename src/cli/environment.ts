/** The variables that `token` and `doctor` read. Secrets come from here alone, never from arguments. */

import { type Terminal, UsageError } from './command.ts';

/** The lines of a usage text that describe {@link readCredentials}. */
export const CREDENTIALS_USAGE = `  OTR_BASE_URL        base URL of the service; the token endpoint is <base URL>/auth/v1/token
  OTR_CLIENT_ID       client id of the integration
  OTR_CLIENT_SECRET   its client secret
  OTR_ACCESS_KEY      access key of one appliance owner`;

export interface Credentials {
  readonly baseUrl: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly accessKey: string;
}

const VARIABLES = {
  baseUrl: 'OTR_BASE_URL',
  clientId: 'OTR_CLIENT_ID',
  clientSecret: 'OTR_CLIENT_SECRET',
  accessKey: 'OTR_ACCESS_KEY',
} as const satisfies Record<keyof Credentials, string>;

/** Reads all four variables; the error names every one that is missing. */
export function readCredentials({ env, err }: Terminal): Credentials {
  const missing = Object.values(VARIABLES).filter((name) => !env[name]);
  if (missing.length > 0) throw new UsageError(`not set in the environment: ${missing.join(', ')}`);
  const read = (name: string): string => {
    const value = env[name] ?? '';
    if (value !== value.trim()) err.write(`warning: ${name} begins or ends with white space\n`);
    return value;
  };
  return {
    baseUrl: read(VARIABLES.baseUrl),
    clientId: read(VARIABLES.clientId),
    clientSecret: read(VARIABLES.clientSecret),
    accessKey: read(VARIABLES.accessKey),
  };
}
