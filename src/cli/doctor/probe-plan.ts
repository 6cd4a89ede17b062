/** The flags with which `doctor` tries a token on a resource. */

import { originOf, parseUrl } from '../../parse-url.ts';
import { type FlagValues, UsageError } from '../command.ts';
import { type Credentials, isLoopback } from '../environment.ts';

export const PROBE_FLAGS = {
  'probe-url': { type: 'string' },
  'allow-origin': { type: 'string', multiple: true },
  'expect-owner': { type: 'string' },
} as const;

/** The lines of a usage text that describe {@link readProbe}. */
export const PROBE_USAGE = `  --probe-url U           resource to try the token on, with a GET; must be on the origin of OTR_BASE_URL
  --allow-origin O        another origin that --probe-url may be on; repeatable
  --expect-owner ID       with --probe-url: the owner that the token must belong to, as the service names it. Sent in the
                          header x-expected-owner, and compared with "owner" in the response`;

/** How to try a token on a resource. */
export interface ProbePlan {
  readonly url: URL;
  /** The owner that the token must belong to, as the service names it. */
  readonly expectedOwner: string | undefined;
}

/** Reads the flags, and checks that the token may be sent to the resource. Errors never quote its URL. */
export function readProbe(flags: FlagValues<typeof PROBE_FLAGS>, { baseUrl }: Credentials, allowInsecureHttp: boolean) {
  const { 'probe-url': given, 'expect-owner': expectedOwner, 'allow-origin': allowed = [] } = flags;
  const origins = [baseUrl.origin, ...allowed.map(allowedOrigin)];
  if (given === undefined) {
    if (expectedOwner !== undefined) throw new UsageError('--expect-owner: requires --probe-url');
    return undefined;
  }
  return { url: urlOf(given, origins, allowInsecureHttp), expectedOwner } satisfies ProbePlan;
}

function urlOf(given: string, origins: readonly string[], allowInsecureHttp: boolean): URL {
  const url = parseUrl(given);
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password) {
    throw new UsageError('--probe-url: expected an http(s) URL without credentials');
  }
  if (!origins.includes(url.origin)) {
    throw new UsageError('--probe-url: not on the origin of OTR_BASE_URL; allow its origin with --allow-origin');
  }
  if (url.protocol === 'http:' && !isLoopback(url) && !allowInsecureHttp) {
    throw new UsageError(
      '--probe-url: plain http would send the token unencrypted: use https://, or --allow-insecure-http',
    );
  }
  return url;
}

function allowedOrigin(given: string): string {
  const origin = originOf(given);
  if (origin !== undefined) return origin;
  throw new UsageError('--allow-origin: expected an origin such as https://api.example.com');
}
