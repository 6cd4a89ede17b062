/** The variables that `token` and `doctor` read. Secrets come from here alone, never from arguments. */

import { parseUrl } from '../parse-url.ts';
import { type Terminal, UsageError } from './command.ts';
import { hasAccessKey, type RequestShape } from './request-shape.ts';

/** The lines of a usage text that describe {@link readCredentials}. */
export const CREDENTIALS_USAGE = `  OTR_BASE_URL        base URL of the service; a complete token URL is split
  OTR_CLIENT_ID       client id of the integration
  OTR_CLIENT_SECRET   its client secret
  OTR_ACCESS_KEY      access key of one appliance owner, unless --no-access-key is given`;

export interface Credentials {
  readonly baseUrl: URL;
  readonly clientId: string;
  readonly clientSecret: string;
  /** {@link NO_ACCESS_KEY} if the request has none. */
  readonly accessKey: string;
  /** Path of the token endpoint below the base URL, if it is not {@link TOKEN_PATH}. */
  readonly tokenPath?: string | undefined;
}

const SECRETS = { clientId: 'OTR_CLIENT_ID', clientSecret: 'OTR_CLIENT_SECRET', accessKey: 'OTR_ACCESS_KEY' } as const;

/** The key under which a registry keeps the one token of a service without access keys. It is not sent. */
const NO_ACCESS_KEY = 'no-access-key';

export const TOKEN_PATH = '/auth/v1/token';

/**
 * Reads the variables. The error names every one that is missing, or what is wrong with the URL. Warns of values
 * with white space or quotation marks around them. Never prints a value.
 *
 * @param shape without a path, a complete token URL is split; without an access key, none is read.
 */
export function readCredentials({ env, err }: Terminal, allowInsecureHttp: boolean, shape: RequestShape): Credentials {
  const { path: tokenPath } = shape;
  const hasKey = hasAccessKey(shape);
  const names = ['OTR_BASE_URL', ...Object.values(SECRETS)].filter((name) => hasKey || name !== SECRETS.accessKey);
  const missing = names.filter((name) => !env[name]);
  if (missing.length > 0) throw new UsageError(`not set in the environment: ${missing.join(', ')}`);
  const read = (name: string): string => {
    const value = env[name] ?? '';
    const flaw = flawOf(value);
    if (flaw) err.write(`warning: ${name} ${flaw}; is that part of the value?\n`);
    return value;
  };
  const url = readBaseUrl((env.OTR_BASE_URL ?? '').trim(), allowInsecureHttp);
  const split = tokenPath === undefined ? splitTokenUrl(url) : undefined;
  if (split) err.write(`warning: OTR_BASE_URL ${split.found}\n`);
  return {
    baseUrl: split?.baseUrl ?? url,
    tokenPath: tokenPath ?? split?.tokenPath,
    clientId: read(SECRETS.clientId),
    clientSecret: read(SECRETS.clientSecret),
    accessKey: hasKey ? read(SECRETS.accessKey) : NO_ACCESS_KEY,
  };
}

/** The last segment of most token URLs. */
const TOKEN_URL = /\/(tokens?|access[-_]token|oauth[-_]token)\/*$/i;

/** A complete token URL as base URL and path; undefined if the URL does not look like one. */
function splitTokenUrl(url: URL): (Pick<Credentials, 'baseUrl' | 'tokenPath'> & { found: string }) | undefined {
  const { pathname } = url;
  const path = pathname.replace(/\/+$/, '');
  if (path.endsWith(TOKEN_PATH)) {
    const found = `ends with ${TOKEN_PATH}, which is appended anyway; continuing without it`;
    return { baseUrl: withPath(url, path.slice(0, -TOKEN_PATH.length)), tokenPath: undefined, found };
  }
  const split = TOKEN_URL.test(pathname) ? splitAtOrigin(url) : undefined;
  const found = 'is a complete token URL: its origin is the base URL, and the rest is the path of tokenRequest';
  return split && { ...split, found };
}

/** A URL as its origin and the path of a token request; undefined if its path cannot be one, such as `/` or `//elsewhere`. */
export function splitAtOrigin(url: URL): Required<Pick<Credentials, 'baseUrl' | 'tokenPath'>> | undefined {
  const { pathname } = url;
  return /^\/[^/]/.test(pathname) ? { baseUrl: withPath(url, '/'), tokenPath: pathname } : undefined;
}

/** The URL with another path. Not resolved as a relative URL, because `//elsewhere` would name another host. */
export function withPath(url: URL, pathname: string): URL {
  return Object.assign(new URL(url), { pathname });
}

const QUOTED = /^(["'`“‘«]).*["'`”’»]$/s;

/** White space and quotation marks that come from copying, and that `docker --env-file` does not strip. */
function flawOf(value: string): string | undefined {
  if (value !== value.trim()) return 'begins or ends with white space';
  return QUOTED.test(value) ? 'is enclosed in quotation marks' : undefined;
}

function readBaseUrl(text: string, allowInsecureHttp: boolean): URL {
  const wrong = (problem: string): never => {
    throw new UsageError(`OTR_BASE_URL: ${problem}`);
  };
  if (QUOTED.test(text)) return wrong('remove the quotation marks');
  if (!/^https?:\/\//i.test(text)) {
    if (/^[a-z][a-z\d+.-]*:\/\//i.test(text)) return wrong('expected http:// or https://');
    const withScheme = parseUrl(`https://${text}`);
    const isHost = withScheme && (withScheme.port !== '' || /[.\]]/.test(withScheme.host) || isLoopback(withScheme));
    if (!isHost) return wrong('expected a URL such as https://api.example.com');
    return wrong(`add ${isLoopback(withScheme) ? 'http' : 'https'}://`);
  }
  const url = parseUrl(text);
  if (!url) return wrong('expected a URL such as https://api.example.com');
  if (url.username || url.password) return wrong('remove the user name and password');
  if (/[?#]/.test(text)) return wrong(`remove everything from the "${/[?#]/.exec(text)?.[0]}" on`);
  if (url.protocol === 'http:' && !isLoopback(url) && !allowInsecureHttp) {
    return wrong('plain http would send the secrets unencrypted: use https://, or --allow-insecure-http');
  }
  return url;
}

/** Whether the host is this machine. */
export function isLoopback({ hostname }: URL): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname);
}
